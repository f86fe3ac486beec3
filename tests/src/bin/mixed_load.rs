//! A closed-loop client that measures the latency of GETs with and without concurrent SETs.
//!
//! `mixed_load PORT CONNECTIONS SECONDS WRITE_PERCENT KEYS VALUE_BYTES` keeps one request in flight per
//! connection and prints one line:
//! `gets=N sets=N get_p50_us=X get_p99_us=X get_p999_us=X set_p50_us=X set_p99_us=X`.
//! The first tenth of the time is not counted.
#![deny(unsafe_code)]

use sexton_tests::load::{Random, encode, percentile, reply_len, run_clients};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Settings, in the order of the command line.
#[derive(Clone, Copy)]
struct Settings {
    port: u16,
    connections: u64,
    seconds: u64,
    write_percent: u64,
    keys: u64,
    value_bytes: u64,
}

/// Latencies in us, one list a kind of request.
#[derive(Default)]
struct Latencies {
    get_us: Vec<u32>,
    set_us: Vec<u32>,
}

fn settings() -> Option<Settings> {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let settings = Settings {
        port: u16::try_from(next()?).ok()?,
        connections: next()?,
        seconds: next()?,
        write_percent: next()?,
        keys: next()?,
        value_bytes: next()?,
    };
    Some(settings).filter(|s| s.keys > 0 && s.connections > 0)
}

/// One connection until `end`; what starts before `counted_from` is not recorded.
async fn client(
    settings: Settings,
    seed: u64,
    counted_from: Instant,
    end: Instant,
    latencies: Rc<RefCell<Latencies>>,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", settings.port)).await?;
    stream.set_nodelay(true)?;
    let mut random = Random::new(seed);
    let value = vec![b'v'; usize::try_from(settings.value_bytes).map_err(io::Error::other)?];
    let (mut request, mut reply, mut chunk) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    loop {
        let key = format!("key:{:012}", random.below(settings.keys));
        let is_set = random.below(100) < settings.write_percent;
        request.clear();
        if is_set {
            encode(&mut request, &[b"SET", key.as_bytes(), &value]);
        } else {
            encode(&mut request, &[b"GET", key.as_bytes()]);
        }
        let begun = Instant::now();
        if begun >= end {
            return Ok(());
        }
        stream.write_all(&request).await?;
        reply.clear();
        while reply_len(&reply)?.is_none() {
            let count = stream.read(&mut chunk).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            reply.extend_from_slice(&chunk[..count]);
        }
        if begun >= counted_from {
            let us = u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX);
            let mut all = latencies.borrow_mut();
            if is_set { all.set_us.push(us) } else { all.get_us.push(us) }
        }
    }
}

fn run(settings: Settings) -> io::Result<Latencies> {
    let latencies = Rc::new(RefCell::new(Latencies::default()));
    let begun = Instant::now();
    let end = begun + Duration::from_secs(settings.seconds);
    let counted_from = begun + Duration::from_secs(settings.seconds) / 10;
    let one = |seed| client(settings, seed, counted_from, end, Rc::clone(&latencies));
    run_clients((1..=settings.connections).map(one))?;
    Ok(latencies.take())
}

fn main() -> io::Result<()> {
    let Some(settings) = settings() else {
        eprintln!("usage: mixed_load PORT CONNECTIONS SECONDS WRITE_PERCENT KEYS VALUE_BYTES");
        std::process::exit(1);
    };
    let mut all = run(settings)?;
    all.get_us.sort_unstable();
    all.set_us.sort_unstable();
    println!(
        "gets={} sets={} get_p50_us={} get_p99_us={} get_p999_us={} set_p50_us={} set_p99_us={}",
        all.get_us.len(),
        all.set_us.len(),
        percentile(&all.get_us, 0.5),
        percentile(&all.get_us, 0.99),
        percentile(&all.get_us, 0.999),
        percentile(&all.set_us, 0.5),
        percentile(&all.set_us, 0.99),
    );
    Ok(())
}
