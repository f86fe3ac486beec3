//! Hash commands.

mod scan;

use crate::dispatch::table::Binding;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[Binding::keyed("hscan", scan::hscan)];
