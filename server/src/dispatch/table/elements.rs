//! Which arguments of a request name elements of the collection that its first key holds.

use super::Args;

/// The positions of such names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// Argument with the first one; 0 where none names an element.
    first: usize,
    /// How far the others are from each other; 0 where there is one alone.
    step: usize,
}

impl Elements {
    /// No argument names an element.
    pub const NONE: Self = Self { first: 0, step: 0 };
    /// The one behind the key does.
    pub const ONE: Self = Self { first: 2, step: 0 };
    /// All behind the key do.
    pub const ALL: Self = Self { first: 2, step: 1 };
    /// Those behind the key do, each with a value behind it.
    pub const BEFORE_VALUES: Self = Self { first: 2, step: 2 };
    /// Those behind scores or increments do, unless there are options.
    pub const BEHIND_SCORES: Self = Self { first: 3, step: 2 };

    /// True where no argument names an element.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.first == 0
    }

    /// The names in a request.
    #[inline]
    pub fn of<'r>(self, args: Args<'r>) -> impl Iterator<Item = &'r [u8]> + Clone + use<'r> {
        let len = if self.is_none() { 0 } else { args.len() };
        let most = if self.step == 0 { 1 } else { len };
        (self.first..len).step_by(self.step.max(1)).take(most).map(move |at| args.get(at))
    }
}
