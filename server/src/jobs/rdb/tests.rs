//! What is saved is what is loaded.

use super::save::write_all;
use super::{Counts, Loader};
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Executor, Outcome};
use crate::keyspace::collection::{Edit, Encoding, Field, HashEdit};
use crate::resp::{Reply, pack};
use crate::server::Server;
use crate::state::saving::Start;
use crate::value::PLAIN_STRING;
use crate::value::thresholds::Thresholds;
use sexton_engine::{Engine, Key, Latched, Meta, ScanItem, ScanRange, TxBuf};
use sexton_persistence::rdb::{FIELD_TIMES_VERSION, Input, Writer, WriterOptions};
use std::path::Path;

const FAR_MS: u64 = 4_102_444_800_000;

fn server() -> Server {
    Server::new(Engine::in_memory(4).unwrap(), 4)
}

fn put(server: &Server, db: usize, key: &str, meta: Meta, value: &[u8]) {
    let (engine, mut buf) = (&server.engine, TxBuf::default());
    let hash = engine.hash(key.as_bytes());
    let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut buf);
    tx.put(Key { slot: engine.slot_of(db), bytes: key.as_bytes(), hash }, meta, value);
    tx.commit();
}

fn items(server: &Server, db: usize) -> Vec<ScanItem> {
    let range = ScanRange { db, ..ScanRange::default() };
    server.engine.scan(&range).unwrap().map(Result::unwrap).collect()
}

fn writer(version: u16) -> Writer<Vec<u8>> {
    Writer::new(Vec::new(), WriterOptions { version, compress: true, checksum: true })
}

#[test]
fn what_is_saved_is_loaded() {
    let saved = server();
    for nth in 0..1000_u64 {
        let expire_at_ms = if nth % 3 == 0 { FAR_MS + nth } else { 0 };
        let meta = Meta { flags: PLAIN_STRING, expire_at_ms };
        put(&saved, (nth % 2 * 3) as usize, &format!("k{nth}"), meta, nth.to_string().as_bytes());
    }
    let overdue = Meta { flags: PLAIN_STRING, expire_at_ms: 1 };
    put(&saved, 0, "overdue", overdue, b"x");
    let mut writer = writer(9);
    let seq = write_all(&saved, Path::new("-"), &mut writer).unwrap();
    assert_eq!(seq, saved.engine.last_seq());
    assert_eq!(saved.saving.view().keys, (0, 0), "none runs");
    let file = writer.finish().unwrap();

    let loaded = server();
    let mut loader = Loader::new(&loaded);
    let left = loader.load(Input::new(&[&file[..], b"tail"].concat())).unwrap().left();
    assert_eq!(left, 4, "what stands behind the file is not touched");
    assert_eq!(loader.counts(), Counts { loaded: 1000, expired: 1, empty: 0 });
    for db in 0..4 {
        let mut expected = items(&saved, db);
        expected.retain(|item| item.key != b"overdue");
        assert_eq!(items(&loaded, db), expected, "database {db}");
    }
}

fn run(server: &Server, line: &str) -> String {
    let mut executor = Executor::new(crate::commands::table::table(), 0, true);
    let mut client = Client { authenticated: true, ..Client::default() };
    let (bytes, ranges) = pack(line.split(' ').map(str::as_bytes));
    let (mut out, args) = (Reply::new(), Args::new(&bytes, &ranges));
    let outcome = executor.execute(server, &mut client, args, &mut out, FAR_MS - 1000);
    assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
    String::from_utf8_lossy(out.bytes()).into_owned()
}

#[test]
fn collections_without_elements_are_passed_over() {
    // A list, a set, a sorted set and a hash of nothing, as old versions of Redis wrote them, and a string.
    let file =
        b"REDIS0004\xfe\x00\x01\x01l\x00\x02\x01s\x00\x03\x01z\x00\x04\x01h\x00\x00\x01k\x01v\xff";
    let loaded = server();
    let mut loader = Loader::new(&loaded);
    loader.load(Input::new(file)).unwrap();
    assert_eq!(loader.counts(), Counts { loaded: 1, expired: 0, empty: 4 });
    assert_eq!(run(&loaded, "GET k"), "$1\r\nv\r\n");
    assert_eq!(run(&loaded, "DBSIZE"), ":1\r\n");
}

#[test]
fn collections_in_pages_are_saved_whole() {
    let saved = server();
    let thresholds = &saved.settings.thresholds;
    let now = thresholds.now();
    thresholds.set(Thresholds { inline_bytes: 64, hash_entries: 4, sorted_set_entries: 4, ..now });
    let long = "x".repeat(5000);
    for nth in 0..2000 {
        run(&saved, &format!("RPUSH list element{nth}"));
        run(&saved, &format!("SADD set member{nth}"));
        run(&saved, &format!("HSET hash field{nth} {nth}"));
        run(&saved, &format!("ZADD zset {}.5 member{nth}", nth % 37));
    }
    for line in ["RPUSH list LONG", "SADD set LONG", "HSET hash long LONG", "LPUSH list LONG"] {
        run(&saved, &line.replace("LONG", &long));
    }
    let mut versions = vec![9];
    loop {
        assert!(saved.engine.has_pages());
        let mut writer = writer(*versions.last().unwrap());
        write_all(&saved, Path::new("-"), &mut writer).unwrap();
        let file = writer.finish().unwrap();
        let loaded = server();
        let mut loader = Loader::new(&loaded);
        loader.load(Input::new(&file)).unwrap();
        assert_eq!(loader.counts(), Counts { loaded: 4, expired: 0, empty: 0 });
        assert_eq!(run(&loaded, "DEBUG DIGEST"), run(&saved, "DEBUG DIGEST"));
        if versions.len() == 2 {
            break;
        }
        versions.push(FIELD_TIMES_VERSION);
        run(&saved, &format!("HPEXPIREAT hash {FAR_MS} FIELDS 2 field7 field77"));
        let refused = write_all(&saved, Path::new("-"), &mut self::writer(9)).unwrap_err();
        assert!(matches!(refused, super::SaveError::FieldTimes), "{refused}");
    }
    assert_eq!(run(&saved, "HPTTL hash FIELDS 2 field7 field8"), "*2\r\n:1000\r\n:-1\r\n");
}

#[test]
fn a_save_that_is_called_off_ends() {
    let server = server();
    for nth in 0..1000_u64 {
        put(&server, 0, &nth.to_string(), Meta { flags: PLAIN_STRING, expire_at_ms: 0 }, b"x");
    }
    assert_eq!(server.saving.start_in_background(), Start::Started);
    server.saving.call_off();
    let error = write_all(&server, Path::new("-"), &mut writer(9)).unwrap_err();
    assert!(matches!(error, super::SaveError::Aborted), "{error}");
    server.saving.end(None);
    assert!(server.saving.view().last_ok, "that is no failure");
}

#[test]
fn fields_that_expire_are_saved_under_the_version_that_has_them_and_loaded() {
    let saved = server();
    let field = |name, due_ms| Field { name, value: b"1", due_ms };
    let fields = [field(b"a", FAR_MS), field(b"b", 0)];
    let hash = HashEdit::of_fields(fields.into_iter(), Encoding::Hashtable);
    put(&saved, 3, "h", hash.meta(FAR_MS + 1), hash.bytes());
    let failed = write_all(&saved, Path::new("-"), &mut writer(9)).unwrap_err();
    assert!(matches!(failed, super::SaveError::FieldTimes), "{failed}");
    let mut writer = writer(80);
    write_all(&saved, Path::new("-"), &mut writer).unwrap();
    let file = writer.finish().unwrap();
    assert!(file.starts_with(b"VALKEY080"));
    let loaded = server();
    Loader::new(&loaded).load(Input::new(&file)).unwrap();
    assert_eq!(items(&loaded, 3), items(&saved, 3));
    assert!(items(&loaded, 3)[0].meta.has_due_elements());
}

#[test]
fn what_cannot_be_stored_is_named() {
    let server = server();
    let mut file = writer(9);
    file.select_db(4, 1, 0).unwrap();
    let file = file.finish().unwrap();
    let error = Loader::new(&server).load(Input::new(&file)).unwrap_err();
    assert_eq!(error, "database 4: this server is configured to handle 4");

    put(&server, 0, "newer", Meta { flags: 9, expire_at_ms: 0 }, b"");
    let error = write_all(&server, Path::new("-"), &mut writer(9)).unwrap_err();
    assert_eq!(error.to_string(), "key 'newer' is of an unknown type");
}
