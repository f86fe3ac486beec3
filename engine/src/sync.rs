//! The locks and atomics of what `make loom` runs in every interleaving: loom's in its tests, the ordinary
//! ones everywhere else.

#[cfg(not(all(loom, test)))]
pub(crate) use arc_swap::ArcSwap;
#[cfg(not(all(loom, test)))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(all(loom, test))]
pub(crate) use looms::{ArcSwap, Mutex};

/// Loom's lock with the faces of the crates used otherwise.
#[cfg(all(loom, test))]
mod looms {
    use loom::sync::MutexGuard;
    use std::sync::Arc;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread of a model panics with the lock")
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    /// A pointer behind a lock: the order of its loads and stores is that of `arc_swap`.
    #[derive(Debug)]
    pub(crate) struct ArcSwap<T>(Mutex<Arc<T>>);

    impl<T> ArcSwap<T> {
        pub(crate) fn load(&self) -> Arc<T> {
            self.load_full()
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            Arc::clone(&self.0.lock())
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            *self.0.lock() = value;
        }
    }

    impl<T: Default> Default for ArcSwap<T> {
        fn default() -> Self {
            Self(Mutex::new(Arc::new(T::default())))
        }
    }
}
