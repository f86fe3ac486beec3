//! Keys of a run cut down to one word each, which sorts and searches compare instead of the keys.

/// Key bytes in a word.
pub(super) const PREFIX_BYTES: usize = size_of::<u64>();

/// The first eight of the last `rest_len` bytes of a key, big endian, zeros behind them.
pub(super) fn prefix_of(key: &[u8], rest_len: usize) -> u64 {
    let rest = &key[key.len() - rest_len..];
    if let Some(eight) = rest.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    if let Some(eight) = key.last_chunk().filter(|_| rest_len > 0) {
        // One load instead of a copy of unknown length: what is not wanted is shifted out.
        return u64::from_be_bytes(*eight) << (8 * (PREFIX_BYTES - rest_len));
    }
    let mut bytes = [0; PREFIX_BYTES];
    bytes[..rest_len].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Takes bits out of a word and closes the gaps. Words that agree in the bits taken out keep their
/// order.
#[derive(Default)]
pub(super) struct BitCloser {
    /// Bits that stay and how far they move down, the lowest first.
    runs: Vec<(u64, u32)>,
    /// Bits that stay.
    pub(super) width: u32,
    /// Bits that are taken out, because all words agree in them.
    agreed: u64,
    /// What all words have in those.
    value: u64,
}

impl BitCloser {
    /// With more runs of bits than this, closing the gaps costs more than it saves.
    const RUNS_MAX: usize = 8;

    /// Keeps the bits of `keep`; in the others all words are as `sample`.
    pub(super) fn new(keep: u64, sample: u64) -> Self {
        let (mut runs, mut rest, mut width) = (Vec::new(), keep, 0);
        while rest != 0 {
            let at = rest.trailing_zeros();
            let bits = (rest >> at).trailing_ones();
            let mask = (u64::MAX >> (u64::BITS - bits)) << at;
            runs.push((mask, at - width));
            rest &= !mask;
            width += bits;
        }
        if runs.len() > Self::RUNS_MAX {
            return Self { runs: vec![(u64::MAX, 0)], width: u64::BITS, agreed: 0, value: 0 };
        }
        Self { runs, width, agreed: !keep, value: sample & !keep }
    }

    pub(super) fn close(&self, word: u64) -> u64 {
        self.runs.iter().fold(0, |closed, (mask, shift)| closed | (word & mask) >> shift)
    }
}

/// What the prefixes of a run are: the eight key bytes behind what all keys share, big endian, without the
/// bits in which all of them agree.
#[derive(Default)]
pub(super) struct Cut {
    shared: Box<[u8]>,
    closer: BitCloser,
}

/// Position of a key among prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Below every key of the run.
    BeforeAll,
    /// Above every key of the run.
    BehindAll,
    /// Above every key whose prefix is below this one, and below all others.
    Before(u64),
    /// Like `Before`, but keys with this prefix must be compared in full.
    Among(u64),
}

impl Cut {
    /// For keys that begin with `shared` and whose words `closer` has closed.
    pub(super) fn new(shared: &[u8], closer: BitCloser) -> Self {
        Self { shared: shared.into(), closer }
    }

    /// Where `key`, which need not be one of the run's, belongs. A cut made by `default` has one
    /// prefix, 0.
    pub(super) fn place(&self, key: &[u8]) -> Place {
        let Some(rest) = key.strip_prefix(&*self.shared) else {
            return if *key < *self.shared { Place::BeforeAll } else { Place::BehindAll };
        };
        let word = prefix_of(key, rest.len());
        let strange = (word ^ self.closer.value) & self.closer.agreed;
        if strange == 0 {
            return Place::Among(self.closer.close(word));
        }
        // The highest bit in which it differs from all words at once decides about those that are like
        // it above.
        let bit = u64::BITS - 1 - strange.leading_zeros();
        let below = (1 << bit) - 1;
        if word >> bit & 1 == 0 {
            Place::Before(self.closer.close(word & !below))
        } else {
            // No overflow: a bit was taken out, so a closed word has at most 63.
            Place::Before(self.closer.close(word | below) + 1)
        }
    }
}
