//! Pushes values on Lua's stack from C functions: texts, lists, errors, and replies of commands as Redis 7.0 converts them.
//!
//! Lua may leave each function here by `longjmp` when memory runs out. So none of them owns anything with a destructor.

#![allow(unsafe_code)]

use super::convert::error_text;
use crate::interop::c_numbers::parse_prefix;
use mlua::ffi::{
    lua_State, lua_createtable, lua_pop, lua_pushboolean, lua_pushlstring_, lua_pushnil,
    lua_pushnumber, lua_pushvalue, lua_rawset, lua_rawseti_, lua_remove, lua_setfield,
    lua_tolstring, luaL_checkstack,
};
use std::ffi::{CStr, c_int};

/// The bytes of a text on the stack.
///
/// # Safety
/// There is a text at that place, and it stays there while the answer is used.
pub(super) unsafe fn text_at<'t>(state: *mut lua_State, at: c_int) -> &'t [u8] {
    let mut len = 0;
    // SAFETY: Lua has this many bytes there.
    unsafe { std::slice::from_raw_parts(lua_tolstring(state, at, &raw mut len).cast(), len) }
}

/// Pushes a text.
///
/// # Safety
/// Lua may leave the caller by a jump, whose stack has a place left.
pub(super) unsafe fn push_text(state: *mut lua_State, text: &[u8]) {
    // SAFETY: as promised by the caller; Lua copies the bytes.
    unsafe { lua_pushlstring_(state, text.as_ptr().cast(), text.len()) }
}

/// Pushes a table with the error that is in its buffer.
///
/// # Safety
/// As [`push_text`], with three places.
pub(super) unsafe fn push_error(state: *mut lua_State, text: &[u8], is_counted: bool) {
    // SAFETY: as promised by the caller.
    unsafe {
        lua_createtable(state, 0, 1 + c_int::from(is_counted));
        push_text(state, text);
        lua_setfield(state, -2, c"err".as_ptr());
        if is_counted {
            lua_pushboolean(state, 1);
            lua_setfield(state, -2, c"ignore_error_stats_update".as_ptr());
        }
    }
}

/// Pushes a table of texts.
///
/// # Safety
/// As [`push_text`], with two places.
pub(super) unsafe fn push_list<'t>(
    state: *mut lua_State,
    texts: impl ExactSizeIterator<Item = &'t [u8]>,
) {
    // SAFETY: as promised by the caller. The iterator is one over a slice, which has nothing to be dropped.
    unsafe {
        lua_createtable(state, texts.len() as c_int, 0);
        for (text, at) in texts.zip(1..) {
            push_text(state, text);
            lua_rawseti_(state, -2, at);
        }
    }
}

/// The line at the start of reply bytes, and what follows.
fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'\r', bytes) {
        Some(end) => (&bytes[..end], bytes.get(end + 2..).unwrap_or_default()),
        None => (bytes, &[]),
    }
}

/// The number that a line is.
fn number_of(line: &[u8]) -> i64 {
    let (digits, sign) = line.strip_prefix(b"-").map_or((line, 1), |digits| (digits, -1));
    digits.iter().fold(0_i64, |number, digit| {
        number.wrapping_mul(10).wrapping_add(sign * i64::from(digit.wrapping_sub(b'0')))
    })
}

/// The bytes after a line with their length, and the rest of the input; `None` for a missing text.
fn bulk(bytes: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let (len, rest) = line(bytes);
    let Ok(len) = usize::try_from(number_of(len)) else { return (None, rest) };
    let text = &rest[..len.min(rest.len())];
    (Some(text), rest.get(len + 2..).unwrap_or_default())
}

/// Puts the value on top of the stack into a new table as its only field.
///
/// # Safety
/// As [`push_text`].
unsafe fn wrap(state: *mut lua_State, name: &CStr) {
    // SAFETY: as promised by the caller. The table is on top of the value, which becomes its field.
    unsafe {
        lua_createtable(state, 0, 1);
        lua_pushvalue(state, -2);
        lua_setfield(state, -2, name.as_ptr());
        lua_remove(state, -2);
    }
}

/// Pushes the Lua value of the reply at the start of these bytes, which this server wrote itself; returns the rest of the bytes.
/// `error` is a buffer in which errors are assembled.
///
/// # Safety
/// As [`push_text`]; `error` is not used elsewhere.
pub(super) unsafe fn push_reply(state: *mut lua_State, bytes: &[u8], error: *mut Vec<u8>) -> &[u8] {
    // SAFETY: as promised by the caller. There is place for what is pushed: a function of C has some from the start, and each table
    // asks for more.
    unsafe {
        let Some((&kind, behind)) = bytes.split_first() else {
            lua_pushnil(state);
            return bytes;
        };
        match kind {
            b':' => {
                let (number, rest) = line(behind);
                lua_pushnumber(state, number_of(number) as f64);
                rest
            }
            b'$' => {
                let (text, rest) = bulk(behind);
                match text {
                    Some(text) => push_text(state, text),
                    None => lua_pushboolean(state, 0),
                }
                rest
            }
            b'+' | b'(' => {
                let (text, rest) = line(behind);
                push_text(state, text);
                wrap(state, if kind == b'+' { c"ok" } else { c"big_number" });
                rest
            }
            b'-' => {
                let (_, rest) = line(behind);
                *error = error_text(&bytes[..bytes.len() - rest.len()]);
                push_error(state, &*error, true);
                rest
            }
            b'*' | b'>' | b'~' | b'%' | b'|' => push_several(state, kind, behind, error),
            b'_' => {
                lua_pushnil(state);
                line(behind).1
            }
            b'#' => {
                let (value, rest) = line(behind);
                lua_pushboolean(state, c_int::from(value == b"t"));
                rest
            }
            b',' => {
                let (text, rest) = line(behind);
                lua_pushnumber(state, parse_prefix(text).map_or(0.0, |found| found.0));
                wrap(state, c"double");
                rest
            }
            b'=' => {
                let (text, rest) = bulk(behind);
                let text = text.unwrap_or_default();
                let (format, text) = text.split_at_checked(4).unwrap_or((b"txt:", text));
                lua_createtable(state, 0, 2);
                push_text(state, text);
                lua_setfield(state, -2, c"string".as_ptr());
                push_text(state, &format[..3]);
                lua_setfield(state, -2, c"format".as_ptr());
                wrap(state, c"verbatim_string");
                rest
            }
            _ => {
                lua_pushnil(state);
                behind
            }
        }
    }
}

/// Like [`push_reply`], but for the elements of an array, a set, a map, or attributes.
///
/// # Safety
/// As [`push_reply`].
unsafe fn push_several(
    state: *mut lua_State,
    kind: u8,
    bytes: &[u8],
    error: *mut Vec<u8>,
) -> &[u8] {
    // SAFETY: as promised by the caller; the places are asked for.
    unsafe {
        luaL_checkstack(state, 8, c"a reply is nested too deeply".as_ptr());
        let (count, mut rest) = line(bytes);
        let count = number_of(count);
        let expected = c_int::try_from(count).unwrap_or(0).max(0);
        match kind {
            b'*' | b'>' => {
                if count < 0 {
                    lua_pushboolean(state, 0);
                    return rest;
                }
                lua_createtable(state, expected, 0);
                for at in 1..=expected {
                    rest = push_reply(state, rest, error);
                    lua_rawseti_(state, -2, at);
                }
            }
            b'~' => {
                lua_createtable(state, 0, expected);
                for _ in 0..expected {
                    rest = push_reply(state, rest, error);
                    lua_pushboolean(state, 1);
                    lua_rawset(state, -3);
                }
                wrap(state, c"set");
            }
            b'%' => {
                lua_createtable(state, 0, expected);
                for _ in 0..expected {
                    rest = push_reply(state, rest, error);
                    rest = push_reply(state, rest, error);
                    lua_rawset(state, -3);
                }
                wrap(state, c"map");
            }
            // Attributes are not shown: the reply that they belong to follows.
            _ => {
                for _ in 0..expected.saturating_mul(2) {
                    rest = push_reply(state, rest, error);
                    lua_pop(state, 1);
                }
                rest = push_reply(state, rest, error);
            }
        }
        rest
    }
}
