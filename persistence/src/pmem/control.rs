//! The control file: the pair (c_p, c_d), voids, and what the pool is (`FORMAT.md`, "control.pmem").

use std::path::Path;
use std::sync::Arc;

use super::error::{PmemError, PmemResult};
use super::medium::{Medium, POOL_LANE, Readable, Region};
use crate::checksum::crc32c;

/// Name of the file, which a pool has from its first moment on.
pub const CONTROL_FILE: &str = "control.pmem";
/// Stretches that recovery gave up which are remembered; beyond that, holes below the oldest are no longer
/// looked for.
pub(super) const VOIDS_MAX: usize = 128;

/// No sequence is higher: the engine's tables have 56 bits for one.
pub(super) const SEQ_MAX: u64 = (1 << 56) - 1;

const MAGIC: &[u8; 8] = b"SXWBCTL1";
const COPY_BYTES: usize = 4096;
const CRC_AT: usize = COPY_BYTES - 4;
const VOIDS_AT: usize = 72;

/// What the control file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ControlState {
    pub(super) version: u64,
    pub(super) pool_id: u64,
    /// c_p.
    pub(super) complete: u64,
    /// c_d.
    pub(super) reserved: u64,
    pub(super) floor: u64,
    pub(super) slot_bytes: u64,
    pub(super) epoch: u32,
    pub(super) files: u32,
    /// First and last sequence of each, ascending.
    pub(super) voids: Vec<(u64, u64)>,
}

impl ControlState {
    pub(super) fn encode(&self) -> [u8; COPY_BYTES] {
        let mut bytes = [0; COPY_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        let fields = [
            self.version,
            self.pool_id,
            self.complete,
            self.reserved,
            self.floor,
            self.slot_bytes,
            u64::from(self.files) << 32 | u64::from(self.epoch),
            self.voids.len() as u64,
        ];
        let voids = self.voids.iter().flat_map(|(first, last)| [*first, *last]);
        for (nth, field) in fields.into_iter().chain(voids).enumerate() {
            bytes[8 + 8 * nth..16 + 8 * nth].copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; COPY_BYTES]) -> Option<Self> {
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let void = |nth: usize| (u64_at(VOIDS_AT + 16 * nth), u64_at(VOIDS_AT + 16 * nth + 8));
        let voids = u64_at(64) as usize;
        let state = Self {
            version: u64_at(8),
            pool_id: u64_at(16),
            complete: u64_at(24),
            reserved: u64_at(32),
            floor: u64_at(40),
            slot_bytes: u64_at(48),
            epoch: (u64_at(56) & u64::from(u32::MAX)) as u32,
            files: (u64_at(56) >> 32) as u32,
            voids: (0..voids.min(VOIDS_MAX)).map(void).collect(),
        };
        // Every bit is fixed or covered, so what encodes to the same is what was written.
        (state.encode() == *bytes && state.is_sane()).then_some(state)
    }

    /// What we write always is; a checksum proves only that nothing was changed since.
    fn is_sane(&self) -> bool {
        let mut before = 0;
        let ascending = self.voids.iter().all(|&(first, last)| {
            let behind = before < first && first <= last && last <= SEQ_MAX;
            before = last;
            behind
        });
        ascending && self.reserved <= SEQ_MAX && self.slot_bytes.is_power_of_two()
    }

    /// The void that `seq` is in, or the next one behind it.
    fn void_behind(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.voids.partition_point(|(_, last)| *last < seq);
        self.voids.get(at).copied()
    }

    /// True when recovery has given up `seq`.
    pub(super) fn is_void(&self, seq: u64) -> bool {
        self.void_behind(seq).is_some_and(|(first, _)| first <= seq)
    }

    /// The first sequence from `seq` on that is in no void.
    pub(super) fn skip_voids(&self, mut seq: u64) -> u64 {
        while let Some((first, last)) = self.void_behind(seq)
            && first <= seq
        {
            seq = last + 1;
        }
        seq
    }

    /// Gives up every sequence from `first` to `last`, with all behind it; forgets voids that the
    /// mark has passed, and the oldest if there are too many.
    pub(super) fn add_void(&mut self, first: u64, last: u64, mark: u64) {
        let first = self.skip_voids(first);
        self.voids.retain(|void| void.1 > mark && void.0 < first);
        if first <= last {
            self.voids.push((first, last));
        }
        while self.voids.len() > VOIDS_MAX {
            let (_, last) = self.voids.remove(0);
            self.floor = self.floor.max(last);
        }
    }
}

/// The open control file.
#[derive(Debug)]
pub(super) struct Control {
    region: Arc<dyn Region>,
    pub(super) state: ControlState,
}

impl Control {
    /// Makes a new one.
    pub(super) fn create(medium: &dyn Medium, dir: &Path, state: ControlState) -> PmemResult<Self> {
        let region = medium.create(&dir.join(CONTROL_FILE), 2 * COPY_BYTES as u64)?;
        let mut control = Self { region, state: ControlState::default() };
        control.update(|held| *held = state)?;
        medium.sync_dir(dir)?;
        Ok(control)
    }

    /// Opens the one that is there. `None` when no copy is valid.
    pub(super) fn open(medium: &dyn Medium, dir: &Path) -> PmemResult<Option<Self>> {
        let path = dir.join(CONTROL_FILE);
        let region = medium.open(&path)?;
        let state = ControlState::read(&*region)?;
        Ok(state.map(|state| Self { region, state }))
    }

    /// Changes the state and makes it durable, as a new version over the older copy. On an error it stays as it
    /// was, and so does the newer copy.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut ControlState)) -> PmemResult<()> {
        let mut next = self.state.clone();
        change(&mut next);
        next.version = self.state.version + 1;
        let offset = (next.version % 2) * COPY_BYTES as u64;
        self.region.copy(POOL_LANE, offset, &next.encode());
        let copy = offset..offset + COPY_BYTES as u64;
        self.region.fence(POOL_LANE, std::slice::from_ref(&copy))?;
        self.state = next;
        Ok(())
    }
}

impl ControlState {
    /// The newer valid copy in a control file; `None` when no copy is valid.
    pub(super) fn read(region: &dyn Readable) -> PmemResult<Option<Self>> {
        let path = || region.path().to_path_buf();
        if region.len() != 2 * COPY_BYTES as u64 {
            let message = format!("{} bytes, expected {}", region.len(), 2 * COPY_BYTES);
            return Err(PmemError::Refused { path: path(), message });
        }
        let mut newest: Option<ControlState> = None;
        for offset in [0, COPY_BYTES as u64] {
            let mut bytes = [0; COPY_BYTES];
            // A copy that cannot be read is as good as a torn one.
            if region.read(offset, &mut bytes).is_err() {
                continue;
            }
            if bytes[..7] == MAGIC[..7] && bytes[7] != MAGIC[7] {
                let message = format!("version {} of the format, expected 1", bytes[7] as char);
                return Err(PmemError::Refused { path: path(), message });
            }
            if let Some(state) = ControlState::decode(&bytes)
                && newest.as_ref().is_none_or(|held| held.version < state.version)
            {
                newest = Some(state);
            }
        }
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ControlState {
        ControlState {
            version: 3,
            pool_id: 4,
            complete: 5,
            reserved: 6,
            floor: 1,
            slot_bytes: 4096,
            epoch: 8,
            files: 9,
            voids: vec![(10, 20), (30, 30)],
        }
    }

    #[test]
    fn a_copy_is_valid_only_as_it_was_written() {
        let bytes = state().encode();
        assert_eq!(ControlState::decode(&bytes), Some(state()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ControlState::decode(&damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn voids_are_skipped_and_forgotten_behind_the_mark() {
        let mut state = state();
        let void: Vec<_> = (9..=31).filter(|seq| state.is_void(*seq)).collect();
        assert_eq!(void, (10..=20).chain([30]).collect::<Vec<_>>());
        assert_eq!((state.skip_voids(9), state.skip_voids(10), state.skip_voids(30)), (9, 21, 31));
        state.add_void(31, 40, 20);
        assert_eq!(state.voids, [(30, 30), (31, 40)]);
        assert_eq!(state.skip_voids(30), 41, "one behind the other");
        state.add_void(35, 40, 20);
        state.add_void(50, 49, 20);
        assert_eq!(state.voids, [(30, 30), (31, 40)], "given up before, or empty");
        state.add_void(25, 60, 20);
        assert_eq!(state.voids, [(25, 60)], "one that takes in others");
    }

    #[test]
    fn too_many_voids_raise_the_floor() {
        let mut state = ControlState::default();
        for nth in 1..=VOIDS_MAX as u64 + 2 {
            state.add_void(10 * nth, 10 * nth + 5, 0);
        }
        assert_eq!((state.voids.len(), state.voids[0], state.floor), (VOIDS_MAX, (30, 35), 25));
    }
}
