//! A closed-loop client for latency of GETs with and without SETs beside them.
//!
//! `mixed_load PORT CONNECTIONS SECONDS WRITE_PERCENT KEYS VALUE_BYTES` keeps one request in flight on
//! every connection and prints one line:
//! `gets=N sets=N get_p50_us=X get_p99_us=X get_p999_us=X set_p50_us=X set_p99_us=X`.
//! The first tenth of the time is not counted.
#![deny(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

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

/// xorshift64*: enough to spread keys.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % limit
    }
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

fn encode(request: &mut Vec<u8>, args: &[&[u8]]) {
    request.clear();
    request.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
}

/// Length of the complete reply at the start of `bytes`; `None` when more is needed.
fn reply_len(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(line) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    match bytes[0] {
        b'+' => Ok(Some(line + 2)),
        b'$' => {
            let text = String::from_utf8_lossy(&bytes[1..line]);
            let length: i64 = text.parse().map_err(io::Error::other)?;
            let whole = line + 2 + usize::try_from(length).map_or(0, |n| n + 2);
            Ok((bytes.len() >= whole).then_some(whole))
        }
        _ => Err(io::Error::other(String::from_utf8_lossy(&bytes[..line]).into_owned())),
    }
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
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let value = vec![b'v'; usize::try_from(settings.value_bytes).map_err(io::Error::other)?];
    let (mut request, mut reply, mut chunk) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    loop {
        let key = format!("key:{:012}", random.below(settings.keys));
        let is_set = random.below(100) < settings.write_percent;
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

/// The value below which `share` of the sorted list lies; 0 for an empty one.
fn percentile(sorted_us: &[u32], share: f64) -> u32 {
    let index = (sorted_us.len() as f64 * share) as usize;
    sorted_us.get(index.min(sorted_us.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn run(settings: Settings) -> io::Result<Latencies> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let latencies = Rc::new(RefCell::new(Latencies::default()));
    let begun = Instant::now();
    let end = begun + Duration::from_secs(settings.seconds);
    let counted_from = begun + Duration::from_secs(settings.seconds) / 10;
    let local = LocalSet::new();
    let tasks: Vec<_> = (1..=settings.connections)
        .map(|seed| {
            local.spawn_local(client(settings, seed, counted_from, end, Rc::clone(&latencies)))
        })
        .collect();
    runtime.block_on(local.run_until(async {
        for task in tasks {
            task.await.map_err(io::Error::other)??;
        }
        Ok::<(), io::Error>(())
    }))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_measured_whole_or_not_at_all() {
        assert_eq!(reply_len(b"").unwrap(), None);
        assert_eq!(reply_len(b"+OK\r").unwrap(), None);
        assert_eq!(reply_len(b"+OK\r\n").unwrap(), Some(5));
        assert_eq!(reply_len(b"$-1\r\n").unwrap(), Some(5));
        assert_eq!(reply_len(b"$3\r\nab").unwrap(), None);
        assert_eq!(reply_len(b"$3\r\nabc\r\n").unwrap(), Some(9));
        assert!(reply_len(b"-ERR no\r\n").is_err());
    }

    #[test]
    fn percentiles_of_a_known_list() {
        let list: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&list, 0.5), 51);
        assert_eq!(percentile(&list, 0.999), 100);
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
