//! Looking at a key by the type that is expected there.

use crate::value::ValueType;
use sexton_engine::Entry;

/// A type of values, as a look-up expects it.
pub trait Kind {
    /// The type.
    const TYPE: ValueType;

    /// What a command sees of a value of it.
    type View<'v>;

    /// `None` for a value of another type.
    fn view(entry: Entry<'_>) -> Option<Self::View<'_>>;
}

/// The key holds a value of another type: WRONGTYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// A key's value of the expected type, if the key exists.
///
/// # Errors
/// [`WrongType`].
#[inline]
pub fn expect<K: Kind>(entry: Option<Entry<'_>>) -> Result<Option<K::View<'_>>, WrongType> {
    entry.map_or(Ok(None), |entry| K::view(entry).map(Some).ok_or(WrongType))
}
