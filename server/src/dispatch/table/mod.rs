//! The command table: the only list of the server's commands.
//!
//! Metadata is taken from `commands.txt` (what Redis 7.0.15 reports about its commands), code from the
//! [`Binding`]s that each command group exports. The dispatcher, arity errors, COMMAND and ACL read
//! the [`CommandSpec`]s made of both. A command without a binding does not exist for clients.

mod elements;
mod flags;
mod key_spec;
mod keys;
mod metadata;
mod names;
mod rename;
mod stats;
mod traits;

pub use elements::Elements;
pub use flags::Flags;
pub use key_spec::KeyError;
pub(super) use keys::decided_use;
pub use keys::{KeyUse, key_positions, sources, stores};
pub use metadata::Metadata;
pub use stats::{CommandStats, Tally, Totals};
pub use traits::{IsBlind, IsSecret, MayReplicate, NamesKeys, OnChannels, OnDatabases, Traits};

use self::key_spec::KeySpec;
use self::names::Names;
use super::{Args, Class, CommandError, CommandResult, Ctx};
use crate::auth::{Catalog, KeyRights};

/// The code of a command.
pub type Handler = fn(&mut Ctx<'_, '_>) -> CommandResult;

/// Ties a command's name to its code.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub(crate) name: &'static str,
    class: Class,
    is_blind: IsBlind,
    names_keys: NamesKeys,
    traits: Traits,
    elements: Elements,
    on_databases: OnDatabases,
    on_channels: OnChannels,
    is_secret: IsSecret,
    may_replicate: MayReplicate,
    pub(crate) run: Handler,
}

impl Binding {
    const fn new(name: &'static str, class: Class, run: Handler) -> Self {
        Self {
            name,
            class,
            is_blind: |_| false,
            names_keys: |_| false,
            traits: Traits::NONE,
            elements: Elements::NONE,
            on_databases: OnDatabases::Nothing,
            on_channels: OnChannels::Nothing,
            is_secret: |_, _| false,
            may_replicate: |_, _| false,
            run,
        }
    }

    /// A command of [`Class::Local`].
    #[must_use]
    pub const fn local(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Local, run)
    }

    /// A command of [`Class::Keyed`] that reads the values of its keys.
    #[must_use]
    pub const fn keyed(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Keyed, run)
    }

    /// A command of [`Class::Keyed`] that may overwrite cold keys unread.
    #[must_use]
    pub const fn blind(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Keyed, run).blind_when(|_| true)
    }

    /// A command of [`Class::Script`].
    #[must_use]
    pub const fn script(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Script, run)
    }

    /// A command of [`Class::Exclusive`].
    #[must_use]
    pub const fn exclusive(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Exclusive, run)
    }

    /// A command of [`Class::Offload`].
    #[must_use]
    pub const fn offload(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Offload, run)
    }

    /// A command of [`Class::Survey`].
    #[must_use]
    pub const fn survey(name: &'static str, run: Handler) -> Self {
        Self::new(name, Class::Survey, run)
    }

    /// A command that exists only as the name before its subcommands (CONFIG, CLIENT), which have its traits.
    #[must_use]
    pub const fn container(name: &'static str) -> Self {
        Self::local(name, run_container)
    }

    /// It has these traits, too.
    #[must_use]
    pub const fn with(mut self, traits: Traits) -> Self {
        self.traits = self.traits.and(traits);
        self
    }

    /// These arguments name elements of the collection that its first key holds, which it looks up.
    #[must_use]
    pub const fn looks_up(mut self, elements: Elements) -> Self {
        self.elements = elements;
        self
    }

    /// Requests for which this is true never read an old value: a cold key may be overwritten unread.
    #[must_use]
    pub const fn blind_when(mut self, is_blind: IsBlind) -> Self {
        self.is_blind = is_blind;
        self
    }

    /// Requests for which this is true, of a command of [`Class::Exclusive`], need the latches of the keys that they name alone.
    #[must_use]
    pub const fn keyed_when(mut self, names_keys: NamesKeys) -> Self {
        self.names_keys = names_keys;
        self
    }

    /// What it does to databases as a whole.
    #[must_use]
    pub const fn on_databases(mut self, what: OnDatabases) -> Self {
        self.on_databases = what;
        self
    }

    /// What it does with channels.
    #[must_use]
    pub const fn on_channels(mut self, what: OnChannels) -> Self {
        self.on_channels = what;
        self
    }

    /// Arguments of which this is true are secrets: MONITOR and the slow log do not show them.
    #[must_use]
    pub const fn secret_where(mut self, is_secret: IsSecret) -> Self {
        self.is_secret = is_secret;
        self
    }

    /// Requests of which this is true are held back like writes while writes pause.
    #[must_use]
    pub const fn replicates_when(mut self, may_replicate: MayReplicate) -> Self {
        self.may_replicate = may_replicate;
        self
    }
}

/// Never reached through the dispatcher: the arity of a container asks for a subcommand.
fn run_container(_ctx: &mut Ctx<'_, '_>) -> CommandResult {
    Err(CommandError::Syntax)
}

/// One row of the command table.
#[derive(Debug)]
pub struct CommandSpec {
    /// Lower-case name, as COMMAND prints it; `container|sub` for a subcommand.
    pub name: &'static str,
    /// Number of arguments including the name; negative: at least that many.
    pub arity: i32,
    /// Redis' flags.
    pub flags: Flags,
    /// The positions of the keys, if they are fixed; see [`key_positions`] otherwise.
    pub keys: super::KeyRange,
    /// How it is run.
    pub class: Class,
    /// True for a request that never reads an old value: a cold key may then be overwritten unread.
    pub is_blind: IsBlind,
    /// True for a request of a command of [`Class::Exclusive`] that works on the keys alone that it names.
    pub names_keys: NamesKeys,
    /// Its properties beyond Redis' flags.
    pub traits: Traits,
    /// Which arguments name elements that it looks up in the collection which its first key holds.
    pub elements: Elements,
    /// What it does to databases as a whole.
    pub on_databases: OnDatabases,
    /// What it does with channels.
    pub on_channels: OnChannels,
    /// True of an argument that MONITOR and the slow log do not show.
    pub is_secret: IsSecret,
    /// True of a request that is held back like a write while writes pause.
    pub may_replicate: MayReplicate,
    /// Its number for access rules.
    pub acl_id: usize,
    /// Its access rights for each of its keys, if they are equal for all keys and do not depend on the request.
    pub(super) key_rights: Option<KeyRights>,
    /// The argument with the number of keys that follow it, if that alone determines the keys.
    pub(crate) key_count: Option<usize>,
    /// How its requests name keys; see [`key_positions`].
    pub(super) key_specs: Vec<KeySpec>,
    /// The name that clients call it by: its own, another one, or none (`rename-command`).
    pub called: &'static str,
    /// The function.
    pub run: Handler,
    /// Calls and times, for INFO commandstats and LATENCY HISTOGRAM.
    pub stats: CommandStats,
    /// Documentation.
    pub metadata: Metadata,
    /// Subcommands, by name; empty for plain commands.
    pub subcommands: Vec<CommandSpec>,
}

impl CommandSpec {
    fn new(binding: &Binding, metadata: Metadata) -> Self {
        let key_specs: Vec<_> = metadata.fields("spec").filter_map(KeySpec::parse).collect();
        let (keys, flags) = (metadata.keys(), metadata.flags());
        let are_fixed = keys.first != 0 && !flags.contains(Flags::MOVABLEKEYS);
        Self {
            name: metadata.name,
            arity: metadata.arity(),
            flags,
            keys,
            class: binding.class,
            is_blind: binding.is_blind,
            names_keys: binding.names_keys,
            traits: binding.traits,
            elements: binding.elements,
            on_databases: binding.on_databases,
            on_channels: binding.on_channels,
            is_secret: binding.is_secret,
            may_replicate: binding.may_replicate,
            acl_id: 0,
            key_rights: KeySpec::rights_of(&key_specs).filter(|_| are_fixed),
            key_count: KeySpec::count_of(&key_specs),
            key_specs,
            called: metadata.name,
            run: binding.run,
            stats: CommandStats::default(),
            metadata,
            subcommands: Vec::new(),
        }
    }

    /// A row that the table does not have.
    #[cfg(test)]
    pub(crate) fn for_tests(binding: &Binding, metadata: Metadata) -> Self {
        Self::new(binding, metadata)
    }

    /// The name without the container's: `get` of `config|get`.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, sub)| sub)
    }

    /// True when a request of `count` arguments, the name included, is acceptable.
    #[must_use]
    pub fn accepts(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }

    /// The error of a subcommand for more arguments than it accepts, if the table's arity allows them;
    /// `sub` is the subcommand as it was written.
    #[must_use]
    pub fn subcommand_error(&self, sub: &[u8]) -> CommandError {
        let container = self.name.split('|').next().unwrap_or_default().to_ascii_uppercase();
        format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try {container} HELP.",
            c_text(sub, 128)
        )
        .into()
    }

    /// `ERR wrong number of arguments for 'NAME' command`.
    #[must_use]
    pub fn arity_error(&self) -> CommandError {
        format!("ERR wrong number of arguments for '{}' command", self.name).into()
    }
}

/// All commands of this server.
pub struct Table {
    specs: Vec<CommandSpec>,
    names: Names,
    /// All commands of Redis and of this server, for access rules.
    catalog: Catalog,
}

impl Table {
    /// The commands that these groups bind.
    #[must_use]
    pub fn build(groups: &[&[Binding]]) -> Self {
        let find = |name: &str| {
            groups.iter().flat_map(|group| group.iter()).find(|binding| binding.name == name)
        };
        let mut specs: Vec<CommandSpec> = Vec::new();
        let mut catalog = Catalog::default();
        for metadata in Metadata::all() {
            let acl_id =
                catalog.add(metadata.name, metadata.words("acl"), metadata.is_of_redis_7_0());
            let Some(binding) = find(metadata.name) else { continue };
            let mut spec = CommandSpec { acl_id, ..CommandSpec::new(binding, metadata) };
            match (metadata.name.split_once('|'), specs.last_mut()) {
                (Some((container, _)), Some(last)) if last.name == container => {
                    spec.traits = spec.traits.and(last.traits);
                    last.subcommands.push(spec);
                }
                _ => specs.push(spec),
            }
        }
        let names = names_of(&specs);
        Self { specs, names, catalog }
    }

    /// All commands of Redis and of this server, as access rules know them.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The command that clients call by this name (any case), subcommands left aside.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&CommandSpec> {
        self.names.find(name, |index| self.specs[index].called).map(|index| &self.specs[index])
    }

    /// All commands by name; subcommands are in their containers.
    #[must_use]
    pub fn all(&self) -> &[CommandSpec] {
        &self.specs
    }

    /// The row that a request addresses, regardless of its number of arguments: the subcommand if the
    /// command is a container.
    ///
    /// # Errors
    /// Redis' texts for unknown commands and subcommands.
    pub fn lookup(&self, args: Args<'_>) -> Result<&CommandSpec, CommandError> {
        let Some(spec) = self.find(args.get(0)) else { return Err(unknown_command(args)) };
        Self::row_of(spec, args)
    }

    /// The row of `spec` that a request addresses.
    fn row_of<'t>(spec: &'t CommandSpec, args: Args<'_>) -> Result<&'t CommandSpec, CommandError> {
        if spec.subcommands.is_empty() || args.len() < 2 {
            return Ok(spec);
        }
        find_subcommand(spec, args.get(1)).ok_or_else(|| {
            format!(
                "ERR unknown subcommand '{}'. Try {} HELP.",
                c_text(args.get(1), 128),
                spec.name.to_ascii_uppercase()
            )
            .into()
        })
    }
}

/// What clients call these commands by.
fn names_of(specs: &[CommandSpec]) -> Names {
    let called = specs.iter().enumerate().filter(|(_, spec)| spec.is_called());
    Names::new(called.map(|(index, spec)| (index, spec.called)))
}

/// The subcommand of `spec` of this name (any case).
#[must_use]
pub fn find_subcommand<'a>(spec: &'a CommandSpec, name: &[u8]) -> Option<&'a CommandSpec> {
    spec.subcommands.iter().find(|sub| sub.short_name().as_bytes().eq_ignore_ascii_case(name))
}

/// Redis prints names with C's `%.Ns`: up to N bytes, and not beyond a NUL.
fn c_text(bytes: &[u8], limit: usize) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()).min(limit);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn unknown_command(args: Args<'_>) -> CommandError {
    const LIMIT: usize = 128;
    let mut list = String::new();
    for arg in args.from(1) {
        if list.len() >= LIMIT {
            break;
        }
        let text = c_text(arg, LIMIT - list.len());
        list.push('\'');
        list.push_str(&text);
        list.push_str("' ");
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {list}",
        c_text(args.get(0), LIMIT)
    )
    .into()
}
