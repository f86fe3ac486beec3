//! Reading a pool back: scan, gap-free run, erasing the rest (`FORMAT.md`, "Reading it back").

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::arena::PmemArena;
use super::chunk::{CHUNK_HEADER_BYTES, Chunk, ChunkHeader, Walk};
use super::control::{CONTROL_FILE, Control, ControlState};
use super::erase::Erase;
use super::error::{PmemError, PmemResult};
use super::medium::{MEDIA_LINE_BYTES, Medium, PmemKind, Readable, Region};
use super::options::{OnDamage, PmemOptions};
use super::pool::{PmemPool, file_name};
use super::record::{Header, Record};
use super::rules::{Rule, kept};
use super::run::Run;
use super::scan::{Found, Scan};
use super::slots::{Row, Slots};

/// What a pool held when it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// R: the last sequence that is there with all before it; at least the mark.
    pub last_seq: u64,
    /// The first sequence to be handed out. Those between `last_seq` and it are never used.
    pub next_seq: u64,
    /// Arenas with records in (mark, R], oldest first: all records of one come before all of the next.
    pub arenas: Vec<RecoveredArena>,
    /// For INFO and the log.
    pub report: RecoveryReport,
}

/// An arena of an earlier run. Nothing is added to it; after its flush it is retired like any other.
#[derive(Debug)]
pub struct RecoveredArena {
    /// The arena.
    pub arena: Arc<PmemArena>,
    /// Lowest sequence of a record in it above the mark.
    pub first_seq: u64,
    /// Highest sequence of a record in it.
    pub last_seq: u64,
    /// Number of its records above the mark.
    pub records: u64,
    /// First record sequence of each of its chunks, in the order of `PmemArena::chunks`.
    chunk_seqs: Vec<u64>,
    mark: u64,
}

/// What recovery found, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Kind of medium that the pool is on.
    pub kind: PmemKind,
    /// Bytes of all pool files, all of them read.
    pub scanned_bytes: u64,
    /// Threads that scanned.
    pub threads: usize,
    /// Records kept.
    pub records: u64,
    /// Bytes of the records kept.
    pub record_bytes: u64,
    /// Whole records above R that were given up.
    pub given_up: u64,
    /// Bytes erased.
    pub erased_bytes: u64,
    /// Media lines that could not be read.
    pub bad_lines: u64,
    /// Durable data that was missing, if that was accepted ([`OnDamage::Cut`]).
    pub damage: Option<String>,
    /// Mapping and prefaulting.
    pub map_time: Duration,
    /// Reading and checking.
    pub scan_time: Duration,
    /// Finding R, and erasing.
    pub settle_time: Duration,
}

impl PmemPool {
    /// Opens or makes the pool in `options.dir`, with `mark` as in the engine's manifest (the flushed mark m, 0 or
    /// the last sequence used before for a new pool): scans it, gives up what is above the gap-free run, erases
    /// that and what is at or below the mark. See [`Recovered`].
    ///
    /// # Errors
    ///
    /// A medium that fails; files that are missing, of another version or that do not belong together; durable data
    /// that is missing or damaged, unless `options.on_damage` says otherwise: then nothing was changed.
    pub fn open(options: PmemOptions, mark: u64) -> PmemResult<(Arc<Self>, Recovered)> {
        let begun = Instant::now();
        let medium = Arc::clone(&options.medium);
        medium.create_dir_all(&options.dir)?;
        let mut control = match open_control(&*medium, &options.dir)? {
            Some(control) => control,
            None => make_control(&options, mark)?,
        };
        let regions = map_files(&*medium, &options.dir, control.state.files as usize)?;
        remove_strays(&*medium, &options.dir, regions.len())?;
        prefault(&regions)?;
        let map_time = begun.elapsed();

        let begun = Instant::now();
        let threads = options.scan_threads;
        let readable: Vec<&dyn Readable> = regions.iter().map(|region| &**region as _).collect();
        let scan = Scan { regions: &readable, control: &control.state, mark, threads };
        let mut found = scan.run()?;
        let scan_time = begun.elapsed();

        let begun = Instant::now();
        let run = Run::find(&found, &control.state, mark);
        let damage = run.damage(&found, &readable, &control.state).into_iter().next();
        if let Some(damage) = &damage
            && options.on_damage == OnDamage::Refuse
        {
            return Err(damage.clone());
        }
        let whole: u64 = found.iter().map(|found| found.noted.len() as u64).sum();
        for found in &mut found {
            if found.noted.last().is_some_and(|last| last.seq() > run.last_seq) {
                *found = scan.read_again(found, run.last_seq);
            }
        }
        let records: u64 = found.iter().map(|found| found.noted.len() as u64).sum();
        let mut report = RecoveryReport {
            kind: medium.kind(),
            scanned_bytes: regions.iter().map(|region| region.len()).sum(),
            threads: scan.threads(),
            records,
            record_bytes: found.iter().map(|found| found.record_bytes).sum(),
            given_up: whole - records,
            erased_bytes: 0,
            bad_lines: found.iter().map(|found| found.bad_lines.len() as u64).sum(),
            damage: damage.map(|damage| damage.to_string()),
            map_time,
            scan_time,
            settle_time: Duration::ZERO,
        };
        let slot_bytes = wanted_slot_bytes(&options, &control.state, &regions, records);
        // First the void, then the erasing: whatever of that a crash leaves over is known to be given up.
        control.update(|state| {
            // A sequence that is there twice ends the run even below the floor, and what was below is given up.
            state.floor = state.floor.min(run.last_seq);
            state.add_void(run.last_seq + 1, state.reserved, mark);
            state.complete = state.reserved.max(mark);
            state.reserved = state.complete;
            state.epoch += 1;
            state.slot_bytes = slot_bytes;
        })?;
        report.erased_bytes = erase_rest(&found, &regions)?;

        let mut slots = Slots::new(slot_bytes);
        regions.iter().for_each(|region| slots.add_file(Arc::clone(region)));
        let kept: Vec<_> = found.into_iter().filter(|found| !found.noted.is_empty()).collect();
        for found in &kept {
            slots.mark_used(found.file, found.offset, found.len);
        }
        let next_seq = control.state.reserved + 1;
        // Room beside what was kept is made behind the start.
        let initial_bytes = if kept.is_empty() { options.initial_bytes } else { 0 };
        let pool = Self::assemble(options, control, slots, mark, report.bad_lines);
        let arenas = adopt(&pool, &regions, kept, mark);
        pool.make_room(initial_bytes)?;
        report.settle_time = begun.elapsed();
        Ok((pool, Recovered { last_seq: run.last_seq, next_seq, arenas, report }))
    }
}

/// The control file; `None` when there is no pool, or one whose making was not finished.
fn open_control(medium: &dyn Medium, dir: &Path) -> PmemResult<Option<Control>> {
    let names = medium.list(dir)?;
    let has_control = names.iter().any(|name| name == CONTROL_FILE);
    let control = if has_control { Control::open(medium, dir)? } else { None };
    let first = file_name(1);
    if control.is_none() && names.contains(&first) {
        let path = dir.join(CONTROL_FILE);
        let what = if has_control { "neither copy is valid" } else { "it is missing" };
        let message = format!("{what}, and there is {first}");
        return Err(PmemError::Damaged { path, offset: 0, message });
    }
    Ok(control)
}

fn make_control(options: &PmemOptions, mark: u64) -> PmemResult<Control> {
    let slot_bytes = options.slot_bytes;
    let medium = &*options.medium;
    if !slot_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&slot_bytes) {
        let message = format!("slots of {slot_bytes} bytes: not a power of two from 4096 to 2^30");
        return Err(PmemError::Refused { path: options.dir.clone(), message });
    }
    if medium.list(&options.dir)?.iter().any(|name| name == CONTROL_FILE) {
        medium.remove(&options.dir.join(CONTROL_FILE))?;
    }
    let state = ControlState {
        pool_id: medium.random_id(),
        complete: mark,
        reserved: mark,
        floor: mark,
        slot_bytes,
        ..ControlState::default()
    };
    Control::create(medium, &options.dir, state)
}

fn map_files(medium: &dyn Medium, dir: &Path, files: usize) -> PmemResult<Vec<Arc<dyn Region>>> {
    let names = medium.list(dir)?;
    let mut regions = Vec::with_capacity(files.min(names.len()));
    for number in 1..=files {
        let name = file_name(number);
        if !names.contains(&name) {
            let message = format!("missing: {CONTROL_FILE} says that there are {files} such files");
            return Err(PmemError::Refused { path: dir.join(name), message });
        }
        regions.push(medium.open(&dir.join(name))?);
    }
    Ok(regions)
}

/// A file that was made and not noted holds nothing.
fn remove_strays(medium: &dyn Medium, dir: &Path, files: usize) -> PmemResult<()> {
    let stray = file_name(files + 1);
    if medium.list(dir)?.contains(&stray) {
        medium.remove(&dir.join(stray))?;
    }
    Ok(())
}

fn prefault(regions: &[Arc<dyn Region>]) -> PmemResult<()> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            regions.iter().map(|region| scope.spawn(|| region.prefault())).collect();
        for thread in threads {
            match thread.join() {
                Ok(prefaulted) => prefaulted?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })
}

/// A pool keeps its slots as long as it holds records; the size of an empty one may change.
fn wanted_slot_bytes(
    options: &PmemOptions,
    control: &ControlState,
    regions: &[Arc<dyn Region>],
    records: u64,
) -> u64 {
    let wanted = options.slot_bytes;
    let sane = wanted.is_power_of_two() && (4096..=1 << 30).contains(&wanted);
    let fits = regions.iter().all(|region| region.len().is_multiple_of(wanted.max(1)));
    if sane && fits && records == 0 { wanted } else { control.slot_bytes }
}

/// Erases what is behind the records kept, and all of a slot where none was. Answers how many bytes.
fn erase_rest(found: &[Found], regions: &[Arc<dyn Region>]) -> PmemResult<u64> {
    let (mut erase, mut healed) = (Erase::default(), 0);
    for found in found {
        let region = &regions[found.file];
        if kept(Rule::Erase) {
            for line in &found.bad_lines {
                region.rewrite_zeros(*line, MEDIA_LINE_BYTES)?;
                healed += MEDIA_LINE_BYTES;
            }
        }
        if found.noted.is_empty() {
            if found.header.is_some() || found.has_rest {
                erase.add_chunk(found.file, region, found.offset, found.len);
            }
        } else if found.has_rest {
            let rest = found.offset + found.end..found.offset + found.len;
            erase.add(found.file, region, rest);
        }
    }
    erase.run()?;
    Ok(erase.bytes() + healed)
}

/// The arenas of the chunks that were kept.
fn adopt(
    pool: &Arc<PmemPool>,
    regions: &[Arc<dyn Region>],
    kept: Vec<Found>,
    mark: u64,
) -> Vec<RecoveredArena> {
    let mut arenas: BTreeMap<u64, Vec<(Found, ChunkHeader)>> = BTreeMap::new();
    for found in kept {
        if let Some(header) = found.header {
            arenas.entry(header.arena).or_default().push((found, header));
        }
    }
    let adopted = arenas.into_iter().map(|(number, mut of_arena)| {
        let first_seq = |found: &Found| found.noted.first().map_or(u64::MAX, |first| first.seq());
        of_arena.sort_unstable_by_key(|(found, _)| first_seq(found));
        let seqs =
            || of_arena.iter().flat_map(|(found, _)| found.noted.iter().map(|noted| noted.seq()));
        let chunks = of_arena.iter().map(|(found, header)| {
            let region = Arc::clone(&regions[found.file]);
            let row = Row { region, file: found.file, offset: found.offset, len: found.len };
            Arc::new(Chunk::new(row, *header, found.end))
        });
        RecoveredArena {
            arena: PmemArena::new(Arc::clone(pool), number, chunks.collect()),
            first_seq: seqs().min().unwrap_or(0),
            last_seq: seqs().max().unwrap_or(0),
            records: of_arena.iter().map(|(found, _)| found.noted.len() as u64).sum(),
            chunk_seqs: of_arena.iter().map(|(found, _)| first_seq(found)).collect(),
            mark,
        }
    });
    adopted.collect()
}

impl RecoveredArena {
    /// Its records (both lists) above the mark, in the order of their sequences.
    #[must_use]
    pub fn in_order(&self) -> InOrder<'_> {
        let chunks = self.chunk_seqs.iter().copied().zip(self.arena.chunks());
        let mut waiting: Vec<_> = chunks.collect();
        waiting.reverse();
        InOrder { of: self, waiting, walks: Vec::new(), heads: BinaryHeap::new() }
    }
}

/// A chunk that was begun: its walk, and the record that it has come to.
#[derive(Debug)]
struct Begun<'a> {
    walk: Walk<'a>,
    next: Option<(&'a [u8], Header)>,
}

/// The records of a recovered arena in the order of their sequences: a merge of its chunks, of which only
/// those are open at a time whose sequences overlap.
#[derive(Debug)]
pub struct InOrder<'a> {
    of: &'a RecoveredArena,
    /// Chunks with their first sequence, the next one last.
    waiting: Vec<(u64, Arc<Chunk>)>,
    /// Those that were begun.
    walks: Vec<Begun<'a>>,
    /// Sequence of the next record of each, and which it is.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

impl InOrder<'_> {
    /// Moves a walk on to its next record above the mark.
    fn advance(&mut self, nth: usize) {
        let Begun { walk, next } = &mut self.walks[nth];
        *next = std::iter::from_fn(|| walk.next_trusted())
            .find(|(_, header)| header.seq > self.of.mark);
        if let Some((_, header)) = next {
            self.heads.push(Reverse((header.seq, nth)));
        }
    }
}

impl<'a> Iterator for InOrder<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let head = self.heads.peek().map_or(u64::MAX, |Reverse((seq, _))| *seq);
            match self.waiting.pop_if(|(first, _)| *first < head) {
                Some((_, chunk)) => {
                    let bytes = self.of.arena.chunk_bytes(&chunk);
                    let walk = Walk::new(bytes, CHUNK_HEADER_BYTES);
                    self.walks.push(Begun { walk, next: None });
                    self.advance(self.walks.len() - 1);
                }
                None => break,
            }
        }
        let Reverse((_, nth)) = self.heads.pop()?;
        let (bytes, header) = self.walks[nth].next.take()?;
        self.advance(nth);
        Some(header.record(bytes))
    }
}
