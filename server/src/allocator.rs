//! The allocator and its settings, for the server's binary.
#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc reads its settings through a symbol of this name. There are few arenas, and unused pages are returned
/// to the system after a second, without waiting for a next allocation: `maxmemory` bounds the
/// resident set, so unused memory must not stay in it.
// SAFETY: the symbol is jemalloc's `const char *malloc_conf`: a thin pointer to a text that ends
// with a zero byte and lives for ever.
#[used]
#[unsafe(export_name = "malloc_conf")]
static SETTINGS: &[u8; 70] =
    b"narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true\0";
