//! What a connection is to send: bytes of its own, and values that the store holds, which are sent from where they are.

use super::stream::Stream;
use crate::resp::{HeldBytes, Reply};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

/// Parts that are given to one write.
const PARTS: usize = 16;

enum Part {
    Bytes(Vec<u8>),
    Value(Box<dyn HeldBytes>),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Value(value) => value,
        }
    }

    /// Memory that it keeps.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Value(value) => value.len(),
        }
    }
}

/// Output that is not sent yet. Positions in it count from the start of the connection, so that what is sent moves none.
#[derive(Default)]
pub(super) struct Output {
    /// Parts before `tail`: values, and the bytes before each of them.
    front: VecDeque<Part>,
    /// Memory that they keep.
    front_bytes: usize,
    tail: Vec<u8>,
    /// Position of the first byte of the first part.
    start: u64,
    /// Position of the first byte that is not sent.
    sent: u64,
    /// Position behind the last byte.
    end: u64,
}

impl Output {
    /// Bytes that are not sent.
    pub(super) fn unsent(&self) -> usize {
        (self.end - self.sent) as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.end == self.sent
    }

    /// True when something before the position `until` is not sent.
    pub(super) fn has_before(&self, until: u64) -> bool {
        self.sent < until
    }

    /// Position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Memory that the buffers and the values take.
    pub(super) fn held_bytes(&self) -> usize {
        self.tail.capacity() + self.front_bytes
    }

    /// Appends bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
    }

    /// Appends a value without copying it.
    fn push(&mut self, value: Box<dyn HeldBytes>) {
        if !self.tail.is_empty() {
            let tail = Part::Bytes(std::mem::take(&mut self.tail));
            self.front_bytes += tail.held_bytes();
            self.front.push_back(tail);
        }
        self.end += value.len() as u64;
        self.front_bytes += value.len();
        self.front.push_back(Part::Value(value));
    }

    /// Appends what a reply has behind its first `from` bytes, which is before its first value.
    pub(super) fn extend_from(&mut self, reply: &mut Reply, from: usize) {
        let mut at = from;
        for (end, value) in reply.take_values() {
            self.extend(&reply.bytes()[at..end]);
            self.push(value);
            at = end;
        }
        self.extend(&reply.bytes()[at..]);
    }

    /// Forgets what begins at or behind `at`.
    pub(super) fn truncate(&mut self, at: u64) {
        let mut too_many = self.end.saturating_sub(at.max(self.sent));
        self.end -= too_many;
        let of_tail = too_many.min(self.tail.len() as u64);
        self.tail.truncate(self.tail.len() - of_tail as usize);
        too_many -= of_tail;
        while too_many > 0 {
            let Some(part) = self.front.pop_back() else { return };
            self.front_bytes -= part.held_bytes();
            let bytes = part.bytes();
            let kept = bytes.len().saturating_sub(too_many as usize);
            too_many -= (bytes.len() - kept) as u64;
            // Replies end at their boundaries, hence between parts or within bytes.
            if kept > 0 {
                self.tail = bytes[..kept].to_vec();
            }
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self { start: self.end, sent: self.end, end: self.end, ..Self::default() };
    }

    /// What is to be sent, up to the position `until`: at most as many parts as one write takes. Answers how many.
    fn parts<'o>(&'o self, until: u64, parts: &mut [IoSlice<'o>; PARTS]) -> usize {
        let (mut at, mut count) = (self.start, 0);
        let all = self.front.iter().map(Part::bytes).chain([&*self.tail]);
        for bytes in all {
            let from = self.sent.saturating_sub(at).min(bytes.len() as u64);
            let to = until.saturating_sub(at).min(bytes.len() as u64);
            if count == PARTS || to < from {
                break;
            }
            if to > from {
                parts[count] = IoSlice::new(&bytes[from as usize..to as usize]);
                count += 1;
            }
            at += bytes.len() as u64;
        }
        count
    }

    /// Sends once, up to the position `until`; answers how many bytes left. `Pending` means that the socket is full.
    pub(super) fn poll_send(
        &mut self,
        until: u64,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut parts = [IoSlice::new(&[]); PARTS];
        let count = self.parts(until, &mut parts);
        let sent = stream.poll_write(cx, &parts[..count]);
        if let Poll::Ready(Ok(count)) = sent {
            self.has_sent(count);
        }
        sent
    }

    /// As [`Self::poll_send`], without asking to be woken when the socket is full.
    pub(super) fn try_send(&mut self, until: u64, stream: &mut Stream) -> io::Result<usize> {
        let mut parts = [IoSlice::new(&[]); PARTS];
        let count = self.parts(until, &mut parts);
        let sent = stream.try_write(&parts[..count])?;
        self.has_sent(sent);
        Ok(sent)
    }

    fn has_sent(&mut self, count: usize) {
        self.sent += count as u64;
        while let Some(part) = self.front.front() {
            let bytes = part.bytes().len() as u64;
            if self.start + bytes > self.sent {
                return;
            }
            self.start += bytes;
            self.front_bytes -= part.held_bytes();
            self.front.pop_front();
        }
        let sent = (self.sent - self.start) as usize;
        if sent == self.tail.len() {
            self.clear();
        } else if sent > self.tail.len() / 2 {
            self.tail.drain(..sent);
            self.start = self.sent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_engine::{Engine, EngineOptions, Found, Key, Latched, Meta, TxBuf};
    use sexton_persistence::device::sim::SimStorage;
    use std::sync::Arc;

    fn store() -> Engine {
        let options = EngineOptions {
            background: false,
            ..EngineOptions::new(Arc::new(SimStorage::new()), "data".into())
        };
        Engine::open_bytes(options).expect("opens").0
    }

    /// A value of a store, of its own block.
    fn held(engine: &Engine, content: &[u8]) -> Box<dyn HeldBytes> {
        let mut buf = TxBuf::default();
        let hash = engine.hash(b"k");
        let key = Key { slot: engine.slot_of(0), bytes: b"k", hash };
        let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut buf);
        tx.put(key, Meta::default(), content);
        let Found::Live(entry) = tx.find(key) else { panic!("it was just put") };
        let value = entry.held().expect("long values have a block");
        tx.commit();
        Box::new(value)
    }

    fn all(output: &Output, until: u64) -> Vec<u8> {
        let mut parts = [IoSlice::new(&[]); PARTS];
        let count = output.parts(until, &mut parts);
        parts[..count].iter().flat_map(|part| part.to_vec()).collect()
    }

    /// Whatever is sent at a time, what arrives is what was appended; what is sent is not kept; and what is cut off is a suffix.
    #[test]
    fn bytes_and_values_leave_in_order_in_any_pieces() {
        let engine = store();
        let long: Vec<u8> = (0..6000_u32).map(|i| i as u8).collect();
        for step in [1, 7, 999, 1003, 4096, 30_000] {
            let mut output = Output::default();
            let mut wanted = Vec::new();
            for round in 0..4 {
                output.extend(b"before");
                output.push(held(&engine, &long));
                wanted.extend_from_slice(b"before");
                wanted.extend_from_slice(&long);
                if round % 2 == 0 {
                    output.push(held(&engine, &long[..5000]));
                    wanted.extend_from_slice(&long[..5000]);
                }
            }
            output.extend(b"the end");
            let kept = output.end();
            output.extend(b" of it");
            output.truncate(kept);
            wanted.extend_from_slice(b"the end");
            assert_eq!((output.end(), output.unsent()), (kept, wanted.len()));
            let (before, mut got) = (output.held_bytes(), Vec::new());
            while !output.is_empty() {
                // Not behind what is durable.
                let until = (got.len() as u64 + 3000).min(output.end());
                let bytes = all(&output, until);
                assert!(bytes.len() as u64 <= until - got.len() as u64);
                let count = bytes.len().min(step);
                got.extend_from_slice(&bytes[..count]);
                output.has_sent(count);
                assert!(output.held_bytes() <= before);
            }
            assert!(got == wanted, "in steps of {step}");
            assert_eq!((output.held_bytes(), output.front_bytes), (0, 0));
            output.extend(b"more");
            assert_eq!(all(&output, output.end()), b"more");
        }
    }

    #[test]
    fn what_is_given_up_is_cut_off_at_any_byte() {
        let engine = store();
        let long = vec![b'v'; 5000];
        for at in [0, 3, 6, 500, 5006, 5008, 5010] {
            let mut output = Output::default();
            output.extend(b"before");
            output.push(held(&engine, &long));
            output.extend(b"tail");
            let mut wanted = all(&output, output.end());
            output.truncate(at);
            wanted.truncate(at as usize);
            assert_eq!((output.end(), output.unsent()), (at, wanted.len()));
            assert!(all(&output, u64::MAX) == wanted, "at {at}");
            let kept = output.front.iter().map(Part::held_bytes).sum::<usize>();
            assert_eq!(output.front_bytes, kept);
            output.extend(b"x");
            wanted.push(b'x');
            assert!(all(&output, u64::MAX) == wanted);
        }
    }
}
