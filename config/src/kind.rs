//! The types a directive may have: reading words into a [`Value`], with Redis' error texts.

use std::fmt::Display;

use crate::device::DeviceSpec;
use crate::level_device::LevelDevice;
use crate::machine::MachineMemory;
use crate::size_route::SizeRoute;
use crate::syntax::number::{parse_integer, parse_lenient, parse_memory, parse_octal};
use crate::value::{Events, OutputLimit, OutputLimits, SavePoint, Value};

/// Most addresses `bind` takes (Redis: CONFIG_BINDADDR_MAX).
pub const BIND_MAX: usize = 16;
/// Most `device` lines.
pub const DEVICES_MAX: usize = 64;
/// Most save points kept; Redis has no bound.
pub const SAVE_POINTS_MAX: usize = 1024;

/// Checks a text; the error explains why it is not a valid value.
pub type Check = fn(&[u8]) -> Result<(), &'static str>;

/// Type and bounds of a directive.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// A decimal integer within bounds, both inclusive.
    Int {
        /// Smallest value.
        min: i128,
        /// Largest value.
        max: i128,
    },
    /// A memory size in bytes within bounds; with `percent` also `N%`, kept as `-N`.
    Memory {
        /// Smallest value in bytes; with `percent` the largest percentage, negative.
        min: i128,
        /// Largest value in bytes.
        max: i128,
        /// Whether percentages are values.
        percent: bool,
    },
    /// A memory size in bytes, or `auto`: a share of the memory that the process may have.
    AutoMemory {
        /// Largest value in bytes.
        max: i128,
    },
    /// An octal number from 0 to `max`.
    Octal {
        /// Largest value.
        max: i128,
    },
    /// A byte string; with `empty_is_none` the empty one means "not set" and is never rewritten.
    Text {
        /// Whether the empty text means "not set".
        empty_is_none: bool,
        /// Refuses other texts.
        check: Check,
    },
    /// One of these names, in any case. Names with an equal number are synonyms; the first one is displayed.
    Enum(&'static [(&'static str, u8)]),
    /// Any of these names; 0 means none of the others.
    Flags(&'static [(&'static str, u8)]),
    /// A directory path.
    Dir,
    /// `save` pairs: seconds, changes.
    Save,
    /// `client-output-buffer-limit` quads: class, hard, soft, seconds.
    OutputLimits,
    /// Three numbers from -2000 to 2000.
    OomScores,
    /// `notify-keyspace-events` letters.
    Events,
    /// Up to [`BIND_MAX`] addresses.
    Bind,
    /// Host and port, or `no one`.
    ReplicaOf,
    /// Percentiles from 0 to 100.
    Percentiles,
    /// One device declaration a line.
    Devices,
    /// Devices of levels of the tree, one a line.
    LevelDevices,
    /// Devices of the log's records by size, in one line.
    SizeRoutes,
    /// Any number of words up to this many.
    Words(usize),
}

fn one_of(names: &[(&str, u8)]) -> String {
    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    format!("argument(s) must be one of the following: {}", names.join(", "))
}

fn between<T: Display>(min: T, max: T) -> String {
    format!("argument must be between {min} and {max} inclusive")
}

fn name_number(names: &[(&str, u8)], word: &[u8]) -> Option<u8> {
    let same = |name: &str| name.as_bytes().eq_ignore_ascii_case(word);
    names.iter().find(|(name, _)| same(name)).map(|(_, number)| *number)
}

impl Kind {
    /// Whether several words form one value.
    pub fn takes_many_words(&self) -> bool {
        matches!(
            self,
            Kind::Flags(_)
                | Kind::Save
                | Kind::OutputLimits
                | Kind::OomScores
                | Kind::Bind
                | Kind::ReplicaOf
                | Kind::Percentiles
                | Kind::Devices
                | Kind::LevelDevices
                | Kind::SizeRoutes
                | Kind::Words(_)
        )
    }

    /// Reads words into a value. `old` is the present value: output limits keep the classes that
    /// are not named, and `append` keeps earlier save points and devices.
    pub fn parse(&self, words: &[Vec<u8>], old: &Value, append: bool) -> Result<Value, String> {
        let single = || match words {
            [word] => Ok(word.as_slice()),
            _ => Err("wrong number of arguments".to_owned()),
        };
        match self {
            Kind::Bool => match single()?.to_ascii_lowercase().as_slice() {
                b"yes" => Ok(Value::Bool(true)),
                b"no" => Ok(Value::Bool(false)),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Int { min, max } => {
                let number = parse_integer(single()?)
                    .map(i128::from)
                    .ok_or("argument couldn't be parsed into an integer")?;
                if number < *min || number > *max {
                    return Err(between(min, max));
                }
                Ok(Value::Int(number))
            }
            Kind::Memory { min, max, percent } => parse_size(single()?, *min, *max, *percent),
            Kind::AutoMemory { max } => match single()? {
                word if word.eq_ignore_ascii_case(b"auto") => {
                    Ok(Value::AutoBytes(MachineMemory::now().auto_bytes()))
                }
                word => parse_size(word, 0, *max, false),
            },
            Kind::Octal { max } => {
                let number = parse_octal(single()?)
                    .map(i128::from)
                    .ok_or("argument couldn't be parsed as an octal number")?;
                if number < 0 || number > *max {
                    return Err(format!("argument must be between 0 and {max:o} inclusive"));
                }
                Ok(Value::Int(number))
            }
            Kind::Text { empty_is_none, check } => {
                let text = single()?;
                check(text)?;
                let unset = *empty_is_none && text.is_empty();
                Ok(Value::Text((!unset).then(|| text.to_vec())))
            }
            Kind::Enum(names) => {
                let number = name_number(names, single()?).ok_or_else(|| one_of(names))?;
                Ok(Value::Enum(number))
            }
            Kind::Flags(names) => parse_flags(names, words),
            Kind::Dir => match single()? {
                b"" => Err("No such file or directory".into()),
                path => Ok(Value::Text(Some(path.to_vec()))),
            },
            Kind::Save => parse_save(words, old, append),
            Kind::OutputLimits => parse_output_limits(words, old),
            Kind::OomScores => parse_oom_scores(words),
            Kind::Events => Events::parse(single()?)
                .map(Value::Events)
                .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
            Kind::Bind if words.len() > BIND_MAX => {
                Err("Too many bind addresses specified.".into())
            }
            Kind::Bind => Ok(Value::Words(match words {
                [empty] if empty.is_empty() => Vec::new(),
                words => words.to_vec(),
            })),
            Kind::ReplicaOf => parse_replica_of(words),
            Kind::Percentiles => parse_percentiles(words),
            Kind::Devices => parse_device(words, old, append),
            Kind::LevelDevices => parse_level_device(words, old, append),
            Kind::SizeRoutes => SizeRoute::parse_all(words).map(Value::SizeRoutes),
            Kind::Words(max) if words.len() > *max => Err("wrong number of arguments".into()),
            Kind::Words(_) => Ok(Value::Words(match words {
                [empty] if empty.is_empty() => Vec::new(),
                words => words.to_vec(),
            })),
        }
    }
}

fn parse_size(word: &[u8], min: i128, max: i128, percent: bool) -> Result<Value, String> {
    if let Some(bytes) = parse_memory(word).map(i128::from) {
        if bytes > max || (bytes < min && !percent) {
            return Err(between(min, max));
        }
        return Ok(Value::Int(bytes));
    }
    if percent {
        let number = word.strip_suffix(b"%").and_then(parse_integer).map(i128::from);
        return match number {
            Some(number @ 0..) if -number < min => {
                Err(format!("percentage argument must be less or equal to {}", -min))
            }
            Some(number @ 0..) => Ok(Value::Int(-number)),
            _ => Err("argument must be a memory or percent value".into()),
        };
    }
    Err("argument must be a memory value".into())
}

fn parse_flags(names: &'static [(&'static str, u8)], words: &[Vec<u8>]) -> Result<Value, String> {
    let mut flags = 0;
    if words.is_empty() {
        return Err(one_of(names));
    }
    for word in words {
        flags |= name_number(names, word).ok_or_else(|| one_of(names))?;
    }
    let flag = |name: &str| names.iter().find(|(n, _)| *n == name).map_or(0, |(_, flag)| *flag);
    let both = flag("save") | flag("nosave");
    if both != 0 && flags & both == both {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(Value::Flags(flags))
}

fn parse_save(words: &[Vec<u8>], old: &Value, append: bool) -> Result<Value, String> {
    let invalid = || "Invalid save parameters".to_owned();
    let words = match words {
        [empty] if empty.is_empty() => &[],
        words => words,
    };
    if !words.len().is_multiple_of(2) {
        return Err(invalid());
    }
    let mut points = match old {
        // `save ""` forgets the earlier lines too.
        Value::Save(points) if append && !words.is_empty() => points.clone(),
        _ => Vec::new(),
    };
    for pair in words.chunks_exact(2) {
        let seconds = parse_lenient(&pair[0]).and_then(|s| u64::try_from(s).ok());
        let changes = parse_lenient(&pair[1]).and_then(|c| u32::try_from(c).ok());
        match (seconds, changes) {
            (Some(seconds @ 1..), Some(changes)) => points.push(SavePoint { seconds, changes }),
            _ => return Err(invalid()),
        }
    }
    if points.len() > SAVE_POINTS_MAX {
        return Err(invalid());
    }
    Ok(Value::Save(points))
}

fn parse_output_limits(words: &[Vec<u8>], old: &Value) -> Result<Value, String> {
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = match old {
        Value::OutputLimits(limits) => *limits,
        _ => OutputLimits::default(),
    };
    for quad in words.chunks_exact(4) {
        let limit = match quad[0].to_ascii_lowercase().as_slice() {
            b"normal" => &mut limits.normal,
            b"slave" | b"replica" => &mut limits.replica,
            b"pubsub" => &mut limits.pubsub,
            _ => {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            }
        };
        let seconds = parse_lenient(&quad[3]).and_then(|s| u32::try_from(s).ok());
        match (parse_memory(&quad[1]), parse_memory(&quad[2]), seconds) {
            (Some(hard_bytes), Some(soft_bytes), Some(soft_seconds)) => {
                *limit = OutputLimit { hard_bytes, soft_bytes, soft_seconds };
            }
            _ => {
                return Err("Error in hard, soft or soft_seconds setting in buffer limit \
                            configuration."
                    .into());
            }
        }
    }
    Ok(Value::OutputLimits(limits))
}

fn parse_oom_scores(words: &[Vec<u8>]) -> Result<Value, String> {
    let [master, replica, child] = words else {
        return Err("wrong number of arguments".into());
    };
    let mut scores = [0; 3];
    for (score, word) in scores.iter_mut().zip([master, replica, child]) {
        *score = parse_lenient(word)
            .filter(|score| (-2000..=2000).contains(score))
            .and_then(|score| i32::try_from(score).ok())
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    Ok(Value::OomScores(scores))
}

fn parse_replica_of(words: &[Vec<u8>]) -> Result<Value, String> {
    match words {
        [] => Ok(Value::ReplicaOf(None)),
        [host, port] => {
            if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
                return Ok(Value::ReplicaOf(None));
            }
            let port = parse_lenient(port).and_then(|port| u16::try_from(port).ok());
            let port = port.ok_or("Invalid master port")?;
            Ok(Value::ReplicaOf(Some((host.clone(), port))))
        }
        _ => Err("wrong number of arguments".into()),
    }
}

fn parse_percentiles(words: &[Vec<u8>]) -> Result<Value, String> {
    let words = match words {
        [empty] if empty.is_empty() => &[],
        words => words,
    };
    let mut percentiles = Vec::with_capacity(words.len());
    for word in words {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
        // A number too large for a double is not a number, "inf" is one (C: `strtod`'s ERANGE).
        let overflows = |number: f64| number.is_infinite() && word.iter().any(u8::is_ascii_digit);
        match number.filter(|number| !number.is_nan() && !overflows(*number)) {
            None => return Err("Invalid latency-tracking-info-percentiles parameters".into()),
            Some(number) if !(0.0..=100.0).contains(&number) => {
                return Err("latency-tracking-info-percentiles parameters should sit between \
                            [0.0,100.0]"
                    .into());
            }
            Some(number) => percentiles.push(number),
        }
    }
    Ok(Value::Percentiles(percentiles))
}

fn parse_level_device(words: &[Vec<u8>], old: &Value, append: bool) -> Result<Value, String> {
    let before = match old {
        // An empty line takes the earlier ones back.
        Value::LevelDevices(devices) if append && !words.iter().all(Vec::is_empty) => {
            devices.clone()
        }
        _ => Vec::new(),
    };
    if words.iter().all(Vec::is_empty) {
        return Ok(Value::LevelDevices(before));
    }
    Ok(Value::LevelDevices(LevelDevice::parse(words)?.add_to(before)?))
}

fn parse_device(words: &[Vec<u8>], old: &Value, append: bool) -> Result<Value, String> {
    let mut devices = match old {
        Value::Devices(devices) if append => devices.clone(),
        _ => Vec::new(),
    };
    if words.iter().all(Vec::is_empty) {
        return Ok(Value::Devices(devices));
    }
    let device = DeviceSpec::parse(words)?;
    if devices.iter().any(|known: &DeviceSpec| known.name == device.name) {
        return Err(format!("device '{}' is declared twice", device.name));
    }
    if devices.len() == DEVICES_MAX {
        return Err(format!("more than {DEVICES_MAX} devices"));
    }
    devices.push(device);
    Ok(Value::Devices(devices))
}
