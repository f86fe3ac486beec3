//! The limit of open files.
#![allow(unsafe_code)]

use std::io;

/// Descriptors the server keeps for itself.
const RESERVED_DESCRIPTORS: u64 = 128;

/// The number of clients, up to `wanted`, that the limit of open files allows, which is raised as far as possible.
///
/// # Errors
/// The limit cannot be read.
pub fn clients_possible(wanted: u64) -> io::Result<u64> {
    let allowed = raise_descriptor_limit(wanted + RESERVED_DESCRIPTORS)?;
    Ok(allowed.saturating_sub(RESERVED_DESCRIPTORS).min(wanted))
}

/// Raises the soft limit to `wanted` if the hard limit allows it, and returns the effective limit.
///
/// # Errors
/// The limit cannot be read.
fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur >= wanted {
        return Ok(limit.rlim_cur);
    }
    let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), rlim_max: limit.rlim_max };
    // SAFETY: `raised` is a valid limit, read and not kept by the call.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0;
    Ok(if done { raised.rlim_cur } else { limit.rlim_cur })
}
