//! Values in one record that commands edit: one record a memtable, however often they change.

use super::tests::Bench;

fn words(count: usize, word: impl Fn(usize) -> String) -> String {
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn small_collections_and_edited_strings_have_one_record_a_memtable() {
    let value = "v".repeat(40);
    let fields = words(30, |n| format!("f{n:02} {value}"));
    let members = words(30, |n| format!("{n} m{n:02}{value}"));
    let elements = words(30, |n| format!("e{n:02}{value}"));
    for (setup, edit) in [
        (format!("HSET key {fields}"), "HSET key f07 w"),
        (format!("HSET key {fields} number 100"), "HINCRBY key number 1"),
        (format!("ZADD key {members}"), &*format!("ZINCRBY key 1 m07{value}")),
        (format!("RPUSH key {elements}"), "LSET key 7 w"),
        (format!("RPUSH key {elements}"), "LMOVE key key LEFT RIGHT"),
        ("SETRANGE key 700 end".to_owned(), "SETRANGE key 7 w"),
        ("SETRANGE key 700 end".to_owned(), "SETBIT key 4000 1"),
        ("SETRANGE key 700 end".to_owned(), "BITFIELD key INCRBY u8 8 1 INCRBY u8 80 1"),
        ("SETRANGE key 700 end".to_owned(), "APPEND key 0123456789"),
    ] {
        let mut bench = Bench::new();
        let mut client = bench.client();
        bench.run(&mut client, &setup);
        bench.run(&mut client, edit);
        let bytes = |bench: &Bench| bench.server.engine.stats().memtable_bytes;
        let before = bytes(&bench);
        for _ in 0..10 {
            let reply = bench.run(&mut client, edit);
            assert!(!reply.starts_with('-'), "{edit}: {reply}");
        }
        assert_eq!(bytes(&bench), before, "{edit}");
    }
}
