//! Long replies: in pieces they are what they would be as a whole, of one instant.

use super::client::Client;
use super::tests::{Bench, NOW_MS};
use super::{Args, Outcome, PIECE_BYTES};
use crate::resp::{Reply, pack};

/// Elements of each collection, of a hundred bytes: more than a megabyte.
const COUNT: usize = 12_000;

fn element(number: usize) -> String {
    format!("{number:0>100}")
}

fn bench() -> (Bench, Client) {
    let mut bench = Bench::new();
    let mut client = bench.client();
    for from in (0..COUNT).step_by(500) {
        let names: Vec<String> = (from..from + 500).map(element).collect();
        let with = |before: &str, after: &str| {
            let words = names.iter().map(|name| format!("{before}{name}{after}"));
            words.collect::<Vec<_>>().join(" ")
        };
        bench.run(&mut client, &format!("RPUSH l {}", with("", "")));
        bench.run(&mut client, &format!("SADD s {}", with("", "")));
        bench.run(&mut client, &format!("HSET h {}", with("", " value")));
        bench.run(&mut client, &format!("ZADD z {}", with("1.5 ", "")));
        for (name, number) in names.iter().zip(from..) {
            bench.run(&mut client, &format!("XADD x {}-{} f {name}", number / 7 + 1, number % 7));
        }
    }
    // In pages that are answered, and on the way to them.
    bench.run(&mut client, "XDEL x 1-1 900-3 900-4 1000-0 1714-1");
    (bench, client)
}

fn execute(bench: &mut Bench, client: &mut Client, line: &str) -> (Outcome, String) {
    let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
    let mut out = Reply::new();
    out.set_resp3(client.resp3);
    let args = Args::new(&buf, &ranges);
    let outcome = bench.executor.execute(&bench.server, client, args, &mut out, NOW_MS);
    (outcome, String::from_utf8_lossy(out.bytes()).into_owned())
}

/// The reply of a request at once, as a transaction has it.
fn whole(bench: &mut Bench, client: &mut Client, line: &str) -> String {
    bench.run_all(client, &["MULTI", line]);
    let (outcome, reply) = execute(bench, client, "EXEC");
    assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
    reply.strip_prefix("*1\r\n").expect("one reply").to_owned()
}

/// The pieces of a reply. `before` runs before each but the first.
fn pieces(
    bench: &mut Bench,
    client: &mut Client,
    line: &str,
    mut before: impl FnMut(&mut Bench, usize),
) -> Vec<String> {
    let (outcome, reply) = execute(bench, client, line);
    assert!(matches!(outcome, Outcome::Offload) && reply.is_empty(), "{line}: {outcome:?}");
    let (outcome, reply) = execute(bench, client, line);
    assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
    let mut pieces = vec![reply];
    while client.long_reply.is_open() {
        before(bench, pieces.len());
        let mut out = Reply::new();
        out.set_resp3(client.resp3);
        bench.executor.go_on(&bench.server, client, &mut out);
        pieces.push(String::from_utf8_lossy(out.bytes()).into_owned());
    }
    assert_eq!(bench.server.engine.snapshots(), [], "{line}");
    pieces
}

#[test]
fn a_long_reply_in_pieces_is_that_of_one_instant() {
    let (mut bench, mut client) = bench();
    let mut other = bench.client();
    for (at, line) in [
        "LRANGE l 0 -1",
        "LRANGE l 17 -17",
        "HGETALL h",
        "HKEYS h",
        "HVALS h",
        "SMEMBERS s",
        "ZRANGE z 0 -1",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZREVRANGE z 5 -6 WITHSCORES",
        "ZRANGEBYSCORE z 1 2 LIMIT 3 11900",
        "ZREVRANGEBYLEX z + -",
        "XRANGE x - +",
        "XREVRANGE x + -",
        "XRANGE x 3-4 1700-2",
        "XREVRANGE x (1712-3 100-5",
        "XRANGE x 100 +",
        "XREAD STREAMS x 0",
        "XREAD BLOCK 9 STREAMS x 100-3",
    ]
    .into_iter()
    .enumerate()
    {
        client.resp3 = at % 2 == 0;
        let as_one = whole(&mut bench, &mut client, line);
        let pieces = pieces(&mut bench, &mut client, line, |bench, nth| {
            let gone = element(at * 20 + nth);
            bench.run(&mut other, &format!("XADD x {}-1 f v", 9_000 + 20 * at + nth));
            bench.run(&mut other, &format!("XDEL x {}-2", 1000 + 20 * at + nth));
            for change in ["LPUSH l x", "LSET l -2 y", "SREM s GONE", "HDEL h GONE", "ZREM z GONE"]
            {
                bench.run(&mut other, &change.replace("GONE", &gone));
            }
        });
        // The values of this hash are short, its names are not.
        assert!(pieces.len() > 3 || line == "HVALS h", "{line}: {} pieces", pieces.len());
        assert!(pieces.iter().all(|piece| piece.len() < 2 * PIECE_BYTES), "{line}");
        assert!(pieces.concat() == as_one, "{line}");
        let changed = whole(&mut bench, &mut client, line) != as_one;
        assert_eq!(changed, pieces.len() > 1, "{line}: the changes concern it");
    }
}

#[test]
fn a_long_string_is_answered_as_it_was_when_the_reply_began() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    let content: String = (0..150_000).map(|number| format!("{number:0>16}")).collect();
    bench.run(&mut client, &format!("SET s {content}"));
    for line in ["GET s", "GETRANGE s 12345 -54321"] {
        let as_one = whole(&mut bench, &mut client, line);
        let pieces = pieces(&mut bench, &mut client, line, |bench, nth| {
            // Pages that were written before the reply began, and again in the same epoch.
            for at in (0..2_400_000).step_by(100_000) {
                bench.run(&mut other, &format!("SETRANGE s {at} changed{nth}"));
            }
            bench.run(&mut other, "APPEND s more");
        });
        assert!(pieces.len() > 7, "{line}: {} pieces", pieces.len());
        assert!(pieces.iter().all(|piece| piece.len() < 2 * PIECE_BYTES), "{line}");
        assert!(pieces.concat() == as_one, "{line}");
        assert!(whole(&mut bench, &mut client, line) != as_one, "{line}: the changes concern it");
    }
}

#[test]
fn a_collection_that_has_changed_before_its_long_reply_begins_is_answered_as_it_is() {
    let (mut bench, mut client) = bench();
    let mut other = bench.client();
    for (change, reply) in [
        ("LTRIM l 0 1", format!("*2\r\n$100\r\n{}\r\n$100\r\n{}\r\n", element(0), element(1))),
        ("DEL l", "*0\r\n".to_owned()),
        (
            "SET l a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_owned(),
        ),
        (
            "RENAME z l",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_owned(),
        ),
    ] {
        bench.run(&mut other, "DEL l");
        let names: Vec<String> = (0..COUNT).map(element).collect();
        bench.run(&mut other, &format!("RPUSH l {}", names.join(" ")));
        let (outcome, _) = execute(&mut bench, &mut client, "LRANGE l 0 -1");
        assert!(matches!(outcome, Outcome::Offload), "{outcome:?}");
        bench.run(&mut other, change);
        assert_eq!(bench.run(&mut client, "LRANGE l 0 -1"), reply, "{change}");
        assert!(!client.long_reply.is_open(), "{change}");
        assert_eq!(bench.run(&mut client, "PING"), "+PONG\r\n");
    }
}

#[test]
fn fields_that_are_due_are_not_in_a_long_reply() {
    let (mut bench, mut client) = bench();
    let names: Vec<String> = (0..100).map(|number| element(number * 7)).collect();
    let due_ms = NOW_MS - 1;
    // What is due at once is deleted: so they become due while the clock stands still for the bench.
    let fields = names.join(" ");
    let line = format!("HPEXPIREAT h {due_ms} FIELDS 100 {fields}");
    let (outcome, reply) = bench.try_at(&mut client, &line, NOW_MS - 1000);
    assert!(matches!(outcome, Outcome::Done(_)) && reply.starts_with("*100\r\n:1\r\n"), "{reply}");
    let reply = pieces(&mut bench, &mut client, "HKEYS h", |_, _| {}).concat();
    assert!(reply.starts_with(&format!("*{}\r\n", COUNT - 100)), "{}", &reply[..20]);
    assert!(names.iter().all(|name| !reply.contains(name)));
    assert_eq!(bench.run(&mut client, "HLEN h"), format!(":{}\r\n", COUNT - 100));
}

#[test]
fn a_muted_client_gets_no_pieces() {
    let (mut bench, mut client) = bench();
    bench.run(&mut client, "CLIENT REPLY OFF");
    assert_eq!(bench.run(&mut client, "SMEMBERS s"), "");
    assert_eq!(bench.run(&mut client, "CLIENT REPLY ON"), "+OK\r\n");
}
