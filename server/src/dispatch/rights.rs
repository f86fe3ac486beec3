//! Access checks: whether the client's user may do what a request asks for. This is the only place that checks: single
//! requests, also on the short path; those of a transaction, when queued and when run; and those of scripts.

use super::client::Client;
use super::table::{decided_use, key_positions};
use super::{Args, CommandSpec, Executor, Flags, OnChannels, OnDatabases};
use crate::auth::{Context, Denial, Denied, KeyRights, Reason, Request};
use crate::clock::now_ms;
use crate::number::parse_i64;
use crate::server::Server;
use std::ops::Range;

/// A request with the row of its command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The row.
    pub spec: &'static CommandSpec,
    /// The arguments, the command's name included.
    pub args: Args<'a>,
    /// The database that it would run in.
    pub db: usize,
    /// How many there are.
    pub databases: usize,
}

impl Asked<'_> {
    /// The arguments that name databases; none where one names none that exists, which the command reports.
    fn named_databases(&self) -> Vec<(usize, usize)> {
        let is_db = |at: &usize| self.args.get(*at).eq_ignore_ascii_case(b"db");
        let places: Vec<usize> = match (self.spec.on_databases, self.spec.name) {
            (OnDatabases::Selects, _) => vec![1],
            (OnDatabases::Swaps, _) => vec![1, 2],
            (_, "move") => vec![2],
            // Of several the last one counts: all must be allowed.
            (_, "copy") => {
                (3..self.args.len().saturating_sub(1)).filter(is_db).map(|at| at + 1).collect()
            }
            _ => Vec::new(),
        };
        let named = |at: usize| {
            let db = usize::try_from(parse_i64(self.args.get(at))?).ok()?;
            (db < self.databases).then_some((at, db))
        };
        places.into_iter().map(named).collect::<Option<_>>().unwrap_or_default()
    }

    /// True of what reads or changes the key space of the selected database.
    fn is_of_one_database(&self) -> bool {
        let metadata = &self.spec.metadata;
        let takes_keys = || metadata.fields("spec").any(|spec| !spec.contains("not_key"));
        let mut categories = metadata.words("acl");
        categories.any(|name| matches!(name, "@keyspace" | "@read" | "@write")) || takes_keys()
    }
}

impl Request for Asked<'_> {
    fn command(&self) -> usize {
        self.spec.acl_id
    }

    fn is_for_all(&self) -> bool {
        self.spec.flags.contains(Flags::NO_AUTH)
    }

    fn first_arg(&self) -> Option<&[u8]> {
        (self.args.len() > 1).then(|| self.args.get(1))
    }

    fn arg(&self, at: usize) -> &[u8] {
        self.args.get(at)
    }

    #[inline]
    fn refused_key(&self, mut allowed: impl FnMut(&[u8], KeyRights) -> bool) -> Option<usize> {
        let count = self.args.len();
        let decided = || decided_use(self.spec, self.args).map(|key| key.rights);
        let Some(rights) = self.spec.key_rights.or_else(decided) else {
            let keys = key_positions(self.spec, self.args).unwrap_or_default();
            let mut refused =
                keys.iter().filter(|key| !allowed(self.args.get(key.index), key.rights));
            return refused.next().map(|key| key.index);
        };
        let range = self.spec.keys;
        let last = if range.last < 0 {
            count.saturating_add_signed(range.last)
        } else {
            range.last.unsigned_abs().min(count - 1)
        };
        // Mostly it is one key: a range with steps is not made for it.
        let mut at = range.first;
        while at <= last {
            if !allowed(self.args.get(at), rights) {
                return Some(at);
            }
            at += range.step.max(1);
        }
        None
    }

    fn refused_database(&self, mut allowed: impl FnMut(usize) -> bool) -> Option<usize> {
        let named = self.named_databases();
        if let Some((at, _)) = named.iter().find(|(_, db)| !allowed(*db)) {
            return Some(*at);
        }
        let is_refused = match self.spec.on_databases {
            OnDatabases::Selects | OnDatabases::Swaps => false,
            OnDatabases::EmptiesAll => !(0..self.databases).all(&mut allowed),
            _ => self.is_of_one_database() && !allowed(self.db),
        };
        is_refused.then_some(0)
    }

    fn channels(&self) -> (Range<usize>, bool) {
        let count = self.args.len();
        match self.spec.on_channels {
            OnChannels::Nothing => (0..0, false),
            OnChannels::Publishes => (1..count.min(2), false),
            OnChannels::Listens => (1..count, false),
            OnChannels::ListensToPatterns => (1..count, true),
        }
    }
}

impl Client {
    /// Checks the client's rights as of the last [`Client::renew_rights`].
    ///
    /// # Errors
    /// The refused action.
    #[inline]
    pub(crate) fn check_rights(
        &self,
        spec: &'static CommandSpec,
        args: Args<'_>,
    ) -> Result<(), Denied> {
        if !self.identity.is_restricted() {
            return Ok(());
        }
        self.identity.user().check(&self.asked(spec, args))
    }

    /// The request in the database that it will run in: a SELECT in front of it may be queued.
    fn asked<'a>(&self, spec: &'static CommandSpec, args: Args<'a>) -> Asked<'a> {
        let selected = self.transaction.as_ref().and_then(|transaction| transaction.db);
        let db = selected.unwrap_or(self.db);
        Asked { spec, args, db, databases: self.databases }
    }

    /// True when the client's user may run the request, and do this with all keys.
    pub(crate) fn may_with_all_keys(
        &self,
        spec: &'static CommandSpec,
        args: Args<'_>,
        rights: KeyRights,
    ) -> bool {
        !self.identity.is_restricted()
            || self.identity.user().may_with_all_keys(&self.asked(spec, args), rights)
    }

    /// The refusal of a request, as ACL LOG has it.
    pub(crate) fn denial(
        &self,
        (spec, args): (&'static CommandSpec, Args<'_>),
        denied: Denied,
        context: Context,
    ) -> Denial {
        let (reason, object) = match denied {
            Denied::Database(0) => (Reason::Database, spec.name.as_bytes()),
            Denied::Database(at) => (Reason::Database, args.get(at)),
            Denied::Command => (Reason::Command, spec.name.as_bytes()),
            Denied::Key(at) => (Reason::Key, args.get(at)),
            Denied::Channel(at) => (Reason::Channel, args.get(at)),
        };
        let user = self.identity.user().name().to_vec();
        Denial { reason, context, object: object.to_vec(), user, client: self.session.line() }
    }

    /// Records a refusal for ACL LOG. The client's last command is that of `request`, unless EXEC runs it.
    pub(super) fn note_denied(
        &self,
        server: &Server,
        request: (&'static CommandSpec, Args<'_>),
        denied: Denied,
        context: Context,
    ) {
        let in_exec = context == Context::Multi && self.transaction.is_none();
        self.session.note_command(if in_exec { "exec" } else { request.0.name });
        server.auth.denials.note(self.denial(request, denied, context), now_ms());
    }
}

impl Executor {
    /// True when the client's user may run the request; false for one that is not a command, too.
    #[must_use]
    pub fn may(&self, client: &Client, args: Args<'_>) -> bool {
        let spec = self.table.lookup(args);
        spec.is_ok_and(|spec| client.check_rights(spec, args).is_ok())
    }
}
