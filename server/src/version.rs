//! The Redis version that the server reports.

/// The Redis version whose behaviour is served; clients switch features by it.
pub const REDIS_VERSION: &str = "7.2.4";

/// [`REDIS_VERSION`] as one number, one byte per component.
pub const REDIS_VERSION_NUMBER: i32 = 0x0007_0204;
