//! Attempts to leave the sandbox, or to affect what other scripts and functions see. Each is refused or has no effect. The
//! CVE numbers are those published for Redis' Lua since 2018.
//!
//! Two published CVEs concern features that scripts cannot reach here: CVE-2021-32672 (there is no debugger) and
//! CVE-2021-32625 (no integer of a length overflows). The interpreter is the unmodified Lua 5.1.5 in C, so vulnerabilities in
//! its C code are blocked from outside:
//!
//! - CVE-2025-49844, CVE-2022-24736 (the parser): neither script code nor the collector runs while the parser does
//!   (`Interpreter::compile`, and `load` in `prelude.lua`, which reads the whole text first);
//! - CVE-2025-46817 (`unpack` counts a range in 32 bits): `unpack.rs` replaces it;
//! - CVE-2025-46819 (the lexer counts the signs of a long bracket in 32 bits): a text is limited to 512 MB;
//! - CVE-2024-46981 (collectors of userdata): no script reaches a userdata's metatable, and there is no `newproxy`;
//! - CVE-2018-11218, CVE-2018-11219, CVE-2020-14147, CVE-2021-32626, CVE-2024-31449 (cmsgpack, struct, cjson, bit): these
//!   libraries are rewritten in Rust.

use super::tests::{interpreter, run_in};
use super::*;
use crate::resp::Reply;

/// Ways out of the sandbox, and into what other scripts see: each is refused, or does nothing.
const ATTACKS: &[&str] = &[
    // Code that was compiled elsewhere.
    "return loadstring('\\27Lua')()",
    "return load(function() return '\\27Lua' end)()",
    "return loadstring(string.dump(function() return 1 end))()",
    "return load(function() return ('').dump(function() end) end)()",
    // What the sandbox leaves out.
    "return os.execute('true')",
    "return os.exit()",
    "return io.open('/etc/passwd')",
    "return require('os')",
    "return dofile('/etc/passwd')",
    "return loadfile('/etc/passwd')",
    "return package.loadlib('x', 'y')",
    "return debug.getinfo(1)",
    "return debug.sethook()",
    "return getfenv(0)",
    "return setfenv(1, {})",
    "return newproxy(true)",
    "return module('x')",
    "print('x')",
    "local f = package.loadlib('/usr/lib/x86_64-linux-gnu/liblua5.1.so.0', 'luaopen_io') return f()",
    "return debug.getregistry()",
    "return debug.setmetatable(1, {})",
    // Globals, directly and around metatables (CVE-2022-24735, CVE-2025-46818).
    "x = 1",
    "function f() end",
    "_G.x = 1",
    "_G._G = nil",
    "KEYS = nil",
    "tostring = nil",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "setmetatable(_G, nil)",
    "getmetatable(_G).__index = nil",
    "getmetatable(_G).__newindex = nil",
    "rawset(getmetatable(_G), '__index', nil)",
    "loadstring('x = 1')()",
    "coroutine.wrap(function() x = 1 end)()",
    // Libraries.
    "redis.call = nil",
    "string.rep = nil",
    "table.insert(string, 1)",
    "table.remove(redis)  redis[1] = 1",
    "table.sort(math) math.x = 1",
    "rawset(redis, 'call', nil)",
    "setmetatable(redis, {})",
    "for name, f in pairs(redis) do redis[name] = nil end",
    "next(redis) rawset(string, 'rep', nil)",
    "getmetatable('').__index = nil",
    "getmetatable('').__index.rep = nil",
    "rawset(getmetatable('').__index, 'rep', nil)",
    "getmetatable('').__add = function() end",
    "setmetatable('', {})",
    "getmetatable(1).__index = string",
    "getmetatable(nil).__index = string",
    "getmetatable(true).__call = string.rep",
    "getmetatable(print).__index = string",
    "local m = getmetatable('') m.__index = function() return 1 end",
    "setmetatable(getmetatable(''), {})",
    "getmetatable(cjson.null).__gc = function() end",
    "rawset(redis.call, 'x', 1)",
    "table.setn(string, 5)",
    "redis.register_function('f', function() end)",
    // Deep nesting (CVE-2018-11218) and numbers beyond their range (CVE-2018-11219, CVE-2024-31449).
    "return cmsgpack.unpack(string.rep('\\145', 100000))",
    "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "return cjson.decode(string.rep('[', 100000))",
    "local t = {} t[1] = t return cjson.encode(t)",
    "return struct.pack('>I2147483648', 10)",
    "return struct.unpack('c2147483647', 'x')",
    "return struct.unpack('>c0', 'x')",
    "return struct.size('!7i')",
    // The memory of the parser and of the stack (CVE-2020-14147, CVE-2021-32626, CVE-2025-49844).
    "local function f() return 1 + f() end return f()",
    "return loadstring(string.rep('(', 100000))()",
    "return unpack({}, 1, 1e8)",
    "return loadstring('return ' .. string.rep('{', 100000))()",
    "return loadstring(string.rep('a.', 1000000) .. ' = ')()",
    "return loadstring('local ' .. string.rep('a,', 300) .. 'b = 1')()",
    "return loadstring(string.rep('local a = 1 ', 300))()",
    // A range whose length is no number of 32 bits (CVE-2025-46817).
    "return unpack({1, 2, 3}, -2, 2147483647)",
    "return unpack({1, 2, 3}, 0, 2147483647)",
    "return unpack({1, 2, 3}, -2147483648, 2147483647)",
    "return unpack({1, 2, 3}, -2147483648, -1)",
    // Long brackets that do not end (CVE-2025-46819).
    "return loadstring('return [' .. string.rep('=', 1000000) .. '[')()",
    "return loadstring('return [' .. string.rep('=', 1000000))()",
    "return loadstring('--[' .. string.rep('=', 1000000) .. '[ x')()",
    "return loadstring('return [==[ x ]=]')()",
    "return loadstring('return [=')()",
    "return string.gsub(string.rep('a', 300000), string.rep('.-', 100000), 'x')",
    "return ('a'):match(string.rep('a?', 100000))",
];

/// What answers, and does no harm.
const HARMLESS: &[&str] = &[
    // Values without end (CVE-2018-11218, CVE-2021-32626).
    "local t = {} for i = 1, 5000 do t = {t} end pcall(cmsgpack.pack, t) return pcall(cjson.encode, t)",
    "return select('#', pcall(cmsgpack.unpack, string.rep('\\1', 100000)))",
    "return pcall(cjson.decode, string.rep('[', 5000) .. string.rep(']', 5000))",
    "return pcall(struct.unpack, string.rep('b', 20000), string.rep('x', 20000))",
    "return pcall(redis.call, unpack({}, 1, 7000))",
    // Digits beyond the buffer (CVE-2024-31449).
    "return bit.tohex(65535, -2147483648)",
    "return bit.tohex(65535, 2147483647)",
    // Collectors (CVE-2024-46981).
    "setmetatable({}, {__gc = function() error('collected') end}) collectgarbage() return 1",
    "for i = 1, 50 do setmetatable({}, {__mode = 'kv', __gc = collectgarbage}) end collectgarbage('collect') return 1",
    "local c = coroutine.wrap(function() collectgarbage() coroutine.yield() end) c() c = nil collectgarbage() return 1",
    "collectgarbage('stop') collectgarbage('setpause', 1) collectgarbage('setstepmul', 1) return 1",
    // A reader that collects while the parser holds what it has read (CVE-2025-49844).
    "for i = 1, 100 do local n = 0 load(function() n = n + 1 collectgarbage() if n < 50 then return 'local a' .. n .. '=\"' .. n .. i .. '\" ' end end, 'name' .. i) end return 1",
    "for i = 1, 200 do load(function() collectgarbage() return nil end, string.rep('n', i * 100) .. i) end return 1",
    "for i = 1, 2000 do loadstring('return \"' .. string.rep('x', i) .. i .. '\"', 'chunk' .. i) end collectgarbage() return 1",
    "return pcall(load, function() return load(function() return nil end) end)",
    // What a parser may stumble over (CVE-2022-24736).
    "return loadstring('return')() == nil",
    "return pcall(loadstring, string.rep(' ', 100000))",
    "return select('#', loadstring('goto a'))",
    "return tostring(loadstring(string.rep('do ', 1000)))",
    "return pcall(error) and 1",
    "return pcall(error, setmetatable({}, {__tostring = function() error() end}))",
    // There is no debugger (CVE-2021-32672).
    "redis.breakpoint() redis.debug('x') return 1",
    // Metatables of their own that never end.
    "local t = {} setmetatable(t, {__index = t}) return pcall(function() return t.x end)",
    "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return pcall(function() return t.x end)",
    "local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return pcall(function() return t .. t end)",
    "return {setmetatable({}, {__index = function() error('x') end})}",
    "return setmetatable({}, {__index = function() return 'x' end})",
    "return pcall(string.rep, 'x', -1)",
    "return pcall(string.format, '%99999d', 1)",
    "return pcall(string.format, string.rep('%', 10001))",
    "return pcall(table.concat, {}, 'x', -2147483648, 2147483647)",
    "return pcall(string.byte, 'x', -2147483648, 2147483647)",
    "return pcall(string.sub, 'x', -2147483648, 2147483647)",
    "return pcall(select, -2147483648, 1)",
    "return pcall(table.sort, {3, 1, 2, 5, 4}, function() return true end)",
];

#[test]
fn attacks_on_the_sandbox_are_refused_and_leave_nothing_behind() {
    // With the stack that the server's threads have.
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run_attacks);
    thread.expect("a thread").join().expect("every attack is refused");
}

fn run_attacks() {
    assert!(ATTACKS.len() >= 40);
    let interpreter = interpreter();
    let whole = "return {type(redis.call), type(string.rep), type(tostring), type(KEYS), ('x'):rep(2), \
                 tostring(rawget(_G, 'x')), type(math.floor)}";
    let (_, before) = run_in(&interpreter, whole, Limits::default());
    assert!(before.contains("function") && before.contains("xx"), "{before}");
    let code = "#!lua name=l\nredis.register_function('f', function() return {type(redis.call), type(rawget(_G, 'x')), \
                type(rawget(_G, 'KEYS')), type(string.rep), ('x'):rep(2), type(rawget(redis, 'register_function'))} end)";
    let library = Library::new(code.as_bytes(), None).expect("loads");
    let call = |interpreter: &Interpreter| {
        let program = Program::Function(&library, &library.functions[&b"f"[..]]);
        let (mut out, limits) = (Reply::new(), Limits::default());
        let request = super::tests::nothing();
        let ended =
            interpreter.run(program, request, &mut super::tests::Commands, limits, &mut out);
        assert_eq!(ended, Ended::Returned);
        out.bytes().to_vec()
    };
    let function_before = call(&interpreter);
    assert!(String::from_utf8_lossy(&function_before).contains("nil"), "{function_before:?}");
    for attack in ATTACKS {
        let limits = Limits { memory_max_bytes: 64 << 20, ..Limits::default() };
        let (ended, reply) = run_in(&interpreter, attack, limits);
        assert!(matches!(ended, Ended::Failed(..)), "{attack} answers {reply}");
        assert!(interpreter.is_sound(), "{attack}");
        let (_, after) = run_in(&interpreter, whole, Limits::default());
        assert_eq!(after, before, "{attack}");
        assert_eq!(call(&interpreter), function_before, "{attack}");
    }
    for harmless in HARMLESS {
        let limits = Limits { memory_max_bytes: 64 << 20, ..Limits::default() };
        let (ended, _) = run_in(&interpreter, harmless, limits);
        assert!(matches!(ended, Ended::Returned | Ended::Failed(..)), "{harmless}: {ended:?}");
        assert!(interpreter.is_sound(), "{harmless}");
        let (_, after) = run_in(&interpreter, whole, Limits::default());
        assert_eq!(after, before, "{harmless}");
        assert_eq!(call(&interpreter), function_before, "{harmless}");
    }
}

/// Attacks by a library on its sandbox while it is loaded.
#[test]
fn attacks_on_the_sandbox_of_libraries_are_refused() {
    for attack in [
        "setmetatable(_G, {})",
        "getmetatable('').__index = nil",
        "_G.x = 1",
        "redis.call = redis.log",
        "local r = redis r.register_function = nil",
        "local s = 'x' s:dump()",
        "x = 1",
        "loadstring('x = 1')()",
        "collectgarbage()",
        "os.exit()",
        "redis.call('flushall')",
    ] {
        let code = format!("#!lua name=l\nredis.register_function('f', function() end)\n{attack}");
        let error = Library::new(code.as_bytes(), None).expect_err(attack);
        assert!(error.starts_with(b"ERR Error registering functions: "), "{attack}");
    }
}
