//! `sexton-server`: reads the configuration, opens the store, serves.
#![deny(unsafe_code)]

use sexton::{boot, log};
use sexton_config::{Config, Invocation};
use std::process::ExitCode;

mod allocator;

fn main() -> ExitCode {
    let arguments = match Invocation::parse(std::env::args_os().skip(1)) {
        Invocation::Version => {
            println!("Sexton server v={} malloc=jemalloc bits=64", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Invocation::Help => {
            eprint!("{USAGE}");
            return ExitCode::FAILURE;
        }
        Invocation::Serve(arguments) => arguments,
    };
    let config = match Config::load(&arguments) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = boot::take_lines(&config) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    match boot::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            log::warning(&text);
            if log::is_file() {
                // An operator who starts the server by hand looks here, not into the file.
                eprintln!("{text}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Printed for `--help`, with exit code 1 as redis-server does.
const USAGE: &str = "\
Usage: sexton-server [/path/to/sexton.conf] [options] [-]
       sexton-server - (read config from stdin)
       sexton-server -v or --version
       sexton-server -h or --help

Examples:
       sexton-server (run the server with default conf)
       echo 'maxmemory 128mb' | sexton-server -
       sexton-server /etc/sexton/6379.conf
       sexton-server --port 7777
       sexton-server /etc/sexton.conf --loglevel verbose -
";
