//! The function `unpack`. Lua's own counts a range in signed 32 bits, where a long range overflows and a compiler may treat it
//! as short (CVE-2025-46817). Written against Lua's C interface: through Rust values it could return fewer than Lua's own.

#![allow(unsafe_code)]

use mlua::ffi::{
    LUA_TTABLE, lua_State, lua_checkstack, lua_isnoneornil, lua_rawgeti, lua_rawlen,
    luaL_checktype, luaL_error, luaL_optinteger,
};
use mlua::{Function, Lua, Result};
use std::ffi::c_int;

/// Values that it answers at most: as many as Lua leaves a function of C.
const VALUES_MAX: i64 = 8000;

/// Argument `at` as C casts it.
///
/// # Safety
/// `state` runs a function, and Lua may leave it by an error: nothing of the caller's wants to be dropped.
unsafe fn integer_or(state: *mut lua_State, at: c_int, default: i64) -> i64 {
    // SAFETY: as promised by the caller.
    let number = unsafe { luaL_optinteger(state, at, default as _) };
    i64::from(number as i32)
}

/// # Safety
/// Lua calls it.
unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    // SAFETY: `state` is that of the call. Errors of Lua leave this frame, in which nothing wants to be dropped. Each value
    // that is pushed has its place, which `lua_checkstack` has made.
    unsafe {
        luaL_checktype(state, 1, LUA_TTABLE);
        let first = integer_or(state, 2, 1);
        let is_all = lua_isnoneornil(state, 3) != 0;
        let last = if is_all { lua_rawlen(state, 1) as i64 } else { integer_or(state, 3, 0) };
        if first > last {
            return 0;
        }
        let count = last - first + 1;
        if count > VALUES_MAX || lua_checkstack(state, count as c_int) == 0 {
            luaL_error(state, c"too many results to unpack".as_ptr());
        }
        for at in first..=last {
            lua_rawgeti(state, 1, at as _);
        }
        count as c_int
    }
}

/// The function.
pub(super) fn open(lua: &Lua) -> Result<Function> {
    // SAFETY: it keeps to what Lua asks of a function of C: it pushes what it answers, with room for all of it.
    unsafe { lua.create_c_function(unpack) }
}
