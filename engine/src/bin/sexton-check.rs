//! `sexton-check`: verifies a data directory that no server has open, and repairs what it is told to.
#![deny(unsafe_code)]

use sexton_engine::check::{CheckOptions, check};
use sexton_persistence::device::DiskStorage;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const HELP: &str = "\
sexton-check: verifies a data directory

usage: sexton-check [flags] DIR

Reads every table, the manifest, the cemetery checkpoint, and the log or the memtables in persistent memory
behind the recovery mark, and says what is wrong and where. Changes nothing unless told to. The server must not be running on the directory.

  --truncate-log           cut the log where it can no longer be read, even if what follows was acknowledged
  --truncate-to-timestamp SECONDS
                           cut the log behind the last write of this second since 1970 (it must have been
                           written with aof-timestamp-enabled yes)
  --rebuild-manifest       make the tree anew from its tables when the manifest is lost or damaged; the old one is
                           kept as tree.damaged
  --databases N            as in the server's configuration (16), for --rebuild-manifest without any manifest
  --with-log LOGDIR        put the log of a checkpoint together first, from this appendonlydir or
                           aof-archive-dir; may be given several times
  --appenddirname NAME     as in the server's configuration (appendonlydir)
  --appendfilename NAME    as in the server's configuration (appendonly.aof)
  --quiet                  no progress

exit code: 0 nothing is wrong, 1 something is, 2 it could not be checked
";

fn parse() -> Result<Option<(CheckOptions, bool)>, String> {
    let mut options = CheckOptions::new(Arc::new(DiskStorage), PathBuf::new());
    let mut quiet = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" => return Ok(None),
            "--truncate-log" => options.truncate_log = true,
            "--truncate-to-timestamp" => {
                let text = value()?;
                let time_s = text.parse().map_err(|_| format!("no number of seconds: {text}"))?;
                options.truncate_to_s = Some(time_s);
            }
            "--rebuild-manifest" => options.rebuild_manifest = true,
            "--databases" => {
                let text = value()?;
                options.databases = text.parse().map_err(|_| format!("no number: {text}"))?;
            }
            "--with-log" => options.log_sources.push(value()?.into()),
            "--appenddirname" => options.log_dir_name = value()?,
            "--appendfilename" => options.log_file_name = value()?,
            "--quiet" => quiet = true,
            flag if flag.starts_with("--") => {
                return Err(format!("no such flag: {flag} (see --help)"));
            }
            _ if options.dir.as_os_str().is_empty() => options.dir = argument.into(),
            _ => return Err("one directory, please (see --help)".into()),
        }
    }
    if options.dir.as_os_str().is_empty() {
        return Err("no directory given (see --help)".into());
    }
    if options.truncate_log && options.truncate_to_s.is_some() {
        return Err("--truncate-log and --truncate-to-timestamp exclude each other".into());
    }
    Ok(Some((options, quiet)))
}

fn main() -> ExitCode {
    let (options, quiet) = match parse() {
        Ok(Some(parsed)) => parsed,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(text) => {
            eprintln!("sexton-check: {text}");
            return ExitCode::from(2);
        }
    };
    let shows = !quiet && std::io::stderr().is_terminal();
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
