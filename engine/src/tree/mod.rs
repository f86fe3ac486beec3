//! The tree: levels of tables, how they change, and how versions are looked up and merged.

mod source;

pub use source::Source;
