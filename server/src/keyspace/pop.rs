//! Pops from a collection, for a command or for a blocked client.

use super::collection::{Edit, ListEdit, Lists, SortedSetEdit, SortedSets, score_text};
use super::lookup::Kind;
use crate::blocking::{Pop, Side};
use crate::events::notify::Event;
use crate::resp::Reply;
use sexton_engine::{Entry, Meta};

/// What a collection has become.
#[derive(Debug)]
enum Rest {
    /// It has lost them already; whether that was all.
    Taken {
        all: bool,
    },
    List(ListEdit),
    SortedSet(SortedSetEdit),
}

/// What was taken out, and what is left.
#[derive(Debug)]
pub struct Popped {
    elements: Vec<(Vec<u8>, Option<f64>)>,
    rest: Rest,
    expire_at_ms: u64,
    pop: Pop,
}

/// Pops elements from a key's value; `None` if it has no elements of the requested kind.
#[must_use]
pub fn take(entry: Entry<'_>, pop: Pop) -> Option<Popped> {
    let wanted = |len: usize| pop.count.map_or(1, |count| count.min(len as u64) as usize);
    if pop.scored {
        let view = SortedSets::view(entry)?;
        let count = wanted(view.count());
        let skipped = if pop.side == Side::First { 0 } else { view.count() - count };
        let taken = view.iter().skip(skipped).take(count);
        let mut elements: Vec<_> =
            taken.map(|(score, member)| (member.to_vec(), Some(score))).collect();
        let mut edit = view.edit();
        edit.remove_ranks(skipped..skipped + count);
        if pop.side == Side::Last {
            elements.reverse();
        }
        let (rest, expire_at_ms) = (Rest::SortedSet(edit), view.expire_at_ms());
        return Some(Popped { elements, rest, expire_at_ms, pop });
    }
    let view = Lists::view(entry)?;
    let (len, count) = (view.count(), wanted(view.count()));
    let range = if pop.side == Side::First { 0..count } else { len - count..len };
    let taken = view.iter().skip(range.start).take(count);
    let mut elements: Vec<_> = taken.map(|element| (element.to_vec(), None)).collect();
    let mut edit = view.edit();
    edit.remove(range);
    if pop.side == Side::Last {
        elements.reverse();
    }
    Some(Popped { elements, rest: Rest::List(edit), expire_at_ms: view.expire_at_ms(), pop })
}

impl Popped {
    /// Elements popped from a paged collection, from which they are already removed.
    #[must_use]
    pub fn of_pages(elements: Vec<(Vec<u8>, Option<f64>)>, all: bool, pop: Pop) -> Self {
        Self { elements, rest: Rest::Taken { all }, expire_at_ms: 0, pop }
    }

    /// True if nothing is left: the key is deleted.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        match &self.rest {
            Rest::Taken { all } => *all,
            _ => self.rest().is_none(),
        }
    }

    /// The key's new value; `None`: the key is deleted.
    #[must_use]
    pub fn rest(&self) -> Option<(Meta, &[u8])> {
        fn of<E: Edit>(edit: &E, expire_at_ms: u64) -> Option<(Meta, &[u8])> {
            (!edit.is_empty()).then(|| (E::expiring_at(expire_at_ms), edit.bytes()))
        }
        match &self.rest {
            Rest::Taken { .. } => None,
            Rest::List(edit) => of(edit, self.expire_at_ms),
            Rest::SortedSet(edit) => of(edit, self.expire_at_ms),
        }
    }

    /// The event that Redis announces.
    #[must_use]
    pub fn event(&self) -> Event {
        match (self.pop.scored, self.pop.side) {
            (false, Side::First) => Event::list("lpop"),
            (false, Side::Last) => Event::list("rpop"),
            (true, Side::First) => Event::sorted_set("zpopmin"),
            (true, Side::Last) => Event::sorted_set("zpopmax"),
        }
    }

    /// The log command that repeats this pop.
    #[must_use]
    pub fn logged(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let name: &[u8] = match (self.pop.scored, self.pop.side) {
            (false, Side::First) => b"LPOP",
            (false, Side::Last) => b"RPOP",
            (true, Side::First) => b"ZPOPMIN",
            (true, Side::Last) => b"ZPOPMAX",
        };
        let mut words = vec![name.to_vec(), key.to_vec()];
        if self.pop.count.is_some() {
            words.push(self.elements.len().to_string().into_bytes());
        }
        words
    }

    /// What LPOP and RPOP answer.
    pub fn answer_elements(&self, out: &mut Reply) {
        if self.pop.count.is_some() {
            out.array(self.elements.len());
        }
        self.elements.iter().for_each(|(element, _)| out.bulk(element));
    }

    /// What ZPOPMIN and ZPOPMAX answer.
    pub fn answer_pairs(&self, out: &mut Reply) {
        let are_pairs = self.pop.count.is_some() && out.is_resp3();
        out.array(if are_pairs { self.elements.len() } else { 2 * self.elements.len() });
        for (element, score) in &self.elements {
            if are_pairs {
                out.array(2);
            }
            out.bulk(element);
            if let Some(score) = score {
                out.double(&score_text(*score));
            }
        }
    }

    /// Writes the client's reply.
    pub fn answer(&self, key: &[u8], out: &mut Reply) {
        if self.pop.count.is_some() {
            out.array(2);
            out.bulk(key);
            out.array(self.elements.len());
            for (element, score) in &self.elements {
                if let Some(score) = score {
                    out.array(2);
                    out.bulk(element);
                    out.double(&score_text(*score));
                } else {
                    out.bulk(element);
                }
            }
            return;
        }
        out.array(if self.pop.scored { 3 } else { 2 });
        out.bulk(key);
        for (element, score) in &self.elements {
            out.bulk(element);
            if let Some(score) = score {
                out.double(&score_text(*score));
            }
        }
    }
}
