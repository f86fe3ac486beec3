//! MODULE, as a server without modules answers it.

use super::introspect::help;
use crate::dispatch::{Binding, CommandResult, Ctx};

pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("module"),
    Binding::local("module|help", help),
    Binding::local("module|list", list),
];

fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(0);
    Ok(())
}
