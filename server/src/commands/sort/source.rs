//! The elements to sort.

use crate::dispatch::{CommandError, Ctx, Purpose};
use crate::keyspace::Kind;
use crate::keyspace::collection::{Lists, Sets, SortedSets};
use crate::keyspace::paged::{Extent, Keyed, Paged, Stop, Structure, each_of_list};
use crate::keyspace::texts::Texts;
use crate::value::ValueType;
use sexton_engine::page::{List, Pages};
use sexton_engine::{Entry, SnapshotValue};
use std::ops::Range;

/// The types that have elements.
pub(super) const WANTED: [ValueType; 3] = [ValueType::List, ValueType::Set, ValueType::SortedSet];

/// The elements to sort: copies, because the patterns access other keys meanwhile.
#[derive(Default)]
pub(super) struct Source {
    pub(super) elements: Texts,
    /// How many there are, read or not.
    pub(super) count: usize,
    pub(super) is_set: bool,
}

impl Source {
    /// Those of a collection that lies in one record.
    pub(super) fn of_record(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<Self, CommandError> {
        let db = ctx.client.db;
        ctx.inspect_whole(Purpose::Read, (db, key), &WANTED, |entry, _| {
            entry.map_or(Some(Self::default()), Self::of).ok_or(CommandError::WrongType)
        })
    }

    /// Those of what a snapshot holds.
    pub(super) fn of_past(value: Option<SnapshotValue>) -> Self {
        value.and_then(|value| Self::of(value.entry())).unwrap_or_default()
    }

    /// `None` for a type without elements.
    fn of(entry: Entry<'_>) -> Option<Self> {
        if let Some(list) = Lists::view(entry) {
            return Some(Self::whole(Texts::of(list.iter()), false));
        }
        if let Some(set) = Sets::view(entry) {
            return Some(Self::whole(Texts::of(set.iter()), true));
        }
        let set = SortedSets::view(entry)?;
        Some(Self::whole(Texts::of(set.iter().map(|(_, member)| member)), false))
    }

    fn whole(elements: Texts, is_set: bool) -> Self {
        Self { count: elements.len(), elements, is_set }
    }

    /// Those of a collection in pages, before any is read.
    pub(super) fn unread(paged: &Paged) -> Self {
        let is_set = paged.value_type() == Some(ValueType::Set);
        Self { elements: Texts::default(), count: paged.count(), is_set }
    }

    /// Reads the elements at these places of a collection in pages. Returns their numbers among those that were read.
    pub(super) fn read(
        &mut self,
        ctx: &mut Ctx<'_, '_>,
        (key, paged): (&[u8], &Paged),
        places: Range<usize>,
    ) -> Range<usize> {
        if places.is_empty() {
            return 0..0;
        }
        let whole = Extent::of(paged, self.count as u64);
        // A page of a set does not say how many members are in those before it.
        let read = if self.is_set { places.end } else { places.len() };
        let bytes = whole.bytes_of(read as u64);
        ctx.hand_over_part_above(paged, bytes);
        let range = places.start as u64..places.end as u64;
        self.elements = match paged.value_type() {
            Some(ValueType::Set) => ctx.read_pages(key, paged, |set: &Keyed, pages, _| {
                members(set, pages, places.clone())
            }),
            Some(ValueType::SortedSet) => ctx.read_ranked(key, paged, |set, pages, _| {
                let mut texts = Texts::default();
                for member in set.range(pages, range.clone())? {
                    texts.push(member?.1);
                }
                Ok(texts)
            }),
            _ => ctx.read_list(key, paged, |list: &List, pages, _| {
                let mut texts = Texts::default();
                each_of_list(list, pages, range.clone(), |element| texts.push(element))?;
                Ok(texts)
            }),
        };
        0..self.elements.len()
    }
}

/// The members at these places of a set. The pages that probably have them are read together, then as many again.
fn members<P: Pages>(set: &Keyed, pages: &P, places: Range<usize>) -> Result<Texts, Stop> {
    let (all, mut seen, mut texts) = (set.hash.pages, 0, Texts::default());
    let likely = places.end as u64 * u64::from(all) / set.len().max(1) + 1;
    let mut numbers = 0..all.min(u32::try_from(likely).unwrap_or(all));
    while seen < places.end && !numbers.is_empty() {
        set.each_field(pages, numbers.clone(), |field| {
            if places.contains(&seen) {
                texts.push(field.name);
            }
            seen += 1;
        })?;
        numbers = numbers.end..all.min(numbers.end.saturating_mul(2));
    }
    Ok(texts)
}
