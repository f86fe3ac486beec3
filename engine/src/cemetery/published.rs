//! A value that is replaced as a whole while others read it, with a flag that tells cheaply whether it
//! is empty.

use crate::sync::{ArcSwap, AtomicBool, Mutex, Ordering};
use std::sync::Arc;

/// Whether a value says nothing.
pub(crate) trait IsEmpty {
    /// True when readers need not look at it.
    fn is_empty(&self) -> bool;
}

/// The value. A writer that moves an item here from elsewhere removes it there only after [`Published::update`]; a
/// reader that looks there first and then here always finds it in one of both places.
#[derive(Default)]
pub(crate) struct Published<T> {
    value: ArcSwap<T>,
    any: AtomicBool,
    change: Mutex<()>,
}

impl<T: IsEmpty + Clone> Published<T> {
    /// True when there is nothing in it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The value at this moment.
    pub(crate) fn load(&self) -> Arc<T> {
        self.value.load_full()
    }

    /// What `read` makes of the value, without holding it longer.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value.load())
    }

    /// Replaces the value by a changed one.
    pub(crate) fn update(&self, change: impl FnOnce(&mut T)) {
        let _change = self.change.lock();
        let mut next = T::clone(&self.value.load());
        change(&mut next);
        let any = !next.is_empty();
        if any {
            // Before the value: a reader that is told that this is empty finds all of it in the other place.
            self.any.store(true, Ordering::Release);
        }
        self.value.store(Arc::new(next));
        if !any {
            self.any.store(false, Ordering::Release);
        }
    }
}
