//! How the buffer of an unfinished request grows.

/// Bytes that it grows by, until so many are there.
pub(super) const READ_STEP_BYTES: usize = 1 << 20;

/// Least room that is read into, in bytes, while more than that is missing.
const READ_STEP_BYTES_MIN: usize = 16 << 10;

/// The spare bytes that a buffer with `len` of `capacity` bytes needs before it is read into, if an argument lacks
/// `wanted` (0: unknown). An announcement alone gets a step; whoever has sent one gets room for all of the argument, since a buffer that
/// doubled again and again would copy what is there, for tens of milliseconds once it is large. Memory that nothing was written to costs none.
pub(super) fn room_to_make(len: usize, capacity: usize, wanted: usize) -> usize {
    let least = if wanted == 0 { READ_STEP_BYTES_MIN } else { wanted.min(READ_STEP_BYTES_MIN) };
    if capacity - len >= least {
        return 0;
    }
    wanted.clamp(least, if len < READ_STEP_BYTES { READ_STEP_BYTES } else { usize::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_to_the_argument_once_some_of_it_has_come() {
        assert_eq!(room_to_make(0, 0, 0), READ_STEP_BYTES_MIN);
        assert_eq!(room_to_make(100, 100 + READ_STEP_BYTES_MIN, 0), 0);
        let (mut len, mut capacity, whole) = (0, 0, 15 << 17);
        let mut growths = 0;
        while len < whole {
            let room = room_to_make(len, capacity, whole - len);
            growths += usize::from(room > 0);
            capacity = capacity.max(len + room);
            assert!(room <= READ_STEP_BYTES || len >= READ_STEP_BYTES, "not on an announcement");
            // As much as a socket gives at a time.
            len = capacity.min(len + (64 << 10));
        }
        assert_eq!((capacity, growths), (whole, 2));
        let huge = 500 << 20;
        assert_eq!(room_to_make(1 << 20, 1 << 20, huge - (1 << 20)), huge - (1 << 20));
    }
}
