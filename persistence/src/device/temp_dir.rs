//! Directories of tests that need a real file system.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of its own below the system's temporary one, removed with all that is in it when it is
/// dropped: for the tests of all crates.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// An empty directory with `name` in its name.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let own = format!("sexton-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(own);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }
}

impl Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What stays is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
