//! Counts the work of short commands: key hashes, look-ups in the DRAM table, and graves.

use super::Args;
use super::client::Client;
use super::tests::{Bench, NOW_MS};
use crate::resp::{Reply, command_bytes, pack};
use sexton_engine::Work;

/// The path of a request to its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Long,
    /// As one of a read, but for plain GETs and SETs.
    Short,
    /// Plain GETs and SETs, whose key was hashed with the others of the read.
    Fast,
}

const LATER_MS: u64 = NOW_MS + 100;

/// The reply, and what it took.
fn run(bench: &mut Bench, client: &mut Client, way: Way, line: &str) -> (String, Work) {
    let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
    let (args, mut out) = (Args::new(&buf, &ranges), Reply::new());
    let (server, executor) = (&bench.server, &mut bench.executor);
    let _ = Work::take();
    match way {
        Way::Long => {
            let outcome = executor.execute(server, client, args, &mut out, LATER_MS);
            assert!(matches!(outcome, super::Outcome::Done(_)), "{line}: {outcome:?}");
        }
        Way::Short => {
            let spec = executor.table().find(args.get(0)).expect("a command");
            let times = (LATER_MS, u64::MAX);
            let ran = executor.run_short(server, client, (spec, args), &mut out, times);
            assert!(ran.is_some(), "{line}");
        }
        Way::Fast => {
            let key = args.get(1);
            let hash = server.engine.hash(key);
            let ran = if args.len() == 2 {
                executor.fast_get(server, client, key, hash, &mut out, LATER_MS)
            } else {
                let (value, logged) = (args.get(2), command_bytes(&[b"SET", key, args.get(2)]));
                let how = (value, logged.as_slice());
                executor.fast_set(server, client, key, hash, how.0, how.1, &mut out, LATER_MS)
            };
            assert!(ran.is_some(), "{line}");
        }
    }
    (String::from_utf8_lossy(out.bytes()).into_owned(), Work::take())
}

#[test]
fn del_hashes_a_key_once_looks_it_up_once_and_opens_a_grave_for_what_was_there() {
    for way in [Way::Long, Way::Short] {
        let mut bench = Bench::new();
        let mut client = bench.client();
        bench.run_all(
            &mut client,
            &["MSET a 1 b 1 c 1 d 1 e 1", "SET due 1 PX 50", "SET due2 1 PX 50", "HSET h f 1"],
        );
        for (line, reply, keys, graves) in [
            ("DEL a", ":1\r\n", 1, 1),
            ("DEL a", ":0\r\n", 1, 0),
            ("UNLINK b", ":1\r\n", 1, 1),
            ("DEL due", ":0\r\n", 1, 1),
            ("DEL c none d c due2 h", ":3\r\n", 6, 4),
            ("UNLINK e none", ":1\r\n", 2, 1),
        ] {
            let (answered, work) = run(&mut bench, &mut client, way, line);
            assert_eq!(answered, reply, "{way:?} {line}");
            let expected = Work { hashes: keys, look_ups: keys, graves };
            assert_eq!(work, expected, "{way:?} {line}");
        }
        assert_eq!(bench.server.stats.expired_keys(), 2);
        assert_eq!(bench.run(&mut client, "DBSIZE"), ":0\r\n");
    }
}

/// What they take today; more would be a step back.
#[test]
fn get_and_set_hash_their_key_once() {
    let work = |hashes, look_ups| Work { hashes, look_ups, graves: 0 };
    for (way, get, set) in [
        (Way::Fast, work(1, 1), work(1, 1)),
        (Way::Short, work(1, 1), work(1, 1)),
        (Way::Long, work(1, 1), work(1, 1)),
    ] {
        let mut bench = Bench::new();
        let mut client = bench.client();
        // Their access time is that of the look, so that it is not set.
        bench.server.engine.set_access_now((LATER_MS / 1000) as u32);
        bench.run_all(&mut client, &["SET k v", "SET other v"]);
        for (line, reply, expected) in [("GET k", "$1\r\nv\r\n", get), ("SET k w", "+OK\r\n", set)]
        {
            // The place of the key that was looked up last is known.
            bench.run(&mut client, "EXISTS other");
            let (answered, work) = run(&mut bench, &mut client, way, line);
            assert_eq!(answered, reply, "{way:?} {line}");
            assert_eq!(work, expected, "{way:?} {line}");
        }
    }
}

/// Replays the log that `net` inspects, see `what_is_due_among_the_keys_of_a_del_is_logged_by_itself`: it performs an equal
/// number of operations, in that order.
#[test]
fn what_del_logs_makes_the_same_data_with_as_many_operations() {
    let (mut bench, mut again) = (Bench::new(), Bench::new());
    let (mut client, mut log_client) = (bench.client(), again.client());
    let mut replayer = super::Executor::new(crate::commands::table::table(), 0, false);
    let before = [
        "MSET a 1 b 1 c 1",
        "SET due 1 PX 50",
        "HSET h f 1 g 1",
        "HPEXPIRE h 50 FIELDS 1 f",
        "HSET i f 1",
        "HPEXPIRE i 50 FIELDS 1 f",
    ];
    bench.run_all(&mut client, &before);
    again.run_all(&mut log_client, &before);
    let (reply, _) = run(&mut bench, &mut client, Way::Long, "DEL a none due b h i c a");
    assert_eq!(reply, ":4\r\n");
    for log in ["DEL a none", "DEL due", "DEL b", "HDEL h f", "DEL h", "HDEL i f", "DEL i c a"] {
        let words: Vec<&[u8]> = log.split(' ').map(str::as_bytes).collect();
        replayer.replay(&again.server, &mut log_client, &command_bytes(&words)).expect(log);
    }
    assert_eq!(bench.server.engine.last_seq(), again.server.engine.last_seq());
    for look in ["DEBUG DIGEST", "DBSIZE"] {
        assert_eq!(bench.run(&mut client, look), again.run(&mut log_client, look), "{look}");
    }
}
