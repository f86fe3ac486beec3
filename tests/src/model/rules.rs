//! The rules as switches.

use std::fmt;
use std::str::FromStr;

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One rule of docs/rules.md that can be broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What the rule says, and what happens without it.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

// Not here, because they cannot bite where one mark rules (N1):
// P3 (replay starts at the mark, so no put meets a grave above itself); D1's wait of a flush for its own
// log and D2's for the checkpoint (table and checkpoint at m come in one edit and make m durable
// by themselves, N2: the model flushes without waiting); D6 (no claim is above the mark, no recovery
// ends below it); and the wait of N17's scrub for a death above the mark (what replay executes again before
// the death is dead after it; the engine's counts are not modelled); and its rewriting of grave runs (here a run goes as soon as its last
// grave is buried, and within one run ages differ little; the engine asks by range of keys).
rules! {
    /// Graves carry sequences; off: a grave hides its key from every reader.
    GraveSequence,
    /// P2: a put closes a grave and leaves it; off: it removes it.
    P2PutKeepsGrave,
    /// X1: writes read the newest state; off: the published one.
    X1ReadsNewest,
    /// X1: a delete of a dead key leaves its open grave alone; off: it raises its sequence.
    X1NoBump,
    /// X3: an expired version goes by a logged delete; off: merges drop it alone.
    X3ExpiryIsDelete,
    /// G1: the sequence is taken before the superversion; off: after it.
    G1SequenceFirst,
    /// G1: taking a sequence and showing it as a pin are one step to others; off: two.
    G1Pending,
    /// G2: a scan gets its superversion and its pin in one step; off: the pin comes later.
    G2PinWithView,
    /// Pins of running Gets are members of S; off: they are not.
    PinsCount,
    /// Batches are published and recovered whole; off: at any sequence.
    BatchWhole,
    /// C1: `now` is read before S; off: after it.
    C1NowFirst,
    /// C2: a version stays for every member of S that needs it; off: only for `now`.
    C2Snapshots,
    /// C3: a file claims min(S); off: `now`, although old versions stay in it.
    C3ClaimMinSnapshot,
    /// C3: the claim is of S at the start; off: at the install.
    C3ClaimAtStart,
    /// C4: sequences are kept; off: versions at the bottom get sequence 0.
    C4NoZeroing,
    /// F1: a closed grave waits for readers between d and e; off: it does not.
    F1Snapshots,
    /// F1: and for marks of frozen memtables, whose checkpoints hold it; off: it does not.
    F1PendingMarks,
    /// F1: the closing put is published; off: it need not be.
    F1Visible,
    /// F1: the closing put is durable; off: it need not be.
    F1Durable,
    /// F2(a): no memtable holds a version below d; off: nobody looks.
    F2Memtables,
    /// F2(b): every file that holds the key is past d; off: those below level 0, as for a tombstone.
    F2EveryFile,
    /// F2: the superversion that is looked at is younger than the grave; off: it may be older.
    F2ViewAfterGrave,
    /// F3: a sweep takes its superversion before it asks for the oldest reader; off: after it.
    F3ViewFirst,
    /// F3: a buried grave stays readable for older superversions; off: it goes at once.
    F3Limbo,
    /// F4: of several graves of a key those above `visible` stay; off: they go.
    F4AboveVisible,
    /// F4: and those that the mark or a pending mark needs; off: they go.
    F4Marks,
    /// F4 for merged grave runs: a grave stays for each reader whose D it is; off: a key's newest only.
    F4RunReaders,
    /// A grave run is readable before its graves leave memory; off: after that.
    SpillRunFirst,
    /// It comes in the edit of the mark whose checkpoint lacks its graves; off: in a later one.
    SpillOneEdit,
    /// It holds graves up to the mark; off: younger ones, too.
    SpillThroughMark,
    /// No put closes a spilled grave, so readers compare sequences; off: it hides its key.
    SpillCompares,
    /// A reader without a pin reads the list of runs before the superversion; off: after it.
    SpillListFirst,
    /// A run goes when each of its graves is buried (F2); off: when one is.
    SpillAllBuried,
    /// A run that is not needed stays readable for older superversions (F3); off: it goes at once.
    SpillLimbo,
    /// D1: a merge uses only graves that are durable; off: any published one, without waiting.
    D1DurableGraves,
    /// D2: the checkpoint holds the graves open as of m; off: those open now.
    D2OpenAsOf,
    /// D2: nothing above m in the checkpoint; off: every open grave.
    D2NothingAbove,
    /// D3: the log is kept from the mark; off: from the youngest frozen memtable.
    D3LogKept,
    /// D5: after a crash closed graves that were open as of the mark stay; off: they go at once.
    D5OpenAtMark,
    /// N1: one mark for tree and cemetery; off: checkpoints are written at their own.
    N1OneMark,
    /// N1: merges leave the state of the mark exact; off: they use durable graves above it.
    N1MergeAtMark,
    /// N1: replay does not look at the clock; off: it takes expired keys for absent.
    N1ReplayWithoutClock,
    /// N2: a flush ignores graves above m; off: it uses published ones.
    N2FlushAtMark,
    /// N2: a failed log goes on after a self-contained flush; off: at once.
    N2FlushFirst,
    /// N2: and in a fresh segment; off: in the failed one.
    N2FreshSegment,
    /// N5: a scan skips a block by proof; off: by a count of deletes.
    N5SkipByProof,
    /// N5: the proof holds for readers at or above its d; off: for all.
    N5ProofSequence,
    /// N5: a dead run holds for readers at or above its d; off: for all.
    N5RunSequence,
    /// N5: and for versions at or below its d; off: for younger ones, too.
    N5RunSparesYounger,
    /// N5: a table inside a dead run goes unread when no member of S is below d; off: at once.
    N5RunDropReaders,
    /// N5 with N1: and when the mark has passed d; off: publication is enough.
    N5RunDropMark,
    /// N5: the checkpoint keeps dead runs with d at or below m; off: all.
    N5RunThroughMark,
    /// N6: an undo run claims min(S); off: `now`.
    N6UndoClaim,
    /// N6: F2 counts undo runs as files; off: it looks at the tree only.
    N6UndoIsFile,
    /// N6: an undo run comes in the edit that removes its versions; off: in a later one.
    N6OneEdit,
    /// N6: an undo run stays while a reader needs it; off: it goes at the next sweep.
    N6UndoStays,
    /// N7: a dead id's records wait for readers from before its death; off: they do not.
    N7DeadIdReaders,
    /// N7: and for the durability of its death; off: they do not.
    N7DeadIdDurable,
    /// N7: to a merge the death is a grave of each key; off: what older readers need stays in the tree.
    N7DeathIsGrave,
    /// N7 with N1: and for the mark to pass it; off: durability is enough.
    N7DeadIdMark,
    /// N17: memtable and log are rotated by age; off: when they are full.
    N17Rotate,
    /// N17: tables with dead of that age are rewritten; off: they wait for a merge.
    N17Bury,
    /// N17: readers older than half of the limit end; off: they stay.
    N17EndReaders,
    /// N17: closed graves stay until what they killed is gone; off: they go by F1 alone.
    N17ClosedStay,
    /// N17: the checkpoint is written anew without what is forgotten; off: with the next mark.
    N17Scrub,
    /// N17: dead runs, which name keys, stay in memory; off: the checkpoint has them.
    N17DeadRunsVolatile,
    /// E1: a page is changed in place only in the epoch of its block; off: in a later one, too.
    E1InPlaceOwnEpoch,
    /// E2: a view of values ends the epoch; off: it does not.
    E2EpochAtSnapshot,
    /// E2: so does a freeze; off: it does not.
    E2EpochAtFreeze,
    /// E2: a view of values waits for what is half applied; off: it takes what is published.
    E2BarrierForValues,
    /// E3: the first change of a page in an epoch puts its record; off: the end of the epoch does.
    E3RecordFirstTouch,
    /// A page is dead by the grave of its collection, too; off: merges ask for the page alone.
    PrefixGrave,
    /// The grave of a collection is forgotten by the range of its pages; off: by its own name.
    PrefixGraveRange,
    /// The checkpoint holds graves of pages and collections; off: it does not.
    EGraveInCheckpoint,
    /// The descriptor of the mark is that of m; off: it has the counts of its flush.
    CountInMark,
    /// N10: a load fills the DRAM table only with its ticket; off: although the key was written.
    N10Ticket,
    /// N10: what changed in the active memtable stays in the DRAM table; off: it may be evicted.
    N10PinnedInActive,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|rule| rule.to_string().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| format!("no rule is called {name}"))
    }
}

/// Which rule, if any, is off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The broken rule.
    pub off: Option<Rule>,
}

impl Rules {
    /// True if `rule` is on.
    #[must_use]
    pub fn on(self, rule: Rule) -> bool {
        self.off != Some(rule)
    }
}
