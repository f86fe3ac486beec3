//! The tree as a whole: edits, recovery, and compactions against a model.
