//! The request scanner on arbitrary bytes and on well-formed requests.
//!
//! 1. Arbitrary bytes: however they are cut into reads, the same requests and the same error come out,
//!    and every range lies inside the buffer.
//! 2. Well-formed requests made from the input: the arguments are those that the decoder of the crate
//!    redis-protocol finds, an independent implementation.
//!
//! Two rooms of the server, `number` and `resp`, are compiled here instead of its crate. The crate needs the engine, TLS
//! and Lua, and building those takes longer than all fuzzing in CI.
#![no_main]

#[allow(dead_code, reason = "the scanner's part alone is used")]
#[path = "../../server/src/number.rs"]
mod number;
#[allow(dead_code, unused_imports, reason = "the scanner's part alone is used")]
#[path = "../../server/src/resp/mod.rs"]
mod resp;

use libfuzzer_sys::fuzz_target;
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use resp::{Batch, Limits, Scanner, write_command};

type Outcome = (Vec<Vec<Vec<u8>>>, Option<String>);

/// Feeds `bytes` in pieces that end at the positions `cuts` (ascending).
fn scan(bytes: &[u8], cuts: &[usize]) -> Outcome {
    let (mut scanner, mut batch) = (Scanner::default(), Batch::default());
    let (mut buffer, mut requests, mut from) = (Vec::new(), Vec::new(), 0);
    for &cut in cuts.iter().chain([&bytes.len()]) {
        buffer.extend_from_slice(&bytes[from..cut]);
        from = cut;
        loop {
            batch.clear();
            let (used, error) = scanner.scan(&mut buffer, &mut batch, Limits::default());
            assert!(used <= buffer.len(), "used {used} of {}", buffer.len());
            for request in &batch.requests {
                assert!(request.count > 0 && request.end as usize <= buffer.len());
                let args = batch.args(request).iter();
                requests.push(args.map(|&(a, b)| buffer[a as usize..b as usize].to_vec()).collect());
            }
            buffer.drain(..used);
            if let Some(error) = error {
                return (requests, Some(error.to_string()));
            }
            if used == 0 || buffer.is_empty() {
                break;
            }
        }
    }
    (requests, None)
}

/// Cuts `bytes` into arguments and requests: a small length byte before each argument, 0 ends a request.
fn requests_from(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let (mut requests, mut args, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some((&length, tail)) = rest.split_first() {
        if length == 0 && !args.is_empty() {
            requests.push(std::mem::take(&mut args));
            rest = tail;
            continue;
        }
        let length = usize::from(length).min(tail.len());
        args.push(&tail[..length]);
        rest = &tail[length..];
    }
    if !args.is_empty() {
        requests.push(args);
    }
    requests
}

fn reference(mut bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut requests = Vec::new();
    while let Some((frame, used)) = decode(bytes).expect("well-formed") {
        let OwnedFrame::Array(items) = frame else { panic!("not an array") };
        let args = items.into_iter().map(|item| match item {
            OwnedFrame::BulkString(text) => text,
            other => panic!("not a bulk string: {other:?}"),
        });
        requests.push(args.collect());
        bytes = &bytes[used..];
    }
    requests
}

fuzz_target!(|input: &[u8]| {
    let Some((&seed, bytes)) = input.split_first() else { return };
    let step = usize::from(seed) + 1;
    let cuts: Vec<usize> = (step..bytes.len()).step_by(step).collect();
    assert_eq!(scan(bytes, &[]), scan(bytes, &cuts), "cut every {step} bytes");

    let requests = requests_from(bytes);
    let mut encoded = Vec::new();
    for args in &requests {
        write_command(&mut encoded, args.iter().copied());
    }
    let (found, error) = scan(&encoded, &cuts.iter().copied().take_while(|&c| c < encoded.len()).collect::<Vec<_>>());
    assert_eq!(error, None);
    assert_eq!(found, reference(&encoded));
});
