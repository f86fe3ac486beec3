//! The configuration parser on arbitrary files.
//!
//! A file is accepted or refused with a line number, never with a panic. What CONFIG REWRITE makes of an
//! accepted one is accepted too and has the same values. A quoted word reads back as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sexton_config::Config;
use sexton_config::syntax::{quote, split_words};

/// Included files are outside the input; they may change between two readings.
fn includes(text: &[u8]) -> bool {
    text.to_ascii_lowercase().windows(7).any(|word| word == b"include")
}

fuzz_target!(|text: &[u8]| {
    let words = split_words(&quote(text)).expect("a quoted word is well-formed");
    assert_eq!(words, [text]);

    if includes(text) {
        return;
    }
    match Config::from_text(text) {
        Ok(config) => {
            let again = Config::from_text(&config.rewritten(text, None))
                .unwrap_or_else(|error| panic!("rewritten file is refused: {error}"));
            assert_eq!(config.get(&[b"*"]), again.get(&[b"*"]));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
