//! The registry of function libraries: the owner of each function, changes to libraries, and their place in the store.
//!
//! Libraries change only under all latches. A transaction's changes are visible at once, and are rolled back with it.

use super::library::{Function, Library};
use parking_lot::{Mutex, RwLock};
use sexton_engine::{Engine, IterOptions, OWN_RECORDS};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Memory of all libraries together, in bytes.
const ALL_MAX_BYTES: usize = 64 << 20;

/// Why a library was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// There is one of this name.
    NameTaken(String),
    /// Another library has a function of this name.
    FunctionTaken(Vec<u8>),
    /// They would take too much memory together.
    TooLarge,
}

impl NotAdded {
    /// In Redis' words, where it has any.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::NameTaken(name) => format!("ERR Library '{name}' already exists").into_bytes(),
            Self::FunctionTaken(name) => {
                [b"ERR Function ", name.as_slice(), b" already exists"].concat()
            }
            Self::TooLarge => b"OOM the function libraries take too much memory".to_vec(),
        }
    }
}

/// The libraries of one moment.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// The library that owns each function; names are case-insensitive.
    owners: HashMap<Vec<u8>, (Arc<Library>, Vec<u8>)>,
    memory_bytes: usize,
}

impl Libraries {
    /// Adds a library, in place of one of its name with `replaces`.
    ///
    /// # Errors
    /// Nothing is added.
    pub fn add(&mut self, library: Arc<Library>, replaces: bool) -> Result<(), NotAdded> {
        let old = self.by_name.get(&library.name).cloned();
        if old.is_some() && !replaces {
            return Err(NotAdded::NameTaken(library.name.clone()));
        }
        for name in library.functions.keys() {
            let owner = self.owners.get(&name.to_ascii_lowercase());
            if owner.is_some_and(|(owner, _)| owner.name != library.name) {
                return Err(NotAdded::FunctionTaken(name.clone()));
            }
        }
        let freed = old.as_ref().map_or(0, |old| old.memory_bytes());
        if self.memory_bytes - freed + library.memory_bytes() > ALL_MAX_BYTES {
            return Err(NotAdded::TooLarge);
        }
        self.remove(&library.name);
        for name in library.functions.keys() {
            let owner = (Arc::clone(&library), name.clone());
            self.owners.insert(name.to_ascii_lowercase(), owner);
        }
        self.memory_bytes += library.memory_bytes();
        self.by_name.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library; false when there is none.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(gone) = self.by_name.remove(name) else { return false };
        self.memory_bytes -= gone.memory_bytes();
        self.owners.retain(|_, (owner, _)| !Arc::ptr_eq(owner, &gone));
        true
    }

    /// All, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// The library of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The function that is called by a name, and its library.
    #[must_use]
    pub fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &Function)> {
        let (library, name) = self.owners.get(&name.to_ascii_lowercase())?;
        Some((library, library.functions.get(name)?))
    }

    /// How many libraries and functions there are, and the memory that they take.
    #[must_use]
    pub fn size(&self) -> (usize, usize, usize) {
        (self.by_name.len(), self.owners.len(), self.memory_bytes)
    }
}

/// The libraries that the server has now.
#[derive(Debug, Default)]
pub struct Functions {
    current: RwLock<Arc<Libraries>>,
    /// What they were when the transaction began that has changed them and has not ended yet.
    before: Mutex<Option<Arc<Libraries>>>,
}

impl Functions {
    /// Those of now.
    #[must_use]
    pub fn current(&self) -> Arc<Libraries> {
        Arc::clone(&self.current.read())
    }

    /// A transaction that has all latches changes them.
    pub fn change(&self, libraries: Libraries) {
        let old = std::mem::replace(&mut *self.current.write(), Arc::new(libraries));
        self.before.lock().get_or_insert(old);
    }

    /// The transaction with all latches is about to be committed.
    pub fn keep(&self) {
        *self.before.lock() = None;
    }

    /// The transaction with all latches is taken back.
    pub fn take_back(&self) {
        if let Some(before) = self.before.lock().take() {
            *self.current.write() = before;
        }
    }

    /// Reads the libraries of the store. To be called while nothing else changes the store.
    ///
    /// # Errors
    /// The store cannot be read, or has an invalid library: its name, and the reason.
    pub fn read(&self, engine: &Engine) -> Result<(), String> {
        let mut libraries = Libraries::default();
        let mut iter = engine.iter(&IterOptions { db: OWN_RECORDS, ..IterOptions::default() });
        iter.seek_to_first().map_err(|error| error.to_string())?;
        while iter.valid() {
            let unusable = |text: &[u8]| {
                let (name, text) = (iter.key().escape_ascii(), String::from_utf8_lossy(text));
                format!("The function library '{name}' of the store cannot be loaded: {text}")
            };
            let library = Library::new(iter.value(), None).map_err(|text| unusable(&text))?;
            let added = libraries.add(Arc::new(library), false);
            added.map_err(|not_added| unusable(&not_added.text()))?;
            iter.next().map_err(|error| error.to_string())?;
        }
        *self.current.write() = Arc::new(libraries);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let register = |f| format!("redis.register_function('{f}', function() end)\n");
        let body: String = functions.iter().map(register).collect();
        Arc::new(
            Library::new(format!("#!lua name={name}\n{body}").as_bytes(), None).expect("loads"),
        )
    }

    #[test]
    fn no_two_libraries_have_a_function_of_one_name() {
        let mut all = Libraries::default();
        assert_eq!(all.add(library("a", &["f", "g"]), false), Ok(()));
        assert_eq!(all.add(library("a", &["f"]), false), Err(NotAdded::NameTaken("a".into())));
        assert_eq!(all.add(library("b", &["F"]), false), Err(NotAdded::FunctionTaken(b"F".into())));
        assert_eq!(all.add(library("a", &["h"]), true), Ok(()));
        assert_eq!(all.add(library("b", &["F"]), false), Ok(()));
        assert_eq!(all.function(b"f").map(|(library, _)| library.name.as_str()), Some("b"));
        assert!(all.function(b"g").is_none() && all.function(b"H").is_some());
        assert!(all.remove("a") && !all.remove("a"));
        assert_eq!((all.size().0, all.size().1), (1, 1));
    }

    #[test]
    fn what_a_transaction_has_changed_is_taken_back_with_it() {
        let functions = Functions::default();
        let with = |name: &str| {
            let mut libraries = Libraries::clone(&functions.current());
            libraries.add(library(name, &[name]), false).expect("added");
            libraries
        };
        functions.change(with("a"));
        functions.keep();
        functions.change(with("b"));
        functions.change(with("c"));
        assert_eq!(functions.current().size().0, 3);
        functions.take_back();
        assert_eq!(functions.current().size().0, 1);
        functions.take_back();
        assert_eq!(functions.current().size().0, 1, "nothing is changed");
    }
}
