//! The RDB reader on arbitrary files and payloads: accepted or refused, never a panic, never more memory
//! than the bytes justify; and what was read is written and read again as the same.
//!
//! The first byte picks: a whole file, or one value of the type that the second byte names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sexton_persistence::rdb::{
    Dialect, Input, Reader, Record, Value, check_payload, dump, read_payload, read_value,
};

/// Whatever its encoding was, a value has one form in which we write it.
fn write_and_read(value: &Value) {
    let Some(payload) = dump(value) else { return };
    let (body, dialect) = check_payload(&payload).expect("our own payload");
    let again = read_payload(body, dialect, u64::MAX).expect("our own encoding");
    assert_eq!(dump(&again).as_deref(), Some(&payload[..]));
}

fn read_file(file: &[u8]) {
    let Ok(mut reader) = Reader::open(Input::new(file)) else { return };
    loop {
        match reader.next_record() {
            Ok(Some(Record::Key(entry))) => write_and_read(&entry.value),
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return assert!(!error.to_string().is_empty()),
        }
    }
    let (read, size) = reader.progress();
    assert!(read <= size && size == file.len() as u64);
}

fuzz_target!(|input: &[u8]| {
    match input {
        [b'R' | b'V', ..] => read_file(input),
        [pick, found, value @ ..] => {
            let dialect = if pick & 1 == 0 { Dialect::Redis } else { Dialect::Valkey };
            if let Ok(value) = read_value(&mut Input::new(value), *found, dialect) {
                write_and_read(&value);
            }
        }
        _ => {}
    }
});
