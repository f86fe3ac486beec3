//! `sexton-check`: verifies a data directory that no server has open, and repairs what it is told to.
#![deny(unsafe_code)]

mod arguments;
mod copy;
mod time;

use arguments::Arguments;
use clap::Parser;
use sexton_engine::check::check;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(page) = arguments.page() {
        print!("{page}");
        return ExitCode::SUCCESS;
    }
    let options = match arguments.options() {
        Ok(options) => options,
        Err(text) => {
            eprintln!("sexton-check: {text}");
            return ExitCode::from(2);
        }
    };
    let shows = !arguments.quiet && std::io::stderr().is_terminal();
    let mut progress = |done: u64, all: u64| {
        if shows {
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(
                std::io::stderr(),
                "\r{:.0} % of the tables ",
                done as f64 * 100.0 / all.max(1) as f64
            );
        }
    };
    let report = match check(&options, &mut progress) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("sexton-check: {error}");
            return ExitCode::from(2);
        }
    };
    if shows {
        eprint!("\r{:40}\r", "");
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        println!("WRONG: {finding}");
    }
    println!(
        "{} tables, {} bytes, {} versions, {} open graves, {} keys as of the mark {}; log: {} groups up to {}",
        report.tables,
        report.table_bytes,
        report.versions,
        report.graves,
        report.live_keys,
        report.mark,
        report.groups,
        report.logged_seq
    );
    if let Some(pool) = &report.pool {
        println!(
            "persistent memory: {} files, {} bytes, {} chunks of {} bytes or more; {} memtables, {} versions and {} \
             graves behind the mark, up to {}; complete through {}, none handed out above {}",
            pool.files,
            pool.file_bytes,
            pool.chunks,
            pool.slot_bytes,
            pool.arenas,
            pool.versions,
            pool.graves,
            pool.last_seq,
            pool.complete_seq,
            pool.reserved_seq
        );
    }
    if let Some((first_s, last_s)) = report.logged_s {
        println!("writes in the log are of the seconds {first_s} to {last_s}");
    }
    if report.findings.is_empty() {
        println!("nothing is wrong");
        ExitCode::SUCCESS
    } else {
        println!("{} faults", report.findings.len());
        ExitCode::FAILURE
    }
}
