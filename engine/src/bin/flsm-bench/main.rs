//! `flsm-bench`: db_bench's benchmarks on the engine, without network or commands. `--help` says what there
//! is, `docs/studies/notebook.md` what came out.
#![deny(unsafe_code)]

mod benchmarks;
mod cpu;
mod database;
mod deletes;
mod flags;
mod graves;
mod histogram;
mod json;
mod old_versions;
mod random;
mod runner;
mod stats;
mod ycsb;

use flags::{Flags, Request};
use runner::Runner;
use std::process::ExitCode;

/// As the server has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn run(flags: Flags) -> Result<(), String> {
    let json = flags.json.clone();
    let given = flags.given.clone();
    let names = flags.benchmarks.clone();
    if let Some(unknown) = names.iter().find(|name| !runner::is_known(name)) {
        return Err(format!("no benchmark is called {unknown} (see --help)"));
    }
    let mut runner = Runner::new(flags);
    let result =
        names.iter().try_for_each(|name| runner.run(name).map_err(|e| format!("{name}: {e}")));
    // What was measured before a failure is worth having.
    let closed = runner.close();
    if let Some(path) = json {
        std::fs::write(&path, json::document(&given, &runner.outcomes))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    result.and(closed.map_err(|error| error.to_string()))
}

fn main() -> ExitCode {
    let result = match Flags::parse(std::env::args().skip(1)) {
        Ok(Request::Help(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(Request::Run(flags)) => run(*flags),
        Err(text) => Err(text),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("flsm-bench: {text}");
            ExitCode::FAILURE
        }
    }
}
