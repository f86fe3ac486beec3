//! Definition of one directive: name, type, default, mutability, and its effect in Sexton.

use crate::kind::Kind;
use crate::value::Value;

/// Bounds of `hz`; values outside are moved to them silently, as in Redis.
const HZ_BOUNDS: (i128, i128) = (1, 500);

/// What a directive does in this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The server acts on it.
    Effective,
    /// Accepted and reported by CONFIG GET, but without effect for this reason: the server logs one line if its value is
    /// not the default.
    NoEffect(&'static str),
    /// Accepted at its default only; any other value is an error with this reason.
    Refused(&'static str),
}

/// When a directive may be changed at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutability {
    /// CONFIG SET changes it.
    Modifiable,
    /// Only the file and the command line set it.
    Immutable,
    /// CONFIG SET changes it when `enable-protected-configs` allows.
    Protected,
}

/// One row of the directive table.
#[derive(Debug, Clone, Copy)]
pub struct Directive {
    /// The name CONFIG GET and CONFIG REWRITE use.
    pub name: &'static str,
    /// An alternative name for the directive (`slaveof` for `replicaof`).
    pub alias: Option<&'static str>,
    /// Type and bounds.
    pub kind: Kind,
    /// Default as it would be written in the file, words separated by blanks.
    pub default: &'static str,
    /// Whether it can be changed at runtime, and by which clients.
    pub mutability: Mutability,
    /// CONFIG GET shows it for its exact name only.
    pub hidden: bool,
    /// Its values are kept out of logs, MONITOR and SLOWLOG.
    pub sensitive: bool,
    /// CONFIG SET answers LOADING while a data set is loaded.
    pub deny_loading: bool,
    /// What it does here.
    pub class: Class,
    /// Its meaning; present for all of our own directives, and for Redis' if ours differs.
    pub doc: &'static str,
}

impl Directive {
    /// A modifiable, effective directive.
    pub(crate) const fn new(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Directive {
            name,
            alias: None,
            kind,
            default,
            mutability: Mutability::Modifiable,
            hidden: false,
            sensitive: false,
            deny_loading: false,
            class: Class::Effective,
            doc: "",
        }
    }

    pub(crate) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(crate) const fn immutable(mut self) -> Self {
        self.mutability = Mutability::Immutable;
        self
    }

    pub(crate) const fn protected(mut self) -> Self {
        self.mutability = Mutability::Protected;
        self
    }

    pub(crate) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    pub(crate) const fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    pub(crate) const fn deny_loading(mut self) -> Self {
        self.deny_loading = true;
        self
    }

    pub(crate) const fn no_effect(mut self, reason: &'static str) -> Self {
        self.class = Class::NoEffect(reason);
        self
    }

    pub(crate) const fn refused(mut self, reason: &'static str) -> Self {
        self.class = Class::Refused(reason);
        self
    }

    pub(crate) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// The alias if that is what was typed, in any case; otherwise the name.
    pub fn name_like(&self, typed: &[u8]) -> &'static str {
        let alias = self.alias.filter(|alias| alias.as_bytes().eq_ignore_ascii_case(typed));
        alias.unwrap_or(self.name)
    }

    /// Whether Redis has no directive of this name.
    pub fn is_own(&self) -> bool {
        crate::table::is_own(self.name)
    }

    /// Whether the words of the line, or of a CONFIG SET value split at blanks, form one value.
    pub fn takes_many_words(&self) -> bool {
        self.kind.takes_many_words()
    }

    /// Whether repeated lines add up instead of replacing each other.
    pub fn adds_up(&self) -> bool {
        matches!(self.kind, Kind::Save | Kind::OutputLimits | Kind::Devices | Kind::LevelDevices)
    }

    /// Why it has no effect here, if it has none.
    pub fn no_effect_reason(&self) -> Option<&'static str> {
        match self.class {
            Class::NoEffect(reason) => Some(reason),
            Class::Effective | Class::Refused(_) => None,
        }
    }

    /// The value as it takes effect: `hz` is moved into its bounds instead of being refused.
    pub(crate) fn bounded(&self, value: Value) -> Value {
        match value {
            Value::Int(hz) if self.name == "hz" => Value::Int(hz.clamp(HZ_BOUNDS.0, HZ_BOUNDS.1)),
            value => value,
        }
    }
}
