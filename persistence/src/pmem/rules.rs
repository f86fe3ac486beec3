//! Rules that tests switch off, to see that their absence is found.

/// A rule of `docs/rules.md` that the code keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// M6: a batch ends with a fence.
    Fence,
    /// The checksum of a record is looked at.
    Checksum,
    /// M4: slots are erased before they are used again.
    Erase,
    /// M6: the fence comes before `durable` moves.
    PersistBeforePublish,
    /// M5: c_d is raised before sequences are handed out.
    Reserve,
}

/// True unless a test has switched the rule off for its thread.
#[cfg(not(test))]
#[inline]
pub(super) fn kept(_rule: Rule) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(super) fn kept(rule: Rule) -> bool {
    BROKEN.get() != Some(rule)
}

/// Switches a rule off for this thread; `None` for all on.
#[cfg(test)]
pub(super) fn set_broken(rule: Option<Rule>) {
    BROKEN.set(rule);
}
