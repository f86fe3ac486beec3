//! `rdb_tool print FILE`: prints one line of JSON per key of an RDB file, byte strings in hexadecimal.
//! `rdb_tool copy FROM TO`: writes the keys of FROM again with our writer.
//!
//! Used by `tests/e2e/rdb.py`. It compares the output of `print` with the replies of the server that wrote the file,
//! and has other servers load the output of `copy`.

use sexton_persistence::rdb::{
    FILE_VERSION, Input, Reader, Record, Stream, Strings, Value, Writer, WriterOptions,
};
use std::fs::File;
use std::process::ExitCode;

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn strings(strings: &Strings) -> String {
    array(strings.iter().map(hex))
}

fn id(id: sexton_persistence::rdb::StreamId) -> String {
    hex(format!("{}-{}", id.ms, id.seq).as_bytes())
}

fn stream(stream: &Stream) -> String {
    let entries = stream.entries.iter().map(|entry| {
        let pairs = entry.pairs().flat_map(|(field, value)| [hex(field), hex(value)]);
        format!("[{},{}]", id(entry.id), array(pairs))
    });
    let groups = stream.groups.iter().map(|group| {
        let pending = group.pending.iter().map(|pending| {
            format!("[{},{},{}]", id(pending.id), pending.delivered_ms, pending.deliveries)
        });
        let consumers = group.consumers.iter().map(|consumer| {
            let pending = consumer.pending.iter().map(|&pending| id(pending));
            format!("[{},{},{}]", hex(&consumer.name), consumer.seen_ms, array(pending))
        });
        format!(
            "{{\"name\":{},\"last\":{},\"read\":{},\"pending\":{},\"consumers\":{}}}",
            hex(&group.name),
            id(group.last_id),
            group.entries_read.map_or("null".to_owned(), |read| read.to_string()),
            array(pending),
            array(consumers)
        )
    });
    format!(
        "{{\"entries\":{},\"last\":{},\"max_deleted\":{},\"added\":{},\"groups\":{}}}",
        array(entries),
        id(stream.last_id),
        id(stream.max_deleted_id),
        stream.entries_added,
        array(groups)
    )
}

fn json(value: &Value) -> String {
    match value {
        Value::String(string) => hex(string),
        Value::List(all) | Value::Set(all) => strings(all),
        Value::SortedSet(members, scores) => {
            let pairs = members.iter().zip(scores);
            // In quotes: JSON knows no infinity.
            array(pairs.map(|(member, score)| format!("[{},\"{score}\"]", hex(member))))
        }
        Value::Hash(fields, times) => {
            let times = array(times.iter().map(u64::to_string));
            format!("{{\"fields\":{},\"times\":{times}}}", strings(fields))
        }
        Value::Stream(value) => stream(value),
        Value::Module(name) => hex(name.as_bytes()),
    }
}

type Keep<'a> = &'a mut dyn FnMut(u64, &Record) -> Result<(), String>;

/// Calls `keep` with every record and its database.
fn walk(path: &str, keep: Keep<'_>) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let size = file.metadata().map_err(|error| format!("{path}: {error}"))?.len();
    let failed = |error| format!("{path}: {error}");
    let mut reader = Reader::open(Input::stream(file, size)).map_err(failed)?;
    let mut db = 0;
    while let Some(record) = reader.next_record().map_err(failed)? {
        if let Record::SelectDb(number) = record {
            db = number;
        }
        keep(db, &record)?;
    }
    Ok(())
}

fn print(path: &str) -> Result<(), String> {
    walk(path, &mut |db, record| {
        match record {
            Record::Key(entry) => println!(
                "{{\"db\":{db},\"key\":{},\"type\":\"{}\",\"expires\":{},\"value\":{}}}",
                hex(&entry.key),
                entry.value.type_name(),
                entry.expire_at_ms.map_or("null".to_owned(), |time| time.to_string()),
                json(&entry.value)
            ),
            Record::Function(source) => {
                println!("{{\"db\":{db},\"type\":\"function\",\"value\":{}}}", hex(source));
            }
            _ => {}
        }
        Ok(())
    })
}

fn copy(from: &str, to: &str) -> Result<(), String> {
    let mut version = FILE_VERSION;
    walk(from, &mut |_, record| {
        match record {
            Record::Key(entry) => version = entry.value.version_needed().unwrap_or(0).max(version),
            Record::Function(_) => version = version.max(10),
            _ => {}
        }
        Ok(())
    })?;
    let failed = |error| format!("{to}: {error}");
    let options = WriterOptions { version, compress: true, checksum: true };
    let mut writer = Writer::new(File::create(to).map_err(failed)?, options);
    let mut selected = None;
    walk(from, &mut |db, record| {
        match record {
            Record::Key(entry) => {
                if selected.replace(db) != Some(db) {
                    writer.select_db(db, 0, 0).map_err(failed)?;
                }
                writer.value(&entry.key, entry.expire_at_ms.unwrap_or(0), &entry.value)
            }
            Record::Function(source) => writer.function(source),
            _ => Ok(()),
        }
        .map_err(failed)
    })?;
    writer.finish().map_err(failed)?;
    println!("{version}");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["print", file] => print(file),
        ["copy", from, to] => copy(from, to),
        _ => Err("usage: rdb_tool print FILE | rdb_tool copy FROM TO".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
