//! One script: its text, its name, and what its first line declares.

use crate::digest;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a script's first line asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// There is no such line: the script is unrestricted, and refusals depend only on its commands.
    pub is_old: bool,
    /// It writes nothing.
    pub no_writes: bool,
    /// It may run while memory is over its limit.
    pub allow_oom: bool,
}

/// Whether a program took long when it ran last: then it does not run on a thread that serves others.
#[derive(Debug, Default)]
pub struct Pace(AtomicBool);

impl Pace {
    /// True when it took long.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes whether it took long.
    pub fn note_long(&self, is_long: bool) {
        if self.is_long() != is_long {
            self.0.store(is_long, Ordering::Relaxed);
        }
    }
}

/// The name of a script: SHA-1 of its text, in lower-case hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha([u8; 40]);

impl Sha {
    /// That of a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let mut sha = [0; 40];
        for (digits, byte) in sha.chunks_exact_mut(2).zip(digest::sha1(text)) {
            for (digit, half) in digits.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = b"0123456789abcdef"[usize::from(half)];
            }
        }
        Self(sha)
    }

    /// Parses a digest as written by a client; `None` if it cannot be the name of a script.
    #[must_use]
    pub fn read(written: &[u8]) -> Option<Self> {
        let sha = Self(written.try_into().ok()?);
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        sha.0.iter().all(is_digit).then_some(sha)
    }

    /// Like [`Self::read`], but case-insensitive.
    #[must_use]
    pub fn read_any_case(written: &[u8]) -> Option<Self> {
        let mut sha: [u8; 40] = written.try_into().ok()?;
        sha.make_ascii_lowercase();
        Self::read(&sha)
    }

    /// Its digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Hash for Sha {
    /// The first digits suffice to distinguish scripts; the hasher has a seed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from_le_bytes(std::array::from_fn(|at| self.0[at])));
        state.write_u64(u64::from_le_bytes(std::array::from_fn(|at| self.0[8 + at])));
    }
}

/// One script.
#[derive(Debug)]
pub struct Script {
    /// Its name.
    pub sha: Sha,
    /// The flags of its first line.
    pub flags: ScriptFlags,
    body: Box<[u8]>,
    code_at: usize,
    /// Whether it takes long.
    pub pace: Pace,
}

impl Script {
    /// Reads the first line of a text.
    ///
    /// # Errors
    /// Redis' words about that line.
    pub fn new(body: &[u8]) -> Result<Self, Vec<u8>> {
        let (flags, code_at) = first_line(body)?;
        let sha = Sha::of(body);
        Ok(Self { sha, flags, body: body.into(), code_at, pace: Pace::default() })
    }

    /// What the first line of a text declares.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn flags_of(body: &[u8]) -> Result<ScriptFlags, Vec<u8>> {
        first_line(body).map(|(flags, _)| flags)
    }

    /// What Lua reads: the text without its first line, whose end stays for the numbers of the lines.
    pub(super) fn code(&self) -> &[u8] {
        &self.body[self.code_at..]
    }

    /// Memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }
}

fn first_line(body: &[u8]) -> Result<(ScriptFlags, usize), Vec<u8>> {
    if !body.starts_with(b"#!") {
        return Ok((ScriptFlags { is_old: true, ..ScriptFlags::default() }, 0));
    }
    let Some(end) = body.iter().position(|&byte| byte == b'\n') else {
        return Err(b"ERR Invalid script shebang".to_vec());
    };
    let mut parts = body[..end].split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
    let engine = parts.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err([b"ERR Unexpected engine in script shebang: ".as_slice(), engine].concat());
    }
    let mut flags = ScriptFlags::default();
    for part in parts {
        let Some(names) = part.strip_prefix(b"flags=") else {
            return Err([b"ERR Unknown lua shebang option: ".as_slice(), part].concat());
        };
        for name in names.split(|&byte| byte == b',').filter(|_| !names.is_empty()) {
            match name {
                b"no-writes" => flags.no_writes = true,
                b"allow-oom" => flags.allow_oom = true,
                // There is neither a master nor a cluster.
                b"allow-stale" | b"no-cluster" | b"allow-cross-slot-keys" => {}
                _ => {
                    return Err(
                        [b"ERR Unexpected flag in script shebang: ".as_slice(), name].concat()
                    );
                }
            }
        }
    }
    Ok((flags, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written_or_in_any_case() {
        let sha = Sha::of(b"return 1");
        assert_eq!(sha.as_str(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(Sha::read(sha.as_str().as_bytes()), Some(sha));
        let upper = sha.as_str().to_ascii_uppercase();
        assert_eq!(Sha::read(upper.as_bytes()), None);
        assert_eq!(Sha::read_any_case(upper.as_bytes()), Some(sha));
        for wrong in ["", "e0e1", &"g".repeat(40), &"0".repeat(41)] {
            assert_eq!(Sha::read_any_case(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn the_first_line_says_what_a_script_may_do() {
        let script = Script::new(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert!(script.flags.no_writes && script.flags.allow_oom && !script.flags.is_old);
        assert_eq!(script.code(), b"\nreturn 1");
        let plain = Script::new(b"return 1").unwrap();
        assert!(plain.flags.is_old && !plain.flags.no_writes);
        assert_eq!(plain.sha.as_str(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        for (body, error) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!foo\n", "ERR Unexpected engine in script shebang: #!foo"),
            ("#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
            ("#!lua flags=zz\n", "ERR Unexpected flag in script shebang: zz"),
        ] {
            assert_eq!(Script::new(body.as_bytes()).unwrap_err(), error.as_bytes());
        }
        assert!(Script::new(b"#!lua flags=\nreturn 1").is_ok());
    }
}
