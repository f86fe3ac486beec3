//! Checks of the repository itself: cited rules are stated, links and paths lead to files, and crates and rooms
//! use only the layers below them.

mod architecture;
mod circles;
mod citations;
mod files;
mod links;
mod pages;
mod path_of_a_set;
