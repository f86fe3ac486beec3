//! Requests with copies of their arguments, one behind the other in one buffer: what MULTI queues.

use super::args::{Args, append};

/// Requests, each with what is known of it.
#[derive(Debug)]
pub struct PackedRequests<T> {
    /// In order of arrival.
    places: Vec<Place<T>>,
    /// Their arguments, as positions in `bytes`.
    ranges: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

/// Where a request is.
#[derive(Debug)]
struct Place<T> {
    known: T,
    /// Which of the ranges is that of its name.
    first: u32,
    /// Its log form in the bytes, if it arrived in this form.
    logged: Option<(u32, u32)>,
    /// The hash of its first argument, if that was known.
    hash: Option<u64>,
}

impl<T> Default for PackedRequests<T> {
    fn default() -> Self {
        Self { places: Vec::new(), ranges: Vec::new(), bytes: Vec::new() }
    }
}

impl<T: Copy> PackedRequests<T> {
    /// Copies a request behind the others; answers the bytes that it takes.
    pub fn push(&mut self, known: T, args: Args<'_>) -> usize {
        let (first, begun) = (self.ranges.len() as u32, self.bytes.len() as u32);
        let mut logged = None;
        if let Some((form, ranges)) = args.log_form() {
            self.bytes.extend_from_slice(form);
            logged = Some((begun, self.bytes.len() as u32));
            self.ranges.extend(ranges.map(|(start, end)| (begun + start, begun + end)));
        } else {
            append(&mut self.bytes, &mut self.ranges, args.from(0));
        }
        self.places.push(Place { known, first, logged, hash: args.hash() });
        let ranges_bytes = args.len() * size_of::<(u32, u32)>();
        self.bytes.len() - begun as usize + ranges_bytes + size_of::<Place<T>>()
    }

    /// Number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True without any request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The requests, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (T, Args<'_>)> + Clone {
        self.places.iter().enumerate().map(|(at, place)| {
            let next = self.places.get(at + 1);
            let end = next.map_or(self.ranges.len(), |next| next.first as usize);
            let ranges = &self.ranges[place.first as usize..end];
            (place.known, Args::new(&self.bytes, ranges).logged_as(place.logged).hashed(place.hash))
        })
    }

    /// Memory that the buffers take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ranges.capacity() * size_of::<(u32, u32)>()
            + self.places.capacity() * size_of::<Place<T>>()
    }

    /// Forgets all requests and keeps the buffers.
    pub fn clear(&mut self) {
        self.places.clear();
        self.ranges.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{command_bytes, pack};

    #[test]
    fn requests_come_back_as_they_were_packed_in_whatever_form() {
        let mut packed = PackedRequests::default();
        let requests: [&[&[u8]]; 3] =
            [&[b"SET", b"k", b"a value"], &[b"get", b""], &[b"DEL", b"k", b"l"]];
        for _ in 0..2 {
            let mut bytes = 0;
            for (nth, words) in requests.iter().enumerate() {
                let (plain, ranges) = pack(words.iter().copied());
                bytes += packed.push((nth, false), Args::new(&plain, &ranges));
                // In its log form, behind something else.
                let form = [b"+OK\r\n", &*command_bytes(words)].concat();
                let mut at = 5 + 4;
                let ranges = words.iter().map(|word| {
                    let start = at + 4;
                    at = start + word.len() + 2;
                    (start as u32, (at - 2) as u32)
                });
                let ranges: Vec<_> = ranges.collect();
                let args = Args::new(&form, &ranges).logged_as(Some((5, form.len() as u32)));
                bytes += packed.push((nth, true), args);
            }
            assert_eq!(packed.len(), 6);
            for (at, ((nth, is_logged), args)) in packed.iter().enumerate() {
                assert_eq!((nth, is_logged), (at / 2, at % 2 == 1));
                assert!(args.from(0).eq(requests[nth].iter().copied()), "{args:?}");
                let form = is_logged.then(|| command_bytes(requests[nth]));
                assert_eq!(args.as_logged(), form.as_deref());
            }
            assert!(packed.held_bytes() >= bytes);
            packed.clear();
            assert!(packed.is_empty() && packed.iter().next().is_none());
        }
    }
}
