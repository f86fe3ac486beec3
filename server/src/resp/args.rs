//! The arguments of a request, where they were read.

/// The arguments of one request: ranges of the read buffer, or a queued copy.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    pub(crate) buf: &'a [u8],
    pub(crate) ranges: &'a [(u32, u32)],
    as_logged: Option<(u32, u32)>,
    hash: Option<u64>,
    key_hashes: &'a [u64],
}

impl<'a> Args<'a> {
    /// Arguments given as (start, end) positions in `buf`.
    #[must_use]
    pub fn new(buf: &'a [u8], ranges: &'a [(u32, u32)]) -> Self {
        Self { buf, ranges, as_logged: None, hash: None, key_hashes: &[] }
    }

    /// Notes that `range` of the buffer is the whole request in its log form.
    #[must_use]
    pub fn logged_as(mut self, range: Option<(u32, u32)>) -> Self {
        self.as_logged = range;
        self
    }

    /// Adds the engine's hash of argument 1, if it is known.
    #[must_use]
    pub fn hashed(mut self, hash: impl Into<Option<u64>>) -> Self {
        self.hash = hash.into();
        self
    }

    /// That hash.
    pub(super) fn hash(&self) -> Option<u64> {
        self.hash
    }

    /// Adds the engine's hashes of all its keys, in order; the first key is argument `first`.
    #[must_use]
    pub fn with_key_hashes(mut self, hashes: &'a [u64], first: usize) -> Self {
        self.key_hashes = hashes;
        if first == 1 {
            self.hash = hashes.first().copied();
        }
        self
    }

    /// The hashes of all its keys in their order, or none where they are not known.
    #[must_use]
    pub fn key_hashes(&self) -> &'a [u64] {
        self.key_hashes
    }

    /// The whole request, if it arrived in its log form.
    #[must_use]
    pub fn as_logged(&self) -> Option<&'a [u8]> {
        self.as_logged.map(|(start, end)| &self.buf[start as usize..end as usize])
    }

    /// That request, and the positions of the arguments in it.
    pub(crate) fn log_form(
        &self,
    ) -> Option<(&'a [u8], impl Iterator<Item = (u32, u32)> + use<'a>)> {
        let (begun, ranges) = (self.as_logged?.0, self.ranges);
        let positions = ranges.iter().map(move |&(start, end)| (start - begun, end - begun));
        self.as_logged().map(|form| (form, positions))
    }

    /// The engine's hash of `bytes`, where that is argument 1 and its hash is known.
    #[inline]
    #[must_use]
    pub fn hash_of(&self, bytes: &[u8]) -> Option<u64> {
        self.hash.filter(|_| std::ptr::eq(self.get(1), bytes))
    }

    /// Number of arguments, the command's name included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes from the beginning of the first argument to the end of the last.
    #[must_use]
    pub fn span_bytes(&self) -> usize {
        let ends = self.ranges.first().zip(self.ranges.last());
        ends.map_or(0, |(first, last)| (last.1 - first.0) as usize)
    }

    /// True when there is not even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Argument `index`; 0 is the command's name.
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.ranges[index];
        &self.buf[start as usize..end as usize]
    }

    /// All arguments from `index` on.
    pub fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let buf = self.buf;
        self.ranges[index..].iter().map(move |&(start, end)| &buf[start as usize..end as usize])
    }
}

/// A request in one buffer, with the places of its arguments.
pub type PackedRequest = (Vec<u8>, Vec<(u32, u32)>);

/// Copies arguments into one buffer; answers it with their (start, end) positions in it.
#[must_use]
pub fn pack<'a>(args: impl Iterator<Item = &'a [u8]> + Clone) -> PackedRequest {
    let mut bytes = Vec::with_capacity(args.clone().map(<[u8]>::len).sum());
    let mut ranges = Vec::with_capacity(args.size_hint().0);
    append(&mut bytes, &mut ranges, args);
    (bytes, ranges)
}

/// Copies arguments behind those that are in `bytes`, and their positions behind `ranges`.
pub(super) fn append<'a>(
    bytes: &mut Vec<u8>,
    ranges: &mut Vec<(u32, u32)>,
    args: impl Iterator<Item = &'a [u8]>,
) {
    for arg in args {
        let start = bytes.len() as u32;
        bytes.extend_from_slice(arg);
        ranges.push((start, bytes.len() as u32));
    }
}
