//! The RDB format: files, and DUMP payloads.
//!
//! Reads everything that Redis 2.x to 8.10 and Valkey 9 write, except for a few types unknown to all releases
//! of Redis up to 7.4, which are refused by name. Writes the plain types that every
//! version reads, under the lowest version number that the content needs; strings byte for byte as
//! Redis 7.0 writes them, LZF included.
//!
//! A reader holds one value at a time. Every length is checked against the remaining bytes
//! before anything is allocated, and decoded data stays in proportion to its bytes in the file.
//!
//! ```text
//! REDIS0009 | aux... | select db, resize db, keys... | ... | end | CRC-64
//! key: [expiry] [idle time or frequency] type, key, value
//! ```

mod dump;
mod element;
mod encode;
mod error;
mod input;
mod length;
pub mod lzf;
mod module;
mod packed;
mod reader;
mod stream;
mod string;
mod strings;
mod value;
mod worth;
mod writer;

pub use dump::{check_payload, dump, dump_functions, read_functions, read_payload, with_checksum};
pub use element::{CollectionKind, Element};
pub use error::RdbError;
pub use input::Input;
pub use length::{Length, read_count, read_length, write_length};
pub use reader::{KeyRecord, Reader, Record, is_rdb};
pub use stream::{Consumer, Group, Pending, Stream, StreamEntry, StreamId};
pub use string::{StringOptions, read_string, write_string};
pub use strings::Strings;
pub use value::{Dialect, Value, read_value};
pub use writer::{Writer, WriterOptions};

/// Version under which DUMP payloads are written, unless the value needs a higher one: that of Redis 7.0.
pub const DUMP_VERSION: u16 = 10;

/// Newest version of Redis' own numbering that RESTORE takes.
pub const DUMP_VERSION_MAX: u16 = 12;

/// Version of files and payloads with hashes whose fields expire: that of Valkey 9.0, by its own numbering.
pub const FIELD_TIMES_VERSION: u16 = 80;

/// Lowest version of files with function libraries: that of Redis 7.0.
pub(crate) const FUNCTION_VERSION: u16 = 10;

/// Lowest version of files that is written: that of Redis 5.0 to 6.2, which all newer servers read.
pub const FILE_VERSION: u16 = 9;
