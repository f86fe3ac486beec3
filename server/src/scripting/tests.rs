//! Tests of the replies of scripts and of their restrictions. The expected replies are those of redis-server 7.0.15.

use super::*;
use crate::resp::{Args, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A request without keys and arguments.
pub(super) fn nothing() -> (Args<'static>, usize, usize) {
    (Args::new(&[], &[]), 0, 0)
}

/// Answers commands by name.
pub(super) struct Commands;

impl Host for Commands {
    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Answer {
        match args.get(0) {
            b"ping" => reply.simple("PONG"),
            b"echo" => reply.bulk(args.get(1)),
            b"int" => reply.int(7),
            // As many bytes as its argument says.
            b"long" => {
                let bytes = std::str::from_utf8(args.get(1)).expect("digits").parse();
                reply.bulk(&vec![b'x'; bytes.expect("a number")]);
            }
            b"none" => reply.null(),
            b"fail" => reply.error(b"WRONGTYPE no"),
            b"map" => {
                reply.map(1);
                reply.bulk(b"k");
                reply.double("1.5");
            }
            b"stop" => return Answer::Stopped,
            b"panic" => panic!("a command is broken"),
            _ => return Answer::Refused(b"ERR Unknown Redis command called from script".to_vec()),
        }
        Answer::Replied(Instant::now())
    }

    fn may(&self, args: Args<'_>) -> Option<bool> {
        (args.get(0) == b"set").then_some(true)
    }
}

pub(super) fn interpreter() -> Interpreter {
    Interpreter::new().expect("the sandbox loads")
}

pub(super) fn run_in(interpreter: &Interpreter, body: &str, limits: Limits) -> (Ended, String) {
    let script = Script::new(body.as_bytes()).expect("no bad first line");
    let mut out = Reply::new();
    let program = Program::Script(&script);
    let ended = interpreter.run(program, nothing(), &mut Commands, limits, &mut out);
    (ended, String::from_utf8_lossy(out.bytes()).into_owned())
}

/// The reply, or the error with the script's name left out.
fn run(body: &str) -> String {
    let (ended, reply) = run_in(&interpreter(), body, Limits::default());
    match ended {
        Ended::Failed(text, _) if reply.is_empty() => {
            let text = String::from_utf8_lossy(&text).into_owned();
            let name = Script::new(body.as_bytes()).expect("read before").sha;
            text.replace(&format!(" script: {}, on ", name.as_str()), " @ ")
        }
        Ended::Stopped => "stopped".to_owned(),
        _ => reply,
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (body, reply) in cases {
        assert_eq!(run(body), *reply, "{body}");
    }
}

#[test]
fn values_become_replies() {
    check(&[
        ("return 1", ":1\r\n"),
        ("return 3.99", ":3\r\n"),
        ("return -3.99", ":-3\r\n"),
        ("return 1e300", ":-9223372036854775808\r\n"),
        ("return 'a'", "$1\r\na\r\n"),
        ("return true", ":1\r\n"),
        ("return false", "$-1\r\n"),
        ("return nil", "$-1\r\n"),
        ("return", "$-1\r\n"),
        ("return function() end", "$-1\r\n"),
        ("return {1,2,nil,4}", "*2\r\n:1\r\n:2\r\n"),
        ("return {ok='a\\r\\nb'}", "+a  b\r\n"),
        ("return {err='My Err'}", "-My Err\r\n"),
        ("return {double=3.5}", "$3\r\n3.5\r\n"),
        ("return {map={a=1}}", "*2\r\n$1\r\na\r\n:1\r\n"),
        ("return {set={a=true}}", "*1\r\n$1\r\na\r\n"),
        ("return {big_number='12'}", "$2\r\n12\r\n"),
        ("return {verbatim_string={format='txt',string='hi'}}", "$2\r\nhi\r\n"),
        ("return {ok=1}", "*0\r\n"),
        ("redis.setresp(3) return true", ":1\r\n"),
        ("redis.setresp(3) return false", ":0\r\n"),
    ]);
}

#[test]
fn replies_become_values() {
    check(&[
        ("return redis.call('ping').ok", "$4\r\nPONG\r\n"),
        ("return redis.call('echo', 1.5)", "$3\r\n1.5\r\n"),
        ("return redis.call('echo', 1e20)", "$5\r\n1e+20\r\n"),
        ("return redis.call('int') + 1", ":8\r\n"),
        ("return tostring(redis.call('none'))", "$5\r\nfalse\r\n"),
        ("redis.setresp(3) return tostring(redis.call('none'))", "$3\r\nnil\r\n"),
        ("return redis.call('map')", "*2\r\n$1\r\nk\r\n$3\r\n1.5\r\n"),
        ("redis.setresp(3) return tostring(redis.call('map').map.k.double)", "$3\r\n1.5\r\n"),
        ("return redis.pcall('fail').err", "$12\r\nWRONGTYPE no\r\n"),
        // The places of the arguments are free for the reply.
        (
            "local t = {} for i = 1, 7990 do t[i] = '' end return #redis.call('map', unpack(t))",
            ":2\r\n",
        ),
        (
            "return redis.pcall('nope').err",
            "$44\r\nERR Unknown Redis command called from script\r\n",
        ),
    ]);
}

#[test]
fn a_command_that_panics_leaves_the_interpreter_as_it_was() {
    let interpreter = interpreter();
    let run = || run_in(&interpreter, "pcall(redis.call, 'panic') return 1", Limits::default());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    let (ended, reply) = run_in(&interpreter, "return redis.call('int')", Limits::default());
    assert_eq!((ended, reply.as_str()), (Ended::Returned, ":7\r\n"));
}

#[test]
fn errors_are_worded_and_placed_as_redis_does() {
    check(&[
        ("error('a')", "ERR user_script:1: a @ @user_script:1."),
        (
            "\n\nreturn redis.call('nope')",
            "ERR Unknown Redis command called from script @ @user_script:3.",
        ),
        ("redis.call('fail')", "WRONGTYPE no @ @user_script:1."),
        ("return redis.call('fail')", "WRONGTYPE no @ @user_script:1."),
        ("error({err='My Err'})", "My Err @ @user_script:1."),
        ("error()", "ERR nil @ @user_script:1."),
        (
            "redis.call()",
            "ERR Please specify at least one argument for this redis lib call @ @user_script:1.",
        ),
        (
            "redis.call({})",
            "ERR Lua redis lib command arguments must be strings or integers @ @user_script:1.",
        ),
        (
            "return redis.foo()",
            "ERR user_script:1: attempt to call field 'foo' (a nil value) @ @user_script:1.",
        ),
        (
            "x = = 1",
            "ERR Error compiling script (new function): user_script:1: unexpected symbol near '='",
        ),
        ("return {pcall(error, {err='E x'})}", "*2\r\n$-1\r\n$3\r\nE x\r\n"),
        ("return select(2, pcall(error, {err='E x'}))", "$3\r\nE x\r\n"),
        ("return select(2, pcall(redis.call, 'fail'))", "$12\r\nWRONGTYPE no\r\n"),
        (
            "return select(2, xpcall(function() redis.call('fail') end, function(e) return e.err end))",
            "$12\r\nWRONGTYPE no\r\n",
        ),
        (
            "local function f() return 1+f() end return f()",
            "ERR user_script:1: stack overflow @ @user_script:1.",
        ),
        (
            "return coroutine.yield(1)",
            "ERR attempt to yield across metamethod/C-call boundary @ @user_script:1.",
        ),
        (
            "pairs('x')",
            "ERR user_script:1: bad argument #1 to 'pairs' (table expected, got string) @ @user_script:1.",
        ),
        (
            "cjson.encode()",
            "ERR user_script:1: bad argument #1 to 'encode' (expected 1 argument) @ @user_script:1.",
        ),
        ("redis.log()", "ERR redis.log() requires two arguments or more. @ @user_script:1."),
        ("redis.sha1hex()", "ERR wrong number of arguments @ @user_script:1."),
        ("redis.setresp(4)", "ERR RESP version must be 2 or 3. @ @user_script:1."),
        (
            "return redis.acl_check_cmd('nope')",
            "ERR Invalid command passed to redis.acl_check_cmd() @ @user_script:1.",
        ),
        ("redis.pcall('stop') return 1", "stopped"),
        ("pcall(redis.call, 'stop') return 1", "stopped"),
    ]);
}

#[test]
fn replies_are_made_as_redis_makes_them() {
    check(&[
        ("return redis.error_reply('foo')", "-ERR foo\r\n"),
        ("return redis.error_reply('-FOO bar')", "-FOO bar\r\n"),
        ("return redis.error_reply('')", "-ERR \r\n"),
        ("return redis.error_reply(1)", "-ERR wrong number or type of arguments\r\n"),
        ("return redis.status_reply('fine')", "+fine\r\n"),
        ("return redis.sha1hex('')", "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n"),
    ]);
}

#[test]
fn libraries_pack_and_unpack() {
    check(&[
        (
            "return cjson.encode({1,2.5,'a\\n/',true,cjson.null})",
            "$25\r\n[1,2.5,\"a\\n\\/\",true,null]\r\n",
        ),
        ("return cjson.encode({a={}})", "$8\r\n{\"a\":{}}\r\n"),
        (
            "return cjson.encode({[1]=1,[2000]=1})",
            "ERR user_script:1: Cannot serialise table: excessively sparse array @ @user_script:1.",
        ),
        ("return cjson.decode('[1, {\"a\": \"\\\\u00e9\"}]')[2].a", "$2\r\né\r\n"),
        (
            "return cjson.decode('[1,')",
            "ERR user_script:1: Expected value but found T_END at character 4 @ @user_script:1.",
        ),
        (
            "return cjson.decode('{\"a\":tru}')",
            "ERR user_script:1: Expected value but found invalid token at character 6 @ @user_script:1.",
        ),
        (
            "return cmsgpack.unpack(cmsgpack.pack({1,-5,300,'x',1.5,true}))",
            "*6\r\n:1\r\n:-5\r\n:300\r\n$1\r\nx\r\n:1\r\n:1\r\n",
        ),
        (
            "return cmsgpack.unpack('\\219\\255')",
            "ERR user_script:1: Missing bytes in input. @ @user_script:1.",
        ),
        (
            "return {struct.unpack('>I2bs', struct.pack('>I2bs', 258, -3, 'hi'))}",
            "*4\r\n:258\r\n:-3\r\n$2\r\nhi\r\n:7\r\n",
        ),
        ("return struct.size('!8ibd')", ":16\r\n"),
        (
            "return {bit.band(255, 15), bit.bnot(0), bit.lshift(1, 31), bit.tohex(255, -4)}",
            "*4\r\n:15\r\n:-1\r\n:-2147483648\r\n$4\r\n00FF\r\n",
        ),
    ]);
}

#[test]
fn a_script_ends_when_its_time_is_over_whatever_it_catches() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return f() end return f()",
        "while true do pcall(redis.call, 'nope') end",
        "local c = coroutine.wrap(function() while true do end end) while true do pcall(c) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
    ] {
        let interpreter = interpreter();
        let limits = Limits { slice: Some(Duration::from_millis(20)), ..Limits::default() };
        assert_eq!(run_in(&interpreter, body, limits).0, Ended::OutOfTime, "{body}");
        let killed = Limits { kill: Some(Arc::new(AtomicBool::new(true))), ..Limits::default() };
        let Ended::Failed(text, _) = run_in(&super::tests::interpreter(), body, killed).0 else {
            panic!("{body} is not killed")
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.starts_with("ERR Script killed by user with SCRIPT KILL..."), "{text}");
    }
}

#[test]
fn memory_is_bounded() {
    let interpreter = interpreter();
    let limits = Limits { memory_max_bytes: 32 << 20, ..Limits::default() };
    let body = "local s = 'x' while true do s = s .. s end";
    let (ended, _) = run_in(&interpreter, body, limits.clone());
    assert_eq!(ended, Ended::Failed(b"ERR not enough memory".to_vec(), false));
    assert_eq!(run_in(&interpreter, "return 1", limits).1, ":1\r\n");
    assert!(interpreter.memory_bytes() < 32 << 20);
}

#[test]
fn what_nobody_holds_any_more_is_no_reason_to_refuse() {
    let limits = Limits { memory_max_bytes: 16 << 20, ..Limits::default() };
    // Of the script's own, and of scripts before it: sizes that differ defeat the collector's pace.
    let body = "local held, n = redis.call('long', '5000000'), 0 \
                for at = 1, 40 do n = n + #redis.call('long', tostring(100000 * at)) end return n + #held";
    let interpreter = interpreter();
    assert_eq!(run_in(&interpreter, body, limits.clone()).1, ":87000000\r\n");
    for round in 0..60 {
        let bytes = [6, 1, 4, 2, 3, 5, 7][round % 7] * 1_000_000 + round;
        let body = format!("return #redis.call('long', '{bytes}')");
        let reply = run_in(&interpreter, &body, limits.clone()).1;
        assert_eq!(reply, format!(":{bytes}\r\n"), "round {round}");
    }
    assert!(interpreter.memory_bytes() < 16 << 20);
}

#[test]
fn a_flag_that_is_never_set_does_not_kill() {
    let kill = Arc::new(AtomicBool::new(false));
    let limits = Limits { kill: Some(Arc::clone(&kill)), ..Limits::default() };
    let body = "local n = 0 for i = 1, 100000 do n = n + 1 end return n";
    assert_eq!(run_in(&interpreter(), body, limits).1, ":100000\r\n");
    assert!(!kill.load(Ordering::Relaxed));
}
