//! The log's loader on arbitrary directories: read, cut or refused, never a panic; what it yields has no
//! hole; and what it leaves reads the same a second time, with nothing more to cut.
//!
//! The first byte picks: raw bytes as manifest and segments (divided by 0xff bytes), or a script that makes
//! headers and groups with valid checksums, of which then some bits are turned.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sexton_persistence::aof::{
    ALIGNMENT_BYTES, Annotation, HEADER_BYTES, LogLocation, SegmentHeader, recover,
};
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::SimStorage;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn location() -> LogLocation {
    LogLocation { dir: PathBuf::from("/d"), file_name: "a.aof".to_owned() }
}

fn write(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let file = storage.create(path).expect("simulated storage");
    file.write_all_at(bytes, 0).expect("simulated storage");
}

/// A manifest of `count` segments, behind a base if there is one.
fn manifest(count: usize, base: bool, secret: bool) -> Vec<u8> {
    let mut text = String::new();
    if base {
        text.push_str("#SXB 0000000000000002\nfile a.aof.90.base.rdb seq 90 type b\n");
    }
    for number in 1..=count {
        text.push_str(&format!("file a.aof.{number}.incr.aof seq {number} type i\n"));
    }
    if secret {
        text.push_str(&format!("#SXK {SECRET:016x}\n"));
    }
    text.into_bytes()
}

/// The secret of the log, where its manifest has one.
const SECRET: u64 = 0x5ec;

/// A valid group.
fn group(annotation: &Annotation, commands: &[u8]) -> Vec<u8> {
    let padding = (ALIGNMENT_BYTES - commands.len() % ALIGNMENT_BYTES) % ALIGNMENT_BYTES;
    let mut bytes = vec![0; 2 * ALIGNMENT_BYTES + padding];
    bytes.extend_from_slice(commands);
    annotation.encode(&mut bytes, SECRET);
    bytes
}

/// Small numbers near those that would fit, so that gaps and overlaps are met often.
fn near(fits: u64, byte: u8) -> u64 {
    if byte < 200 { fits } else { (fits + u64::from(byte % 8)).saturating_sub(4) }
}

/// Segments from a script of six bytes a step.
fn segments(script: &[u8]) -> Vec<Vec<u8>> {
    let mut segments: Vec<Vec<u8>> = Vec::new();
    let mut next = 1_u64;
    for step in script.chunks_exact(6) {
        let &[kind, a, b, c, d, e] = step else { continue };
        if kind < 40 || segments.is_empty() {
            let header = SegmentHeader {
                epoch: near(7, a) as u32,
                number: near(segments.len() as u64 + 1, b),
                previous_seq: near(next - 1, c),
                after_seq: near(next - 1, d),
                synced_seq: near(0, e),
                filled_bytes: u64::from(a) << 6,
            };
            segments.push(header.encode().to_vec());
            next = header.after_seq + 1;
            continue;
        }
        let Some(segment) = segments.last_mut() else { continue };
        match kind {
            40..230 => {
                let commands = vec![b'*'; usize::from(a)];
                let annotation = Annotation {
                    epoch: near(7, b) as u32,
                    first_seq: near(next, c),
                    count: u64::from(d % 5),
                    command_bytes: commands.len() as u64,
                    synced_seq: near(0, e).min(next + 9),
                };
                next = annotation.last_seq() + 1;
                segment.extend_from_slice(&group(&annotation, &commands));
            }
            230..245 => {
                let at = usize::from(a) << 8 | usize::from(b);
                if let Some(byte) = segment.get_mut(at) {
                    *byte ^= c;
                }
            }
            _ => {
                let keep = segment.len().saturating_sub(usize::from(a));
                segment.truncate(keep.max(HEADER_BYTES.min(usize::from(b))));
            }
        }
    }
    segments
}

/// Every group above the mark: first sequence, count, commands. `None` when the log is refused.
fn read(storage: &Arc<dyn Storage>, mark: u64) -> Option<(Vec<(u64, u64, Vec<u8>)>, u64)> {
    let mut recovery = match recover(storage, &location(), mark, 0) {
        Ok(recovery) => recovery,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let mut groups = Vec::new();
    loop {
        match recovery.next_group() {
            Ok(Some(group)) => {
                groups.push((group.first_seq, group.count, group.commands.to_vec()));
            }
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return None;
            }
        }
    }
    let tail = recovery.finish().ok()?;
    Some((groups, tail.last_seq))
}

fuzz_target!(|input: &[u8]| {
    let Some((&pick, rest)) = input.split_first() else { return };
    let storage = SimStorage::new();
    storage.create_dir_all(&location().dir).expect("simulated storage");
    if pick & 1 == 0 {
        let mut parts = rest.split(|byte| *byte == 0xff);
        write(&storage, &location().manifest_path(), parts.next().unwrap_or_default());
        for (number, part) in (1..).zip(parts) {
            write(&storage, &location().segment_path(number), part);
        }
    } else {
        let segments = segments(rest);
        write(&storage, &location().manifest_path(), &manifest(segments.len(), pick & 2 != 0, pick & 16 != 0));
        for (number, segment) in (1..).zip(&segments) {
            write(&storage, &location().segment_path(number), segment);
        }
    }
    let mark = u64::from(pick >> 2) % 4;
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let Some((groups, last_seq)) = read(&storage, mark) else { return };
    let mut last = mark;
    for (first_seq, count, _) in &groups {
        assert!(*first_seq > last, "sequences rise");
        last = first_seq + count - 1;
    }
    assert_eq!(last_seq, last.max(mark));
    let again = read(&storage, mark).expect("what was read once is read again");
    assert_eq!(again, (groups, last_seq));
});
