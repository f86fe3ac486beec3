//! A model of the store's rules, run by random histories.
//!
//! [`World`] is the store reduced to what the rules talk about: log, memtables, files, undo runs,
//! cemetery, manifest, readers. All data structures are plain vectors; what matters is the order of the steps
//! and what each step may read. [`Spec`] is the plain record of the operations. A history
//! ([`history`]) is a seeded sequence of steps. Model and record are compared after each read, after each reply
//! to a write, and after each crash.
//!
//! The rules (P, X, G, C, F, D, E and the decisions N of docs/rules.md) are switches ([`Rule`]). With
//! all of them on, no history may violate the specification. With any single one off, some history must:
//! a switch that is never caught would show that the model lacks the behaviour that the rule governs.
//!
//! The model leaves out: threads inside one step (latches make the steps atomic), counts (N9),
//! expiry index records (N11), keys named by the manifest (N17), a manifest that is written but not synced (D4), and
//! the bytes of any format.

pub mod history;
mod keys;
mod random;
mod rules;
mod spec;
mod store;
mod world;

pub use keys::{COLLECTION, KEYS, Key};
pub use random::Random;
pub use rules::{Rule, Rules};
pub use spec::{Effect, Seq, Spec};
pub use store::OPEN;
pub use world::{Command, Options, Violation, World};
