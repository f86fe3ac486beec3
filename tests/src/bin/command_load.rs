//! A closed-loop load generator for one command, like redis-benchmark, with distinct, incompressible values.
//!
//! `command_load PORT COMMAND REQUESTS LEAST SECONDS CLIENTS PIPELINE KEYS VALUE_BYTES [FIRST|zipf|hot:N]`
//!
//! COMMAND: `set`, `get`, `incr`, `del`, `mset` (ten keys per request), `multi5` (MULTI, five SETs and EXEC per request) or
//! `expire`. Each client sends PIPELINE requests and
//! waits for their replies. The run ends after REQUESTS, or after SECONDS once LEAST requests are done. Keys are
//! redis-benchmark's (`key:` and twelve digits), drawn at random below KEYS. With FIRST they are sequential from there
//! instead, modulo KEYS. With `zipf` they follow Zipf's law (0.99). With `hot:N` they are drawn uniformly
//! from the N keys that `zipf` draws most often. Prints one line of JSON: latencies are those of a pipeline in
//! us, a stall is a period of more than 20 ms without any reply, `timeline` counts replies in each 100 ms.
#![deny(unsafe_code)]

use sexton_tests::load::{Random, Values, Zipf, encode, percentile, reply_len, run_clients};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Keys of one MSET, as redis-benchmark has them.
const MSET_KEYS: usize = 10;
/// SETs between MULTI and EXEC.
const MULTI_SETS: u64 = 5;
/// A time without replies that counts as a stall.
const STALL: Duration = Duration::from_millis(20);
const TIMELINE: Duration = Duration::from_millis(100);
/// EXPIRE sets a time that does not pass during a run.
const EXPIRE_S: &[u8] = b"100000";
const VALUE_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Set,
    Get,
    Incr,
    Del,
    Mset,
    Multi,
    Expire,
}

impl Command {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "set" => Self::Set,
            "get" => Self::Get,
            "incr" => Self::Incr,
            "del" => Self::Del,
            "mset" => Self::Mset,
            "multi5" => Self::Multi,
            "expire" => Self::Expire,
            _ => return None,
        })
    }

    /// Replies to one request.
    fn replies(self) -> u64 {
        if self == Self::Multi { MULTI_SETS + 2 } else { 1 }
    }
}

/// How keys are drawn.
#[derive(Clone, Copy)]
enum Draw {
    /// Each alike often.
    Uniform,
    /// One after the other, from this one on.
    From(u64),
    Zipf,
    /// The keys that `Zipf` draws most often, this many, drawn uniformly.
    Hot(u64),
}

impl Draw {
    fn named(name: Option<&str>) -> Option<Self> {
        let Some(name) = name else { return Some(Self::Uniform) };
        match name.strip_prefix("hot:") {
            Some(count) => count.parse().ok().filter(|&count| count > 0).map(Self::Hot),
            None if name == "zipf" => Some(Self::Zipf),
            None => name.parse().ok().map(Self::From),
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    port: u16,
    command: Command,
    requests: u64,
    least: u64,
    seconds: u64,
    clients: u64,
    pipeline: u64,
    keys: u64,
    value_bytes: usize,
    draw: Draw,
}

fn settings() -> Option<Settings> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse::<u64>().ok());
    let settings = Settings {
        port: u16::try_from(number(0)?).ok()?,
        command: Command::named(args.get(1)?)?,
        requests: number(2)?,
        least: number(3)?,
        seconds: number(4)?,
        clients: number(5)?,
        pipeline: number(6)?,
        keys: number(7)?,
        value_bytes: usize::try_from(number(8)?).ok()?,
        draw: Draw::named(args.get(9).map(String::as_str))?,
    };
    let keys_min = if matches!(settings.draw, Draw::Zipf | Draw::Hot(_)) { 2 } else { 1 };
    let in_range = settings.keys >= keys_min
        && settings.clients > 0
        && settings.pipeline > 0
        && settings.value_bytes <= VALUE_BYTES_MAX;
    Some(settings).filter(|_| in_range)
}

/// What all clients share.
struct Shared {
    settings: Settings,
    /// There where keys are drawn by it.
    zipf: Option<Zipf>,
    values: Values,
    begun: Instant,
    sent: Cell<u64>,
    last_reply: Cell<Instant>,
    figures: RefCell<Figures>,
}

#[derive(Default)]
struct Figures {
    latencies_us: Vec<u32>,
    timeline: Vec<u64>,
    stalls: u64,
    stalled: Duration,
    longest_stall: Duration,
}

impl Shared {
    /// How many requests to send next, of at most a pipeline; 0 at the end.
    fn take(&self) -> u64 {
        let (settings, sent) = (&self.settings, self.sent.get());
        let late = self.begun.elapsed() >= Duration::from_secs(settings.seconds);
        let limit = if late { settings.least.min(settings.requests) } else { settings.requests };
        let count = settings.pipeline.min(limit.saturating_sub(sent));
        self.sent.set(sent + count);
        count
    }

    fn number(&self, random: &mut Random, at: u64) -> u64 {
        let keys = self.settings.keys;
        match (self.settings.draw, &self.zipf) {
            (Draw::From(first), _) => (first + at) % keys,
            (Draw::Zipf, Some(zipf)) => zipf.of_rank(zipf.rank(random)),
            (Draw::Hot(count), Some(zipf)) => zipf.of_rank(random.below(count.min(keys))),
            _ => random.below(keys),
        }
    }

    /// Appends request number `at`.
    fn request(&self, out: &mut Vec<u8>, random: &mut Random, at: u64) {
        let settings = &self.settings;
        let key = |random: &mut Random, at: u64| {
            format!("key:{:012}", self.number(random, at)).into_bytes()
        };
        let set = |out: &mut Vec<u8>, random: &mut Random, at: u64| {
            let key = key(random, at);
            encode(out, &[b"SET", &key, self.values.cut(random, settings.value_bytes)]);
        };
        match settings.command {
            Command::Set => set(out, random, at),
            Command::Get => encode(out, &[b"GET", &key(random, at)]),
            Command::Incr => encode(out, &[b"INCR", &[b"counter:", &*key(random, at)].concat()]),
            Command::Del => encode(out, &[b"DEL", &key(random, at)]),
            Command::Expire => encode(out, &[b"EXPIRE", &key(random, at), EXPIRE_S]),
            Command::Multi => {
                encode(out, &[b"MULTI"]);
                (0..MULTI_SETS).for_each(|i| set(out, random, at * MULTI_SETS + i));
                encode(out, &[b"EXEC"]);
            }
            Command::Mset => {
                let keys: Vec<Vec<u8>> =
                    (0..MSET_KEYS as u64).map(|i| key(random, at * MSET_KEYS as u64 + i)).collect();
                let mut args: Vec<&[u8]> = vec![b"MSET"];
                for key in &keys {
                    args.extend([key, self.values.cut(random, settings.value_bytes)]);
                }
                encode(out, &args);
            }
        }
    }

    /// `count` replies have arrived for a pipeline that was sent at `begun`.
    fn arrived(&self, begun: Instant, count: u64) {
        let now = Instant::now();
        let mut figures = self.figures.borrow_mut();
        let silence = now - self.last_reply.replace(now);
        if silence > STALL {
            figures.stalls += 1;
            figures.stalled += silence;
            figures.longest_stall = figures.longest_stall.max(silence);
        }
        let us = u32::try_from((now - begun).as_micros()).unwrap_or(u32::MAX);
        figures.latencies_us.extend((0..count).map(|_| us));
        let part = ((now - self.begun).as_nanos() / TIMELINE.as_nanos()) as usize;
        if figures.timeline.len() <= part {
            figures.timeline.resize(part + 1, 0);
        }
        figures.timeline[part] += count;
    }
}

async fn client(shared: Rc<Shared>, number: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", shared.settings.port)).await?;
    stream.set_nodelay(true)?;
    let mut random = Random::new(number + 1);
    let (mut request, mut replies, mut chunk) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    loop {
        let first = shared.sent.get();
        let count = shared.take();
        if count == 0 {
            return Ok(());
        }
        request.clear();
        (first..first + count).for_each(|at| shared.request(&mut request, &mut random, at));
        let begun = Instant::now();
        stream.write_all(&request).await?;
        let each = shared.settings.command.replies();
        let mut left = count * each;
        replies.clear();
        while left > 0 {
            let read = stream.read(&mut chunk).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            replies.extend_from_slice(&chunk[..read]);
            let (mut at, mut whole) = (0, 0);
            while let Some(length) = reply_len(&replies[at..])? {
                at += length;
                whole += 1;
            }
            replies.drain(..at);
            let requests_left = left.div_ceil(each);
            left -= whole;
            let answered = requests_left - left.div_ceil(each);
            if answered > 0 {
                shared.arrived(begun, answered);
            }
        }
    }
}

fn run(settings: Settings) -> io::Result<(Rc<Shared>, Duration)> {
    let values = Values::new(1, settings.value_bytes);
    let zipf = matches!(settings.draw, Draw::Zipf | Draw::Hot(_)).then(|| Zipf::new(settings.keys));
    let begun = Instant::now();
    let shared = Rc::new(Shared {
        settings,
        zipf,
        values,
        begun,
        sent: Cell::new(0),
        last_reply: Cell::new(begun),
        figures: RefCell::default(),
    });
    run_clients((0..settings.clients).map(|number| client(Rc::clone(&shared), number)))?;
    let took = begun.elapsed();
    Ok((shared, took))
}

fn main() -> io::Result<()> {
    let Some(settings) = settings() else {
        eprintln!(
            "usage: command_load PORT set|get|incr|del|mset|expire REQUESTS LEAST SECONDS CLIENTS PIPELINE KEYS \
             VALUE_BYTES [FIRST|zipf|hot:N]"
        );
        std::process::exit(1);
    };
    let (shared, took) = run(settings)?;
    let mut figures = shared.figures.take();
    figures.latencies_us.sort_unstable();
    let sorted = &figures.latencies_us;
    let timeline: Vec<String> = figures.timeline.iter().map(u64::to_string).collect();
    println!(
        "{{\"requests\": {}, \"seconds\": {:.6}, \"p50_us\": {}, \"p99_us\": {}, \"p999_us\": {}, \"max_us\": {}, \
         \"stalls\": {}, \"stall_ms\": {:.1}, \"longest_stall_ms\": {:.1}, \"timeline\": [{}]}}",
        sorted.len(),
        took.as_secs_f64(),
        percentile(sorted, 0.5),
        percentile(sorted, 0.99),
        percentile(sorted, 0.999),
        sorted.last().copied().unwrap_or(0),
        figures.stalls,
        figures.stalled.as_secs_f64() * 1e3,
        figures.longest_stall.as_secs_f64() * 1e3,
        timeline.join(",")
    );
    Ok(())
}
