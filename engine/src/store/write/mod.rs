//! A write: the state that writers share, how fast they may be, and a put that commits by itself. Transactions with
//! their commit are in `tx`.

pub(in crate::store) mod commit;
pub(in crate::store) mod left_out;
pub(in crate::store) mod pace;
pub(in crate::store) mod single_put;
pub(in crate::store) mod write_path;
