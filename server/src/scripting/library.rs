//! A function library: its text, its name, and the functions that it has registered.

use super::PROGRAM_MAX_BYTES;
use super::script::{Pace, ScriptFlags};
use sexton_config::syntax::split_words;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest name of a library, in bytes: it is a key of the engine.
const NAME_MAX_BYTES: usize = 32 << 10;

/// The flags of a function, each with its bit, in the order of FUNCTION LIST.
const FLAGS: [(&str, u8); 5] = [
    ("no-writes", NO_WRITES),
    ("allow-oom", ALLOW_OOM),
    ("allow-stale", 1 << 2),
    ("no-cluster", 1 << 3),
    ("allow-cross-slot-keys", 1 << 4),
];
const NO_WRITES: u8 = 1;
const ALLOW_OOM: u8 = 1 << 1;

/// The bit of a flag; `None` for what is none.
pub(super) fn flag_bit(name: &[u8]) -> Option<u8> {
    FLAGS.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|&(_, bit)| bit)
}

/// What is asked of the names of libraries and functions.
pub(super) const BAD_NAME: &str = "Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                                   character long";

/// True for a name that a library or a function may have.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// One function of a library.
#[derive(Debug)]
pub struct Function {
    /// As it was registered.
    pub name: Vec<u8>,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// Whether it takes long.
    pub pace: Pace,
    flags: u8,
}

impl Function {
    pub(super) fn new(name: Vec<u8>, description: Option<Vec<u8>>, flags: u8) -> Self {
        Self { name, description, flags, pace: Pace::default() }
    }

    /// The names of its flags.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = self.flags;
        FLAGS.iter().filter(move |(_, bit)| flags & bit != 0).map(|&(name, _)| name)
    }

    /// What it asks for. There is neither a master nor a cluster, so the other flags change nothing.
    #[must_use]
    pub fn script_flags(&self) -> ScriptFlags {
        ScriptFlags {
            is_old: false,
            no_writes: self.flags & NO_WRITES != 0,
            allow_oom: self.flags & ALLOW_OOM != 0,
        }
    }
}

/// One library.
#[derive(Debug)]
pub struct Library {
    /// The name given in its first line.
    pub name: String,
    /// Its functions, by name.
    pub functions: BTreeMap<Vec<u8>, Function>,
    /// Names this text for as long as the process lives: interpreters know by it what they have loaded.
    pub(super) id: u64,
    code: Box<[u8]>,
    code_at: usize,
}

/// Parses the first line of a library: its name, and the position of its code.
fn first_line(code: &[u8]) -> Result<(String, usize), Vec<u8>> {
    if !code.starts_with(b"#!") {
        return Err(b"ERR Missing library metadata".to_vec());
    }
    let invalid = || b"ERR Invalid library metadata".to_vec();
    let end = code.iter().position(|&byte| byte == b'\n').ok_or_else(invalid)?;
    let words = split_words(&code[..end]).map_err(|_| invalid())?;
    let engine = words.first().map_or(&b""[..], |word| &word[2.min(word.len())..]);
    let mut name = None;
    for word in words.iter().skip(1) {
        let Some((key, value)) = word.split_at_checked(5) else {
            return Err([b"ERR Invalid metadata value given: ", word.as_slice()].concat());
        };
        if !key.eq_ignore_ascii_case(b"name=") {
            return Err([b"ERR Invalid metadata value given: ", word.as_slice()].concat());
        }
        if name.replace(value).is_some() {
            let text = "ERR Invalid metadata value, name argument was given multiple times";
            return Err(text.into());
        }
    }
    let name = name.ok_or(b"ERR Library name was not given")?;
    if !is_name(name) {
        return Err(format!("ERR {BAD_NAME}").into_bytes());
    }
    if name.len() > NAME_MAX_BYTES {
        return Err(format!("ERR the name of a library has at most {NAME_MAX_BYTES} bytes").into());
    }
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"ERR Engine '", engine, b"' not found"].concat());
    }
    Ok((String::from_utf8_lossy(name).into_owned(), end))
}

impl Library {
    /// Name of a library with this text.
    ///
    /// # Errors
    /// Redis' words about its first line.
    pub fn name_of(code: &[u8]) -> Result<String, Vec<u8>> {
        first_line(code).map(|(name, _)| name)
    }

    /// Reads the first line of a text. No function is known yet.
    pub(super) fn of_text(code: &[u8]) -> Result<Self, Vec<u8>> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let (name, code_at) = first_line(code)?;
        if code.len() > PROGRAM_MAX_BYTES {
            return Err(format!("ERR a library has at most {PROGRAM_MAX_BYTES} bytes").into());
        }
        let (functions, id) = (BTreeMap::new(), IDS.fetch_add(1, Ordering::Relaxed));
        Ok(Self { name, functions, id, code: code.into(), code_at })
    }

    pub(super) fn with_functions(mut self, functions: Vec<Function>) -> Result<Self, Vec<u8>> {
        if functions.is_empty() {
            return Err(b"ERR No functions registered".to_vec());
        }
        self.functions = functions.into_iter().map(|f| (f.name.clone(), f)).collect();
        Ok(self)
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.code
    }

    /// What Lua reads: the text without its first line, whose end stays for the numbers of the lines.
    pub(super) fn code(&self) -> &[u8] {
        &self.code[self.code_at..]
    }

    /// Memory that it takes, interpreters left aside.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let functions = self.functions.values().map(|function| {
            let description = function.description.as_ref().map_or(0, Vec::len);
            size_of::<Function>() + 2 * function.name.len() + description
        });
        size_of::<Self>() + self.name.len() + self.code.len() + functions.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn error(code: &str) -> String {
        let limit = Some(Duration::from_millis(50));
        let error = Library::new(code.as_bytes(), limit).expect_err(code);
        String::from_utf8_lossy(&error).into_owned()
    }

    /// The expected texts are those of redis-server 7.0.15.
    #[test]
    fn what_is_wrong_with_a_library_is_told_in_redis_words() {
        let bad_name = format!("ERR {BAD_NAME}");
        for (code, text) in [
            ("return 1", "ERR Missing library metadata"),
            ("#!lua", "ERR Invalid library metadata"),
            ("#!lua name=\"a\n", "ERR Invalid library metadata"),
            ("#!\nx", "ERR Library name was not given"),
            ("#!lua\nx", "ERR Library name was not given"),
            ("#!lua name=\nx", &bad_name),
            ("#!lua name=\"a b\"\nx", &bad_name),
            ("#!foo name=a\nx", "ERR Engine 'foo' not found"),
            (
                "#!lua name=a name=b\nx",
                "ERR Invalid metadata value, name argument was given multiple times",
            ),
            ("#!lua foo=a\nx", "ERR Invalid metadata value given: foo=a"),
            ("#!lua name=a\nreturn 1", "ERR No functions registered"),
            (
                "#!lua name=a\nx = = 1",
                "ERR Error compiling function: user_function:2: unexpected symbol near '='",
            ),
            (
                "#!lua name=a\nx = 1",
                "ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly table",
            ),
            (
                "#!lua name=a\nredis.call('get', 'x')",
                "ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
            ),
            (
                "#!lua name=a\nredis.register_function('f')",
                "ERR Error registering functions: ERR calling redis.register_function with a single argument is only \
                 applicable to Lua table (representing named arguments).",
            ),
            (
                "#!lua name=a\nwhile true do end",
                "ERR Error registering functions: ERR FUNCTION LOAD timeout",
            ),
        ] {
            assert_eq!(error(code), text, "{code}");
        }
    }

    #[test]
    fn functions_say_what_they_ask_for() {
        let code = "#!LUA name='lib'\nredis.register_function('a', function() end)\n\
                    redis.register_function{function_name='b', callback=function() end, description='d', \
                    flags={'allow-oom', 'no-writes', 'no-writes'}}";
        let library = Library::new(code.as_bytes(), None).expect("loads");
        assert_eq!(library.name, "lib");
        let (a, b) = (&library.functions[&b"a"[..]], &library.functions[&b"b"[..]]);
        assert_eq!((a.description.as_deref(), a.flag_names().count()), (None, 0));
        assert_eq!(b.description.as_deref(), Some(&b"d"[..]));
        assert_eq!(b.flag_names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
        assert!(b.script_flags().no_writes && !a.script_flags().no_writes);
    }
}
