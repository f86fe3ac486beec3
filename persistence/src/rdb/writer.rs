//! Writing RDB files.

use super::encode::write_value;
use super::reader::opcode;
use super::string::UNCOMPRESSED_MAX_BYTES;
use super::worth::Worth;
use super::{
    CollectionKind, Element, FIELD_TIMES_VERSION, FUNCTION_VERSION, StringOptions, Value,
    write_length, write_string,
};
use crate::checksum::Crc64;
use std::io::{self, Write};

/// Bytes that are handed on at once.
const BUFFER_BYTES: usize = 64 << 10;

/// What a writer needs to know, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// Version in the header.
    pub version: u16,
    /// `rdbcompression`.
    pub compress: bool,
    /// `rdbchecksum`: without, the checksum is zero.
    pub checksum: bool,
}

/// The first nine bytes of a file. Versions from 80 on are Valkey's.
fn header(version: u16) -> String {
    if version < FIELD_TIMES_VERSION {
        format!("REDIS{version:04}")
    } else {
        format!("VALKEY{version:03}")
    }
}

fn fields_that_expire() -> io::Error {
    io::Error::other("fields that expire need a file of a newer version")
}

/// Writes one file: header, remarks, databases, keys, end.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    buffer: Vec<u8>,
    crc: Option<Crc64>,
    strings: StringOptions,
    worth: Worth,
    version: u16,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a file.
    #[must_use]
    pub fn new(out: W, options: WriterOptions) -> Self {
        Self {
            out,
            buffer: header(options.version).into_bytes(),
            crc: options.checksum.then(Crc64::new),
            strings: StringOptions { compress: options.compress },
            worth: Worth::default(),
            version: options.version,
            written: 0,
        }
    }

    /// The version that the file has.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// A remark about the file.
    ///
    /// # Errors
    /// The output fails, here and below.
    pub fn aux(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.buffer.push(opcode::AUX);
        write_string(&mut self.buffer, name.as_bytes(), self.strings);
        write_string(&mut self.buffer, value.as_bytes(), self.strings);
        self.hand_on()
    }

    /// The keys that follow belong to database `db`, which has about as many keys, of which
    /// `expires` expire.
    ///
    /// # Errors
    /// The output fails.
    pub fn select_db(&mut self, db: u64, keys: u64, expires: u64) -> io::Result<()> {
        self.buffer.push(opcode::SELECT_DB);
        write_length(&mut self.buffer, db);
        self.buffer.push(opcode::RESIZE_DB);
        write_length(&mut self.buffer, keys);
        write_length(&mut self.buffer, expires);
        self.hand_on()
    }

    /// The source of a function library. The first one is so near the beginning of the file that its version can still be raised to
    /// the one which knows libraries.
    ///
    /// # Errors
    /// The output fails, or too many bytes precede the first library: the beginning of the file is already written out.
    pub fn function(&mut self, source: &[u8]) -> io::Result<()> {
        if self.version < FUNCTION_VERSION {
            if self.written > 0 {
                return Err(io::Error::other("function libraries stand before the keys of a file"));
            }
            self.version = FUNCTION_VERSION;
            self.buffer[..9].copy_from_slice(header(FUNCTION_VERSION).as_bytes());
        }
        self.buffer.push(opcode::FUNCTION);
        write_string(&mut self.buffer, source, self.strings);
        self.hand_on()
    }

    fn key_head(&mut self, key: &[u8], expire_at_ms: u64, code: u8) {
        if expire_at_ms != 0 {
            self.buffer.push(opcode::EXPIRE_MS);
            self.buffer.extend_from_slice(&expire_at_ms.to_le_bytes());
        }
        self.buffer.push(code);
        write_string(&mut self.buffer, key, self.strings);
    }

    /// A key with a string; `expire_at_ms` in ms since the epoch, 0 for never.
    ///
    /// # Errors
    /// The output fails.
    pub fn string(&mut self, key: &[u8], expire_at_ms: u64, value: &[u8]) -> io::Result<()> {
        self.key_head(key, expire_at_ms, super::value::code::STRING);
        let before = self.buffer.len();
        let may_shrink = self.strings.compress && value.len() > UNCOMPRESSED_MAX_BYTES;
        let compress = may_shrink && self.worth.is_tried(value.len());
        write_string(&mut self.buffer, value, StringOptions { compress });
        if compress {
            let written = self.buffer.len() - before;
            self.worth.note(value.len(), written < value.len());
        }
        self.hand_on()
    }

    /// A key with any value; `expire_at_ms` in ms since the epoch, 0 for never.
    ///
    /// # Errors
    /// The output fails, or the value is a module's or needs a higher version
    /// ([`Value::version_needed`]).
    pub fn value(&mut self, key: &[u8], expire_at_ms: u64, value: &Value) -> io::Result<()> {
        match value.version_needed() {
            None => return Err(io::Error::other("the value of a module cannot be written")),
            Some(FIELD_TIMES_VERSION) if self.version < FIELD_TIMES_VERSION => {
                return Err(fields_that_expire());
            }
            Some(_) => {}
        }
        self.key_head(key, expire_at_ms, value.code());
        write_value(&mut self.buffer, value, self.strings);
        self.hand_on()
    }

    /// A key with a collection of `count` elements, which [`Writer::element`] must be given next: however many they are, they are never
    /// in memory together. `expire_at_ms` in ms since the epoch, 0 for never.
    ///
    /// # Errors
    /// The output fails, or the collection needs a higher version.
    pub fn collection(
        &mut self,
        key: &[u8],
        expire_at_ms: u64,
        kind: CollectionKind,
        count: u64,
    ) -> io::Result<()> {
        if kind == CollectionKind::ExpiringHash && self.version < FIELD_TIMES_VERSION {
            return Err(fields_that_expire());
        }
        self.key_head(key, expire_at_ms, kind.code());
        write_length(&mut self.buffer, count);
        self.hand_on()
    }

    /// The next element of a collection.
    ///
    /// # Errors
    /// The output fails.
    pub fn element(&mut self, element: Element<'_>) -> io::Result<()> {
        element.write(&mut self.buffer, self.strings);
        self.hand_on()
    }

    fn hand_on(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(crc) = &mut self.crc {
            crc.update(&self.buffer);
        }
        self.out.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Ends the file; gives the output back.
    ///
    /// # Errors
    /// The output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.buffer.push(opcode::END);
        self.flush()?;
        let crc = self.crc.as_ref().map_or(0, Crc64::finish);
        self.out.write_all(&crc.to_le_bytes())?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::{Input, KeyRecord, RdbError, Reader, Record};

    fn sample(checksum: bool) -> Vec<u8> {
        let options = WriterOptions { version: 9, compress: true, checksum };
        let mut writer = Writer::new(Vec::new(), options);
        writer.aux("redis-ver", "7.0.15").unwrap();
        writer.select_db(0, 2, 1).unwrap();
        writer.string(b"a", 0, b"1").unwrap();
        writer.string(b"b", 1_700_000_000_123, &[b'x'; 3_000]).unwrap();
        writer.select_db(7, 1, 0).unwrap();
        writer.value(b"l", 0, &Value::List([&b"x"[..], b"y"].into_iter().collect())).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        for checksum in [true, false] {
            let file = sample(checksum);
            let mut reader = Reader::open(Input::new(&file)).unwrap();
            let mut keys = Vec::new();
            let mut others = Vec::new();
            while let Some(record) = reader.next_record().unwrap() {
                match record {
                    Record::Key(key) => keys.push(*key),
                    other => others.push(other),
                }
            }
            assert_eq!(
                others,
                [
                    Record::Aux(b"redis-ver".to_vec(), b"7.0.15".to_vec()),
                    Record::SelectDb(0),
                    Record::ResizeDb { keys: 2, expires: 1 },
                    Record::SelectDb(7),
                    Record::ResizeDb { keys: 1, expires: 0 },
                ]
            );
            let expiries: Vec<_> = keys.iter().map(|key: &KeyRecord| key.expire_at_ms).collect();
            assert_eq!(expiries, [None, Some(1_700_000_000_123), None]);
            assert_eq!(keys[1].value, Value::String(vec![b'x'; 3_000]));
            assert_eq!(reader.progress(), (file.len() as u64, file.len() as u64));
        }
    }

    #[test]
    fn times_of_fields_need_a_file_of_valkeys_version() {
        let pairs = || [&b"a"[..], b"1", b"b", b"2"].into_iter().collect();
        let value = Value::Hash(pairs(), vec![0, 1_700_000_000_123]);
        let options = WriterOptions { version: 9, compress: true, checksum: true };
        let mut writer = Writer::new(Vec::new(), options);
        writer.select_db(0, 1, 0).unwrap();
        assert!(writer.value(b"h", 0, &value).is_err());
        let options = WriterOptions { version: FIELD_TIMES_VERSION, ..options };
        let mut writer = Writer::new(Vec::new(), options);
        writer.function(b"#!lua name=a").unwrap();
        writer.select_db(0, 1, 0).unwrap();
        writer.value(b"h", 0, &value).unwrap();
        let file = writer.finish().unwrap();
        assert!(file.starts_with(b"VALKEY080"));
        let mut reader = Reader::open(Input::new(&file)).unwrap();
        let mut keys = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if let Record::Key(key) = record {
                keys.push(key.value);
            }
        }
        assert_eq!(keys, [value]);
    }

    #[test]
    fn values_that_compress_are_compressed_again_soon_after_others() {
        let options = WriterOptions { version: 9, compress: true, checksum: true };
        let mut writer = Writer::new(Vec::new(), options);
        let mut state = 1_u64;
        let random: Vec<u8> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let text = b"text ".repeat(20);
        let values: Vec<&[u8]> =
            random.chunks(100).chain(std::iter::repeat_n(&text[..], 1000)).collect();
        for value in &values {
            writer.string(b"k", 0, value).unwrap();
        }
        let file = writer.finish().unwrap();
        assert!(file.len() < 104 * 1000 + 16 * 104 + 1000 * 25, "{} bytes", file.len());
        let mut reader = Reader::open(Input::new(&file)).unwrap();
        let mut read = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            if let Record::Key(key) = record {
                read.push(key.value);
            }
        }
        assert!(
            read.iter().eq(values
                .iter()
                .map(|v| Value::String(v.to_vec()))
                .collect::<Vec<_>>()
                .iter())
        );
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let file = sample(true);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            let result = Reader::open(Input::new(&damaged)).and_then(|mut reader| {
                while reader.next_record()?.is_some() {}
                Ok(())
            });
            assert!(result.is_err(), "byte {at}");
        }
        for cut in 0..file.len() {
            let result = Reader::open(Input::new(&file[..cut])).and_then(|mut reader| {
                while reader.next_record()?.is_some() {}
                Ok(())
            });
            assert!(
                matches!(
                    result,
                    Err(RdbError::Truncated { .. } | RdbError::NotRdb | RdbError::InKey { .. })
                ),
                "cut at {cut}: {result:?}"
            );
        }
    }
}
