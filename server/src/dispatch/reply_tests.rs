//! Tests of replies that are suppressed, and of replies that exceed the limit.

use super::tests::Bench;

#[test]
fn replies_are_dropped_as_asked() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    assert_eq!(bench.run(&mut client, "CLIENT REPLY SKIP"), "");
    assert_eq!(bench.run(&mut client, "SET a 1"), "");
    assert_eq!(bench.run(&mut client, "GET a"), "$1\r\n1\r\n");
    assert_eq!(bench.run(&mut client, "CLIENT REPLY OFF"), "");
    assert_eq!(bench.run(&mut client, "GET a"), "");
    assert_eq!(bench.run(&mut client, "CLIENT REPLY ON"), "+OK\r\n");
}

#[test]
fn the_ok_of_client_reply_on_is_not_skipped() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    assert_eq!(bench.run(&mut client, "CLIENT REPLY SKIP"), "");
    assert_eq!(bench.run(&mut client, "CLIENT REPLY ON"), "+OK\r\n");
    assert_eq!(bench.run(&mut client, "PING"), "+PONG\r\n");
    // One that skips the next skips the request behind that, too.
    bench.run_all(&mut client, &["CLIENT REPLY SKIP", "CLIENT REPLY SKIP"]);
    assert_eq!(bench.run(&mut client, "PING"), "");
    assert_eq!(bench.run(&mut client, "PING"), "+PONG\r\n");
    bench.run(&mut client, "CLIENT REPLY SKIP");
    assert_eq!(bench.run(&mut client, "RESET"), "");
    bench.run(&mut client, "CLIENT REPLY OFF");
    assert_eq!(bench.run(&mut client, "RESET"), "+RESET\r\n");
}

#[test]
fn confirmations_of_subscriptions_are_sent_while_replies_are_off() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run(&mut client, "CLIENT REPLY OFF");
    let confirmed = bench.run(&mut client, "SUBSCRIBE a");
    assert_eq!(confirmed, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    assert_eq!(bench.run(&mut client, "SUBSCRIBE"), "", "an error is a reply");
    let confirmed = bench.run(&mut client, "UNSUBSCRIBE");
    assert_eq!(confirmed, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
    assert_eq!(bench.run(&mut client, "PING"), "");
}

#[test]
fn client_reply_counts_within_a_transaction_from_where_it_stands() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["MULTI", "PING", "CLIENT REPLY OFF", "PING"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "*3\r\n+PONG\r\n");
    bench.run_all(&mut client, &["MULTI", "PING", "CLIENT REPLY ON", "PING"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "+OK\r\n+PONG\r\n");
    bench.run_all(&mut client, &["MULTI", "CLIENT REPLY SKIP"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "*1\r\n");
    assert_eq!(bench.run(&mut client, "EXEC"), "");
    assert_eq!(bench.run(&mut client, "EXEC"), "-ERR EXEC without MULTI\r\n");
}

#[test]
fn a_reply_that_its_connection_is_closed_for_is_not_written_whole() {
    let mut bench = Bench::new();
    let (mut client, mut muted) = (bench.client(), bench.client());
    bench.run(&mut client, "HSET h field value");
    bench.server.settings.output_limit.set_from("normal", b"normal 10000 0 0").expect("limits");
    assert!(bench.run(&mut client, "HRANDFIELD h -500").starts_with("*500\r\n"));
    assert!(!client.closing);
    bench.run(&mut muted, "CLIENT REPLY OFF");
    assert_eq!(bench.run(&mut muted, "HRANDFIELD h -9223372036854775807"), "");
    assert!(!muted.closing);
    assert_eq!(bench.run(&mut client, "HRANDFIELD h -9223372036854775807"), "");
    assert!(client.closing);
}

/// Regression: the pending wait of a WAITAOF in a script stayed with the client, whose next request was then answered
/// endlessly.
#[test]
fn waitaof_inside_a_script_answers_at_once() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    // No replica will ever come.
    let script = "EVAL return\tredis.call('waitaof',0,1,0) 0";
    assert_eq!(bench.run(&mut client, script), "*2\r\n:0\r\n:0\r\n");
    assert_eq!(bench.run(&mut client, "ECHO once"), "$4\r\nonce\r\n");
}
