//! The gap-free run: how far what was found goes, and what of it shows damage (`FORMAT.md`, "Reading it back").

use std::path::Path;

use super::control::{CONTROL_FILE, ControlState};
use super::error::PmemError;
use super::medium::Readable;
use super::scan::Found;

/// The gap-free run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// R.
    pub(super) last_seq: u64,
    /// The first sequence that is not there.
    missing: u64,
    /// The highest that is there, 0 for none.
    highest: u64,
    /// One that is there more than once; the run ends before it.
    twice: Option<u64>,
}

impl Run {
    pub(super) fn find(found: &[Found], control: &ControlState, mark: u64) -> Self {
        let mut noted = Vec::with_capacity(found.iter().map(|found| found.noted.len()).sum());
        found.iter().for_each(|found| noted.extend_from_slice(&found.noted));
        // Ascending runs, one a chunk: the stable sort merges them.
        noted.sort();
        let highest = noted.last().map_or(0, |noted| noted.seq());
        let mut pairs = noted.windows(2);
        let twice = pairs.find(|pair| pair[0].seq() == pair[1].seq()).map(|pair| pair[0].seq());
        let floor = mark.max(control.floor);
        let last_seq = if twice.is_some_and(|seq| seq <= floor) { mark } else { floor };
        let mut run = Self { last_seq, missing: control.skip_voids(floor + 1), highest, twice };
        // Holes at or below the floor are not looked for.
        for noted in noted.into_iter().filter(|noted| noted.seq() > floor) {
            let seq = noted.seq();
            if seq != run.missing || twice.is_some_and(|twice| twice <= seq) {
                break;
            }
            run.missing = control.skip_voids(seq + 1);
            if !noted.more() {
                run.last_seq = seq;
            }
        }
        run
    }

    /// What shows that durable data is missing (N8), the most telling first.
    pub(super) fn damage(
        &self,
        found: &[Found],
        regions: &[&dyn Readable],
        control: &ControlState,
    ) -> Vec<PmemError> {
        let shown = found.iter().filter_map(|found| {
            let (offset, seq) = found.evidence?;
            let message = match seq {
                Some(seq) if seq <= self.last_seq => return None,
                Some(seq) => format!(
                    "no valid record, but sequence {seq} was written behind it, and the run ends at {}",
                    self.last_seq
                ),
                None => "data in a slot whose header is not valid".to_owned(),
            };
            Some((found.file, offset, message))
        });
        let of_run = || {
            let message = if let Some(twice) = self.twice {
                format!("sequence {twice} is there more than once")
            } else if self.missing <= control.complete {
                format!(
                    "sequence {} is missing, everything up to {} was durable",
                    self.missing, control.complete
                )
            } else if self.highest > control.reserved {
                format!(
                    "sequence {} is there, none above {} was handed out",
                    self.highest, control.reserved
                )
            } else {
                return None;
            };
            Some((usize::MAX, 0, message))
        };
        let all = shown.chain(of_run());
        let damaged = all.map(|(file, offset, message)| {
            let path = regions.get(file).map_or(Path::new(CONTROL_FILE), |region| region.path());
            PmemError::Damaged { path: path.to_path_buf(), offset, message }
        });
        damaged.collect()
    }
}
