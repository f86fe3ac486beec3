//! One script: its text, its name, and what its first line says.

use crate::digest;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a script's first line asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    /// There is no such line: the script may do everything, and only its commands say what is refused.
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

/// One script.
#[derive(Debug)]
pub struct Script {
    /// SHA-1 of the text, in lower-case hexadecimal.
    pub sha: String,
    /// What its first line says.
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
        let sha = digest::hex(&digest::sha1(body));
        Ok(Self { sha, flags, body: body.into(), code_at, pace: Pace::default() })
    }

    /// What Lua reads: the text without its first line, whose end stays for the numbers of the lines.
    pub(super) fn code(&self) -> &[u8] {
        &self.body[self.code_at..]
    }

    /// Memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.sha.capacity()
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
    fn the_first_line_says_what_a_script_may_do() {
        let script = Script::new(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
        assert!(script.flags.no_writes && script.flags.allow_oom && !script.flags.is_old);
        assert_eq!(script.code(), b"\nreturn 1");
        let plain = Script::new(b"return 1").unwrap();
        assert!(plain.flags.is_old && !plain.flags.no_writes);
        assert_eq!(plain.sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
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
