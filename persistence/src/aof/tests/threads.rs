//! The log with its threads.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::aof::Log;

const PATIENCE: Duration = Duration::from_secs(20);

fn open_log(storage: &SimStorage, options: LogOptions) -> (Log, Arc<Mutex<LogBuffer>>) {
    let (_, tail) = read_all(storage, 0, 0).expect("an empty log");
    let buffer = Arc::new(Mutex::new(LogBuffer::new(0)));
    let gauge = buffer.lock().gauge();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let log = Log::open(shared, options, tail, 0, buffer.clone(), gauge).expect("opens");
    (log, buffer)
}

/// Appends from several threads, waits by callback until all is durable.
fn write_and_wait(policy: SyncPolicy) {
    let storage = storage();
    let (log, buffer) = open_log(&storage, options(policy));
    let (sender, receiver) = mpsc::channel();
    log.on_durable(Box::new(move |seq| {
        // The receiver may be gone when the log closes.
        let _ = sender.send(seq);
    }));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    let kick = {
                        let mut buffer = buffer.lock();
                        let commit = Commit::new(buffer.last_seq() + 1, 1, 0, 50);
                        buffer.append(commit.first_seq, 1, 0, &[&commit.bytes])
                    };
                    if kick {
                        log.kick();
                    }
                }
            });
        }
    });
    let mut durable = 0;
    while durable < 1000 {
        durable = receiver.recv_timeout(PATIENCE).expect("durable moves on");
    }
    assert_eq!((log.durable(), log.written()), (1000, 1000));
    // The sync may be announced before the writer has booked the end of its own turn.
    let deadline = std::time::Instant::now() + PATIENCE;
    while log.oldest_unsynced_age_ms() != 0 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(log.oldest_unsynced_age_ms(), 0);
    let stats = log.stats();
    assert!(stats.groups <= 1000 && stats.syncs >= 1, "{stats:?}");
    log.close().expect("closes");
    let (commands, _) = read_all(&storage, 0, 1000).expect("recovers");
    assert_eq!(commands.len(), 1000);
}

#[test]
fn always_makes_every_append_durable() {
    write_and_wait(SyncPolicy::Always);
}

#[test]
fn everysec_makes_every_append_durable() {
    write_and_wait(SyncPolicy::EverySec);
}

#[test]
fn closing_writes_and_syncs_whatever_the_policy() {
    let storage = storage();
    let (log, buffer) = open_log(&storage, options(SyncPolicy::No));
    for seq in 1..=10 {
        let commit = Commit::new(seq, 1, 0, 50);
        let _ = buffer.lock().append(seq, 1, 0, &[&commit.bytes]);
    }
    log.close().expect("closes");
    let crashed = storage.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    let (commands, tail) = read_all(&crashed, 0, 0).expect("recovers");
    assert_eq!((commands.len(), tail.cut), (10, None));
}

#[test]
fn writers_wait_when_the_buffer_is_full_and_go_on_once_it_is_written() {
    let storage = storage();
    let options = LogOptions { buffer_limit_bytes: 1000, ..options(SyncPolicy::No) };
    let (log, buffer) = open_log(&storage, options);
    {
        // While the buffer is locked the log thread cannot take anything.
        let mut buffer = buffer.lock();
        let commit = Commit::new(1, 1, 0, 2000);
        let _ = buffer.append(1, 1, 0, &[&commit.bytes]);
        assert!(log.must_wait());
        assert!(!log.wait_for_room(Duration::from_millis(1)));
    }
    log.kick();
    assert!(log.wait_for_room(PATIENCE));
    assert_eq!((log.stats().delayed, log.written()), (1, 1));
}

/// The writer may be gathering when the policy becomes `always`: what it wrote before still has to be
/// synced, without another commit to wake it.
#[test]
fn what_is_written_when_the_policy_becomes_always_is_synced() {
    let storage = storage();
    let (log, buffer) = open_log(&storage, options(SyncPolicy::EverySec));
    for seq in 1..=300 {
        let commit = Commit::new(seq, 1, 0, 50);
        let _ = buffer.lock().append(seq, 1, 0, &[&commit.bytes]);
        log.kick();
        while log.written() < seq {
            std::thread::yield_now();
        }
        // Anywhere in the time that the writer gathers. Without yielding: on a busy machine each would take a
        // time slice.
        for _ in 0..seq * 100 {
            std::hint::spin_loop();
        }
        log.set_policy(SyncPolicy::Always);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while log.durable() < seq {
            assert!(std::time::Instant::now() < deadline, "{seq} is never synced");
            std::thread::yield_now();
        }
        log.set_policy(SyncPolicy::EverySec);
    }
    log.close().expect("closes");
}
