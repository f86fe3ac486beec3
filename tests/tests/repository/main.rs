//! The repository holds itself to its word: rules that are cited are stated, links and paths lead somewhere, and
//! crates and rooms use only what lies below them.

mod architecture;
mod circles;
mod citations;
mod files;
mod links;
mod pages;
mod path_of_a_set;
