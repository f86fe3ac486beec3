//! The annotation that leads a group, the header that leads a segment, and the filler line.
//!
//! All three are comment lines to Redis. `FORMAT.md` draws the bytes.

use crate::checksum::crc32c;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Groups, headers and filler lines start and end at multiples of this many bytes.
pub const ALIGNMENT_BYTES: usize = 64;
/// Shortest annotation; the padding of the group makes it up to 63 bytes longer.
pub(super) const ANNOTATION_MIN_BYTES: usize = 128;
/// Length of the header at the start of a segment.
pub const HEADER_BYTES: usize = 128;
/// What a prepared segment is filled with: a line that Redis skips.
pub const FILLER: [u8; ALIGNMENT_BYTES] = {
    let mut line = [b' '; ALIGNMENT_BYTES];
    line[0] = b'#';
    line[ALIGNMENT_BYTES - 1] = b'\n';
    line
};

pub(super) const GROUP_TAG: &[u8; 5] = b"#SX2 ";
/// Groups of before there was a proof.
const GROUP_TAG_1: &[u8; 5] = b"#SX1 ";
const HEADER_TAG: &[u8; 5] = b"#SXH ";
/// Offset of the checksum in both kinds of line: tag, epoch, four numbers, each with a blank.
const CRC_AT: usize = 5 + 9 + 4 * 17;
const FIELDS_END: usize = CRC_AT + 8;
/// Offset of a group's proof, and of a header's `filled`, behind a blank.
const EXTRA_AT: usize = FIELDS_END + 1;
const EXTRA_END: usize = EXTRA_AT + 16;

/// The facts of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// Incarnation of the log that wrote the group (N8).
    pub epoch: u32,
    /// First sequence of the group.
    pub first_seq: u64,
    /// How many sequences the group holds.
    pub count: u64,
    /// Length of the commands behind the annotation.
    pub command_bytes: u64,
    /// What was durable when the group was written.
    pub synced_seq: u64,
}

/// The facts of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Incarnation of the log that wrote the segment.
    pub epoch: u32,
    /// Number of the segment, as in its file name: a file under a wrong name is not taken.
    pub number: u64,
    /// The last sequence logged before this segment, so that a lost tail shows.
    pub previous_seq: u64,
    /// The segment holds sequences above this one only; a gap from `previous_seq` was never
    /// logged (sequences skipped at start, or covered by a flush after a failure).
    pub after_seq: u64,
    /// What was durable when the header was written.
    pub synced_seq: u64,
    /// Length of the file when the header was written, which a server that appends begins behind; 0 when the
    /// header does not say.
    pub filled_bytes: u64,
}

/// Length of the annotation of a group with `command_bytes` bytes of commands.
pub(super) fn annotation_bytes(command_bytes: usize) -> usize {
    ANNOTATION_MIN_BYTES + (ALIGNMENT_BYTES - command_bytes % ALIGNMENT_BYTES) % ALIGNMENT_BYTES
}

impl Annotation {
    /// Writes the annotation in front of the commands. `group` is the annotation's room, of
    /// `annotation_bytes`, followed by the commands. `secret` is the log's own: what clients write cannot know it.
    pub fn encode(&self, group: &mut [u8], secret: u64) {
        let length = annotation_bytes(self.command_bytes as usize);
        debug_assert_eq!(group.len() as u64, length as u64 + self.command_bytes);
        write_line(
            &mut group[..length],
            GROUP_TAG,
            self.epoch,
            [self.first_seq, self.count, self.command_bytes, self.synced_seq],
        );
        group[EXTRA_AT..EXTRA_END].fill(b'0');
        let crc = crc32c(group);
        write_hex(&mut group[CRC_AT..FIELDS_END], u64::from(crc));
        let proof = xxh3_64_with_seed(&group[..FIELDS_END], secret);
        write_hex(&mut group[EXTRA_AT..EXTRA_END], proof);
    }

    /// Whether the line was written with knowledge of the log's secret. Only a proven line says what was
    /// durable: any other may be a piece of a value.
    #[must_use]
    pub fn is_proven(line: &[u8], secret: u64) -> bool {
        line.starts_with(GROUP_TAG)
            && line.get(EXTRA_AT..EXTRA_END).and_then(read_hex)
                == Some(xxh3_64_with_seed(&line[..FIELDS_END], secret))
    }

    /// Reads the fields from the first `ANNOTATION_MIN_BYTES` of a group; nothing is verified
    /// but the form. `None` when this is no annotation.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let (epoch, [first_seq, count, command_bytes, synced_seq]) =
            read_line(line, GROUP_TAG).or_else(|| read_line(line, GROUP_TAG_1))?;
        Some(Self { epoch, first_seq, count, command_bytes, synced_seq })
    }

    /// Length of the whole group, `None` when it cannot be represented.
    #[must_use]
    pub fn group_bytes(&self) -> Option<u64> {
        let commands = usize::try_from(self.command_bytes).ok()?;
        self.command_bytes.checked_add(annotation_bytes(commands) as u64)
    }

    /// The last sequence of the group; for an empty group the one before its first.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.first_seq.saturating_add(self.count).saturating_sub(1)
    }

    /// True when the checksum of the whole group holds. Clobbers and restores nothing: checksum and proof
    /// are left zeroed in `group`.
    #[must_use]
    pub fn verify(group: &mut [u8]) -> bool {
        if group.starts_with(GROUP_TAG) {
            group[EXTRA_AT..EXTRA_END].fill(b'0');
        }
        verify_line(group)
    }
}

impl SegmentHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut line = [0; HEADER_BYTES];
        let numbers = [self.number, self.previous_seq, self.after_seq, self.synced_seq];
        write_line(&mut line, HEADER_TAG, self.epoch, numbers);
        if self.filled_bytes > 0 {
            write_hex(&mut line[EXTRA_AT..EXTRA_END], self.filled_bytes);
        }
        let crc = crc32c(&line);
        write_hex(&mut line[CRC_AT..FIELDS_END], u64::from(crc));
        line
    }

    /// Reads and verifies a header.
    #[must_use]
    pub fn decode(line: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (epoch, [number, previous_seq, after_seq, synced_seq]) = read_line(line, HEADER_TAG)?;
        verify_line(&mut line.clone()).then_some(Self {
            epoch,
            number,
            previous_seq,
            after_seq,
            synced_seq,
            // Blank in headers of before there was the field.
            filled_bytes: read_hex(&line[EXTRA_AT..EXTRA_END]).unwrap_or(0),
        })
    }
}

/// Writes tag, numbers, a zeroed checksum, blanks and the end of the line.
fn write_line(line: &mut [u8], tag: &[u8; 5], epoch: u32, numbers: [u64; 4]) {
    let end = line.len();
    line.fill(b' ');
    line[..5].copy_from_slice(tag);
    write_hex(&mut line[5..13], u64::from(epoch));
    for (i, number) in numbers.into_iter().enumerate() {
        let at = 14 + i * 17;
        write_hex(&mut line[at..at + 16], number);
    }
    line[CRC_AT..FIELDS_END].fill(b'0');
    line[end - 2..].copy_from_slice(b"\r\n");
}

fn read_line(line: &[u8], tag: &[u8; 5]) -> Option<(u32, [u64; 4])> {
    if line.len() < FIELDS_END || &line[..5] != tag {
        return None;
    }
    let epoch = u32::try_from(read_hex(&line[5..13])?).ok()?;
    let mut numbers = [0; 4];
    for (i, number) in numbers.iter_mut().enumerate() {
        let at = 14 + i * 17;
        *number = read_hex(&line[at..at + 16])?;
    }
    Some((epoch, numbers))
}

fn verify_line(bytes: &mut [u8]) -> bool {
    let Some(expected) = read_hex(&bytes[CRC_AT..FIELDS_END]) else { return false };
    bytes[CRC_AT..FIELDS_END].fill(b'0');
    u64::from(crc32c(bytes)) == expected
}

pub(super) fn write_hex(field: &mut [u8], mut value: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

pub(super) fn read_hex(field: &[u8]) -> Option<u64> {
    field.iter().try_fold(0_u64, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: u64 = 0x0123_4567_89ab_cdef;

    fn group_of(commands: &[u8]) -> (Annotation, Vec<u8>) {
        let annotation = Annotation {
            epoch: 7,
            first_seq: 0x1234_5678_9abc,
            count: 3,
            command_bytes: commands.len() as u64,
            synced_seq: u64::MAX,
        };
        let mut group = vec![0; annotation_bytes(commands.len())];
        group.extend_from_slice(commands);
        annotation.encode(&mut group, SECRET);
        (annotation, group)
    }

    #[test]
    fn groups_are_aligned_comment_lines_of_any_length() {
        for length in 0..200 {
            let (annotation, mut group) = group_of(&vec![b'x'; length]);
            assert_eq!(group.len() % ALIGNMENT_BYTES, 0);
            assert_eq!(annotation.group_bytes(), Some(group.len() as u64));
            let line_end = group.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            assert_eq!(line_end, Some(annotation_bytes(length)));
            assert!(annotation_bytes(length) <= 256, "Redis' limit is 1023, ours 256");
            assert_eq!(Annotation::parse(&group), Some(annotation));
            assert!(Annotation::is_proven(&group, SECRET));
            assert!(!Annotation::is_proven(&group, SECRET + 1), "nobody else's word");
            assert!(Annotation::verify(&mut group));
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let (annotation, group) = group_of(b"*1\r\n$4\r\nPING\r\n");
        for bit in 0..group.len() * 8 {
            let mut flipped = group.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let same_fields = Annotation::parse(&flipped) == Some(annotation);
            let is_proof = (EXTRA_AT..EXTRA_END).contains(&(bit / 8));
            let in_line = bit / 8 < FIELDS_END || is_proof;
            assert!(!in_line || !Annotation::is_proven(&flipped, SECRET), "bit {bit}");
            assert!(is_proof || !same_fields || !Annotation::verify(&mut flipped), "bit {bit}");
        }
    }

    #[test]
    fn headers_survive_a_round_trip_and_no_flipped_bit() {
        let header = SegmentHeader {
            epoch: u32::MAX,
            number: 9,
            previous_seq: 41,
            after_seq: 1_000_041,
            synced_seq: 40,
            filled_bytes: 64 << 20,
        };
        let line = header.encode();
        assert_eq!(SegmentHeader::decode(&line), Some(header));
        assert!(line.ends_with(b"\r\n"));
        for bit in 0..line.len() * 8 {
            let mut flipped = line;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&flipped), None, "bit {bit}");
        }
    }
}
