//! HyperLogLogs: strings that estimate the number of distinct elements, in Redis' exact byte format.
//!
//! ```text
//! "HYLL" | encoding (u8: 0 dense, 1 sparse) | 0 0 0 | cardinality u64 LE, highest bit: must be recomputed | registers
//!
//! dense   16,384 registers of 6 bits, the lowest bits first
//! sparse  runs of registers: 00nnnnnn             n + 1 zeros
//!                            01nnnnnn nnnnnnnn    n + 1 zeros
//!                            1vvvvvnn             n + 1 registers that hold v + 1
//! ```

mod estimate;
mod hash;
mod sparse;

use super::collection::splice;
use sparse::Run;
use std::array;

/// Registers of each.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// Bits of the hash that choose the register.
const INDEX_BITS: u32 = 14;
/// Bits of the hash in which zeros are counted.
const COUNT_BITS: u32 = 64 - INDEX_BITS;
const REGISTER_BITS: usize = 6;
const HEAD_BYTES: usize = 16;
const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;
const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// In the last byte of the cardinality: it is not that of the registers.
const STALE: u8 = 0x80;

/// Why a string is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHyperLogLog {
    /// It does not begin as one does.
    Other,
    /// Its registers are not as many as there must be.
    Damaged,
}

/// How many registers hold each value.
pub type Histogram = [u32; 64];

/// A HyperLogLog that is being read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog {
    bytes: Vec<u8>,
}

impl Default for HyperLogLog {
    /// One that has seen nothing.
    fn default() -> Self {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING_AT] = SPARSE;
        Run::zeros(REGISTERS).write(&mut bytes);
        Self { bytes }
    }
}

impl HyperLogLog {
    /// The HyperLogLog that these bytes represent.
    ///
    /// # Errors
    /// [`NotHyperLogLog::Other`]. Corruption is detected when registers are read.
    pub fn of(bytes: &[u8]) -> Result<Self, NotHyperLogLog> {
        checked(bytes).map(|bytes| Self { bytes: bytes.to_vec() })
    }

    /// The string.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// False for a dense one.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        self.bytes[ENCODING_AT] == SPARSE
    }

    /// The cardinality of the HyperLogLog that these bytes represent, where it is known without counting.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn known_cardinality(bytes: &[u8]) -> Result<Option<u64>, NotHyperLogLog> {
        let (_, number) = checked(bytes)?.split_at(CARDINALITY_AT);
        let cardinality = number.first_chunk().map(|number| u64::from_le_bytes(*number));
        Ok(cardinality.filter(|cardinality| cardinality >> 63 == 0))
    }

    /// True when these bytes represent one that has seen these elements, or as good as these: none would change it. False where only
    /// [`Self::add`] can tell.
    #[must_use]
    pub fn has_seen<'e>(bytes: &[u8], mut elements: impl Iterator<Item = &'e [u8]>) -> bool {
        let is_dense = checked(bytes).is_ok_and(|bytes| bytes[ENCODING_AT] == DENSE);
        is_dense
            && elements.all(|element| {
                let (index, value) = register_of(element);
                value <= dense_register(bytes, index)
            })
    }

    /// From now on the cardinality is known.
    pub fn set_cardinality(&mut self, cardinality: u64) {
        self.bytes[CARDINALITY_AT..HEAD_BYTES].copy_from_slice(&cardinality.to_le_bytes());
    }

    /// The cardinality is to be counted again.
    pub fn forget_cardinality(&mut self) {
        self.bytes[HEAD_BYTES - 1] |= STALE;
    }

    /// The runs of a sparse one.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        sparse::runs(&self.bytes[HEAD_BYTES..]).map(|(run, _)| run)
    }

    /// Raises `registers` to those of the HyperLogLog that these bytes represent where these are larger; answers whether it is dense.
    ///
    /// # Errors
    /// [`NotHyperLogLog`].
    pub fn merge_into(
        bytes: &[u8],
        registers: &mut [u8; REGISTERS],
    ) -> Result<bool, NotHyperLogLog> {
        let (head, own) = checked(bytes)?.split_at(HEAD_BYTES);
        if head[ENCODING_AT] == DENSE {
            let raised = registers.iter_mut().zip(unpacked_all(own));
            raised.for_each(|(register, own)| *register = (*register).max(own));
            return Ok(true);
        }
        let mut at = 0;
        for (run, _) in sparse::runs(own) {
            if run.value > 0 {
                let covered = registers.get_mut(at..at + run.len).ok_or(NotHyperLogLog::Damaged)?;
                covered.iter_mut().for_each(|register| *register = (*register).max(run.value));
            }
            at += run.len;
        }
        if at == REGISTERS { Ok(false) } else { Err(NotHyperLogLog::Damaged) }
    }

    /// Counts: how many different elements it has seen, about.
    ///
    /// # Errors
    /// [`NotHyperLogLog::Damaged`].
    pub fn count(&self) -> Result<u64, NotHyperLogLog> {
        let mut histogram: Histogram = [0; 64];
        if self.is_sparse() {
            let mut covered = 0;
            for run in self.runs() {
                histogram[usize::from(run.value)] += run.len as u32;
                covered += run.len;
            }
            if covered != REGISTERS {
                return Err(NotHyperLogLog::Damaged);
            }
        } else {
            histogram = histogram_of(&unpacked_all(&self.bytes[HEAD_BYTES..]));
        }
        Ok(estimate::cardinality(&histogram))
    }

    /// Adds an element; returns whether a register has changed. It remains sparse up to `sparse_max_bytes`.
    ///
    /// # Errors
    /// [`NotHyperLogLog::Damaged`].
    pub fn add(&mut self, element: &[u8], sparse_max_bytes: u64) -> Result<bool, NotHyperLogLog> {
        let (index, value) = register_of(element);
        self.raise(index, value, sparse_max_bytes)
    }

    /// Raises one register; returns whether it was smaller. It remains sparse up to `sparse_max_bytes`.
    ///
    /// # Errors
    /// [`NotHyperLogLog::Damaged`].
    pub fn raise(
        &mut self,
        index: usize,
        value: u8,
        sparse_max_bytes: u64,
    ) -> Result<bool, NotHyperLogLog> {
        if self.is_sparse() {
            match sparse::raise(&mut self.bytes, HEAD_BYTES, index, value, sparse_max_bytes) {
                sparse::Raised::Unchanged => return Ok(false),
                sparse::Raised::Changed => {
                    self.forget_cardinality();
                    return Ok(true);
                }
                sparse::Raised::Damaged => return Err(NotHyperLogLog::Damaged),
                sparse::Raised::TooLarge => self.make_dense()?,
            }
        }
        let is_more = value > self.dense_register(index);
        if is_more {
            self.set_dense_register(index, value);
        }
        Ok(is_more)
    }

    /// Raises all of its registers to `registers`, of which none is below its own. It remains sparse as in [`Self::raise`].
    ///
    /// # Errors
    /// [`NotHyperLogLog::Damaged`].
    pub fn raise_all(
        &mut self,
        registers: &[u8; REGISTERS],
        sparse_max_bytes: u64,
    ) -> Result<(), NotHyperLogLog> {
        for (index, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            if !self.is_sparse() {
                break;
            }
            self.raise(index, value, sparse_max_bytes)?;
        }
        if !self.is_sparse() {
            self.set_dense(registers);
        }
        Ok(())
    }

    /// Becomes a dense one of these registers.
    pub fn set_dense(&mut self, registers: &[u8; REGISTERS]) {
        self.bytes[ENCODING_AT] = DENSE;
        self.bytes.resize(DENSE_BYTES, 0);
        let groups = self.bytes[HEAD_BYTES..].as_chunks_mut().0.iter_mut();
        for (group, registers) in groups.zip(registers.as_chunks().0) {
            *group = packed(*registers);
        }
    }

    /// Converts a sparse one to dense. The cached cardinality is kept.
    ///
    /// # Errors
    /// [`NotHyperLogLog::Damaged`].
    pub fn make_dense(&mut self) -> Result<(), NotHyperLogLog> {
        if !self.is_sparse() {
            return Ok(());
        }
        let mut registers = [0; REGISTERS];
        Self::merge_into(&self.bytes, &mut registers)?;
        self.set_dense(&registers);
        Ok(())
    }

    fn dense_register(&self, index: usize) -> u8 {
        dense_register(&self.bytes, index)
    }

    fn set_dense_register(&mut self, index: usize, value: u8) {
        let (at, bit) = place(index);
        let next = self.bytes.get(at + 1).copied().unwrap_or(0);
        let pair = u16::from_le_bytes([self.bytes[at], next]);
        let [low, high] = (pair & !(0x3f << bit) | u16::from(value) << bit).to_le_bytes();
        self.bytes[at] = low;
        if let Some(byte) = self.bytes.get_mut(at + 1) {
            *byte = high;
        }
    }

    /// The registers of a dense one.
    pub fn dense_registers(&self) -> impl Iterator<Item = u8> + '_ {
        unpacked_all(&self.bytes[HEAD_BYTES..]).into_iter()
    }
}

/// Registers that fill a word with a byte for each, and bytes that they take without the two bits that none has.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP * REGISTER_BITS / 8;

/// The registers in a group of bytes of a dense one: the halves of the bits are moved apart, then those of these, then of these.
fn unpacked([a, b, c, d, e, f]: [u8; GROUP_BYTES]) -> [u8; GROUP] {
    let bits = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let bits = bits & 0x00ff_ffff | (bits & 0xffff_ff00_0000) << 8;
    let bits = bits & 0x0fff_0000_0fff | (bits & 0x00ff_f000_00ff_f000) << 4;
    (bits & 0x003f_003f_003f_003f | (bits & 0x0fc0_0fc0_0fc0_0fc0) << 2).to_le_bytes()
}

/// All of them. A loop of its own, in which each group stays a word: together with what is made of the registers it becomes one of bytes,
/// which takes three times as long.
#[inline(never)]
fn unpacked_all(dense: &[u8]) -> [u8; REGISTERS] {
    let mut registers = [0; REGISTERS];
    let groups = registers.as_chunks_mut().0.iter_mut().zip(dense.as_chunks().0);
    groups.for_each(|(registers, own)| *registers = unpacked(*own));
    registers
}

/// The bytes of a group of registers: the way back.
fn packed(registers: [u8; GROUP]) -> [u8; GROUP_BYTES] {
    let bits = u64::from_le_bytes(registers);
    let bits = bits & 0x003f_003f_003f_003f | (bits & 0x3f00_3f00_3f00_3f00) >> 2;
    let bits = bits & 0x0fff_0000_0fff | (bits & 0x0fff_0000_0fff_0000) >> 4;
    let [a, b, c, d, e, f, ..] =
        (bits & 0x00ff_ffff | (bits & 0x00ff_ffff_0000_0000) >> 8).to_le_bytes();
    [a, b, c, d, e, f]
}

/// Several tables, so that equal neighbours need not wait for each other's count.
fn histogram_of(registers: &[u8; REGISTERS]) -> Histogram {
    let mut parts = [[0; 64]; GROUP];
    for group in registers.as_chunks::<GROUP>().0 {
        for (part, register) in parts.iter_mut().zip(group) {
            part[usize::from(register & 0x3f)] += 1;
        }
    }
    array::from_fn(|value| parts.iter().map(|part| part[value]).sum())
}

/// These bytes, where they represent a HyperLogLog as far as its head says.
fn checked(bytes: &[u8]) -> Result<&[u8], NotHyperLogLog> {
    let is_one = bytes.len() >= HEAD_BYTES
        && bytes.starts_with(MAGIC)
        && match bytes[ENCODING_AT] {
            DENSE => bytes.len() == DENSE_BYTES,
            encoding => encoding == SPARSE,
        };
    if is_one { Ok(bytes) } else { Err(NotHyperLogLog::Other) }
}

/// The register that an element raises, and to what.
fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = hash::murmur64a(element);
    let index = hash as usize & (REGISTERS - 1);
    // A one behind the last bit ends the count.
    let zeros = (hash >> INDEX_BITS | 1 << COUNT_BITS).trailing_zeros();
    (index, zeros as u8 + 1)
}

/// The position of a register in a dense one: the byte, and the bit in it.
fn place(index: usize) -> (usize, usize) {
    (HEAD_BYTES + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8)
}

fn dense_register(bytes: &[u8], index: usize) -> u8 {
    let (at, bit) = place(index);
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([bytes[at], next]) >> bit) as u8 & 0x3f
}

/// The approximate number of distinct elements that these registers have seen.
#[must_use]
pub fn cardinality(registers: &[u8; REGISTERS]) -> u64 {
    estimate::cardinality(&histogram_of(registers))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPARSE_MAX: u64 = 3000;

    fn registers(log: &HyperLogLog) -> [u8; REGISTERS] {
        let mut registers = [0; REGISTERS];
        HyperLogLog::merge_into(log.bytes(), &mut registers).unwrap();
        registers
    }

    #[test]
    fn dense_registers_leave_their_neighbours_alone() {
        let mut log = HyperLogLog::default();
        log.make_dense().unwrap();
        let value = |index: usize| (index * 7 % 51) as u8;
        (0..REGISTERS).for_each(|index| log.set_dense_register(index, value(index)));
        assert!(log.dense_registers().enumerate().all(|(index, found)| found == value(index)));
        let mut whole = HyperLogLog::default();
        whole.set_dense(&registers(&log));
        assert_eq!(whole, log);
        let mut histogram: Histogram = [0; 64];
        (0..REGISTERS).for_each(|index| histogram[usize::from(value(index))] += 1);
        assert_eq!(log.count().unwrap(), estimate::cardinality(&histogram));
        assert_eq!(cardinality(&registers(&log)), estimate::cardinality(&histogram));
    }

    #[test]
    fn both_forms_have_the_same_registers() {
        let mut sparse = HyperLogLog::default();
        let mut dense = HyperLogLog::default();
        dense.make_dense().unwrap();
        for number in 0..1500_u32 {
            let element = number.to_string();
            let changed = sparse.add(element.as_bytes(), u64::MAX).unwrap();
            let known = HyperLogLog::has_seen(dense.bytes(), std::iter::once(element.as_bytes()));
            assert_eq!(dense.add(element.as_bytes(), SPARSE_MAX).unwrap(), changed);
            assert_eq!(known, !changed);
        }
        assert!(sparse.is_sparse() && !dense.is_sparse());
        assert_eq!(registers(&sparse), registers(&dense));
        assert_eq!(sparse.count(), dense.count());
        assert!(sparse.count().unwrap().abs_diff(1500) < 30);
        sparse.make_dense().unwrap();
        sparse.set_cardinality(0);
        dense.set_cardinality(0);
        assert_eq!(sparse, dense);
    }

    #[test]
    fn a_sparse_one_that_is_too_large_becomes_dense() {
        let mut log = HyperLogLog::default();
        let mut seen = 0_u32;
        while log.is_sparse() {
            assert!(log.bytes().len() as u64 <= SPARSE_MAX);
            log.add(&seen.to_le_bytes(), SPARSE_MAX).unwrap();
            seen += 1;
        }
        assert!(seen > 500 && log.bytes().len() == DENSE_BYTES, "{seen}");
    }

    #[test]
    fn damage_is_found() {
        let log = HyperLogLog::default();
        let mut cut = log.clone();
        cut.bytes.pop();
        assert_eq!(cut.count(), Err(NotHyperLogLog::Damaged));
        assert_eq!(cut.make_dense(), Err(NotHyperLogLog::Damaged));
        let mut long = log.clone();
        long.bytes.push(0x80);
        let merged = HyperLogLog::merge_into(long.bytes(), &mut [0; REGISTERS]);
        assert_eq!(merged, Err(NotHyperLogLog::Damaged));
        assert_eq!(HyperLogLog::of(b"HYLL"), Err(NotHyperLogLog::Other));
        assert!(HyperLogLog::of(log.bytes()).is_ok());
        let mut short = log.bytes().to_vec();
        short[ENCODING_AT] = DENSE;
        assert_eq!(HyperLogLog::of(&short), Err(NotHyperLogLog::Other));
    }
}
