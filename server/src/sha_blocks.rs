//! What SHA-1 and SHA-256 share: a message as padded blocks of 64 bytes (FIPS 180-4, 5.1.1).

/// Calls `compress` with every block of `data`, the padding included.
pub(crate) fn for_each(data: &[u8], mut compress: impl FnMut(&[u8])) {
    let mut chunks = data.chunks_exact(64);
    for chunk in &mut chunks {
        compress(chunk);
    }
    // The rest, a one bit, zeros, and the length in bits: one block or two.
    let rest = chunks.remainder();
    let mut tail = [0; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    tail[end - 8..end].copy_from_slice(&(data.len() as u64 * 8).to_be_bytes());
    for chunk in tail[..end].chunks_exact(64) {
        compress(chunk);
    }
}
