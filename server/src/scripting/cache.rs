//! The scripts that the server knows by their SHA-1.

use super::script::{Script, Sha};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Memory limit for scripts added by EVAL; beyond it the least recently used ones are removed.
const EVAL_MAX_BYTES: usize = 32 << 20;

/// Memory limit for scripts added by SCRIPT LOAD.
const LOADED_MAX_BYTES: usize = 64 << 20;

struct Known {
    script: Arc<Script>,
    /// Added by SCRIPT LOAD, and kept until SCRIPT FLUSH.
    is_loaded: bool,
    /// The count of uses when it was used last.
    used: AtomicU64,
}

#[derive(Default)]
struct Table {
    known: HashMap<Sha, Known>,
    eval_bytes: usize,
    loaded_bytes: usize,
}

/// All scripts.
#[derive(Default)]
pub struct ScriptCache {
    table: RwLock<Table>,
    uses: AtomicU64,
    /// So often it was emptied.
    generation: AtomicU64,
    interpreter_bytes: AtomicI64,
}

impl ScriptCache {
    /// The script of this name.
    #[must_use]
    pub fn get(&self, sha: Sha) -> Option<Arc<Script>> {
        let table = self.table.read();
        let known = table.known.get(&sha)?;
        known.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(Arc::clone(&known.script))
    }

    /// Adds a script. False when there is no room: then it is not known.
    pub fn add(&self, script: Arc<Script>, is_loaded: bool) -> bool {
        let bytes = script.memory_bytes();
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut table = self.table.write();
        if let Some(known) = table.known.get_mut(&script.sha) {
            let was_loaded = known.is_loaded;
            known.is_loaded |= is_loaded;
            if is_loaded && !was_loaded {
                table.eval_bytes -= bytes;
                table.loaded_bytes += bytes;
            }
            return true;
        }
        if is_loaded && table.loaded_bytes + bytes > LOADED_MAX_BYTES {
            return false;
        }
        if !is_loaded && bytes > EVAL_MAX_BYTES {
            return false;
        }
        while !is_loaded && table.eval_bytes + bytes > EVAL_MAX_BYTES {
            let others = table.known.iter().filter(|(_, known)| !known.is_loaded);
            let oldest = others.min_by_key(|(_, known)| known.used.load(Ordering::Relaxed));
            let Some(sha) = oldest.map(|(sha, _)| *sha) else { break };
            if let Some(gone) = table.known.remove(&sha) {
                table.eval_bytes -= gone.script.memory_bytes();
            }
        }
        *(if is_loaded { &mut table.loaded_bytes } else { &mut table.eval_bytes }) += bytes;
        table.known.insert(script.sha, Known { script, is_loaded, used: AtomicU64::new(used) });
        true
    }

    /// SCRIPT FLUSH.
    pub fn flush(&self) {
        *self.table.write() = Table::default();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Rises with each flush: what was compiled before is of no use.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Number of scripts, and the memory that they take.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let table = self.table.read();
        (table.known.len(), table.eval_bytes + table.loaded_bytes)
    }

    /// Records that an interpreter has grown by `bytes` (negative: has shrunk).
    pub fn count_interpreter(&self, bytes: i64) {
        self.interpreter_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Memory of all interpreters.
    #[must_use]
    pub fn interpreter_bytes(&self) -> u64 {
        self.interpreter_bytes.load(Ordering::Relaxed).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: usize, len: usize) -> Arc<Script> {
        let text = format!("return {number} --{}", "x".repeat(len));
        Arc::new(Script::new(text.as_bytes()).expect("no first line"))
    }

    #[test]
    fn scripts_of_eval_make_room_for_each_other_and_loaded_ones_stay() {
        let cache = ScriptCache::default();
        let loaded = script(0, 10);
        assert!(cache.add(Arc::clone(&loaded), true));
        let len = EVAL_MAX_BYTES / 4;
        let scripts: Vec<_> = (1..=4).map(|number| script(number, len)).collect();
        scripts[..3].iter().for_each(|script| assert!(cache.add(Arc::clone(script), false)));
        assert!(cache.get(scripts[0].sha).is_some(), "used: the second one is the oldest now");
        assert!(cache.add(Arc::clone(&scripts[3]), false));
        let is_there = |at: usize| cache.get(scripts[at].sha).is_some();
        assert_eq!([is_there(0), is_there(1), is_there(2), is_there(3)], [true, false, true, true]);
        assert!(cache.get(loaded.sha).is_some());
        assert!(cache.size().1 <= EVAL_MAX_BYTES + loaded.memory_bytes());
        assert!(!cache.add(script(5, EVAL_MAX_BYTES), false));
        let generation = cache.generation();
        cache.flush();
        assert_eq!((cache.size(), cache.generation()), ((0, 0), generation + 1));
    }
}
