//! The fields of a hash in parsed form, for commands that change due times or many fields.

use super::{ByName, Encoding, HashEdit, HashView, Thresholds};

/// A field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'v> {
    /// Its name.
    pub name: &'v [u8],
    /// Its value.
    pub value: &'v [u8],
    /// When it expires, in milliseconds since the epoch; 0 for never.
    pub due_ms: u64,
}

/// Up to this many fields are each searched for from the start. For more, the names are indexed first.
const FEW_FIELDS: usize = 8;

/// The fields of a hash in insertion order, found by name. Reading them and writing them back takes one pass over the hash
/// each; in between, the cost depends only on the number of changes.
pub struct HashFields<'v> {
    /// `None`: it was removed.
    fields: Vec<Option<Field<'v>>>,
    /// The index of each name, for a hash of which many fields are looked up.
    places: Option<ByName<'v, usize>>,
    encoding: Encoding,
    /// The longest ones that were set: a long value changes the encoding permanently, even if it is overwritten.
    longest: Option<(&'v [u8], &'v [u8])>,
}

impl<'v> HashFields<'v> {
    /// The fields of a hash, of which about `asked` will be looked up.
    #[must_use]
    pub fn of(hash: &HashView<'v>, asked: usize) -> Self {
        let fields: Vec<_> = hash.fields().map(Some).collect();
        let names = fields.iter().flatten().map(|field| field.name);
        let places =
            (asked > FEW_FIELDS).then(|| names.enumerate().map(|(at, name)| (name, at)).collect());
        Self { fields, places, encoding: hash.encoding(), longest: None }
    }

    /// The fields of a new hash, of which about `asked` will be looked up.
    #[must_use]
    pub fn none(asked: usize) -> Self {
        let places = (asked > FEW_FIELDS).then(ByName::default);
        Self { fields: Vec::new(), places, encoding: Encoding::Listpack, longest: None }
    }

    fn place_of(&self, name: &[u8]) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(name).copied(),
            None => {
                self.fields.iter().position(|field| field.is_some_and(|field| field.name == name))
            }
        }
    }

    /// The field of this name.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Field<'v>> {
        self.place_of(name).and_then(|place| self.fields[place])
    }

    /// Sets value and due time of a field; true when it is new.
    pub fn set(&mut self, name: &'v [u8], value: &'v [u8], due_ms: u64) -> bool {
        let longest = self.longest.map_or(0, |(name, value)| name.len().max(value.len()));
        if name.len().max(value.len()) >= longest {
            self.longest = Some((name, value));
        }
        let (place, field) = (self.place_of(name), Some(Field { name, value, due_ms }));
        match place {
            Some(place) => self.fields[place] = field,
            None => {
                if let Some(places) = &mut self.places {
                    places.insert(name, self.fields.len());
                }
                self.fields.push(field);
            }
        }
        place.is_none()
    }

    /// Sets the due time of a field that is there.
    pub fn set_due(&mut self, name: &[u8], due_ms: u64) {
        if let Some(place) = self.place_of(name)
            && let Some(field) = &mut self.fields[place]
        {
            field.due_ms = due_ms;
        }
    }

    /// Removes a field; false when it is not there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(place) = self.place_of(name) else { return false };
        if let Some(places) = &mut self.places {
            places.remove(name);
        }
        self.fields[place] = None;
        true
    }

    /// The hash that they are.
    #[must_use]
    pub fn into_edit(self, thresholds: &Thresholds) -> HashEdit {
        let mut edit = HashEdit::of_fields(self.fields.iter().flatten().copied(), self.encoding);
        if let Some((name, value)) = self.longest {
            edit.note_size(name, value, thresholds);
        }
        edit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::{Edit, tests_thresholds};
    use crate::value::{EXPIRING_HASH, ValueType};

    fn edit(fields: &[(&str, &str, u64)]) -> HashEdit {
        let field = |&(name, value, due_ms): &(&'static str, &'static str, u64)| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
            due_ms,
        };
        let fields: Vec<(&'static str, &'static str, u64)> = fields
            .iter()
            .map(|(name, value, due_ms)| {
                (&*name.to_string().leak(), &*value.to_string().leak(), *due_ms)
            })
            .collect();
        HashEdit::of_fields(fields.iter().map(field), Encoding::Listpack)
    }

    fn listed(hash: &HashEdit) -> Vec<(String, String, u64)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = hash.view().fields().map(|f| (text(f.name), text(f.value), f.due_ms));
        let pairs: Vec<_> = hash.view().iter().map(|(f, v)| (text(f), text(v))).collect();
        let fields: Vec<_> = fields.collect();
        assert!(
            pairs.iter().eq(fields
                .iter()
                .map(|(f, v, _)| (f.clone(), v.clone()))
                .collect::<Vec<_>>()
                .iter())
        );
        assert_eq!(hash.view().count(), fields.len());
        let earliest = fields.iter().map(|field| field.2).filter(|&ms| ms != 0).min();
        assert_eq!(hash.meta(0).due_ms(hash.bytes()), earliest.unwrap_or(0));
        let flags = if earliest.is_some() { EXPIRING_HASH } else { ValueType::Hash as u8 };
        assert_eq!(hash.meta(7), sexton_engine::Meta { flags, expire_at_ms: 7 });
        fields
    }

    fn owned(fields: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
        fields.iter().map(|(f, v, ms)| ((*f).to_owned(), (*v).to_owned(), *ms)).collect()
    }

    #[test]
    fn due_times_come_and_go_with_their_fields() {
        let thresholds = tests_thresholds();
        let plain = edit(&[("a", "1", 0), ("b", "2", 0)]);
        assert_eq!(plain.view().encoding(), Encoding::Listpack);
        let mut fields = HashFields::of(&plain.view(), 1);
        fields.set_due(b"b", 70);
        fields.set_due(b"no", 9);
        let mut hash = fields.into_edit(&thresholds);
        assert_eq!(listed(&hash), owned(&[("a", "1", 0), ("b", "2", 70)]));
        assert_eq!(hash.view().encoding(), Encoding::Hashtable);
        assert!(hash.set(b"c", b"3", &thresholds));
        hash.set_value(b"b", b"22", &thresholds);
        assert_eq!(listed(&hash), owned(&[("a", "1", 0), ("b", "22", 70), ("c", "3", 0)]));
        assert!(!hash.remove(b"no") && hash.remove(b"a"));
        let pairs = [(&b"d"[..], &b"4"[..]), (b"c", b"33")];
        assert_eq!(hash.set_all(pairs.into_iter(), &thresholds), 1);
        let all = [("b", "22", 70), ("c", "33", 0), ("d", "4", 0)];
        assert_eq!(listed(&hash), owned(&all));
        // The last due time is removed.
        assert!(!hash.set(b"b", b"2", &thresholds));
        assert_eq!(listed(&hash), owned(&[("b", "2", 0), ("c", "33", 0), ("d", "4", 0)]));
        assert_eq!(hash.view().encoding(), Encoding::Hashtable, "and it is not compact again");
    }

    #[test]
    fn what_is_due_is_told_apart_from_what_is_left() {
        let hash = edit(&[("a", "1", 50), ("b", "2", 0), ("c", "3", 60)]);
        let view = hash.view();
        assert!(view.without_due(49).0.is_empty());
        let (gone, left) = view.without_due(50);
        assert_eq!(gone, [b"a"]);
        assert_eq!(listed(&left), owned(&[("b", "2", 0), ("c", "3", 60)]));
        let (gone, left) = view.without_due(60);
        assert_eq!(gone, [b"a", b"c"]);
        assert_eq!(listed(&left), owned(&[("b", "2", 0)]));
        let (_, left) = edit(&[("a", "1", 50)]).view().without_due(50);
        assert!(left.is_empty());
    }

    #[test]
    fn a_value_that_was_too_long_counts_though_it_is_gone() {
        let thresholds = tests_thresholds();
        let long = [b'x'; 65];
        for asked in [1, 100] {
            let mut fields = HashFields::none(asked);
            assert!(fields.set(b"a", &long, 0) && !fields.set(b"a", b"1", 0));
            assert!(fields.set(b"b", b"2", 0) && fields.remove(b"b") && !fields.remove(b"b"));
            assert!(fields.get(b"b").is_none() && fields.get(b"a").is_some());
            assert!(fields.set(b"b", b"2", 0) && fields.remove(b"b"));
            assert_eq!(fields.into_edit(&thresholds).view().encoding(), Encoding::Hashtable);
            let mut fields = HashFields::none(asked);
            fields.set(b"a", b"1", 0);
            assert_eq!(fields.into_edit(&thresholds).view().encoding(), Encoding::Listpack);
        }
    }
}
