//! System calls for which the standard library has no name.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

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
    return sync_range(file, offset, len, libc::SYNC_FILE_RANGE_WRITE);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, offset, len);
        Ok(())
    }
}

/// Waits until cached pages of a range have been written to the device, which may still hold them in a
/// cache of its own.
pub(super) fn finish_writeback(file: &File, offset: u64, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return sync_range(
        file,
        offset,
        len,
        libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER,
    );
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, offset, len);
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn sync_range(file: &File, offset: u64, len: u64, flags: libc::c_uint) -> io::Result<()> {
    let convert = |value: u64| {
        libc::off64_t::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let (offset, len) = (convert(offset)?, convert(len)?);
    // SAFETY: the descriptor is open for the whole call because `file` is borrowed, and the call
    // reads and writes no memory of ours.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel read a range into its cache. A wish: it may be ignored.
pub(super) fn will_need(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    if let (Ok(offset), Ok(len)) = (libc::off_t::try_from(offset), libc::off_t::try_from(len)) {
        // SAFETY: the descriptor is open for the whole call because `file` is borrowed, and the
        // call reads and writes no memory of ours.
        unsafe {
            libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_WILLNEED);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

/// True of a directory on a file system that is nothing but memory (tmpfs, ramfs): a sync makes nothing durable
/// there, and what is written ends with the machine's power. False where that cannot be told.
#[must_use]
pub fn is_in_memory(dir: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        const RAMFS_MAGIC: u64 = 0x8584_58f6;
        let Ok(dir) = File::open(dir) else { return false };
        let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the descriptor is open for the whole call, and `found` has room for the answer.
        if unsafe { libc::fstatfs(dir.as_raw_fd(), found.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: the call has succeeded, so it has written the answer.
        let kind = unsafe { found.assume_init() }.f_type;
        kind == libc::TMPFS_MAGIC || u64::try_from(kind) == Ok(RAMFS_MAGIC)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        false
    }
}
