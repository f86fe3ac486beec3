//! The configuration parser on arbitrary files: accepted or refused, never a panic; what CONFIG REWRITE
//! makes of an accepted one means the same; CONFIG SET changes what it says, or nothing.
//!
//! The first line is a value for CONFIG SET of the directive that the first byte picks; the rest is
//! the text of a file. Files with `include` are left out: they would read the machine's files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sexton_config::syntax::{quote, split_words};
use sexton_config::{Config, ExtraLine, SetBy, table};

/// All values and the lines kept for the server, without their line numbers.
fn meaning(config: &Config) -> (Vec<Option<Vec<u8>>>, Vec<Vec<Vec<u8>>>) {
    let lines = config.users().iter().chain(config.renamed_commands());
    let words = |line: &ExtraLine| line.words.clone();
    (table::all().map(|row| config.text(row.name)).collect(), lines.map(words).collect())
}

fn includes(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let words = split_words(line).unwrap_or_default();
        words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"include"))
    })
}

fuzz_target!(|input: &[u8]| {
    assert_eq!(split_words(&quote(input)), Ok(vec![input.to_vec()]));
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (first, text) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    if includes(text) {
        return;
    }
    let mut config = match Config::from_text(text) {
        Ok(config) => config,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    config.get(&[first]);
    if let Some((&pick, value)) = first.split_first() {
        let row = table::all().cycle().nth(usize::from(pick)).expect("the table has rows");
        let before = config.clone();
        match config.set_many(&[(row.name.as_bytes(), value)], SetBy::default()) {
            Ok(done) => {
                let others = table::all().filter(|row| !done.changed.contains(&row.name));
                for row in others {
                    assert_eq!(config.text(row.name), before.text(row.name), "{}", row.name);
                }
            }
            Err(_) => assert_eq!(config, before),
        }
    }
    let written = config.rewritten(text, None);
    let again = Config::from_text(&written).expect("a rewrite loads");
    assert_eq!(meaning(&again), meaning(&config));
    assert_eq!(again.options(), config.options());
});
