//! How the buffer of an unfinished request grows.

/// Step in which it grows at first, in bytes; later ones double it.
pub(super) const READ_STEP_BYTES: usize = 1 << 20;

/// Least room that is read into, in bytes, while more than that is missing.
const READ_STEP_BYTES_MIN: usize = 16 << 10;

/// The spare bytes that a buffer with `len` of `capacity` bytes needs before it is read into, if an argument lacks
/// `wanted` (0: unknown). It doubles as it fills, regardless of the announced size, but not beyond the argument's end: a
/// large argument takes its size, and not twice that.
pub(super) fn room_to_make(len: usize, capacity: usize, wanted: usize) -> usize {
    let least = if wanted == 0 { READ_STEP_BYTES_MIN } else { wanted.min(READ_STEP_BYTES_MIN) };
    if capacity - len >= least {
        return 0;
    }
    wanted.clamp(least, READ_STEP_BYTES.max(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_doubles_as_it_fills_and_ends_with_the_argument() {
        assert_eq!(room_to_make(0, 0, 0), READ_STEP_BYTES_MIN);
        assert_eq!(room_to_make(100, 100 + READ_STEP_BYTES_MIN, 0), 0);
        let (mut len, mut capacity, whole) = (0, 0, 15 << 17);
        let mut growths = 0;
        while len < whole {
            let room = room_to_make(len, capacity, whole - len);
            growths += usize::from(room > 0);
            capacity = capacity.max(len + room);
            assert!(room <= READ_STEP_BYTES.max(len), "not on an announcement");
            // As much as a socket gives at a time.
            len = capacity.min(len + (64 << 10));
        }
        assert_eq!((capacity, growths), (whole, 2));
        let huge = 500 << 20;
        assert_eq!(room_to_make(64 << 20, 64 << 20, huge - (64 << 20)), 64 << 20);
    }
}
