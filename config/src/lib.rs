//! Configuration of Sexton: the redis.conf syntax, every directive of Redis 7.0 plus our own,
//! the command line, and the typed options that the other crates read.
//!
//! A directive is one row of the [`table`]: name, [`kind::Kind`], default, mutability, and whether
//! it takes effect, is only reported, or is refused. [`Config`] holds one [`value::Value`] per row;
//! [`Options`] is the typed view of it. This crate reads and rewrites configuration files and asks the
//! kernel for the size of memory. It does no other I/O: it neither changes the working directory nor
//! opens sockets or logs.
//! ```
//! use sexton_config::{Config, SetBy};
//!
//! let mut config = Config::from_text(b"port 7000\nmaxmemory 100mb\n").unwrap();
//! assert_eq!(config.options().port, 7000);
//! config.set_many(&[(b"hz", b"20")], SetBy::default()).unwrap();
//! assert_eq!(config.get(&[b"h?"]), [(b"hz".to_vec(), b"20".to_vec())]);
//! ```

#![deny(unsafe_code)]

pub mod arguments;
pub mod choice;
mod config;
pub mod device;
pub mod directive;
mod error;
mod include;
pub mod kind;
pub mod level_device;
mod load;
pub mod machine;
mod options;
pub mod profile;
mod rewrite;
mod set;
pub mod size_route;
pub mod syntax;
pub mod table;
mod tls;
pub mod value;

pub use arguments::{Arguments, Invocation};
pub use config::Config;
pub use error::{ConfigError, RewriteError, SetError};
pub use load::{ExtraLine, system_text};
pub use options::Options;
pub use rewrite::replace_file;
pub use set::{SetBy, SetDone};
pub use tls::TlsOptions;
