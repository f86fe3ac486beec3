//! JSON as Lua values.

use super::Settings;
use crate::interop::c_numbers::parse_prefix;
use crate::scripting::raise::failure;
use mlua::{Error, Lua, Result, Value};

/// Deeper nesting is refused, whatever the script allows: the stack of the thread is bounded.
const DEPTH_MAX: i64 = 1000;

/// The token at a position of the text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(text) => text,
        }
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    settings: Settings,
    text: &'a [u8],
    at: usize,
    /// Where the last token begins, or where it was found to be wrong.
    token_at: usize,
    depth: i64,
}

/// The value of a JSON text.
pub(super) fn decode(lua: &Lua, settings: Settings, text: &[u8]) -> Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(failure(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, settings, text, at: 0, token_at: 0, depth: 0 };
    let token = decoder.next();
    let value = decoder.value(token)?;
    match decoder.next() {
        Token::End => Ok(value),
        other => Err(decoder.expected("the end", &other)),
    }
}

impl Decoder<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at.min(self.text.len())..]
    }

    fn expected(&self, wanted: &str, found: &Token) -> Error {
        let (found, place) = (found.name(), self.token_at + 1);
        failure(self.lua, format!("Expected {wanted} but found {found} at character {place}"))
    }

    fn wrong(&mut self, why: &'static str) -> Token {
        self.token_at = self.at;
        Token::Error(why)
    }

    fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.settings.decode_invalid && self.is_invalid_number() {
                    return self.wrong("invalid number");
                }
                return self.number();
            }
            b'+' | b'f' | b'i' | b'I' | b'n' | b'N' | b't' => return self.word(),
            _ => return self.wrong("invalid token"),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        for (word, token) in [
            (&b"true"[..], Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.settings.decode_invalid && self.is_invalid_number() {
            return self.number();
        }
        self.wrong("invalid token")
    }

    /// True for what strtod takes and JSON does not know.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let from = usize::from(self.peek(0) == b'-');
        match self.peek(from) {
            b'0' => matches!(self.peek(from + 1), b'x' | b'X' | b'0'..=b'9'),
            byte if byte <= b'9' => false,
            _ => {
                let word = &self.rest()[from..];
                let starts = |with: &[u8]| {
                    word.len() >= with.len() && word[..with.len()].eq_ignore_ascii_case(with)
                };
                starts(b"inf") || starts(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        match parse_prefix(self.rest()) {
            Some((number, used)) => {
                self.at += used;
                Token::Number(number)
            }
            None => self.wrong("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        let mut text = Vec::new();
        self.at += 1;
        loop {
            let mut byte = self.peek(0);
            match byte {
                b'"' => break,
                0 => return self.wrong("unexpected end of string"),
                b'\\' => {
                    byte = match self.peek(1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        b'u' => match self.unicode(&mut text) {
                            Some(len) => {
                                self.at += len;
                                continue;
                            }
                            None => return self.wrong("invalid unicode escape code"),
                        },
                        _ => return self.wrong("invalid escape code"),
                    };
                    self.at += 1;
                }
                _ => {}
            }
            text.push(byte);
            self.at += 1;
        }
        self.at += 1;
        Token::String(text)
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        let digit = |at| (self.peek(ahead + at) as char).to_digit(16);
        Some(digit(0)? << 12 | digit(1)? << 8 | digit(2)? << 4 | digit(3)?)
    }

    /// Appends the character of an escape, and answers how long that is.
    fn unicode(&self, text: &mut Vec<u8>) -> Option<usize> {
        let mut code = self.hex4(2)?;
        let mut len = 6;
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0 || self.peek(6) != b'\\' || self.peek(7) != b'u' {
                return None;
            }
            let low = self.hex4(8)?;
            if low & 0xfc00 != 0xdc00 {
                return None;
            }
            code = ((code & 0x3ff) << 10 | low & 0x3ff) + 0x10000;
            len = 12;
        }
        let mut bytes = [0; 4];
        text.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut bytes).as_bytes());
        Some(len)
    }

    fn descend(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > self.settings.decode_depth_max.min(DEPTH_MAX) {
            let text = format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            );
            return Err(failure(self.lua, text));
        }
        Ok(())
    }

    fn value(&mut self, token: Token) -> Result<Value> {
        match token {
            Token::String(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Boolean(value) => Ok(Value::Boolean(value)),
            Token::Null => Ok(Value::NULL),
            Token::ObjectBegin => self.object(),
            Token::ArrayBegin => self.array(),
            other => Err(self.expected("value", &other)),
        }
    }

    fn object(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token, Token::ObjectEnd) {
            loop {
                let Token::String(key) = token else {
                    return Err(self.expected("object key string", &token));
                };
                let key = self.lua.create_string(key)?;
                match self.next() {
                    Token::Colon => {}
                    other => return Err(self.expected("colon", &other)),
                }
                token = self.next();
                let value = self.value(token)?;
                table.raw_set(key, value)?;
                match self.next() {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next(),
                    other => return Err(self.expected("comma or object end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token, Token::ArrayEnd) {
            for at in 1.. {
                let value = self.value(token)?;
                table.raw_set(at, value)?;
                match self.next() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next(),
                    other => return Err(self.expected("comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
