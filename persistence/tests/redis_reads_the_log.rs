//! What the real redis-server and redis-check-aof think of our log (N4). Skipped with a line that
//! says so where they are not installed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use sexton_persistence::aof::{Log, LogBuffer, LogLocation, LogOptions, SyncPolicy, recover};
use sexton_persistence::device::{DiskStorage, TempDir};

/// A redis-server that knows multi-part AOF (7.0 or later), if one is installed.
fn redis_server() -> Option<&'static str> {
    let knows_multi_part = |program: &&str| {
        let output = Command::new(program).arg("--version").output();
        let text =
            output.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        let version = text.split("v=").nth(1).and_then(|rest| rest.split('.').next());
        version.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 7)
    };
    let found = ["redis-server", "/usr/bin/redis-server"].into_iter().find(knows_multi_part);
    let checker = Command::new("redis-check-aof").arg("--version").output().is_ok();
    if found.is_none() || !checker {
        eprintln!("skipped: redis-server 7 and redis-check-aof are not installed");
        return None;
    }
    found
}

/// Writes 2,000 keys into two databases over several segments, a transaction among them, with
/// `appendfsync always` and so with filler lines; retires everything up to half of it on demand.
fn write_log(dir: &Path, retire: bool) {
    let location =
        LogLocation { dir: dir.join("appendonlydir"), file_name: "appendonly.aof".to_owned() };
    let storage = DiskStorage::shared();
    let tail = recover(&storage, &location, 0, 0).expect("empty").finish().expect("empty");
    let options = LogOptions {
        policy: SyncPolicy::Always,
        segment_bytes: 32 << 10,
        ..LogOptions::new(location)
    };
    let buffer = Arc::new(Mutex::new(LogBuffer::new(0)));
    let gauge = buffer.lock().gauge();
    let log = Log::open(storage, options, tail, 0, buffer.clone(), gauge).expect("opens");
    for seq in 1..=2000_u64 {
        let (key, db) = (format!("key:{seq}"), (seq % 2) as u32);
        let set = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$5\r\nvalue\r\n", key.len());
        let parts: [&[u8]; 3] = if seq % 100 == 0 {
            [b"*1\r\n$5\r\nMULTI\r\n", set.as_bytes(), b"*1\r\n$4\r\nEXEC\r\n"]
        } else {
            [b"", set.as_bytes(), b""]
        };
        if buffer.lock().append(seq, 1, db, &parts) {
            log.kick();
        }
        if seq == 1000 {
            buffer.lock().cut(seq);
        }
        if seq % 50 == 0 {
            log.sync_through(seq).expect("syncs");
        }
    }
    if retire {
        log.retire_through(1000).expect("retires");
    }
    log.close().expect("closes");
}

fn check_aof(dir: &Path) -> (bool, String) {
    let output = Command::new("redis-check-aof")
        .arg(dir.join("appendonlydir/appendonly.aof.manifest"))
        .output()
        .expect("redis-check-aof runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Starts redis-server on the log, reads its output up to "Ready" or to its end.
fn start_redis(program: &str, dir: &Path) -> (Child, String) {
    let mut child = Command::new(program)
        .args(["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "yes"])
        .args(["--dir", "."])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server runs");
    let mut lines = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            lines.push_str(&line);
            lines.push('\n');
            // Printed once the socket listens and the data is loaded.
            if line.contains("The server is now ready to accept connections at") {
                break;
            }
        }
    }
    (child, lines)
}

fn ask(stream: &mut UnixStream, command: &str, answer: &str) {
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("sends");
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got).expect("receives");
    assert_eq!(String::from_utf8_lossy(&got), answer, "{command}");
}

#[test]
fn redis_loads_the_log_before_anything_was_retired() {
    let Some(program) = redis_server() else { return };
    let dir = TempDir::new("aof");
    write_log(&dir, false);
    let (valid, report) = check_aof(&dir);
    assert!(valid, "{report}");
    let (mut child, output) = start_redis(program, &dir);
    let connected = UnixStream::connect(dir.join("redis.sock"));
    let outcome = connected.map(|mut stream| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ask(&mut stream, "DBSIZE", ":1000\r\n");
            ask(&mut stream, "GET key:2000", "$5\r\nvalue\r\n");
            ask(&mut stream, "SELECT 1", "+OK\r\n");
            ask(&mut stream, "DBSIZE", ":1000\r\n");
            ask(&mut stream, "GET key:1", "$5\r\nvalue\r\n");
            ask(&mut stream, "GET key:2", "$-1\r\n");
        }))
    });
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => panic!("no connection ({error}); redis-server said:\n{output}"),
    }
}

#[test]
fn redis_refuses_the_log_after_a_retirement() {
    let Some(program) = redis_server() else { return };
    let dir = TempDir::new("aof");
    write_log(&dir, true);
    let (valid, report) = check_aof(&dir);
    assert!(!valid, "{report}");
    let (mut child, output) = start_redis(program, &dir);
    // Kills it only if it serves, which is the failure this test looks for.
    let served = output.contains("ready to accept connections");
    if served {
        child.kill().expect("it runs");
    }
    let status = child.wait().expect("it ends");
    assert!(!served && !status.success(), "{output}");
    assert!(output.contains("run-BGREWRITEAOF-first.rdb"), "{output}");
}

#[test]
fn our_own_recovery_reads_the_same_files() {
    let dir = TempDir::new("aof");
    write_log(&dir, true);
    let location =
        LogLocation { dir: dir.join("appendonlydir"), file_name: "appendonly.aof".to_owned() };
    let storage = DiskStorage::shared();
    assert!(recover(&storage, &location, 0, 0).is_err(), "the first half is gone");
    let mut recovery = recover(&storage, &location, 1000, 2000).expect("the second half is there");
    let mut next_seq = 1001;
    while let Some(group) = recovery.next_group().expect("reads") {
        assert_eq!(group.first_seq, next_seq);
        next_seq += group.count;
    }
    assert_eq!(next_seq, 2001);
    let tail = recovery.finish().expect("finishes");
    assert_eq!((tail.last_seq, tail.cut), (2000, None));
}
