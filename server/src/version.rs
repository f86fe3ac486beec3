//! Which Redis the server says it is.

/// The Redis version whose behaviour is served; clients switch features by it.
pub const REDIS_VERSION: &str = "7.2.4";

/// The same as one number: a byte for each of its parts.
pub const REDIS_VERSION_NUMBER: i32 = 0x0007_0204;
