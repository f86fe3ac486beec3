//! Permission checks, based on what the command table knows of a request.

use super::selector::{KeyRights, Selector, matches};
use super::user::User;

/// Why a request is refused. If several sets of rights refuse it, the largest reason is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The database at this place among the arguments, or at 0 the one that the client has selected.
    Database(usize),
    /// The command, or the subcommand.
    Command,
    /// The key at this place among the arguments.
    Key(usize),
    /// The channel at this place among the arguments.
    Channel(usize),
}

impl Denied {
    /// The text that follows `-NOPERM`.
    #[must_use]
    pub fn text(self, command: &str) -> String {
        match self {
            Self::Database(_) => "No permissions to access database".to_owned(),
            Self::Command => {
                format!("this user has no permissions to run the '{command}' command")
            }
            Self::Key(_) => {
                "this user has no permissions to access one of the keys used as arguments"
                    .to_owned()
            }
            Self::Channel(_) => {
                "this user has no permissions to access one of the channels used as arguments"
                    .to_owned()
            }
        }
    }

    /// The error text for a script.
    #[must_use]
    pub fn script_text(self) -> &'static str {
        match self {
            Self::Database(_) => "ERR The user executing the script can't access the database",
            Self::Command => {
                "ERR The user executing the script can't run this command or subcommand"
            }
            Self::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments"
            }
            Self::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        }
    }

    /// Why EXEC does not run a command that was queued.
    #[must_use]
    pub fn queued_text(self) -> String {
        let reason = match self {
            Self::Database(_) => "no permission to access the database",
            Self::Command => "no permission to execute the command or subcommand",
            Self::Key(_) => "no permission to touch the specified keys",
            Self::Channel(_) => "no permission to access one of the channels used as arguments",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
             command is no longer allowed for the following reason: {reason}"
        )
    }
}

/// A request, as far as rights are concerned.
pub trait Request {
    /// The command's number in the catalog.
    fn command(&self) -> usize;
    /// True for commands that are allowed before AUTH, and therefore for every user.
    fn is_for_all(&self) -> bool;
    /// The first argument after the command's name.
    fn first_arg(&self) -> Option<&[u8]>;
    /// The argument at a place.
    fn arg(&self, at: usize) -> &[u8];
    /// Calls `allowed` with each key and its use, up to the first one for which it returns false; returns the index of that
    /// key.
    fn refused_key(&self, allowed: impl FnMut(&[u8], KeyRights) -> bool) -> Option<usize>;
    /// Calls `allowed` with each database that it works on, up to the first one for which it returns false; returns the index
    /// of the argument that names that one, 0 where none does.
    fn refused_database(&self, allowed: impl FnMut(usize) -> bool) -> Option<usize>;
    /// The places of channels that are published or listened to, and whether they are patterns.
    fn channels(&self) -> (std::ops::Range<usize>, bool);
}

impl User {
    /// Looks whether one of the sets of rights allows the request.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, request: &impl Request) -> Result<(), Denied> {
        let mut told = Denied::Database(0);
        for selector in self.selectors() {
            match selector.check(request) {
                Ok(()) => return Ok(()),
                Err(denied) => told = told.max(denied),
            }
        }
        Err(told)
    }

    /// True when one set of rights allows the request, and to do this with all keys.
    #[must_use]
    pub fn may_with_all_keys(&self, request: &impl Request, rights: KeyRights) -> bool {
        self.selectors().iter().any(|selector| {
            let has_all = selector.all_keys
                || selector
                    .keys
                    .iter()
                    .any(|key| key.pattern == b"*" && key.rights.include(rights));
            has_all && selector.check(request).is_ok()
        })
    }
}

impl User {
    /// True when messages of this channel, or of this pattern of channels, may be had.
    #[must_use]
    pub fn may_listen(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors().iter().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// True when every pattern of channels that `before` had is there, or all channels are.
    #[must_use]
    pub fn keeps_channels_of(&self, before: &Self) -> bool {
        let has = |pattern: &Vec<u8>| self.selectors().iter().any(|s| s.channels.contains(pattern));
        self.selectors().iter().any(|selector| selector.all_channels)
            || before
                .selectors()
                .iter()
                .all(|selector| !selector.all_channels && selector.channels.iter().all(has))
    }
}

impl Selector {
    fn check(&self, request: &impl Request) -> Result<(), Denied> {
        if let Some(databases) = &self.databases
            && let Some(at) =
                request.refused_database(|db| databases.iter().any(|&own| own as usize == db))
        {
            return Err(Denied::Database(at));
        }
        if !self.all_commands && !request.is_for_all() && !self.allows_command(request) {
            return Err(Denied::Command);
        }
        if !self.all_keys
            && let Some(at) = request.refused_key(|key, rights| self.allows_key(key, rights))
        {
            return Err(Denied::Key(at));
        }
        if !self.all_channels {
            let (places, is_pattern) = request.channels();
            for at in places {
                if !self.allows_channel(request.arg(at), is_pattern) {
                    return Err(Denied::Channel(at));
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn allows_command(&self, request: &impl Request) -> bool {
        let id = request.command();
        self.commands.has(id)
            || self.first_args.get(&id).is_some_and(|allowed| {
                request.first_arg().is_some_and(|argument| {
                    allowed.iter().any(|known| known.eq_ignore_ascii_case(argument))
                })
            })
    }

    #[inline]
    fn allows_key(&self, key: &[u8], rights: KeyRights) -> bool {
        self.keys.iter().any(|known| known.rights.include(rights) && known.is_of(key))
    }

    /// May messages of this channel, or of this pattern of channels, be had?
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self
                .channels
                .iter()
                .any(|known| if is_pattern { known == channel } else { matches(known, channel) })
    }
}
