//! Commands on keys of every type.

mod delete;

use super::table::Binding;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("del", delete::del),
    Binding::keyed("unlink", delete::del),
    Binding::keyed("exists", delete::exists),
    Binding::keyed("touch", delete::touch),
    Binding::keyed("type", delete::type_of),
];
