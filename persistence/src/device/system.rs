//! System calls for which the standard library has no name.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Reserves space behind or within a file without changing its length. `Unsupported` when the
/// file system cannot.
pub(super) fn allocate_keeping_size(file: &File, offset: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let convert = |value: u64| {
            libc::off_t::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let (offset, len) = (convert(offset)?, convert(len)?);
        loop {
            // SAFETY: the descriptor is open for the whole call because `file` is borrowed, and
            // the call reads and writes no memory of ours.
            let result = unsafe {
                libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, len)
            };
            if result == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                _ => return Err(error),
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file.as_raw_fd(), offset, len);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Has the kernel begin to write cached pages of a range to the device. Nothing where there is no such
/// call.
pub(super) fn start_writeback(file: &File, offset: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let convert = |value: u64| {
            libc::off64_t::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        };
        let (offset, len) = (convert(offset)?, convert(len)?);
        // SAFETY: the descriptor is open for the whole call because `file` is borrowed, and the call
        // reads and writes no memory of ours.
        let result = unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, offset, len);
        Ok(())
    }
}
