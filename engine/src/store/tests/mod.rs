//! Tests of the store: against a plain map, through crashes and faults, on damaged files.

mod bursts;
mod bytes;
mod checkpoint;
mod crash;
mod crash_matrix;
mod damage;
mod databases;
mod dead_runs;
mod deadline;
mod due;
mod emptied;
mod faults;
mod harness;
mod histories;
mod memory;
mod pacing;
mod paper;
mod places;
mod policy;
mod pool;
mod reads;
mod rest;
mod shared_values;
mod snapshots;
mod spill;
mod threads;
