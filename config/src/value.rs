//! The value of a directive and its two texts: CONFIG GET's and the configuration file's.

use crate::device::DeviceSpec;
use crate::kind::Kind;
use crate::level_device::LevelDevice;
use crate::size_route::SizeRoute;
use crate::syntax::number::{format_memory, format_percentile};
use crate::syntax::quote;

/// One `save` point: save after `seconds` when at least `changes` writes happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Age of the last save in seconds, at least 1.
    pub seconds: u64,
    /// Writes since the last save.
    pub changes: u32,
}

/// Output buffer bound of one client class; 0 means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Closed at once above this many bytes.
    pub hard_bytes: u64,
    /// Closed when above this many bytes for `soft_seconds`.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u32,
}

/// The three classes of `client-output-buffer-limit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputLimits {
    /// Clients that are neither of the others.
    pub normal: OutputLimit,
    /// Replica links; CONFIG GET calls them `slave`.
    pub replica: OutputLimit,
    /// Clients with a subscription.
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    fn classes(&self) -> [(&'static str, &OutputLimit); 3] {
        [("normal", &self.normal), ("slave", &self.replica), ("pubsub", &self.pubsub)]
    }
}

/// The event classes of `notify-keyspace-events` as a set of bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events(u16);

impl Events {
    /// Letters in Redis' canonical order; the bit is the position.
    const LETTERS: &'static [u8; 14] = b"g$lshzxetdnKEm";
    /// The classes that `A` means: the first ten letters.
    const ALL: u16 = (1 << 10) - 1;

    /// Reads letters in any order; `None` for an unknown one.
    pub fn parse(text: &[u8]) -> Option<Events> {
        let mut bits = 0;
        for letter in text {
            bits |= match letter {
                b'A' => Self::ALL,
                other => 1 << Self::LETTERS.iter().position(|known| known == other)?,
            };
        }
        Some(Events(bits))
    }

    /// Whether the class of this letter (one of `g$lshzxetdnKEm`) is on.
    pub fn contains(self, letter: u8) -> bool {
        let position = Self::LETTERS.iter().position(|known| *known == letter);
        position.is_some_and(|position| self.0 & (1 << position) != 0)
    }

    /// Whether nothing is to be published: no class, or neither of `K` and `E`.
    pub fn is_off(self) -> bool {
        self.0 == 0 || !(self.contains(b'K') || self.contains(b'E'))
    }

    /// CONFIG GET's text. Redis abbreviates the classes to `A`, which hides `n`; `complete` spells out `n`, so that
    /// a rewritten file preserves the value in memory.
    pub fn text(self, complete: bool) -> String {
        let all = self.0 & Self::ALL == Self::ALL;
        let mut text = String::from(if all { "A" } else { "" });
        for (position, letter) in Self::LETTERS.iter().enumerate() {
            let covered = all && (position < 10 || (*letter == b'n' && !complete));
            if self.0 & (1 << position) != 0 && !covered {
                text.push(char::from(*letter));
            }
        }
        text
    }
}

/// The value of a directive.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// yes or no.
    Bool(bool),
    /// The number of bytes that `auto` meant when it was set.
    AutoBytes(u64),
    /// Integers, bytes, octal modes; a percentage is negative.
    Int(i128),
    /// A byte string, or "not set".
    Text(Option<Vec<u8>>),
    /// The number of an enum name.
    Enum(u8),
    /// The bits of several flag names.
    Flags(u8),
    /// Save points in the order given.
    Save(Vec<SavePoint>),
    /// Output buffer limits.
    OutputLimits(OutputLimits),
    /// Master, replica, child.
    OomScores([i32; 3]),
    /// Keyspace event classes.
    Events(Events),
    /// Plain words.
    Words(Vec<Vec<u8>>),
    /// Host and port of the master.
    ReplicaOf(Option<(Vec<u8>, u16)>),
    /// Percentiles, 0 to 100.
    Percentiles(Vec<f64>),
    /// Declared devices.
    Devices(Vec<DeviceSpec>),
    /// Devices of levels of the tree.
    LevelDevices(Vec<LevelDevice>),
    /// Devices of the log's records, by size.
    SizeRoutes(Vec<SizeRoute>),
}

fn route_words(routes: &[SizeRoute]) -> Vec<Vec<u8>> {
    let pair = |route: &SizeRoute| [route.least_bytes.to_string(), route.device.clone()];
    routes.iter().flat_map(pair).map(String::into_bytes).collect()
}

fn enum_name(names: &[(&'static str, u8)], number: u8) -> &'static str {
    names.iter().find(|(_, n)| *n == number).map_or("unknown", |(name, _)| name)
}

fn flag_names(names: &[(&'static str, u8)], flags: u8) -> String {
    let set = names.iter().filter(|(_, bit)| *bit == flags || (*bit != 0 && flags & bit != 0));
    set.map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(" ")
}

impl Value {
    /// The text CONFIG GET answers.
    pub fn get_text(&self, kind: &Kind) -> Vec<u8> {
        match (self, kind) {
            (Value::Bool(on), _) => if *on { "yes" } else { "no" }.into(),
            (Value::Int(mode), Kind::Octal { .. }) => format!("{mode:o}").into(),
            (Value::Int(percent), Kind::Memory { percent: true, .. }) if *percent < 0 => {
                format!("{}%", -percent).into()
            }
            (Value::Int(number), _) => number.to_string().into(),
            (Value::AutoBytes(bytes), _) => bytes.to_string().into(),
            (Value::Text(text), _) => text.clone().unwrap_or_default(),
            (Value::Enum(number), Kind::Enum(names)) => enum_name(names, *number).into(),
            (Value::Flags(flags), Kind::Flags(names)) => flag_names(names, *flags).into(),
            (Value::Enum(number) | Value::Flags(number), _) => number.to_string().into(),
            (Value::Save(points), _) => {
                join(points, |point| format!("{} {}", point.seconds, point.changes)).into()
            }
            (Value::OutputLimits(limits), _) => join(&limits.classes(), |(class, limit)| {
                let OutputLimit { hard_bytes, soft_bytes, soft_seconds } = limit;
                format!("{class} {hard_bytes} {soft_bytes} {soft_seconds}")
            })
            .into(),
            (Value::OomScores(scores), _) => join(scores, i32::to_string).into(),
            (Value::Events(events), _) => events.text(false).into(),
            (Value::Words(words), _) => words.join(&b' '),
            (Value::ReplicaOf(None), _) => Vec::new(),
            (Value::ReplicaOf(Some((host, port))), _) => {
                [host, format!(" {port}").as_bytes()].concat()
            }
            (Value::Percentiles(values), _) => join(values, |v| format_percentile(*v)).into(),
            (Value::Devices(devices), _) => devices
                .iter()
                .map(|device| device.words().join(&b' '))
                .collect::<Vec<_>>()
                .join(&b"; "[..]),
            (Value::SizeRoutes(routes), _) => route_words(routes).join(&b' '),
            (Value::LevelDevices(devices), _) => devices
                .iter()
                .map(|device| device.words().join(&b' '))
                .collect::<Vec<_>>()
                .join(&b"; "[..]),
        }
    }

    /// The values, without the name, of the lines that set this directive in a configuration file. The flag
    /// tells whether the line must be written even if the file had none.
    pub(crate) fn file_texts(&self, kind: &Kind, default: &Value) -> Vec<(Vec<u8>, bool)> {
        let changed = self != default;
        match self {
            Value::Text(None) | Value::ReplicaOf(None) => Vec::new(),
            Value::Text(Some(text)) => vec![(quote(text), changed)],
            // The memory may be another one at the next start.
            Value::AutoBytes(_) => vec![(b"auto".to_vec(), changed)],
            Value::Int(bytes)
                if matches!(kind, Kind::Memory { .. } | Kind::AutoMemory { .. }) && *bytes >= 0 =>
            {
                vec![(format_memory(*bytes).into(), changed)]
            }
            Value::Save(points) if points.is_empty() => vec![(b"\"\"".to_vec(), true)],
            Value::Save(points) => points
                .iter()
                .map(|point| (format!("{} {}", point.seconds, point.changes).into(), true))
                .collect(),
            // All classes or none: the lines of a file are replaced in this order.
            Value::OutputLimits(limits) => {
                let line = |(class, limit): (&str, &OutputLimit)| {
                    let class = if class == "slave" { "replica" } else { class };
                    let hard = format_memory(limit.hard_bytes.into());
                    let soft = format_memory(limit.soft_bytes.into());
                    let text = format!("{class} {hard} {soft} {}", limit.soft_seconds);
                    (text.into_bytes(), changed)
                };
                limits.classes().into_iter().map(line).collect()
            }
            Value::Events(events) => vec![(quote(events.text(true).as_bytes()), changed)],
            Value::Percentiles(values) if values.is_empty() => vec![(b"\"\"".to_vec(), changed)],
            // Shortest decimals that are read back exactly; CONFIG GET's text has six.
            Value::Percentiles(values) => vec![(join(values, f64::to_string).into(), changed)],
            Value::Words(_) if !changed => Vec::new(),
            Value::Words(words) if words.is_empty() => vec![(b"\"\"".to_vec(), true)],
            Value::Words(words) => vec![(file_words(words), true)],
            Value::ReplicaOf(Some((host, port))) => {
                vec![(file_words(&[host.clone(), port.to_string().into_bytes()]), true)]
            }
            Value::Devices(devices) => {
                devices.iter().map(|device| (file_words(&device.words()), true)).collect()
            }
            Value::SizeRoutes(routes) if routes.is_empty() => Vec::new(),
            Value::SizeRoutes(routes) => vec![(file_words(&route_words(routes)), true)],
            Value::LevelDevices(devices) => {
                devices.iter().map(|device| (file_words(&device.words()), true)).collect()
            }
            _ => vec![(self.get_text(kind), changed)],
        }
    }
}

/// Joins words with blanks; a word that would not be read back as it is gets quotes.
fn file_words(words: &[Vec<u8>]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\');
    let word = |word: &Vec<u8>| {
        if word.is_empty() || !word.iter().all(plain) { quote(word) } else { word.clone() }
    };
    words.iter().map(word).collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_in_canonical_order() {
        for (given, shown) in [
            ("KEAnmx", "AKEm"),
            ("nmdtKxeg", "gxetdnKm"),
            ("g$lshzxetd", "A"),
            ("", ""),
            ("EK", "KE"),
        ] {
            let events = Events::parse(given.as_bytes()).unwrap();
            assert_eq!(events.text(false), shown);
            assert_eq!(Events::parse(events.text(true).as_bytes()), Some(events));
        }
        assert_eq!(Events::parse(b"Q"), None);
        assert!(Events::parse(b"A").unwrap().is_off());
        assert!(!Events::parse(b"Kx").unwrap().is_off());
    }

    #[test]
    fn words_with_blanks_are_quoted() {
        assert_eq!(file_words(&[b"a".to_vec(), b"b c".to_vec(), vec![]]), b"a \"b c\" \"\"");
    }
}
