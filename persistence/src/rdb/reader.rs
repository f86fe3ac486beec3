//! RDB files: what they hold, record after record.

use super::{Dialect, Input, RdbError, Value, module, read_count, read_string, read_value};

/// What is between values.
pub(super) mod opcode {
    pub(crate) const SLOT_IMPORT_OR_KEY_META: u8 = 243;
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    pub(crate) const FUNCTION_PRE_GA: u8 = 246;
    pub(crate) const MODULE_AUX: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQ: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const RESIZE_DB: u8 = 251;
    pub(crate) const EXPIRE_MS: u8 = 252;
    pub(crate) const EXPIRE_S: u8 = 253;
    pub(crate) const SELECT_DB: u8 = 254;
    pub(crate) const END: u8 = 255;
}

/// Newest version of Redis' numbering that is read. What it brought may be refused by name.
const REDIS_VERSION_MAX: u16 = 15;
/// Versions of Valkey's numbering that are read.
const VALKEY_VERSIONS: std::ops::RangeInclusive<u16> = 80..=81;
/// First version with a checksum at the end.
const CHECKSUM_SINCE: u16 = 5;

/// One key with everything the file says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRecord {
    /// The key.
    pub key: Vec<u8>,
    /// When it expires, in ms since the epoch.
    pub expire_at_ms: Option<u64>,
    /// Seconds since it was used (`maxmemory-policy *lru`).
    pub idle_s: Option<u64>,
    /// Its access counter (`*lfu`).
    pub frequency: Option<u8>,
    /// Its value.
    pub value: Value,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A remark about the file: `redis-ver`, `ctime`, ...
    Aux(Vec<u8>, Vec<u8>),
    /// The keys that follow belong to this logical database.
    SelectDb(u64),
    /// How many keys, and keys with an expiry, the database has: a hint.
    ResizeDb {
        /// All keys.
        keys: u64,
        /// Those that expire.
        expires: u64,
    },
    /// Sizes of a cluster slot: a hint.
    SlotInfo,
    /// Source text of a function library.
    Function(Vec<u8>),
    /// Data of a module beside the keys, passed over: the name of its type.
    ModuleAux(String),
    /// A key.
    Key(Box<KeyRecord>),
}

/// Reads a file from start to end in bounded memory: never more than one value is held.
#[derive(Debug)]
pub struct Reader<'a> {
    input: Input<'a>,
    version: u16,
    dialect: Dialect,
    ended: bool,
    takes_any_checksum: bool,
}

/// Whether bytes are the start of an RDB file.
#[must_use]
pub fn is_rdb(start: &[u8]) -> bool {
    start.starts_with(b"REDIS") || start.starts_with(b"VALKEY")
}

fn parse_header(header: [u8; 9]) -> Result<(Dialect, u16), RdbError> {
    let number = |digits: &[u8]| {
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |sum, &digit| sum * 10 + u16::from(digit - b'0')))
    };
    let (dialect, version) = match (header.strip_prefix(b"REDIS"), header.strip_prefix(b"VALKEY")) {
        (Some(digits), _) => (Dialect::Redis, number(digits)),
        (_, Some(digits)) => (Dialect::Valkey, number(digits)),
        _ => return Err(RdbError::NotRdb),
    };
    let found = version.ok_or(RdbError::NotRdb)?;
    let known = match dialect {
        Dialect::Redis => (1..=REDIS_VERSION_MAX).contains(&found),
        Dialect::Valkey => VALKEY_VERSIONS.contains(&found),
    };
    if known { Ok((dialect, found)) } else { Err(RdbError::Version { found }) }
}

impl<'a> Reader<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// No RDB file, or a version that is newer than we know.
    pub fn open(mut input: Input<'a>) -> Result<Self, RdbError> {
        let header = input.take_array().map_err(|error| match error {
            RdbError::Truncated { .. } => RdbError::NotRdb,
            other => other,
        })?;
        let (dialect, version) = parse_header(header)?;
        Ok(Self { input, version, dialect, ended: false, takes_any_checksum: false })
    }

    /// The same, where `takes_any` also of a file whose checksum is another than announced.
    #[must_use]
    pub fn taking_any_checksum(self, takes_any: bool) -> Self {
        Self { takes_any_checksum: takes_any, ..self }
    }

    /// Number of the file's version.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bytes read, and bytes there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.input.offset(), self.input.size())
    }

    /// What follows the part that was read: after the end, what another file format goes on
    /// with.
    #[must_use]
    pub fn into_input(self) -> Input<'a> {
        self.input
    }

    /// The next record; `None` at the end, when the checksum has been compared.
    ///
    /// # Errors
    /// Damage, or something that cannot be read; a key's error names the key.
    pub fn next_record(&mut self) -> Result<Option<Record>, RdbError> {
        if self.ended {
            return Ok(None);
        }
        let (mut expire_at_ms, mut idle_s, mut frequency) = (None, None, None);
        let input = &mut self.input;
        loop {
            let [found] = input.take_array()?;
            return Ok(Some(match found {
                opcode::EXPIRE_S => {
                    let seconds = i32::from_le_bytes(input.take_array()?);
                    expire_at_ms = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
                    continue;
                }
                opcode::EXPIRE_MS => {
                    // Before version 9 in the byte order of the machine that wrote it; all that
                    // are left are little-endian.
                    let time = i64::from_le_bytes(input.take_array()?);
                    expire_at_ms = Some(u64::try_from(time).unwrap_or(0));
                    continue;
                }
                opcode::IDLE => {
                    idle_s = Some(read_count(input)?);
                    continue;
                }
                opcode::FREQ => {
                    let [counter] = input.take_array()?;
                    frequency = Some(counter);
                    continue;
                }
                opcode::SELECT_DB => Record::SelectDb(read_count(input)?),
                opcode::RESIZE_DB => {
                    Record::ResizeDb { keys: read_count(input)?, expires: read_count(input)? }
                }
                opcode::AUX => Record::Aux(read_string(input)?, read_string(input)?),
                opcode::SLOT_INFO => {
                    // Slot, keys, keys with an expiry.
                    for _ in 0..3 {
                        read_count(input)?;
                    }
                    Record::SlotInfo
                }
                opcode::FUNCTION => Record::Function(read_string(input)?),
                opcode::MODULE_AUX => Record::ModuleAux(module::skip_aux(input)?),
                opcode::FUNCTION_PRE_GA => {
                    return Err(RdbError::Unsupported { name: "a function of before Redis 7.0" });
                }
                opcode::SLOT_IMPORT_OR_KEY_META => {
                    return Err(RdbError::Unsupported {
                        name: match self.dialect {
                            Dialect::Valkey => "a slot that is being imported (Valkey 9)",
                            Dialect::Redis => "metadata of keys (Redis 8.6)",
                        },
                    });
                }
                opcode::END => {
                    self.end()?;
                    return Ok(None);
                }
                found => {
                    let key = read_string(input)?;
                    let at = input.offset();
                    let value = match read_value(input, found, self.dialect) {
                        Ok(value) => value,
                        Err(error) => {
                            return Err(RdbError::InKey { key, at, error: Box::new(error) });
                        }
                    };
                    Record::Key(Box::new(KeyRecord { key, expire_at_ms, idle_s, frequency, value }))
                }
            }));
        }
    }

    fn end(&mut self) -> Result<(), RdbError> {
        self.ended = true;
        if self.version < CHECKSUM_SINCE {
            return Ok(());
        }
        let computed = self.input.crc64();
        let announced = u64::from_le_bytes(self.input.take_array()?);
        // Zero: written with `rdbchecksum no`.
        if announced != 0 && announced != computed && !self.takes_any_checksum {
            return Err(RdbError::Checksum { announced, computed });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(bytes: &[u8]) -> Result<Vec<Record>, RdbError> {
        let mut reader = Reader::open(Input::new(bytes))?;
        let mut records = Vec::new();
        while let Some(record) = reader.next_record()? {
            records.push(record);
        }
        Ok(records)
    }

    fn key(name: &str, value: &str) -> KeyRecord {
        KeyRecord {
            key: name.into(),
            expire_at_ms: None,
            idle_s: None,
            frequency: None,
            value: Value::String(value.into()),
        }
    }

    #[test]
    fn an_old_file_without_a_checksum() {
        let file = b"REDIS0003\xfe\x00\xfd\x01\x00\x00\x00\x00\x01a\x011\xfe\x03\x00\x01b\x012\xff";
        let first = KeyRecord { expire_at_ms: Some(1000), ..key("a", "1") };
        assert_eq!(
            records(file).unwrap(),
            [
                Record::SelectDb(0),
                Record::Key(Box::new(first)),
                Record::SelectDb(3),
                Record::Key(Box::new(key("b", "2"))),
            ]
        );
    }

    #[test]
    fn a_checksum_of_zero_is_not_compared() {
        let file = b"REDIS0009\xf8\x05\xf9\x07\x00\x01a\x011\xff";
        let entry = KeyRecord { idle_s: Some(5), frequency: Some(7), ..key("a", "1") };
        let unchecked = [&file[..], &[0; 8]].concat();
        assert_eq!(records(&unchecked).unwrap(), [Record::Key(Box::new(entry))]);
        let wrong = [&file[..], &[1; 8]].concat();
        assert!(matches!(records(&wrong), Err(RdbError::Checksum { .. })));
    }

    #[test]
    fn other_files_and_newer_versions_are_refused() {
        assert_eq!(records(b"*2\r\n$6\r\nSELECT"), Err(RdbError::NotRdb));
        assert_eq!(records(b"REDIS"), Err(RdbError::NotRdb));
        assert_eq!(records(b"REDIS00a1"), Err(RdbError::NotRdb));
        assert_eq!(records(b"REDIS0016"), Err(RdbError::Version { found: 16 }));
        assert_eq!(records(b"VALKEY082"), Err(RdbError::Version { found: 82 }));
    }

    #[test]
    fn the_error_names_the_key() {
        let error = records(b"REDIS0009\x63\x03key\x00\xff").unwrap_err();
        assert_eq!(error.to_string(), "value of key 'key' at offset 14: unknown type 99");
    }
}
