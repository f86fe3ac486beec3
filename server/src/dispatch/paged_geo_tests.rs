//! Searches of positions in pages: their replies match those for a single record, and few pages are read.

use super::Outcome;
use super::paged_tests::{Random, bench, bulks};
use super::tests::{Bench, NOW_MS};

const MEMBERS: u64 = 3000;

/// A position: anywhere, or in one of two crowds, one of which is at the date line.
fn position(random: &mut Random) -> String {
    let mut around = |middle: f64, reach: f64| {
        middle - reach + 2.0 * reach * random.below(1 << 20) as f64 / f64::from(1 << 20)
    };
    let which = around(1.5, 1.5) as u32;
    let (longitude, latitude) = match which {
        0 => (around(0.0, 180.0), around(0.0, 85.0)),
        1 => (around(13.4, 0.5), around(52.5, 0.5)),
        _ => (around(180.0, 0.5), around(84.0, 0.5)),
    };
    let longitude = if longitude > 180.0 { longitude - 360.0 } else { longitude };
    format!("{longitude:.6} {latitude:.6}")
}

/// Adds members of which each name has `name_bytes` more than it needs.
fn add_positions(bench: &mut Bench, members: u64, name_bytes: usize) {
    let (mut random, mut client) = (Random(0x006e_0000_51ed), bench.client());
    let name = "m".repeat(name_bytes + 1);
    for first in (0..members).step_by(500) {
        let members = first..members.min(first + 500);
        let members: Vec<String> =
            members.map(|n| format!("{} {name}{n}", position(&mut random))).collect();
        bench.run(&mut client, &format!("GEOADD g {}", members.join(" ")));
    }
}

fn search(random: &mut Random) -> String {
    let key =
        if random.below(30) == 0 { ["none", "string"][random.below(2) as usize] } else { "g" };
    let member = format!("m{}", random.below(MEMBERS + MEMBERS / 30));
    let length = |random: &mut Random| {
        (random.below(900) + 1) as f64 * [0.0, 0.1, 1.0, 10.0][random.below(4) as usize]
    };
    let (unit, radius) = (["km", "mi"][random.below(2) as usize], length(random));
    let centre = match random.below(2) {
        0 => format!("FROMMEMBER {member}"),
        _ => format!("FROMLONLAT {}", position(random)),
    };
    let shape = match random.below(2) {
        0 => format!("BYRADIUS {radius} {unit}"),
        _ => format!("BYBOX {radius} {} {unit}", length(random)),
    };
    let mut options = ["", " ASC", " DESC"][random.below(3) as usize].to_owned();
    options += ["", "", " COUNT 4", " COUNT 700", " COUNT 4 ANY", " COUNT 700 ANY"]
        [random.below(6) as usize];
    let mut with = String::new();
    for option in [" WITHCOORD", " WITHDIST", " WITHHASH"] {
        with += if random.below(2) == 0 { option } else { "" };
    }
    with += if random.below(30) == 0 { " ANY" } else { "" };
    match random.below(8) {
        0..=2 => format!("GEOSEARCH {key} {centre} {shape}{options}{with}"),
        3 => format!("GEOSEARCHSTORE d {key} {centre} {shape}{options}"),
        4 => format!("GEOSEARCHSTORE d {key} {centre} {shape}{options} STOREDIST"),
        5 => format!("GEORADIUS {key} {} {radius} {unit}{options}{with}", position(random)),
        6 => format!("GEORADIUSBYMEMBER {key} {member} {radius} {unit}{options}{with}"),
        _ => format!("GEORADIUSBYMEMBER {key} {member} {radius} {unit}{options} STOREDIST d"),
    }
}

#[test]
fn positions_in_pages_are_found_as_those_in_one_record_are() {
    let (mut paged, mut whole) = (bench(24), bench(u64::MAX));
    let (mut client, mut other) = (paged.client(), whole.client());
    add_positions(&mut paged, MEMBERS, 0);
    add_positions(&mut whole, MEMBERS, 0);
    let mut both = |command: &str| {
        let reply = paged.run(&mut client, command);
        assert_eq!(reply, whole.run(&mut other, command), "{command}");
        reply
    };
    both("SET string x");
    // These are no positions.
    both("ZADD g inf a -inf b -1 c 1e300 d 4503599627370496 e 3.5 f");
    let (mut random, mut found, mut stored) = (Random(0x9e_05ea), 0, 0);
    for _ in 0..1500 {
        let command = search(&mut random);
        let reply = both(&command);
        found += bulks(&reply).len();
        if command.contains(" d") {
            stored += bulks(&both("ZRANGE d 0 -1 WITHSCORES")).len();
        }
    }
    assert!(found > 50_000 && stored > 50_000, "{found} {stored}");
    for (command, error) in [
        (
            "GEOSEARCH g FROMMEMBER none BYRADIUS 1 km",
            "-ERR could not decode requested zset member",
        ),
        ("GEOSEARCH g FROMMEMBER m1 BYRADIUS 1 km COUNT 0", "-ERR COUNT must be > 0"),
        ("GEORADIUSBYMEMBER string m1 1 km", "-WRONGTYPE"),
        ("GEOSEARCHSTORE d string FROMLONLAT 1 1 BYRADIUS 1 km", "-WRONGTYPE"),
    ] {
        let reply = both(command);
        assert!(reply.starts_with(error), "{command}: {reply}");
    }
    assert!(paged.server.engine.has_pages() && !whole.server.engine.has_pages());
}

#[test]
fn a_search_near_a_position_reads_the_pages_of_its_cells_together() {
    let mut bench = bench(200);
    let mut client = bench.client();
    add_positions(&mut bench, 20_000, 20);
    let name = "m".repeat(20);
    bench.server.engine.set_memory_bound(1);
    for (request, most_rounds, most_reads) in [
        // The root, the page of the member, and the cuts and then the members of all cells, on each level.
        (format!("GEOSEARCH g FROMMEMBER {name}m7 BYRADIUS 1 km"), 7, 15),
        (format!("GEORADIUSBYMEMBER g {name}m7 1 km ASC"), 7, 15),
        ("GEORADIUS g 13.4 52.5 4 km COUNT 3".to_owned(), 6, 50),
        ("GEOSEARCH g FROMLONLAT 13.4 52.5 BYBOX 4 4 km".to_owned(), 6, 20),
        ("GEOSEARCH g FROMLONLAT 13.4 52.5 BYBOX 900 900 km COUNT 5 ANY".to_owned(), 6, 50),
        ("GEOSEARCH g FROMLONLAT 13.4 52.5 BYRADIUS 0.001 km COUNT 9 ANY".to_owned(), 6, 15),
    ] {
        bench.server.engine.flush().expect("flushed");
        let expected = bench.run(&mut client, &request);
        for _ in 0..50 {
            // The holder of a shard's latch evicts its excess.
            bench.run(&mut client, "EXISTS g");
        }
        let before = bench.server.engine.stats().cold_reads;
        let (loads, reply) = bench.rounds(&mut client, &request);
        let reads = bench.server.engine.stats().cold_reads - before;
        assert_eq!(reply, expected, "{request}");
        assert!(loads > 1 && loads <= most_rounds, "{request}: {loads} rounds");
        assert!(reads <= most_reads, "{request}: {reads} reads");
    }
}

#[test]
fn a_search_among_many_members_is_handed_over() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    add_positions(&mut bench, 8000, 200);
    bench.executor.may_block = false;
    for request in [
        "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 3",
        "GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 3",
    ] {
        let (outcome, nothing) = bench.try_at(&mut client, request, NOW_MS);
        assert!(matches!(outcome, Outcome::Offload) && nothing.is_empty(), "{outcome:?}");
        bench.executor.may_block = true;
        let reply = bench.run(&mut client, request);
        assert!(reply.starts_with("*3\r\n") || reply == ":3\r\n", "{reply}");
        bench.executor.may_block = false;
    }
    let (outcome, _) =
        bench.try_at(&mut client, "GEOSEARCH g FROMLONLAT 13.4 52.5 BYRADIUS 5 km", NOW_MS);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}
