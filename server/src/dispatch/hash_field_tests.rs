//! Tests of expiring fields: their visibility over time, their log forms, and their replay.

use super::Executor;
use super::client::Client;
use super::paged_tests::Random;
use super::tests::{Bench, NOW_MS};
use crate::resp::command_bytes;
use crate::value::thresholds::Thresholds;

#[test]
fn a_field_is_gone_from_its_time_on_whoever_looks() {
    let later_ms = NOW_MS + 5000;
    for (look, before, after) in [
        ("HGET h a", "$1\r\n1\r\n", "$-1\r\n"),
        ("HMGET h a b", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "*2\r\n$-1\r\n$1\r\n2\r\n"),
        (
            "HGETALL h",
            "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n",
            "*2\r\n$1\r\nb\r\n$1\r\n2\r\n",
        ),
        ("HLEN h", ":2\r\n", ":1\r\n"),
        ("HEXISTS h a", ":1\r\n", ":0\r\n"),
        ("HSTRLEN h a", ":1\r\n", ":0\r\n"),
        ("HRANDFIELD h 5", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n$1\r\nb\r\n"),
        ("HPTTL h FIELDS 2 a b", "*2\r\n:1\r\n:-1\r\n", "*2\r\n:-2\r\n:-1\r\n"),
        ("HEXPIRE h 5 FIELDS 1 a", "*1\r\n:1\r\n", "*1\r\n:-2\r\n"),
        ("HDEL h a", ":1\r\n", ":0\r\n"),
        ("HSET h a 3", ":0\r\n", ":1\r\n"),
        ("HSETNX h a 3", ":0\r\n", ":1\r\n"),
        ("HINCRBY h a 3", ":4\r\n", ":3\r\n"),
        ("HINCRBYFLOAT h a 0.5", "$3\r\n1.5\r\n", "$3\r\n0.5\r\n"),
        ("HGETDEL h FIELDS 1 a", "*1\r\n$1\r\n1\r\n", "*1\r\n$-1\r\n"),
        ("HGETEX h PERSIST FIELDS 1 a", "*1\r\n$1\r\n1\r\n", "*1\r\n$-1\r\n"),
        ("HSETEX h FNX FIELDS 1 a 3", ":0\r\n", ":1\r\n"),
        ("HSETEX h FXX FIELDS 1 a 3", ":1\r\n", ":0\r\n"),
        ("SORT names BY nosort GET h->*", "*1\r\n$1\r\n1\r\n", "*1\r\n$-1\r\n"),
        (
            "HSCAN h 0 MATCH a",
            "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n",
            "*2\r\n$1\r\n0\r\n*0\r\n",
        ),
    ] {
        for (now_ms, wanted) in [(later_ms - 1, before), (later_ms, after)] {
            let mut bench = Bench::new();
            let mut client = bench.client();
            bench.run_all(
                &mut client,
                &["HSET h a 1 b 2", "HPEXPIRE h 5000 FIELDS 1 a", "RPUSH names a"],
            );
            if look.starts_with("SORT") {
                bench.run_all(
                    &mut client,
                    &["RENAME h ha", "HSET ha f 1", "HPEXPIRE ha 5000 FIELDS 1 f"],
                );
                let look = "SORT names BY nosort GET h*->f";
                assert_eq!(bench.run_at(&mut client, look, now_ms), wanted, "{look}");
                continue;
            }
            assert_eq!(bench.run_at(&mut client, look, now_ms), wanted, "{look} at {now_ms}");
        }
    }
}

#[test]
fn a_key_goes_with_its_last_field_and_no_earlier() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let mut at = |line: &str, now_ms: u64| bench.run_at(&mut client, line, now_ms);
    at("HSET h a 1 b 2", NOW_MS);
    at("HPEXPIRE h 10 FIELDS 1 a", NOW_MS);
    at("HPEXPIRE h 20 FIELDS 1 b", NOW_MS);
    at("PEXPIRE h 30", NOW_MS);
    assert_eq!(at("EXISTS h", NOW_MS + 10), ":1\r\n");
    assert_eq!(at("PTTL h", NOW_MS + 10), ":20\r\n", "the key keeps its own");
    assert_eq!(at("HLEN h", NOW_MS + 19), ":1\r\n");
    assert_eq!(at("TYPE h", NOW_MS + 20), "+none\r\n");
    assert_eq!(at("DBSIZE", NOW_MS + 20), ":0\r\n");
    // The expiry of the key may come first.
    at("HSET h a 1", NOW_MS);
    at("HPEXPIRE h 20 FIELDS 1 a", NOW_MS);
    at("PEXPIRE h 10", NOW_MS);
    assert_eq!(at("EXISTS h", NOW_MS + 10), ":0\r\n");
    assert_eq!(bench.server.stats.expired_keys(), 1);
    assert_eq!(bench.server.stats.expired_fields(), 2);
}

#[test]
fn whoever_watches_a_hash_hears_of_a_field_that_goes() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.run_all(&mut client, &["HSET h a 1 b 2", "HPEXPIRE h 10 FIELDS 1 a", "WATCH h"]);
    assert_eq!(bench.run_at(&mut other, "HLEN h", NOW_MS + 10), ":1\r\n");
    bench.run_all(&mut client, &["MULTI", "HLEN h"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "*-1\r\n");
}

#[test]
fn what_is_logged_of_fields_that_expire_makes_the_same_data_with_as_many_operations() {
    let (mut bench, mut again) = (Bench::new(), Bench::new());
    let (mut client, mut log_client) = (bench.client(), again.client());
    let mut replayer = Executor::new(crate::commands::table::table(), 0, false);
    let requests_and_logs: &[(u64, &str, &[&str])] = &[
        (0, "HSET h a 1 b 2 c 3 d 4 e 5", &["HSET h a 1 b 2 c 3 d 4 e 5"]),
        (0, "HPEXPIRE h 10 FIELDS 3 a none b", &["HPEXPIREAT h 1000010 FIELDS 2 a b"]),
        (0, "HEXPIRE h 5 GT FIELDS 1 c", &[]),
        (0, "HPEXPIREAT h 5 NX FIELDS 2 a e", &["HDEL h e"]),
        (1, "HPERSIST h FIELDS 2 a c", &["HPERSIST h FIELDS 1 a"]),
        (2, "HGETEX h PX 10 FIELDS 2 c none", &["HPEXPIREAT h 1000012 FIELDS 1 c"]),
        (2, "HGETEX h FIELDS 1 a", &[]),
        (3, "HINCRBY h b 5", &["HINCRBY h b 5"]),
        (3, "HINCRBYFLOAT h b 0.5", &["HSETEX h KEEPTTL FIELDS 1 b 7.5"]),
        // Field b expires, and the next reader removes it.
        (10, "HGET h a", &["HDEL h b"]),
        (11, "HSETEX h NX EX 1 FIELDS 1 a 1", &[]),
        (11, "HSETEX h XX FNX PX 9 FIELDS 2 f 1 g 2", &["HSETEX h PXAT 1000020 FIELDS 2 f 1 g 2"]),
        (11, "HSETEX h KEEPTTL FIELDS 2 f 3 i 4", &["HSETEX h KEEPTTL FIELDS 2 f 3 i 4"]),
        (11, "HSETEX h EXAT 1 FIELDS 2 i 3 none 4", &["HDEL h i"]),
        (11, "HSETEX h EXAT 1 FIELDS 1 none 4", &[]),
        // Field c expires, and the writer removes it first.
        (12, "HSET h c 33", &["HDEL h c", "HSET h c 33"]),
        (12, "HGETDEL h FIELDS 2 none d", &["HDEL h d"]),
        (12, "HPEXPIRE h 1 FIELDS 2 a c", &["HPEXPIREAT h 1000013 FIELDS 2 a c"]),
        (12, "COPY h h2", &["COPY h h2"]),
        (12, "RENAME h h3", &["RENAME h h3"]),
        (12, "MOVE h3 1", &["MOVE h3 1"]),
        (30, "EXISTS h h2", &["HDEL h2 a c f g"]),
        // A key that is called as the word before the fields.
        (30, "HSETEX fields PX 5 FIELDS 1 a 1", &["HSETEX fields PXAT 1000035 FIELDS 1 a 1"]),
        (30, "HINCRBYFLOAT fields a 1", &["HSETEX fields KEEPTTL FIELDS 1 a 2"]),
        (31, "HGETEX fields PX 5 FIELDS 1 a", &["HPEXPIREAT fields 1000036 FIELDS 1 a"]),
        (36, "TYPE fields", &["HDEL fields a"]),
    ];
    for (ms, request, logs) in requests_and_logs {
        let reply = bench.run_at(&mut client, request, NOW_MS + ms);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        for log in *logs {
            let words: Vec<&[u8]> = log.split(' ').map(str::as_bytes).collect();
            replayer.replay(&again.server, &mut log_client, &command_bytes(&words)).expect(log);
        }
        assert_eq!(bench.server.engine.last_seq(), again.server.engine.last_seq(), "{request}");
        for look in ["DEBUG DIGEST", "HPEXPIRETIME h FIELDS 7 a b c d f g i"] {
            let (ours, theirs) = (
                bench.run_at(&mut client, look, NOW_MS + ms),
                again.run_at(&mut log_client, look, NOW_MS + ms),
            );
            assert_eq!(ours, theirs, "{look} behind {request}");
        }
    }
    let left = bench.run_at(&mut client, "DBSIZE", NOW_MS + 30);
    assert_eq!(left, ":0\r\n");
}

#[test]
fn a_dump_has_the_times_of_fields() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["HSET h a 1 b 2", "HPEXPIRE h 5000 FIELDS 1 a"]);
    let dump = bench.run_words(&mut client, &[b"DUMP", b"h"]);
    let payload = dump
        .split(|&byte| byte == b'\n')
        .nth(1)
        .map_or(0, |_| dump.iter().position(|&byte| byte == b'\n').unwrap_or_default() + 1);
    let payload = &dump[payload..dump.len() - 2];
    assert_eq!(bench.run_words(&mut client, &[b"RESTORE", b"h2", b"0", payload]), b"+OK\r\n");
    let look = "HPEXPIRETIME h2 FIELDS 2 a b";
    assert_eq!(bench.run(&mut client, look), "*2\r\n:1005000\r\n:-1\r\n");
    assert_eq!(bench.run(&mut client, "OBJECT ENCODING h2"), "$9\r\nhashtable\r\n");
    assert_eq!(bench.run_at(&mut client, "HLEN h2", NOW_MS + 5000), ":1\r\n");
}

#[test]
fn the_past_has_the_fields_that_it_had() {
    let mut bench = Bench::new();
    let (mut client, mut reader) = (bench.client(), bench.client());
    // A snapshot reads the clock itself.
    let now_ms = crate::clock::now_ms();
    for line in [
        "HSET h due 1 later 2 never 3",
        "HPEXPIRE h 5 FIELDS 1 due",
        "HPEXPIRE h 1000000 FIELDS 1 later",
        "HSET gone a 1",
        "HPEXPIRE gone 5 FIELDS 1 a",
    ] {
        bench.run_at(&mut client, line, now_ms - 10);
    }
    assert!(bench.run_at(&mut reader, "SEXTON.SNAPSHOT OPEN", now_ms).starts_with(':'));
    let after_ms = now_ms + 2_000_000;
    assert_eq!(bench.run_at(&mut client, "HLEN h", after_ms), ":1\r\n");
    for (look, seen) in [
        ("HLEN h", ":2\r\n"),
        ("HMGET h due later", "*2\r\n$-1\r\n$1\r\n2\r\n"),
        ("EXISTS gone", ":0\r\n"),
    ] {
        assert_eq!(bench.run_at(&mut reader, look, after_ms), seen, "{look}");
    }
}

/// A bench that stores hashes above `inline_bytes` bytes in pages.
fn bench(inline_bytes: u64) -> Bench {
    let bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    let now = thresholds.now();
    thresholds.set(Thresholds { inline_bytes, hash_entries: 4, ..now });
    bench
}

fn command(random: &mut Random) -> String {
    let key = ["a", "b"][random.below(2) as usize];
    let (field, other) = (random.below(12), random.below(40));
    let ms = random.below(30);
    match random.below(26) {
        0..=4 => format!("HSET {key} f{field} {ms} f{other} {ms}"),
        5 => format!("HDEL {key} f{field} f{other}"),
        6 => format!("HINCRBY {key} f{field} {ms}"),
        7 => format!("HINCRBYFLOAT {key} f{field} 0.5"),
        8..=10 => format!("HPEXPIRE {key} {ms} FIELDS 2 f{field} f{other}"),
        11 => format!("HPERSIST {key} FIELDS 2 f{field} f{other}"),
        12 => format!("HGETEX {key} PX {ms} FIELDS 1 f{field}"),
        13 => format!("HSETEX {key} PX {ms} FIELDS 1 f{field} {ms}"),
        14 => format!("HSETEX {key} KEEPTTL FIELDS 2 f{field} {ms} f{other} 1"),
        15 => format!("HGETDEL {key} FIELDS 1 f{field}"),
        16 => format!("HSETNX {key} f{field} {ms}"),
        17 => "COPY a b REPLACE".to_owned(),
        18 => format!("HPTTL {key} FIELDS 2 f{field} f{other}"),
        19 => format!("HSETEX {key} FNX PX 9 FIELDS 2 f{field} 1 f{other} {}", "v".repeat(600)),
        20 => format!("HSETEX {key} FXX FIELDS 2 f{field} 1 f{other} 2"),
        21 => format!("HSETEX {key} NX EXAT 1 FIELDS 1 f{field} 1"),
        22 => format!("HGETEX {key} PERSIST FIELDS 2 f{field} f{other}"),
        23 => format!("HPEXPIRE {key} {ms} GT FIELDS 2 f{field} f{other}"),
        24 => format!("PEXPIRE {key} {}", 3 * ms),
        _ => format!("HMGET {key} f{field} f{other}"),
    }
}

#[test]
fn hashes_in_pages_with_due_times_answer_as_those_in_one_record_do() {
    let (mut paged, mut whole) = (bench(24), bench(u64::MAX));
    let (mut client, mut other) = (paged.client(), whole.client());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut now_ms, mut seen_in_pages, mut seen_expiring) = (NOW_MS, 0, 0);
    let lines = |reply: &str| {
        let mut lines: Vec<String> = reply.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    for step in 0..5000 {
        now_ms += random.below(4);
        let command = command(&mut random);
        let reply = paged.run_at(&mut client, &command, now_ms);
        assert_eq!(reply, whole.run_at(&mut other, &command, now_ms), "step {step}: {command}");
        if random.below(3) == 0 {
            // The next command finds expired fields in pages that were not read yet.
            continue;
        }
        for look in ["HGETALL a", "HGETALL b", "HLEN a", "PTTL a", "DEBUG DIGEST"] {
            let reply = paged.run_at(&mut client, look, now_ms);
            let other = whole.run_at(&mut other, look, now_ms);
            assert_eq!(lines(&reply), lines(&other), "step {step}: {look} behind {command}");
        }
        let (engine, mut buf) = (&paged.server.engine, sexton_engine::TxBuf::default());
        let hash = engine.hash(b"a");
        let mut tx = engine.begin(sexton_engine::Latched::Hashes(&[hash]), &mut buf);
        let key = sexton_engine::Key { slot: engine.slot_of(0), bytes: b"a", hash };
        if let sexton_engine::Found::Live(entry) = tx.find(key) {
            let (meta, value) = (entry.meta(), entry.value());
            seen_in_pages += u32::from(meta.is_paged());
            seen_expiring += u32::from(meta.is_paged() && meta.due_ms(value) != 0);
        }
        tx.commit();
    }
    assert!(seen_in_pages > 1000 && seen_expiring > 500, "{seen_in_pages} {seen_expiring}");
    assert!(seen_in_pages > seen_expiring, "some lost their last due time");
}

/// Fields `f0` to `f{count - 1}` of the key `h`, each second one due at `due_ms`.
fn fill(bench: &mut Bench, client: &mut Client, count: u32, due_ms: u64) {
    let words: Vec<String> = (0..count).map(|n| format!("f{n} value{n}")).collect();
    bench.run(client, &format!("HSET h {}", words.join(" ")));
    let names: Vec<String> = (0..count).step_by(2).map(|n| format!("f{n}")).collect();
    let line = format!("HPEXPIREAT h {due_ms} FIELDS {} {}", names.len(), names.join(" "));
    assert!(!bench.run(client, &line).starts_with('-'));
}

#[test]
fn who_asks_for_a_field_removes_that_one_and_who_counts_them_all() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    fill(&mut bench, &mut client, 4000, NOW_MS + 10);
    let now_ms = NOW_MS + 10;
    let expired = |bench: &Bench| bench.server.stats.expired_fields();
    let mut at = |bench: &mut Bench, line: &str| bench.run_at(&mut client, line, now_ms);
    assert_eq!(at(&mut bench, "HGET h f1"), "$6\r\nvalue1\r\n");
    assert_eq!((at(&mut bench, "HGET h f0"), expired(&bench)), ("$-1\r\n".to_owned(), 1));
    assert_eq!((at(&mut bench, "HSET h f2 new"), expired(&bench)), (":1\r\n".to_owned(), 2));
    let reply = at(&mut bench, "HPEXPIRE h 50 FIELDS 3 f2 f4 f5");
    assert_eq!((reply.as_str(), expired(&bench)), ("*3\r\n:1\r\n:-2\r\n:1\r\n", 3));
    // f2 has come back.
    assert_eq!((at(&mut bench, "HLEN h"), expired(&bench)), (":2001\r\n".to_owned(), 2000));
    assert_eq!(bench.run_at(&mut client, "HLEN h", now_ms + 50), ":1999\r\n");
}

#[test]
fn a_key_in_pages_goes_with_its_last_field() {
    let mut bench = bench(16);
    let mut client = bench.client();
    let words: Vec<String> = (0..500).map(|n| format!("f{n} value{n}")).collect();
    let line = format!("HSETEX h PX 10 FIELDS 500 {}", words.join(" "));
    assert_eq!(bench.run(&mut client, &line), ":1\r\n");
    for (look, gone) in [("HGET h f7", "$-1\r\n"), ("EXISTS h", ":0\r\n"), ("DBSIZE", ":0\r\n")] {
        assert_eq!(bench.run_at(&mut client, look, NOW_MS + 10), gone, "{look}");
    }
    assert_eq!(bench.server.stats.expired_fields(), 500);
    assert_eq!(bench.run(&mut client, "HSET h f1 1"), ":1\r\n");
    assert_eq!(bench.run(&mut client, "HLEN h"), ":1\r\n");
}

#[test]
fn a_write_where_all_fields_are_due_makes_a_new_key() {
    for (inline_bytes, write) in [16, u64::MAX].into_iter().flat_map(|bytes| {
        ["HSET h f1 1", "HINCRBY h new 1", "HSETNX h new 1", "HSETEX h FIELDS 1 f1 1"]
            .map(|write| (bytes, write))
    }) {
        let mut bench = bench(inline_bytes);
        let mut client = bench.client();
        let words: Vec<String> = (0..100).map(|n| format!("f{n} value{n}")).collect();
        bench.run(&mut client, &format!("HSETEX h PX 10 FIELDS 100 {}", words.join(" ")));
        bench.run(&mut client, "PEXPIRE h 5000");
        bench.run_at(&mut client, write, NOW_MS + 10);
        for (look, seen) in [("HLEN h", ":1\r\n"), ("PTTL h", ":-1\r\n")] {
            let reply = bench.run_at(&mut client, look, NOW_MS + 10);
            assert_eq!(reply, seen, "{look} behind {write}");
        }
    }
}

#[test]
fn a_change_of_a_large_hash_whose_fields_expire_copies_a_few_pages() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    fill(&mut bench, &mut client, 50_000, NOW_MS + 1_000_000);
    let before = bench.server.engine.memory_parts().memtables;
    for n in 0..1000 {
        bench.run(&mut client, &format!("HSET h f{n} other{n}"));
        bench.run(&mut client, &format!("HPEXPIRE h {} FIELDS 1 f{}", 5000 + n, n * 7));
        bench.run(&mut client, &format!("HSETEX h PX 90000 FIELDS 1 new{n} {n}"));
    }
    let copied = bench.server.engine.memory_parts().memtables.saturating_sub(before);
    // The hash has more than a megabyte. A page has half a kilobyte, and blocks of due times as much.
    assert!(copied < 3000 * 2560 + (1 << 20), "{copied} bytes for 3,000 changes");
}

#[test]
fn what_pages_have_of_due_times_is_seen_in_the_past_in_dumps_and_in_copies() {
    let mut bench = bench(2048);
    let (mut client, mut reader) = (bench.client(), bench.client());
    // A snapshot reads the clock itself.
    let now_ms = crate::clock::now_ms();
    fill(&mut bench, &mut client, 500, now_ms + 1_000_000);
    bench.run_at(&mut client, "HPEXPIRE h 5 FIELDS 2 f1 f3", now_ms - 10);
    assert!(bench.run_at(&mut reader, "SEXTON.SNAPSHOT OPEN", now_ms).starts_with(':'));
    let after_ms = now_ms + 2_000_000;
    let digest = bench.run_at(&mut client, "DEBUG DIGEST-VALUE h", now_ms);
    for line in ["COPY h copy", "RENAME copy moved", "RENAME moved copy"] {
        bench.run_at(&mut client, line, now_ms);
    }
    assert_eq!(bench.run_at(&mut client, "DEBUG DIGEST-VALUE copy", now_ms), digest);
    let look = "HPEXPIRETIME copy FIELDS 3 f0 f1 f5";
    let times = format!("*3\r\n:{}\r\n:-2\r\n:-1\r\n", now_ms + 1_000_000);
    assert_eq!(bench.run_at(&mut client, look, now_ms), times);
    assert_eq!(bench.run_at(&mut client, "HLEN h", after_ms), ":248\r\n");
    assert_eq!(bench.run_at(&mut reader, "HLEN h", after_ms), ":498\r\n");
    assert_eq!(
        bench.run_at(&mut reader, "HMGET h f0 f1", after_ms),
        "*2\r\n$6\r\nvalue0\r\n$-1\r\n"
    );
}
