//! The data as an RDB file: SAVE, BGSAVE and save points write one from a snapshot of the engine; a start
//! may load one.
//!
//! There is no fork: a thread walks the snapshot in key order while clients continue to write. One save runs
//! at a time. The file gets its name only once it is complete and durable: temporary file,
//! sync, rename, sync of the directory.

mod image;
mod load;
mod save;
mod saver;
#[cfg(test)]
mod tests;

pub(crate) use image::{Image, Parts};
pub use load::{Counts, Loader, load_file, merge_file};
pub use save::{SaveError, save, save_before_exit};
pub(crate) use save::{remove_temporary_files, write_base, writer_options};
pub use saver::run_saver;
pub(crate) use saver::{look_at_save_points, start_wanted_save};
