//! `rename-command`: other names for commands, or none.

use super::{Args, CommandError, CommandSpec, Table, names_of, unknown_command};

impl CommandSpec {
    /// True when clients can call it.
    #[must_use]
    pub fn is_called(&self) -> bool {
        !self.called.is_empty()
    }

    /// True when clients do not call it by its own name.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.called != self.name
    }
}

impl Table {
    /// Renames the command `old` to `new` for clients; an empty name disables it.
    ///
    /// # Errors
    /// Redis' reasons.
    pub fn rename(&mut self, old: &[u8], new: &[u8]) -> Result<(), &'static str> {
        let is_old = |spec: &CommandSpec| {
            spec.is_called() && spec.called.as_bytes().eq_ignore_ascii_case(old)
        };
        let at = self.specs.iter().position(is_old).ok_or("No such command in rename-command")?;
        self.specs[at].called = "";
        self.names = names_of(&self.specs);
        if new.is_empty() {
            return Ok(());
        }
        if self.find(new).is_some() {
            return Err("Target command name already exists");
        }
        // Once at the start of the process, for its whole life.
        self.specs[at].called = String::from_utf8_lossy(new).into_owned().leak();
        self.names = names_of(&self.specs);
        Ok(())
    }

    /// The command with this original name, whatever clients call it.
    #[must_use]
    pub fn find_own(&self, name: &[u8]) -> Option<&CommandSpec> {
        match self.find(name) {
            Some(spec) if !spec.is_renamed() => Some(spec),
            // A Redis logs commands as they were called.
            called => {
                let is_own = |spec: &&CommandSpec| spec.name.as_bytes().eq_ignore_ascii_case(name);
                self.specs.iter().find(is_own).or(called)
            }
        }
    }

    /// Like [`Table::lookup`], but by the commands' original names, which are used in the log.
    ///
    /// # Errors
    /// Redis' texts for unknown commands and subcommands.
    pub fn lookup_own(&self, args: Args<'_>) -> Result<&CommandSpec, CommandError> {
        let spec = self.find_own(args.get(0)).ok_or_else(|| unknown_command(args))?;
        Self::row_of(spec, args)
    }
}
