//! What became of a key that was to be deleted.

/// The outcome of [`Tx::delete_if`](super::Tx::delete_if).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is deleted: one operation.
    Done,
    /// Its value was not wanted to go: nothing is written.
    Kept,
    /// It has no value: nothing is written (X1).
    Absent,
    /// It may be on a device, from where it must be loaded first.
    Cold,
}
