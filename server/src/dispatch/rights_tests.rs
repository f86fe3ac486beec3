//! Rights in transactions and scripts, renamed commands, and the redaction of secrets.

use super::client::Client;
use super::tests::Bench;
use super::{Executor, Table};
use crate::resp::command_bytes;

#[test]
fn rights_are_looked_at_when_a_command_is_queued_and_when_exec_runs_it() {
    let mut bench = Bench::new();
    let (mut admin, mut ann) = (bench.client(), bench.client());
    bench.run(&mut admin, "ACL SETUSER ann on >p +@all -@admin ~a* %R~b*");
    assert!(bench.run(&mut ann, "AUTH ann wrong").starts_with("-WRONGPASS"));
    assert_eq!(bench.run(&mut ann, "AUTH ann p"), "+OK\r\n");
    assert_eq!(bench.run(&mut ann, "SET a1 v"), "+OK\r\n");
    assert_eq!(
        bench.run(&mut ann, "SET b1 v"),
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
    );
    bench.run_all(&mut ann, &["MULTI", "SET a1 w", "GET b1"]);
    bench.run(&mut admin, "ACL SETUSER ann -set");
    let reply = bench.run(&mut ann, "EXEC");
    assert!(reply.starts_with("*2\r\n-NOPERM ACLs rules changed between"), "{reply}");
    assert!(reply.ends_with("$-1\r\n"), "{reply}");
    assert_eq!(bench.run(&mut ann, "GET a1"), "$1\r\nv\r\n");
    bench.run(&mut ann, "MULTI");
    assert!(
        bench
            .run(&mut ann, "ACL LIST")
            .starts_with("-NOPERM this user has no permissions to run the 'acl|list'")
    );
    assert!(bench.run(&mut ann, "EXEC").starts_with("-EXECABORT"));
    let noted: Vec<_> =
        bench.server.auth.denials.newest(10).into_iter().map(|entry| entry.last).collect();
    let noted: Vec<_> =
        noted.iter().map(|d| (d.reason.name(), d.context.name(), d.object.as_slice())).collect();
    let expected: [(&str, &str, &[u8]); 4] = [
        ("command", "multi", b"acl|list"),
        ("command", "multi", b"set"),
        ("key", "toplevel", b"b1"),
        ("auth", "toplevel", b"AUTH"),
    ];
    assert_eq!(noted, expected);
}

#[test]
fn a_user_of_some_databases_stays_in_them() {
    let mut bench = Bench::new();
    let (mut admin, mut ann) = (bench.client(), bench.client());
    bench.run_all(&mut admin, &["ACL SETUSER ann on nopass +@all ~* &* db=1,2", "SET a 0"]);
    bench.run(&mut ann, "AUTH ann x");
    let refused = "-NOPERM No permissions to access database\r\n";
    for line in [
        "GET a",
        "SELECT 3",
        "DBSIZE",
        "SCAN 0",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 1 3",
        "COPY a b DB 1",
        "WATCH a",
        "RANDOMKEY",
    ] {
        assert_eq!(bench.run(&mut ann, line), refused, "{line}");
    }
    for line in
        ["PING", "PUBLISH c m", "SELECT 1", "SET a 1", "COPY a b DB 2", "MOVE a 2", "SWAPDB 1 2"]
    {
        assert!(!bench.run(&mut ann, line).starts_with('-'), "{line}");
    }
    for line in ["COPY a b DB 3", "COPY a b DB 2 DB 3", "COPY a b DB 3 DB 2", "MOVE a 0"] {
        assert_eq!(bench.run(&mut ann, line), refused, "{line}");
    }
    let reply =
        bench.run(&mut ann, "EVAL redis.call('select','0')return(redis.pcall('get','a')) 0");
    assert!(
        reply.starts_with("-ERR The user executing the script can't access the database"),
        "{reply}"
    );
    // What is queued behind a SELECT runs in that database.
    bench.run_all(&mut admin, &["SELECT 2", "SET q 2"]);
    bench.run_all(&mut ann, &["SELECT 1", "MULTI", "SELECT 2", "GET q"]);
    assert_eq!(bench.run(&mut ann, "GET q"), "+QUEUED\r\n");
    assert!(bench.run(&mut ann, "EXEC").ends_with("$1\r\n2\r\n"));
    bench.run_all(&mut ann, &["SELECT 1", "MULTI", "SELECT 2"]);
    bench.run(&mut admin, "ACL SETUSER ann db=1");
    assert_eq!(bench.run(&mut ann, "GET q"), refused);
    assert!(bench.run(&mut ann, "EXEC").starts_with("-EXECABORT"));
    let newest = bench.server.auth.denials.newest(1).remove(0).last;
    assert_eq!((newest.reason.name(), newest.object.as_slice()), ("database", &b"get"[..]));
    let reply = bench.run(&mut admin, "ACL DRYRUN ann SELECT 2");
    assert!(reply.ends_with("User ann has no permissions to access database 2\r\n"), "{reply}");
    assert!(
        bench
            .run(&mut admin, "ACL GETUSER ann")
            .ends_with("$9\r\ndatabases\r\n$4\r\ndb=1\r\n$9\r\nselectors\r\n*0\r\n")
    );
    let all = (0..16).map(|db| db.to_string()).collect::<Vec<_>>().join(",");
    bench.run(&mut admin, &format!("ACL SETUSER ann db={all}"));
    assert_eq!(bench.run(&mut ann, "FLUSHALL"), "+OK\r\n");
}

#[test]
fn scripts_may_do_what_their_user_may() {
    let mut bench = Bench::new();
    let (mut admin, mut ann) = (bench.client(), bench.client());
    bench.run_all(&mut admin, &["ACL SETUSER ann on nopass +@all -incr ~a", "SET b v"]);
    bench.run(&mut ann, "AUTH ann x");
    assert_eq!(bench.run(&mut ann, "EVAL return(redis.call('set','a','1')) 0"), "+OK\r\n");
    let reply = bench.run(&mut ann, "EVAL return(redis.pcall('get','b')) 0");
    assert!(reply.starts_with("-ERR The user executing the script can't access"), "{reply}");
    let reply = bench.run(&mut ann, "EVAL return(redis.call('incr','a')) 0");
    assert!(reply.starts_with("-ERR The user executing the script can't run"), "{reply}");
    let reply = bench.run(&mut ann, "EVAL return(redis.acl_check_cmd('get','a')) 0");
    assert_eq!(reply, ":1\r\n");
    assert_eq!(
        bench.server.auth.denials.newest(10).len(),
        2,
        "each once, though scripts begin again"
    );
    let reply = bench.run(&mut ann, "SORT a BY w_*");
    assert!(reply.starts_with("-ERR BY option of SORT denied"), "{reply}");
}

#[test]
fn connections_of_a_user_that_goes_are_closed() {
    let mut bench = Bench::new();
    let (mut admin, mut ann) = (bench.client(), bench.client());
    bench.run(&mut admin, "ACL SETUSER ann on nopass +@all ~*");
    bench.run(&mut ann, "AUTH ann x");
    assert_eq!(bench.run(&mut admin, "ACL DELUSER ann nobody"), ":1\r\n");
    assert_eq!(bench.run(&mut ann, "PING"), "");
    assert!(ann.closing);
}

#[test]
fn renamed_commands_are_logged_by_their_own_names() {
    let mut table = Table::build(crate::commands::GROUPS);
    table.rename(b"set", b"put").unwrap();
    table.rename(b"FLUSHALL", b"").unwrap();
    assert!(table.rename(b"set", b"x").is_err() && table.rename(b"get", b"put").is_err());
    let mut bench = Bench::new();
    bench.executor = Executor::new(Box::leak(Box::new(table)), 0, true);
    let mut client = bench.client();
    assert!(bench.run(&mut client, "SET k v").starts_with("-ERR unknown command 'SET'"));
    assert!(bench.run(&mut client, "FLUSHALL").starts_with("-ERR unknown command 'FLUSHALL'"));
    assert_eq!(bench.run(&mut client, "PUT k v"), "+OK\r\n");
    assert!(bench.run(&mut client, "put k").contains("for 'set' command"));
    let group = command_bytes(&[b"SET", b"k", b"w"]);
    let mut replaying = Executor::new(bench.executor.table(), 0, true);
    replaying.replay(&bench.server, &mut Client::default(), &group).unwrap();
}

#[test]
fn the_slow_log_shows_no_passwords() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.observe.slowlog.set_threshold_us(0);
    bench.run_all(
        &mut client,
        &[
            "ACL SETUSER ann on >secret allcommands",
            "AUTH ann secret",
            "HELLO 2 SETNAME shown AUTH ann secret",
            "CONFIG SET timeout 0 requirepass secret",
            "ACL DELUSER secret",
        ],
    );
    let shown: Vec<String> = bench
        .server
        .observe
        .slowlog
        .newest(100)
        .into_iter()
        .map(|entry| String::from_utf8(entry.args.join(&b' ')).unwrap())
        .collect();
    assert!(shown.iter().all(|line| !line.contains("secret")), "{shown:?}");
    assert!(
        shown.contains(&"HELLO 2 SETNAME shown AUTH (redacted) (redacted)".to_owned()),
        "{shown:?}"
    );
    assert!(shown.contains(&"CONFIG SET timeout 0 requirepass (redacted)".to_owned()), "{shown:?}");
}
