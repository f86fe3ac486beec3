//! Commands that a redis-server has appended: refused, never cut off, never taken for a torn tail.

use super::*;
use crate::aof::has_foreign_writes;
use crate::device::File;

/// Three commits; the next segment is made ahead, filled for `always`.
fn log(policy: SyncPolicy) -> (SimStorage, Rig) {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(policy), &tail, 0);
    for seq in 1..=3 {
        rig.append(&Commit::new(seq, 1, 0, 40));
        rig.core.write_batch().expect("writes");
    }
    rig.core.sync().expect("syncs");
    (storage, rig)
}

fn open(storage: &SimStorage, number: u64) -> Arc<dyn File> {
    storage.open(&location().segment_path(number)).expect("a segment")
}

fn append(storage: &SimStorage, number: u64, bytes: &[u8]) -> u64 {
    let file = open(storage, number);
    let end = file.len().expect("a length");
    file.write_all_at(bytes, end).expect("a write");
    end
}

/// What a redis-server that was started on the log writes first.
fn of_redis() -> Vec<u8> {
    let select = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n".to_vec();
    [select, Commit::new(9, 2, 0, 700).bytes].concat()
}

fn foreign(storage: &SimStorage) -> Option<(PathBuf, u64)> {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let has = has_foreign_writes(&shared, &location()).expect("it can be told");
    match read_all(storage, 0, 0) {
        Err(LogError::ForeignWrites { file, offset, manifest }) => {
            assert!(has);
            assert_eq!(manifest, location().manifest_path());
            Some((file, offset))
        }
        Ok(_) => {
            assert!(!has);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn commands_behind_the_log_are_refused_wherever_a_redis_puts_them() {
    for policy in [SyncPolicy::No, SyncPolicy::Always] {
        for prepared in [false, true] {
            for prefix in [&b""[..], b"#TS:1700000000\r\n", b"*1\r\n$5\r\nMULTI\r\n"] {
                for torn_bytes in [0, 1, 300] {
                    let (storage, rig) = log(policy);
                    if prepared {
                        rig.core.segments.prepare(policy).expect("prepares");
                    }
                    let mut bytes = [prefix, &of_redis()].concat();
                    bytes.truncate(bytes.len() - torn_bytes);
                    let last = if prepared { 2 } else { 1 };
                    let offset = append(&storage, last, &bytes);
                    let expected = (location().segment_path(last), offset);
                    assert_eq!(
                        foreign(&storage),
                        Some(expected),
                        "{policy:?}, prepared: {prepared}, {torn_bytes} torn"
                    );
                    // Nothing was cut: the next start says the same.
                    assert_eq!(
                        open(&storage, last).len().expect("a length"),
                        offset + bytes.len() as u64
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_appended_is_given_up_only_when_told() {
    let (storage, _) = log(SyncPolicy::No);
    let end = append(&storage, 1, &of_redis());
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut recovery = recover(&shared, &location(), 0, 0).expect("a log");
    recovery.accept_loss();
    let cut = recovery.finish_and_empty().expect("cut").expect("something to cut");
    assert_eq!(cut.offset, end);
    let (commands, _) = read_all(&storage, 0, 0).expect("a whole log");
    assert_eq!(commands.len(), 3);
}

#[test]
fn a_redis_that_has_cut_our_torn_group_is_noticed() {
    let (storage, rig) = log(SyncPolicy::No);
    let end = open(&storage, 1).len().expect("a length");
    // Two commands in one group, of which the second is torn.
    rig.append(&Commit::new(4, 2, 0, 300));
    rig.core.write_batch().expect("writes");
    let file = open(&storage, 1);
    let mut group = vec![0; (file.len().expect("a length") - end) as usize];
    file.read_exact_at(&mut group, end).expect("reads");
    let second = group.windows(4).rposition(|bytes| bytes == b"*3\r\n").expect("a second command");
    file.set_len(end + second as u64 + 20).expect("cuts");
    assert_eq!(foreign(&storage), None, "our own torn tail");

    let (storage, rig) = log(SyncPolicy::No);
    rig.append(&Commit::new(4, 2, 0, 300));
    rig.core.write_batch().expect("writes");
    open(&storage, 1).set_len(end + second as u64).expect("cuts");
    let at = append(&storage, 1, &of_redis());
    assert_eq!(foreign(&storage), Some((location().segment_path(1), at)));
}

#[test]
fn a_group_that_has_lost_its_annotation_is_no_foreign_write() {
    let (storage, rig) = log(SyncPolicy::Always);
    rig.append(&Commit::new(4, 1, 0, 800));
    rig.core.write_batch().expect("writes");
    let file = open(&storage, 1);
    let bytes = storage.read(&location().segment_path(1)).expect("reads");
    let last = bytes.windows(5).rposition(|bytes| bytes == b"#SX2 ");
    let end = last.expect("a group") as u64;
    let filler = crate::aof::FILLER.repeat(2);
    file.write_all_at(&filler, end).expect("the sector that did not arrive");
    let (commands, tail) = read_all(&storage, 0, 0).expect("a torn tail");
    assert_eq!(commands.len(), 3);
    assert_eq!(tail.cut.expect("a cut").offset, end);
}

/// Regression: what a client has written behind an annotation that did not arrive was taken for commands of
/// another server.
#[test]
fn no_piece_of_a_value_is_a_foreign_write() {
    let (storage, rig) = log(SyncPolicy::Always);
    rig.core.segments.prepare(SyncPolicy::Always).expect("prepares");
    let before = open(&storage, 2).len().expect("a length");
    let command = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$1\r\n1\r\n*1\r\n$4\r\nPING\r\n".repeat(200);
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n".to_vec();
    let bytes = [head, format!("${}\r\n", command.len()).into_bytes(), command, b"\r\n".to_vec()];
    rig.append(&Commit { first_seq: 4, count: 1, db: 0, bytes: bytes.concat() });
    rig.core.write_batch().expect("writes");
    let content = storage.read(&location().segment_path(2)).expect("reads");
    let group = content.windows(5).rposition(|bytes| bytes == b"#SX2 ").expect("a group");
    let at = group + content[group..].windows(4).position(|b| b == b"*2\r\n").expect("a SELECT");
    assert!(content.len() as u64 > before, "longer than what was prepared");
    // Filler up to where a command begins inside the value.
    for (index, _) in content.windows(4).enumerate().filter(|(_, bytes)| *bytes == b"*2\r\n") {
        if index <= at || index % 64 != 0 || index as u64 >= before {
            continue;
        }
        let storage = storage.crash(0, crate::device::sim::CrashOptions::KEEP_ALL);
        let file = open(&storage, 2);
        file.write_all_at(&crate::aof::FILLER.repeat((index - group) / 64), group as u64)
            .expect("the sectors that did not arrive");
        assert_eq!(foreign(&storage), None, "filler up to {index}");
        return;
    }
    panic!("no command of the value begins at a line");
}
