//! How long the place of an entry is good.

use super::tests::{Random, key, put};
use super::{PagePool, Table};

/// Places that were located are the keys' for as long as the table says the same layout, whatever was done since: writes over entries, which
/// keep their places; keys that come and go, evictions, and the resizes that these begin, go on with and end.
#[test]
fn a_place_is_good_while_the_layout_is_the_same() {
    let mut random = Random(7);
    let (mut good_after_writes, mut layouts) = (0, 0);
    for _ in 0..40 {
        let mut table = Table::new(PagePool::new());
        let keys: Vec<_> = (0..4000_u64).map(|n| n.to_le_bytes()).collect();
        let mut known = Vec::new();
        let mut layout = table.layout();
        // Phases in which the table grows, is written to, and shrinks.
        for step in 0..3000_u64 {
            let bytes = &keys[random.below(4000) as usize];
            let is_there = table.locate(key(0, bytes)).is_some();
            match (step / 500 % 3, random.below(64)) {
                (_, 0) if step % 8 == 0 => drop(table.evict(300, &mut |_| true)),
                (0, _) | (_, 1..4) => put(&mut table, bytes, b"value"),
                (1, _) if is_there => put(&mut table, bytes, &vec![1; step as usize % 300]),
                (2, _) => drop(table.remove(key(0, bytes))),
                _ => {}
            }
            if table.layout() != layout {
                (layout, layouts) = (table.layout(), layouts + 1);
                known.clear();
                for bytes in keys.iter().skip(step as usize % 100).step_by(100) {
                    known.extend(table.locate(key(0, bytes)).map(|at| (*bytes, at)));
                }
            }
            for (bytes, at) in &known {
                assert!(table.entry_again(*at).is(key(0, bytes)), "step {step}");
            }
            good_after_writes += usize::from(is_there && !known.is_empty() && step / 500 % 3 == 1);
        }
    }
    assert!(good_after_writes > 1000 && layouts > 1000, "{good_after_writes}, {layouts}");
}

#[test]
fn no_two_tables_have_one_layout() {
    let pool = PagePool::new();
    let tables = [(); 3].map(|()| Table::new(pool.clone()));
    let layouts = tables.each_ref().map(Table::layout);
    assert!(layouts[0] != layouts[1] && layouts[1] != layouts[2] && layouts[0] != layouts[2]);
}
