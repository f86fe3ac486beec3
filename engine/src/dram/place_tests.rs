//! How long the place of an entry is good.

use super::tests::{key, put};
use super::{Located, PagePool, Table};

#[test]
fn a_place_shows_its_key_until_another_entry_is_there() {
    let (mut table, mut other) = (Table::new(PagePool::new()), Table::new(PagePool::new()));
    let keys: Vec<_> = (0..5000_u64).map(|n| n.to_le_bytes()).collect();
    put(&mut table, &keys[0], b"value");
    let at = table.locate(key(0, &keys[0])).expect("it was put");
    let value = |table: &Table, slot, bytes: &[u8]| {
        table.find_at(at, slot, bytes).map(|entry| entry.value().to_vec())
    };
    assert_eq!(value(&table, 0, &keys[0]).as_deref(), Some(&b"value"[..]));
    assert_eq!((value(&table, 1, &keys[0]), value(&table, 0, &keys[1])), (None, None));
    // An entry that is written keeps its place, wherever its bytes go.
    put(&mut table, &keys[0], &[7; 500]);
    assert_eq!(value(&table, 0, &keys[0]).as_deref(), Some(&[7; 500][..]));
    assert_eq!(value(&other, 0, &keys[0]), None);
    // As many entries have moved in either table: none.
    assert!(table.stands(at) && !other.stands(at));
    table.remove(key(0, &keys[0]));
    assert_eq!(value(&table, 0, &keys[0]), None);
    // Places of a table that has grown and shrunk since, and those of another one.
    let (mut places, mut seen) = (Vec::new(), Vec::new());
    for (number, bytes) in keys.iter().enumerate() {
        put(&mut table, bytes, b"value");
        places.extend(table.locate(key(0, bytes)));
        // One that was there before moves to the larger array later.
        let earlier = &keys[number / 2];
        seen.extend(table.locate(key(0, earlier)).map(|at| (earlier, at)));
        put(&mut other, bytes, b"other");
    }
    let shows = |table: &Table, (bytes, at): (&[u8; 8], &Located)| {
        !table.stands(*at) || table.find_at(*at, 0, bytes).is_some()
    };
    assert!(seen.iter().all(|(bytes, at)| shows(&table, (bytes, at))), "what stands is there");
    for table in [&table, &other] {
        let shown = keys.iter().zip(&places).filter(|(bytes, at)| {
            let entry = table.find_at(**at, 0, *bytes);
            entry.is_some_and(|entry| entry.key() == *bytes && table.find(key(0, *bytes)).is_some())
        });
        assert!(shown.count() > 100, "most have moved, some have not");
    }
    for bytes in &keys[10..] {
        table.remove(key(0, bytes));
        assert!(keys.iter().zip(&places).step_by(500).all(|found| shows(&table, found)));
    }
    assert!(keys[10..].iter().zip(&places[10..]).all(|(k, at)| table.find_at(*at, 0, k).is_none()));
}
