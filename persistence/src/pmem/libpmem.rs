//! libpmem (PMDK), loaded when a pool on mapped files is opened: without it everything else works.
//!
//! Loaded by `dlopen` of the C library rather than through a crate: seven symbols of one library do not justify a
//! dependency.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use super::error::{PmemError, PmemResult};

/// Name that the dynamic linker looks for.
const LIBRARY: &CStr = c"libpmem.so.1";

const FILE_CREATE: c_int = 1;
const FILE_EXCL: c_int = 2;
/// `PMEM_F_MEM_NODRAIN | PMEM_F_MEM_NONTEMPORAL`.
const NODRAIN_NONTEMPORAL: c_uint = 1 | 2;

type MapFile = unsafe extern "C" fn(
    *const c_char,
    usize,
    c_int,
    libc::mode_t,
    *mut usize,
    *mut c_int,
) -> *mut c_void;
type Unmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type Memcpy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void;
type Memset = unsafe extern "C" fn(*mut c_void, c_int, usize, c_uint) -> *mut c_void;
type Drain = unsafe extern "C" fn();
type Msync = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type ErrorMessage = unsafe extern "C" fn() -> *const c_char;

/// The functions of the library.
#[derive(Debug)]
pub(super) struct Libpmem {
    map_file: MapFile,
    unmap: Unmap,
    memcpy: Memcpy,
    memset: Memset,
    drain: Drain,
    msync: Msync,
    error_message: ErrorMessage,
}

/// A mapping made by the library.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) address: *mut u8,
    pub(super) len: usize,
    /// What the library found (MAP_SYNC), or was told by `PMEM_IS_PMEM_FORCE`.
    pub(super) is_pmem: bool,
}

impl Libpmem {
    /// The library, loaded once a process.
    pub(super) fn load() -> PmemResult<&'static Self> {
        static LOADED: OnceLock<Result<Libpmem, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| Self::load_from(LIBRARY));
        loaded.as_ref().map_err(|message| PmemError::Library { message: message.clone() })
    }

    fn load_from(name: &CStr) -> Result<Self, String> {
        // SAFETY: a string with a terminator. The library's initialisers only look at the processor and the
        // environment. It is never unloaded, so the symbols stay good.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(linker_error());
        }
        Ok(Self {
            // SAFETY: its type in libpmem.h of version 1.
            map_file: unsafe { function::<MapFile>(handle, c"pmem_map_file")? },
            // SAFETY: its type in libpmem.h of version 1.
            unmap: unsafe { function::<Unmap>(handle, c"pmem_unmap")? },
            // SAFETY: its type in libpmem.h of version 1.
            memcpy: unsafe { function::<Memcpy>(handle, c"pmem_memcpy")? },
            // SAFETY: its type in libpmem.h of version 1.
            memset: unsafe { function::<Memset>(handle, c"pmem_memset")? },
            // SAFETY: its type in libpmem.h of version 1.
            drain: unsafe { function::<Drain>(handle, c"pmem_drain")? },
            // SAFETY: its type in libpmem.h of version 1.
            msync: unsafe { function::<Msync>(handle, c"pmem_msync")? },
            // SAFETY: its type in libpmem.h of version 1.
            error_message: unsafe { function::<ErrorMessage>(handle, c"pmem_errormsg")? },
        })
    }

    /// Makes a file of `len` bytes, allocated and zero, and maps it; there must be none of that name.
    pub(super) fn create(&self, path: &Path, len: usize) -> io::Result<Mapping> {
        self.map(path, len, FILE_CREATE | FILE_EXCL)
    }

    /// Maps all of a file that is there.
    pub(super) fn open(&self, path: &Path) -> io::Result<Mapping> {
        self.map(path, 0, 0)
    }

    fn map(&self, path: &Path, len: usize, flags: c_int) -> io::Result<Mapping> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let (mut mapped, mut is_pmem) = (0, 0);
        // SAFETY: a string with a terminator, and two places to write to that outlive the call.
        let address = unsafe {
            (self.map_file)(path.as_ptr(), len, flags, 0o600, &raw mut mapped, &raw mut is_pmem)
        };
        if address.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: the library's message for this thread, a string that lives until its next call.
            let message = unsafe { CStr::from_ptr((self.error_message)()) };
            return Err(io::Error::new(error.kind(), message.to_string_lossy().into_owned()));
        }
        Ok(Mapping { address: address.cast(), len: mapped, is_pmem: is_pmem != 0 })
    }

    /// Ends a mapping.
    ///
    /// # Safety
    ///
    /// Nobody uses its memory any more.
    pub(super) unsafe fn unmap(&self, mapping: &Mapping) {
        // SAFETY: a mapping of this library; it only fails for one that is not.
        unsafe { (self.unmap)(mapping.address.cast(), mapping.len) };
    }

    /// Copies past the caches, without a fence (`pmem_memcpy_nodrain`, told not to choose cached stores for
    /// short copies).
    ///
    /// # Safety
    ///
    /// `to` is mapped for as many bytes as `from` has, and nobody else uses them.
    pub(super) unsafe fn copy(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            (self.memcpy)(to.cast(), from.as_ptr().cast(), from.len(), NODRAIN_NONTEMPORAL);
        }
    }

    /// Fills with zeros past the caches, without a fence.
    ///
    /// # Safety
    ///
    /// As of [`copy`](Self::copy), for `len` bytes.
    pub(super) unsafe fn zero(&self, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.memset)(to.cast(), 0, len, NODRAIN_NONTEMPORAL) };
    }

    /// Store fence: what this thread has copied is durable when it returns.
    pub(super) fn drain(&self) {
        // SAFETY: no arguments, no effect but on the order of stores.
        unsafe { (self.drain)() };
    }

    /// `msync` of the pages that the range touches.
    ///
    /// # Safety
    ///
    /// The range is mapped.
    pub(super) unsafe fn msync(&self, at: *const u8, len: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let result = unsafe { (self.msync)(at.cast(), len) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// A function of an open library.
///
/// # Safety
///
/// `F` is a pointer to a function of the type that `name` has in the library.
unsafe fn function<F: Copy>(handle: *mut c_void, name: &CStr) -> Result<F, String> {
    // SAFETY: an open handle and a string with a terminator.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() {
        return Err(linker_error());
    }
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: of the size of a pointer, and by the caller's promise of the right type.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// Why the last call of the dynamic linker failed.
fn linker_error() -> String {
    // SAFETY: the linker's message for this thread, null or a string that lives until its next call.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "unknown error of the dynamic linker".to_owned();
    }
    // SAFETY: not null, see above.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_and_a_missing_function_are_named() {
        let error = Libpmem::load_from(c"libsexton-has-none.so.1").expect_err("no such library");
        assert!(error.contains("libsexton-has-none.so.1"), "{error}");
        let text = PmemError::Library { message: error }.to_string();
        assert!(text.contains("libpmem1"), "{text}");
        let error = Libpmem::load_from(c"libc.so.6").expect_err("another library");
        assert!(error.contains("pmem_map_file"), "{error}");
    }
}
