//! Log forms of commands: replay reproduces the data, with an equal number of operations (N1).

use super::Executor;
use super::tests::Bench;
use crate::resp::command_bytes;

#[test]
fn what_hash_commands_and_sort_log_makes_the_same_data_with_as_many_operations() {
    let requests_and_logs = [
        ("HSET h f 1 g 2 f 3", "HSET h f 1 g 2 f 3"),
        ("PEXPIRE h 5000", "PEXPIREAT h 1005000"),
        ("HSETNX h n 0.1", "HSETNX h n 0.1"),
        ("HSETNX h n 7", ""),
        ("HINCRBYFLOAT h n 0.2", "HSET h n 0.3"),
        ("HINCRBY h f -9", "HINCRBY h f -9"),
        ("HMSET gone a b", "HMSET gone a b"),
        ("HDEL gone x y", ""),
        ("HDEL gone x a a", "HDEL gone x a a"),
        ("SET w_1 2", "SET w_1 2"),
        ("HSET w_2 f 1", "HSET w_2 f 1"),
        ("SORT nothing STORE gone", ""),
        ("SORT nothing STORE w_1", "DEL w_1"),
    ];
    replays(&requests_and_logs, &["HGETALL h", "PEXPIRETIME h", "DUMP h", "EXISTS gone w_1 w_2"]);
}

#[test]
fn what_list_commands_log_makes_the_same_data_with_as_many_operations() {
    let requests_and_logs = [
        ("RPUSH l a b c a", "RPUSH l a b c a"),
        ("LPUSH l z y", "LPUSH l z y"),
        ("LPUSHX none x", ""),
        ("LPOP l 2", "LPOP l 2"),
        ("LPOP l 0", ""),
        ("LREM l -1 a", "LREM l -1 a"),
        ("LREM l 0 none", ""),
        ("LINSERT l AFTER b x", "LINSERT l AFTER b x"),
        ("LMOVE l m LEFT RIGHT", "LMOVE l m LEFT RIGHT"),
        ("RPOPLPUSH l l", "LMOVE l l RIGHT LEFT"),
        ("BRPOPLPUSH m l 0", "LMOVE m l RIGHT LEFT"),
        ("BLPOP none l 0", "LPOP l"),
        ("LMPOP 2 none l RIGHT COUNT 9", "RPOP l 3"),
        ("LTRIM none 5 1", ""),
        ("RPUSH l 1 2 3", "RPUSH l 1 2 3"),
        ("LTRIM l 1 1", "LTRIM l 1 1"),
    ];
    replays(&requests_and_logs, &["LRANGE l 0 -1", "EXISTS l m none"]);
}

#[test]
fn what_set_commands_log_makes_the_same_data_with_as_many_operations() {
    let requests_and_logs = [
        ("SADD s 3 1 2", "SADD s 3 1 2"),
        ("SADD s 1 2", ""),
        ("SADD t a b 1 2 3 4 5 6 7 8", "SADD t a b 1 2 3 4 5 6 7 8"),
        ("SREM s 9", ""),
        ("SMOVE s t 1", "SMOVE s t 1"),
        ("SMOVE s t 9", ""),
        ("SUNIONSTORE u s t", "SUNIONSTORE u s t"),
        ("SPOP u 100", "DEL u"),
        ("SINTERSTORE u s t", "SINTERSTORE u s t"),
        ("SPOP u 0", ""),
        ("SDIFFSTORE none s s", ""),
        ("SDIFFSTORE u s s", "SDIFFSTORE u s s"),
        ("SREM t a b 1 2 3 4 5 6 7", "SREM t a b 1 2 3 4 5 6 7"),
        ("SPOP t", "DEL t"),
    ];
    replays(&requests_and_logs, &["SMEMBERS s", "EXISTS t u none"]);
}

#[test]
fn what_sorted_set_commands_log_makes_the_same_data_with_as_many_operations() {
    let requests_and_logs = [
        ("ZADD z 1 a 2 b 3 c", "ZADD z 1 a 2 b 3 c"),
        ("ZADD z NX 5 a", ""),
        ("ZADD z XX 5 none", ""),
        ("ZADD z GT CH 2 a 1 b", "ZADD z GT CH 2 a 1 b"),
        ("ZADD z INCR 0.1 a", "ZADD z INCR 0.1 a"),
        ("ZINCRBY z 0 a", ""),
        ("ZINCRBY z 0.2 a", "ZINCRBY z 0.2 a"),
        ("ZUNIONSTORE u 2 z z WEIGHTS 0.1 3", "ZUNIONSTORE u 2 z z WEIGHTS 0.1 3"),
        ("ZDIFFSTORE none 2 z z", ""),
        ("ZRANGESTORE r z 0 1 REV", "ZRANGESTORE r z 0 1 REV"),
        ("ZREMRANGEBYSCORE z 9 10", ""),
        ("ZREMRANGEBYRANK u 0 0", "ZREMRANGEBYRANK u 0 0"),
        ("ZPOPMIN u 0", ""),
        ("ZPOPMAX u", "ZPOPMAX u"),
        ("BZPOPMIN none u 0", "ZPOPMIN u"),
        ("ZMPOP 2 none r MIN COUNT 9", "ZPOPMIN r 2"),
        ("ZREM z none", ""),
        ("ZREM z b b", "ZREM z b b"),
    ];
    replays(&requests_and_logs, &["ZRANGE z 0 -1 WITHSCORES", "DUMP z", "EXISTS u r none"]);
}

#[test]
fn what_commands_of_bits_and_hyperloglogs_log_makes_the_same_data_with_as_many_operations() {
    let requests_and_logs = [
        ("SETBIT b 7 1", "SETBIT b 7 1"),
        ("SETBIT b 7 1", ""),
        ("SET n 12", "SET n 12"),
        ("SETBIT n 0 0", "SETBIT n 0 0"),
        ("SETBIT n 0 0", ""),
        ("BITFIELD b SET u8 #1 300 GET u4 0", "BITFIELD b SET u8 #1 300 GET u4 0"),
        ("BITFIELD b SET u8 #1 300", ""),
        ("BITFIELD fails OVERFLOW FAIL SET u8 0 300", "BITFIELD fails OVERFLOW FAIL SET u8 0 300"),
        ("BITOP NOT o b", "BITOP NOT o b"),
        ("BITOP AND o none", "BITOP AND o none"),
        ("BITOP OR o none", ""),
        ("PFADD p a b c", "PFADD p a b c"),
        ("PFADD p a b", ""),
        ("PFCOUNT p", "PFCOUNT p"),
        ("PFCOUNT p", ""),
        ("PFADD q", "PFADD q"),
        ("PFMERGE m p q", "PFMERGE m p q"),
        ("PFCOUNT m p", ""),
        ("PFDEBUG TODENSE m", "PFDEBUG TODENSE m"),
        ("PFDEBUG TODENSE m", ""),
    ];
    let looks =
        ["MGET b n o fails p q m", "OBJECT ENCODING n", "OBJECT ENCODING p", "EXISTS o fails"];
    replays(&requests_and_logs, &looks);
}

#[test]
fn what_a_damaged_hyperloglog_has_seen_before_the_damage_stays() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    // Sparse, with 16,256 of its 16,384 registers.
    bench.run(&mut client, &format!("SET p HYLL\u{1}{}\u{7f}\u{7f}", "\0".repeat(11)));
    let before = bench.run(&mut client, "GET p");
    let elements: String = (0..300).map(|element| format!(" {element}")).collect();
    let seqs = [(); 2].map(|()| {
        let reply = bench.run(&mut client, &format!("PFADD p{elements}"));
        assert_eq!(reply, "-INVALIDOBJ Corrupted HLL object detected\r\n");
        bench.server.engine.last_seq()
    });
    assert_eq!(seqs[0], seqs[1], "the second time nothing is new");
    assert_ne!(bench.run(&mut client, "GET p"), before);
    assert_eq!(bench.run(&mut client, "PFADD p 0"), ":0\r\n");
}

#[test]
fn what_stream_commands_log_makes_the_same_data_with_as_many_operations() {
    let requests_and_logs = [
        ("XADD s 5-1 a 1 b 2", "XADD s 5-1 a 1 b 2"),
        ("XADD s 6-* a 3", "XADD s 6-0 a 3"),
        ("XADD s NOMKSTREAM MAXLEN ~ 100 6-* a 3", "XADD s MAXLEN = 3 6-1 a 3"),
        ("XADD s MAXLEN 3 7 c 4", "XADD s MAXLEN 3 7-0 c 4"),
        ("XADD none NOMKSTREAM * a 1", ""),
        ("XADD s * a 1", "XADD s 1000000-0 a 1"),
        ("XDEL s 6-1 1-1", "XDEL s 6-1 1-1"),
        ("XDEL s 6-1", ""),
        ("XGROUP CREATE s g 0", "XGROUP CREATE s g 0"),
        ("XGROUP CREATE t g $ MKSTREAM", "XGROUP CREATE t g $ MKSTREAM"),
        ("XGROUP CREATECONSUMER s g ann", "XGROUP CREATECONSUMER s g ann"),
        ("XGROUP CREATECONSUMER s g ann", ""),
        ("XTRIM s MAXLEN 9", ""),
        ("XTRIM s MINID 6", ""),
        ("XSETID t 3-3 ENTRIESADDED 5", "XSETID t 3-3 ENTRIESADDED 5"),
        ("XGROUP SETID t g $", "XGROUP SETID t g $"),
        ("XTRIM s MINID ~ 9999999", "XTRIM s MAXLEN = 0"),
        ("XGROUP DESTROY t none", ""),
        ("XACK s g 1-1", ""),
    ];
    let looks = ["XRANGE s - +", "XINFO STREAM s", "XINFO GROUPS s", "XINFO GROUPS t", "XLEN t"];
    replays(&requests_and_logs, &looks);
}

#[test]
fn what_a_group_reads_and_claims_is_logged_by_outcome() {
    let (mut bench, mut again) = (Bench::new(), Bench::new());
    let (mut client, mut log_client) = (bench.client(), again.client());
    let mut replayer = Executor::new(crate::commands::table::table(), 0, false);
    let before =
        ["XADD s 1-0 a 1", "XADD s 2-0 a 2", "XADD s 3-0 a 3", "XGROUP CREATE s g 0 ENTRIESREAD 0"];
    let steps: [(&str, &[&str]); 6] = [
        (
            "XREADGROUP GROUP g ann COUNT 2 STREAMS s >",
            &[
                "XCLAIM s g ann 0 1-0 2-0 TIME 1000000 RETRYCOUNT 1 FORCE JUSTID LASTID 2-0",
                "XGROUP SETID s g 2-0 ENTRIESREAD 2",
            ],
        ),
        (
            "XREADGROUP GROUP g ann STREAMS s 1-0",
            &["XCLAIM s g ann 0 2-0 TIME 1000000 RETRYCOUNT 2 FORCE JUSTID LASTID 2-0"],
        ),
        (
            "XREADGROUP GROUP g bob NOACK STREAMS s >",
            &["XGROUP CREATECONSUMER s g bob", "XGROUP SETID s g 3-0 ENTRIESREAD 3"],
        ),
        ("XDEL s 1-0", &["XDEL s 1-0"]),
        (
            "XAUTOCLAIM s g bob 0 0",
            &[
                "XACK s g 1-0",
                "XCLAIM s g bob 0 2-0 TIME 1000000 RETRYCOUNT 3 FORCE JUSTID LASTID 3-0",
            ],
        ),
        (
            "XCLAIM s g ann 0 2-0 3-0 FORCE RETRYCOUNT 9",
            &["XCLAIM s g ann 0 2-0 3-0 TIME 1000000 RETRYCOUNT 9 FORCE JUSTID LASTID 3-0"],
        ),
    ];
    bench.run_all(&mut client, &before);
    again.run_all(&mut log_client, &before);
    for (request, logs) in steps {
        let reply = bench.run(&mut client, request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        for log in logs {
            let words: Vec<&[u8]> = log.split(' ').map(str::as_bytes).collect();
            replayer.replay(&again.server, &mut log_client, &command_bytes(&words)).expect(log);
        }
        assert_eq!(bench.server.engine.last_seq(), again.server.engine.last_seq(), "{request}");
        for look in ["XPENDING s g - + 10", "XINFO GROUPS s", "XPENDING s g"] {
            let (ours, theirs) = (bench.run(&mut client, look), again.run(&mut log_client, look));
            assert_eq!(ours, theirs, "{look} after {request}");
        }
    }
}

/// Runs the requests, and their log forms on a second server: both must perform an equal number of operations, and
/// answer `looks` alike.
fn replays(requests_and_logs: &[(&str, &str)], looks: &[&str]) {
    let (mut bench, mut again) = (Bench::new(), Bench::new());
    let (mut client, mut replayer) =
        (bench.client(), Executor::new(crate::commands::table::table(), 0, false));
    let mut log_client = again.client();
    for (request, log) in requests_and_logs {
        let reply = bench.run(&mut client, request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        if !log.is_empty() {
            let words: Vec<&[u8]> = log.split(' ').map(str::as_bytes).collect();
            replayer.replay(&again.server, &mut log_client, &command_bytes(&words)).expect(log);
        }
        assert_eq!(bench.server.engine.last_seq(), again.server.engine.last_seq(), "{request}");
    }
    for look in looks {
        assert_eq!(bench.run(&mut client, look), again.run(&mut log_client, look));
    }
}
