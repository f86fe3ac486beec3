"""python3 -m functions [--quick] [--seed N]: function libraries, compared with redis-server, and their persistence.

Generated libraries and calls are sent to both servers, in RESP2 and RESP3: replies must be equal, byte by byte. Then: libraries
are restored from the log, from memtables in persistent memory and from a dump; after a kill -9 between two changes one of them
is there; both servers read each other's dumps, logs and payloads; functions that never end.
"""

import argparse
import random
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path

from crash_loop import persistent_memory
from harness.resp import ReplyError, encode
from harness.server import Server
from harness.steps import Steps

HEADS = ["#!lua name=%s\n"] * 30 + [
    "", "#!lua\n", "#!lua name=\n", "#!foo name=%s\n", "#!lua name=%s-x\n", "#!lua name=%s name=b\n", "#!lua foo=%s\n", '#!lua name="%s"\n',
    "#!LUA name='%s'\n", "#!lua name=%s", '#!lua name="%s\n', "#!\n", "#!lua  NAME=%s  \n"]
#: What a library may do beside registering functions, most of it refused.
TOPS = ["", "", "", "", "", "local n = 0", "x = 1", "return y", "x = = 1", "redis.call('get', 'x')", "error('e')", "local x = nil + 1", "redis.log(redis.LOG_DEBUG, 'x')",
        "redis.log('x')", "redis.setresp(3)", "KEYS = 1", "redis.x = 1", "local t = _G", "local s = ('x'):rep(3)", "return redis.pcall"]
REGISTER = ["'a'", "", "'a', 1", "{}, function() end", "'', function() end", "'a-b', function() end", "{}", "{function_name='a'}", "{callback=function() end}", "5",
            "{function_name='a', callback=1}", "{function_name='a', callback=function() end, flags=1}", "{function_name='a', callback=function() end, flags={'x'}}",
            "{function_name='a', callback=function() end, foo=1}", "{function_name={}, callback=function() end}", "1, function() end", "'a', function() end, 1"]
FLAGS = ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"]
BODIES = ["return 1", "return {keys, args}", "return redis.call('get', keys[1] or 'k')", "return redis.call('set', keys[1] or 'k', args[1] or 'v')", "return redis.call('incr', 'n')",
          "error('e')", "error({err='MY e'})", "return redis.error_reply('MY e')", "return redis.call('nope')", "return redis.pcall('nope')", "x = 1", "return y", "return KEYS",
          "return redis.nope", "redis.setresp(3) return redis.call('config', 'get', 'maxmemory')", "return {double=1.5}", "redis.setresp(3) return {double=1.5}",
          "return loadstring('return type(redis.call)')()", "return redis.register_function('z', function() end)", "return #args", "return {ok='fine'}",
          "return cjson.encode({args, #keys})", "redis.call('set', 'a', '1') redis.call('append', 'a', '2') return redis.call('get', 'a')", "return os.clock()",
          "return redis.call('fcall', 'f0', 0)", "return redis.call('function', 'list')", "return redis.sha1hex('')", "return type(redis.breakpoint)"]


def registered(name, body, flags=None):
    if flags is None:
        return f"redis.register_function('{name}', function(keys, args) {body} end)"
    listed = ",".join(f"'{flag}'" for flag in flags)
    return f"redis.register_function{{function_name='{name}', callback=function(keys, args) {body} end, description='d', flags={{{listed}}}}}"


class Maker:
    """Makes random requests."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def function(self):
        return f"f{self.chance.randrange(12)}"

    def library(self):
        chance = self.chance
        name, lines = f"l{chance.randrange(5)}", [chance.choice(TOPS)]
        for _ in range(chance.randint(0, 4)):
            if chance.random() < 0.1:
                lines.append(f"redis.register_function({chance.choice(REGISTER)})")
                continue
            flags = chance.sample(FLAGS, chance.randint(0, 3)) if chance.random() < 0.5 else None
            lines.append(registered(self.function(), chance.choice(BODIES), flags))
        head = chance.choice(HEADS)
        return (head % name if "%s" in head else head) + "\n".join(lines)

    def request(self):
        chance = self.chance
        kind = chance.random()
        if kind < 0.35:
            return ["FUNCTION", "LOAD", *(["REPLACE"] if chance.random() < 0.7 else []), self.library()]
        if kind < 0.85:
            keys = [f"k{chance.randrange(4)}" for _ in range(chance.randint(0, 2))]
            count = str(len(keys)) if chance.random() < 0.95 else chance.choice(["x", "-1", "9", "1.5"])
            return [chance.choice(["FCALL", "FCALL", "FCALL_RO"]), chance.choice([self.function(), self.function().upper()]), count, *keys, *["a", "5"][:chance.randint(0, 2)]]
        return chance.choice([
            ["FUNCTION", "DELETE", f"l{chance.randrange(6)}"], ["FUNCTION", "STATS"], ["FUNCTION", "FLUSH"] if chance.random() < 0.1 else ["FUNCTION", "KILL"],
            ["FUNCTION", "LIST", "LIBRARYNAME", f"L{chance.randrange(5)}"], ["FUNCTION", "LIST", "WITHCODE", "X"], ["FUNCTION", "FLUSH", "NOW"],
            ["FUNCTION", "RESTORE", "x"], ["SCRIPT", "KILL"], ["FUNCTION", "LIST", "LIBRARYNAME"], ["COMMAND", "GETKEYS", "FCALL", "f", "1", "a", "b"]])


def differential(steps, count, seed):
    with Server("sexton") as ours, Server("redis") as redis:
        for resp in (2, 3):
            pair = [server.connect() for server in (ours, redis)]
            for connection in pair:
                connection.cmd("HELLO", str(resp))
                connection.cmd("FLUSHALL")
                connection.cmd("FUNCTION", "FLUSH")
            maker, wrong, first = Maker(seed + resp), 0, ""
            for _ in range(count // 2):
                request = maker.request()
                requests = [request]
                if maker.chance.random() < 0.1:
                    requests = [["MULTI"], request, maker.request(), ["EXEC"]]
                for request in requests:
                    # The order of several functions is that of a table in redis-server, and random there.
                    replies = [connection.node(*request).raw for connection in pair]
                    replies = [re.sub(rb"Function \w+ already exists", b"Function already exists", reply) for reply in replies]
                    if request[1:2] == ["LIST"] or request == ["EXEC"]:
                        replies = [b"".join(sorted(reply.split(b"\r\n"))) for reply in replies]
                    if replies[0] != replies[1]:
                        wrong += 1
                        first = first or f"{replies[0][:300]!r}, redis {replies[1][:300]!r}: {request!r}"
            steps.check(f"{count // 2} requests about functions under RESP{resp} are answered as by redis-server", wrong == 0, f"{wrong} differ, the first: {first}" if wrong else "")
            both = []
            for sender, receiver in (pair, pair[::-1]):
                payload = sender.cmd("FUNCTION", "DUMP")
                listed = sorted(library[1] for library in flat(sender))
                receiver.cmd("FUNCTION", "RESTORE", payload, "FLUSH")
                both.append(listed == sorted(library[1] for library in flat(receiver)))
            steps.check("each restores what the other dumps", all(both), repr(both))


def flat(client):
    """FUNCTION LIST as lists, in either protocol."""
    def lists(value):
        if isinstance(value, dict):
            return [item for pair in value.items() for item in pair]
        return value
    return [lists(library) for library in client.cmd("FUNCTION", "LIST")]


def names(client):
    return sorted(library[1] for library in flat(client))


def put_libraries(client):
    client.cmd("FUNCTION", "LOAD", "#!lua name=kept\n" + registered("kept", "return redis.call('incr', 'n')"))
    client.cmd("FUNCTION", "LOAD", "#!lua name=gone\n" + registered("gone", "return 1"))
    client.cmd("FUNCTION", "LOAD", "REPLACE", "#!lua name=kept\n" + registered("kept", "return redis.call('incrby', 'n', 2)"))
    client.cmd("FUNCTION", "DELETE", "gone")
    client.cmd("SET", "n", "0")


def is_there(client):
    """The library that stays exists, the other does not, and its last version is in use."""
    before = int(client.cmd("GET", "n") or 0)
    return names(client) == [b"kept"] and client.cmd("FCALL", "kept", "0") == before + 2


def starts(steps):
    """The libraries found at a start, in each mode."""
    pool = {"appendonly": "yes", "memtable-bytes": "256kb"}
    place, env = persistent_memory(pool)
    modes = {
        "the log": {"appendonly": "yes", "appendfsync": "always"},
        "the log, small segments and memtables": {"appendonly": "yes", "appendfsync": "everysec", "memtable-bytes": "256kb"},
        "memtables in persistent memory": pool,
    }
    try:
        for name, options in modes.items():
            with Server("sexton", options, env=env) as server:
                with_server(steps, name, server)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def with_server(steps, name, server):
    client = server.connect()
    put_libraries(client)
    client.cmd("FLUSHALL")
    client.cmd("SET", "n", "0")
    steps.check(f"{name}: FLUSHALL leaves functions alone, and no command on keys shows them", is_there(client) and client.cmd("DBSIZE") == 1 and client.cmd("KEYS", "*") == [b"n"])
    if "appendfsync" in server.options:
        client.cmd("WAITAOF", "1", "0", "5000")
    server.kill()
    server.start()
    client = server.connect()
    steps.check(f"{name}: they are there behind kill -9", is_there(client), repr(names(client)))
    # So much that the memtable with their records goes, and the log before it.
    value = "x" * 10_000
    for at in range(3000):
        client.cmd("SET", f"fill{at % 500}", value)
    client.cmd("FUNCTION", "LOAD", "#!lua name=late\n" + registered("late", "return 7"))
    server.terminate()
    server.start()
    client = server.connect()
    steps.check(f"{name}: they are there behind a stop and flushes", names(client) == [b"kept", b"late"] and client.cmd("FCALL", "late", "0") == 7)
    client.cmd("FUNCTION", "FLUSH")
    server.terminate()
    server.start()
    client = server.connect()
    steps.check(f"{name}: none is there behind FUNCTION FLUSH", names(client) == [])


def dumps(steps):
    with Server("sexton", {"appendonly": "no", "save": "3600 1", "enable-debug-command": "yes"}) as server:
        client = server.connect()
        put_libraries(client)
        steps.check("DEBUG RELOAD keeps them", client.cmd("DEBUG", "RELOAD") == b"OK" and is_there(client))
        client.cmd("SAVE")
        client.cmd("FUNCTION", "LOAD", "#!lua name=unsaved\n" + registered("unsaved", "return 1"))
        server.kill()
        server.start()
        steps.check("without a log a start has those of the dump", is_there(server.connect()))
        exchange(steps, server)


def exchange(steps, server):
    """Dumps and logs of each are read by the other."""
    server.connect().cmd("SAVE")
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(server.directory / "dump.rdb", directory)
        with Server("redis", directory=directory) as redis:
            steps.check("redis-server reads them from the dump", is_there(redis.connect()))
    for name, options in {"dump": {"save": "3600 1"}, "log": {"appendonly": "yes"}, "log without a base of RDB": {"appendonly": "yes", "aof-use-rdb-preamble": "no"}}.items():
        with tempfile.TemporaryDirectory() as directory:
            with Server("redis", options, directory=directory) as redis:
                put_libraries(redis.connect())
                if "log" in name:
                    redis.connect().cmd("BGREWRITEAOF")
                    while redis.info()["aof_rewrite_in_progress"] != "0" or redis.info().get("aof_rewrite_scheduled", "0") != "0":
                        time.sleep(0.01)
                    redis.connect().cmd("FUNCTION", "LOAD", "#!lua name=late\n" + registered("late", "return 7"))
                    redis.connect().cmd("FUNCTION", "DELETE", "late")
                redis.terminate()
            with Server("sexton", {"appendonly": "yes"}, directory=directory) as ours:
                steps.check(f"a redis-server's {name} is imported with them", is_there(ours.connect()), ours.log_tail(3))
                ours.kill()
                ours.start()
                steps.check(f"and they stay ({name})", names(ours.connect()) == [b"kept"])
    with Server("sexton", {"appendonly": "yes"}) as ours, tempfile.TemporaryDirectory() as directory:
        client = ours.connect()
        put_libraries(client)
        client.cmd("BGREWRITEAOF")
        while ours.info()["aof_rewrite_in_progress"] != "0":
            time.sleep(0.01)
        ours.terminate()
        shutil.copytree(Path(ours.directory) / "appendonlydir", Path(directory) / "appendonlydir")
        with Server("redis", {"appendonly": "yes"}, directory=directory) as redis:
            steps.check("redis-server reads them from the base of the log", is_there(redis.connect()))


def crashes(steps, rounds, policy):
    """Two libraries replace each other in transactions: a start finds exactly one of them, complete, and the matching counter."""
    with Server("sexton", {"appendonly": "yes", "appendfsync": policy, "memtable-bytes": "256kb"}) as server:
        wrong = []
        server.connect().cmd("FUNCTION", "LOAD", "#!lua name=even\n" + registered("which", "return 0"))
        if policy == "everysec":
            server.connect().cmd("WAITAOF", "1", "0", "5000")
        for nth in range(rounds):
            stop = threading.Event()

            def change():
                try:
                    client = server.connect()
                    turn = 0 if names(client) == [b"odd"] else 1
                    while not stop.is_set():
                        old, new = ("even", "odd") if turn % 2 else ("odd", "even")
                        client.cmd("MULTI")
                        client.cmd("FUNCTION", "DELETE", old)
                        client.cmd("FUNCTION", "LOAD", f"#!lua name={new}\n-- {'x' * 2000}\n" + registered("which", f"return {turn % 2}"))
                        client.cmd("SET", "turn", str(turn % 2))
                        client.cmd("EXEC")
                        turn += 1
                except OSError:
                    # The server was killed.
                    pass

            thread = threading.Thread(target=change)
            thread.start()
            time.sleep(random.Random(nth).uniform(0.02, 0.2))
            server.kill()
            stop.set()
            thread.join()
            server.start()
            client = server.connect()
            turn = int(client.cmd("GET", "turn") or 0)
            if names(client) != [[b"even", b"odd"][turn]] or client.cmd("FCALL", "which", "0") != turn:
                wrong.append((nth, turn, names(client)))
        steps.check(f"{rounds} times kill -9 under {policy}: one library or the other, with its counter", not wrong, repr(wrong[:5]))


def endless(steps):
    with Server("sexton", {"busy-reply-threshold": "300"}) as server:
        client = server.connect()
        client.cmd("FUNCTION", "LOAD", "#!lua name=loops\n" + registered("loop", "if args[1] then redis.call('set', keys[1], 'x') end while true do end"))

        def call(*request):
            answers = []

            def run():
                try:
                    answers.append(server.connect().node(*request).raw)
                except OSError:
                    answers.append(b"closed")

            thread = threading.Thread(target=run)
            thread.start()
            return thread, answers

        def until(what):
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                if what():
                    return True
                time.sleep(0.02)
            return False

        thread, answers = call("FCALL", "loop", "1", "held")
        running = lambda: b"$4\r\nloop\r\n" in client.node("FUNCTION", "STATS").raw
        steps.check("FUNCTION STATS names the function that runs", until(running))
        stats = client.node("FUNCTION", "STATS").raw
        steps.check("with its request and its time", re.search(rb"\*4\r\n\$5\r\nFCALL\r\n\$4\r\nloop\r\n\$1\r\n1\r\n\$4\r\nheld\r\n\$11\r\nduration_ms\r\n:\d+", stats) is not None, repr(stats))
        busy = lambda: server.connect().node("GET", "held").raw
        steps.check("its key answers BUSY, and names FUNCTION KILL", until(lambda: busy().startswith(b"-BUSY Redis is busy running a script. You can only call FUNCTION KILL")), repr(busy()))
        times = []
        for _at in range(2000):
            begun = time.monotonic()
            client.cmd("PING")
            times.append(time.monotonic() - begun)
        steps.check("PING is answered meanwhile", sorted(times)[-4] < 0.1, f"{sorted(times)[-4] * 1000:.1f} ms")
        killed = client.node("SCRIPT", "KILL").raw
        steps.check("SCRIPT KILL does not end it", killed.startswith(b"-BUSY") and b"FUNCTION KILL" in killed, repr(killed))
        steps.check("FUNCTION KILL does", client.node("FUNCTION", "KILL").raw == b"+OK\r\n")
        thread.join(10)
        steps.check("its client hears so", bool(answers) and answers[0].startswith(b"-ERR Script killed by user with SCRIPT KILL... script: loop, on @user_function:2."), repr(answers))
        thread, answers = call("EVAL", "while true do end", "1", "held")
        steps.check("a script that runs is no function", until(lambda: client.node("FUNCTION", "KILL").raw.startswith(b"-BUSY")))
        steps.check("SCRIPT KILL ends it", client.node("SCRIPT", "KILL").raw == b"+OK\r\n")
        thread.join(10)
        thread, answers = call("FCALL", "loop", "1", "held", "write")
        steps.check("one that has written is not killed", until(lambda: client.node("FUNCTION", "KILL").raw.startswith(b"-UNKILLABLE")))
        client.send_raw(encode([b"SHUTDOWN", b"NOSAVE"]))
        steps.check("SHUTDOWN NOSAVE ends the server", until(lambda: not server.alive()))
        thread.join(5)


def threads_agree(steps):
    """Each thread has its own interpreter: none calls a replaced function."""
    with Server("sexton") as server:
        clients = [server.connect() for _ in range(16)]
        wrong = []
        for version in range(200):
            clients[0].cmd("FUNCTION", "LOAD", "REPLACE", "#!lua name=lib\n" + registered("version", f"return {version}"))
            for client in clients:
                answer = client.cmd("FCALL", "version", "0")
                if answer != version:
                    wrong.append((version, answer))
        steps.check("every thread runs the library of now", not wrong, repr(wrong[:3]))
        clients[1].cmd("FUNCTION", "DELETE", "lib")
        found = 0
        for client in clients:
            try:
                client.cmd("FCALL", "version", "0")
                found += 1
            except ReplyError:
                pass
        steps.check("none runs what was deleted", found == 0, str(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer requests and crashes")
    parser.add_argument("--requests", type=int, help="number of generated requests")
    parser.add_argument("--rounds", type=int, help="number of crashes for each policy")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    steps = Steps("functions")
    differential(steps, options.requests or (2000 if options.quick else 20_000), options.seed)
    threads_agree(steps)
    endless(steps)
    starts(steps)
    dumps(steps)
    for policy in ("always", "everysec"):
        crashes(steps, options.rounds or (5 if options.quick else 100), policy)
    steps.finish()


if __name__ == "__main__":
    main()
