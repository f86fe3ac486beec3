//! Arguments that were copied before the latches were taken.

use super::crash::small_options;
use super::harness::key;
use crate::key::Meta;
use crate::page::long_string::WRITTEN_PAGE_BYTES as PAGE_BYTES;
use crate::page::{Descriptor, LongString};
use crate::store::*;
use sexton_persistence::aof::write_command;
use sexton_persistence::device::sim::SimStorage;

const META: Meta = Meta { flags: 6 | Meta::PAGED, expire_at_ms: 0 };

fn put_string(tx: &mut Tx<'_>, name: &[u8], content: &[u8]) {
    let collection = tx.engine().new_collection().expect("it takes pages");
    let root = key(tx.engine(), 0, name);
    let mut pages = tx.pages(root, collection);
    let string = LongString::build(&mut pages, content, PAGE_BYTES);
    let mut descriptor = Descriptor::new(collection, 2);
    descriptor.totals = string.totals();
    descriptor.set_part(string.part());
    pages.put(META, &descriptor).expect("it takes pages");
}

fn string_of(tx: &mut Tx<'_>, name: &[u8]) -> Vec<u8> {
    let root = key(tx.engine(), 0, name);
    let Found::Live(entry) = tx.find(root) else { panic!("a root") };
    let descriptor = Descriptor::decode(entry.value()).expect("a descriptor");
    let string = LongString::open(&descriptor).expect("a string");
    let pages = tx.pages(root, descriptor.collection);
    let mut found = Vec::new();
    let show = |piece: &[u8]| found.extend_from_slice(piece);
    string.each(&pages, 0..string.bytes(), show).expect("in memory");
    found
}

#[test]
fn an_argument_is_stored_and_logged_from_its_copies() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::Always, false);
    let (engine, _) = Engine::open(options.clone(), &mut |_, _| Ok(())).expect("a new store");
    let content: Vec<u8> = (0..3 * PAGE_BYTES + 77).map(|at| (at / 7) as u8).collect();
    let other = content.clone();
    let (mut buf, mut expected) = (TxBuf::default(), Vec::new());
    for round in 0..4_u32 {
        let db = round % 2;
        // The second of two pages of the argument, and an equal one that is not it, are copied.
        let stored = [&content[..], &content[PAGE_BYTES..], &content[9..], &other][round as usize];
        let blocks_left = [0, 0, 4, 4][round as usize];
        let words = [b"SET".as_slice(), b"k", if round == 3 { &other } else { &content }, b"end"];
        let prepared = engine.prepare(&content, true);
        let latched = key(&engine, 0, b"k").hash;
        let mut tx = engine.begin(Latched::Hashes(&[latched]), &mut buf);
        tx.set_prepared(&prepared);
        put_string(&mut tx, b"k", stored);
        assert_eq!(
            tx.prepared().map(Prepared::blocks_left),
            Some(blocks_left + usize::from(round == 1))
        );
        // As a transaction of a client is logged: what is before moves the place of the argument.
        tx.log_command(db as usize, words.into_iter());
        let log_bytes = tx.log_bytes();
        tx.enclose_log(b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n");
        assert_eq!(tx.log_bytes(), log_bytes + 15 + 14);
        tx.commit();
        write_command(&mut expected, [b"MULTI".as_slice()].into_iter());
        write_command(&mut expected, words.into_iter());
        write_command(&mut expected, [b"EXEC".as_slice()].into_iter());
        let mut tx = engine.begin(Latched::Hashes(&[latched]), &mut buf);
        assert_eq!(string_of(&mut tx, b"k"), stored, "round {round}");
    }
    engine.sync_through(engine.last_seq()).expect("it is written");
    engine.abandon();
    let mut found = Vec::new();
    let mut again = |engine: &Engine, group: ReplayGroup<'_>| {
        found.extend_from_slice(group.commands);
        for _ in group.commands.windows(5).filter(|window| window == b"MULTI") {
            let mut buf = TxBuf::default();
            let latched = key(engine, 0, b"k").hash;
            let mut tx = engine.begin(Latched::Hashes(&[latched]), &mut buf);
            put_string(&mut tx, b"k", &other);
            tx.commit();
        }
        Ok(())
    };
    let (engine, _) = Engine::open(options, &mut again).expect("the log is whole");
    engine.abandon();
    let select = b"*2\r\n$6\r\nSELECT\r\n$1\r\n";
    while let Some(at) = found.windows(select.len()).position(|window| window == select) {
        found.drain(at..at + select.len() + 3);
    }
    assert!(found == expected, "{} bytes are logged, not {}", found.len(), expected.len());
}
