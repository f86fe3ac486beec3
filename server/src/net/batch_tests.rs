//! The short way of plain GETs and SETs beside the long way, on the same history.

use super::batch::BatchRun;
use super::worker::{DurableSignal, WorkerState};
use crate::client::Client;
use crate::dispatch::{Args, Executor, Outcome};
use crate::resp::{Limits, Reply, Scanner, command_bytes, pack};
use crate::server::Server;
use sexton_engine::Engine;
use std::sync::Arc;

const NOW_MS: u64 = 1_000_000;

/// What a history has left in a server of its own.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    replies: Vec<u8>,
    /// The slow log's arguments, oldest first.
    slow: Vec<Vec<Vec<u8>>>,
    lookups: (u64, u64),
}

fn server(slower_than_us: i64) -> Server {
    let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
    server.observe.slowlog.set_threshold_us(slower_than_us);
    server.observe.slowlog.set_len_max(1000);
    server
}

fn traces(server: &Server, replies: &[u8]) -> Traces {
    let entries = server.observe.slowlog.newest(1000);
    Traces {
        replies: replies.to_vec(),
        slow: entries.into_iter().rev().map(|entry| entry.args).collect(),
        lookups: (server.stats.hits(), server.stats.misses()),
    }
}

/// GETs and SETs, plain and others between them, in one read.
fn history() -> Vec<Vec<Vec<u8>>> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let mut requests = Vec::new();
    for nth in 0..200 {
        requests.push(match nth % 10 {
            0..3 => words(&format!("SET k{} v{nth}", nth % 7)),
            3..6 => words(&format!("get k{}", nth % 9)),
            6 => words("INCR number"),
            7 => words("GET number"),
            8 => words("GET"),
            _ => words(&format!("SET k{} v XX", nth % 9)),
        });
    }
    requests
}

fn short_way(slower_than_us: i64, requests: &[Vec<Vec<u8>>]) -> Traces {
    let server = server(slower_than_us);
    let mut worker = WorkerState::new(0, Arc::new(DurableSignal::default()));
    let mut client = Client { authenticated: true, ..Client::default() };
    let mut bytes = Vec::new();
    for request in requests {
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        bytes.extend(command_bytes(&words));
    }
    let (_, error) = Scanner::default().scan(&mut bytes, &mut worker.batch, Limits::default());
    assert!(error.is_none() && worker.batch.requests.len() == requests.len());
    let (mut required, mut commands, mut last) = (0, 0, "");
    let mut run = BatchRun {
        server: &server,
        worker: &mut worker,
        client: &mut client,
        buf: &bytes,
        now_ms: NOW_MS,
        required: &mut required,
        commands: &mut commands,
        last: &mut last,
    };
    assert!(run.run().is_none());
    assert_eq!(commands, requests.len() as u64);
    traces(&server, worker.reply.bytes())
}

fn long_way(slower_than_us: i64, requests: &[Vec<Vec<u8>>]) -> Traces {
    let server = server(slower_than_us);
    let (mut executor, mut client) =
        (Executor::new(crate::commands::table::table(), 0, true), Client::default());
    client.authenticated = true;
    let mut out = Reply::new();
    for request in requests {
        let (bytes, ranges) = pack(request.iter().map(Vec::as_slice));
        let args = Args::new(&bytes, &ranges);
        let outcome = executor.execute(&server, &mut client, args, &mut out, NOW_MS);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    traces(&server, out.bytes())
}

#[test]
fn plain_requests_leave_the_traces_of_any_other() {
    // 0: everything is slow; -1: nothing is.
    for slower_than_us in [0, -1] {
        let (short, long) =
            (short_way(slower_than_us, &history()), long_way(slower_than_us, &history()));
        assert_eq!(short, long);
        // 200 requests, of which 20 are no GET of anything.
        assert_eq!(short.slow.len(), if slower_than_us == 0 { 180 } else { 0 });
    }
}

#[test]
fn slow_plain_requests_are_in_the_slow_log() {
    let value = vec![b'v'; 60_000];
    let set = |nth: usize| vec![b"SET".to_vec(), format!("k{nth}").into_bytes(), value.clone()];
    let short = short_way(1, &(0..50).map(set).collect::<Vec<_>>());
    assert!(short.slow.len() > 40, "{} of 50 SETs of 60 KB took a microsecond", short.slow.len());
}

#[test]
fn requests_that_were_timed_together_say_so() {
    let server = server(10_000);
    let mut executor = Executor::new(crate::commands::table::table(), 0, true);
    let mut client = Client { authenticated: true, ..Client::default() };
    let mut out = Reply::new();
    let find = |name| crate::commands::table::find(name).expect("a command");
    let specs = (find(b"get"), find(b"set"));
    let first = Args::new(b"GETk", &[(0, 3), (3, 4)]);
    for (count, time_us) in [(3, 9_999), (3, 10_000), (1, 10_000)] {
        for _ in 0..count {
            let hash = server.engine.hash(b"k");
            executor.fast_get(&server, &client, b"k", hash, &mut out, NOW_MS);
        }
        executor.settle(&server, &client, specs, first, time_us);
    }
    client.closing = true;
    let slow = traces(&server, out.bytes()).slow;
    assert_eq!(slow[0], [&b"GET"[..], b"k", b"... (2 more requests)"]);
    assert_eq!(slow[1..], [[b"GET".to_vec(), b"k".to_vec()]]);
}
