//! Which Redis the server says it is.

/// The Redis version whose behaviour is served; clients switch features by it.
pub const REDIS_VERSION: &str = "7.2.4";
