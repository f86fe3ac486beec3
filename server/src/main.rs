//! `sexton-server`: reads the configuration, opens the store, serves.

fn main() {}
