"""python3 -m scripts [--quick] [--seed N]: scripts, compared with redis-server, and their behaviour under failures.

Generated scripts run on both servers, in RESP2 and RESP3: conversions of values and replies, errors, the libraries
cjson, cmsgpack, struct and bit on random values, commands on strings. Replies and keys must be equal, byte by byte.
Then: a script that never ends delays only clients that need its keys; kill -9 during scripts leaves
each of them complete or without effect; undeclared and cold keys; memory limits.
"""

import argparse
import random
import threading
import time
from pathlib import Path

from harness.resp import encode
from harness.server import Server
from harness.steps import Steps

KEYS = ["k%d" % i for i in range(8)]

#: Parts of Lua expressions: values of every kind.
SCALARS = ["nil", "true", "false", "0", "-1", "3.99", "-7.5", "1e15", "1e16", "2^53", "0.1", "1/3", "123456789012", "''", "'a'",
           "'a\\0b'", "'\\r\\n'", "'x/\\\"\\\\y'", "'\\195\\169'", "cjson.null"]
TABLES = ["{}", "{1,2,3}", "{1,nil,3}", "{ok='fine'}", "{err='MY error'}", "{err='-DASH error'}", "{double=1.5}", "{double=1e300}",
          "{map={a=1}}", "{map={[1]='x'}}", "{set={a=true}}", "{big_number='123456789012345678901234567890'}",
          "{verbatim_string={format='txt',string='hi'}}", "{ok=1}", "{{1},{2,{3}}}", "{'a',{ok='b'},{err='C d'}}", "{a=1}"]
ERRORS = ["error('e')", "error({err='X y'})", "error()", "redis.call('nope')", "redis.call('get')", "redis.call()", "redis.call({})",
          "redis.call('strlen')", "redis.call('multi')", "redis.call('XREAD','block','x','streams','k0','$')",
          "return redis.pcall('xreadgroup','group','g','c','block',0,'streams','k0','>')", "redis.call('set','k0','v','px','zz')", "redis.call('incr','text')",
          "x = 1", "return y", "redis.x = 1", "string.x = 1", "rawset(_G,'a',1)", "setmetatable(_G,{})", "table.insert(redis,1)",
          "return nil + 1", "return {} .. 'x'", "local t = nil; return t.x", "return #5", "return 1 < 'x'", "return redis.foo()",
          "cjson.decode('{')", "cjson.decode('')", "cjson.decode('[1,]')", "cjson.decode('nul')", "cjson.encode(function() end)",
          "cjson.encode({[1.5]=1, [true]=2})", "cmsgpack.unpack('\\255\\193')", "cmsgpack.unpack('\\146\\1')", "cmsgpack.pack()",
          "struct.pack('z', 1)", "struct.unpack('>I4', 'ab')", "struct.size('s')", "bit.band()", "bit.band('x')", "redis.sha1hex()",
          "redis.setresp(4)", "redis.log()", "redis.error_reply()", "x ==", "return loadstring('\\27Lua')()", "local function f() return f(), 1 end f()",
          "return tostring()", "pairs()", "return ipairs()", "string.rep()", "('x'):rep({})", "math.random(0)", "math.floor('x')",
          "return coroutine.yield()", "assert(false)", "assert(false, 'm')", "assert(nil, {err='A b'})", "return select(0)", "return unpack()",
          "cjson.encode(0/0)", "cjson.encode(1/0)", "cjson.encode()", "cjson.decode()", "cjson.encode_max_depth(0)", "struct.pack('!3', 1)"]
BITS = ["band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror"]


class Maker:
    """Makes random scripts."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def number(self):
        chance = self.chance
        return chance.choice([
            str(chance.randint(-300, 300)), str(chance.randint(-2**40, 2**40)), repr(chance.uniform(-1e6, 1e6)),
            repr(chance.uniform(-1, 1) * 10 ** chance.randint(-20, 20)), str(chance.choice([0, 127, 128, 255, 256, 65535, 65536, 2**31, 2**32 - 1, 2**32, -32, -33, -128, -129, -32768, -32769, -2**31, -2**31 - 1]))])

    def text(self):
        chance = self.chance
        size = chance.choice([0, 1, 3, 31, 32, 33, 255, 256, 300])
        if chance.random() < 0.7:
            size = chance.randint(0, 6)
        return "'" + "".join("\\%03d" % chance.randint(0, 255) for _ in range(size)) + "'"

    def value(self, depth=0):
        chance = self.chance
        kind = chance.random()
        if depth < 3 and kind < 0.25:
            return "{" + ",".join(self.value(depth + 1) for _ in range(chance.randint(0, 5))) + "}"
        if depth < 3 and kind < 0.35:
            # One field: the order of several depends on the addresses of nothing, but is a matter of Lua's own.
            return "{[%s]=%s}" % (chance.choice([self.text(), "'f'", "5", "-1", "1.5"]), self.value(depth + 1))
        return chance.choice([self.number, self.number, self.text, lambda: chance.choice(["true", "false"])])()

    def command(self):
        chance = self.chance
        key = chance.choice(KEYS)
        value = chance.choice([self.text(), self.number(), "'10'"])
        return chance.choice([
            f"'get','{key}'", f"'set','{key}',{value}", f"'set','{key}',{value},'nx'", f"'incr','{key}'", f"'incrby','{key}',{chance.randint(-9, 9)}",
            f"'incrbyfloat','{key}',1.5", f"'append','{key}',{value}", f"'strlen','{key}'", f"'exists','{key}','{chance.choice(KEYS)}'", f"'del','{key}'",
            f"'mget','{key}','{chance.choice(KEYS)}'", f"'getrange','{key}',0,2", f"'setrange','{key}',1,'z'", f"'getset','{key}',{value}",
            f"'type','{key}'", f"'persist','{key}'", f"'pexpire','{key}',100000", f"'mset','{key}',{value}", f"'rename','{key}','{chance.choice(KEYS)}'",
            "'ping'", "'echo','x'", "'nope'", f"'get','{key}','x'", f"'getdel','{key}'", "'select','0'", f"'object','refcount','{key}x'",
            "'publish','c','m'", "'dbsize'", f"'touch','{key}'", f"'setex','{key}',1000,{value}", f"'psetex','{key}',0,{value}"])

    def script(self):
        """Arguments of EVAL behind its name."""
        chance = self.chance
        kind = chance.randrange(12)
        if kind == 0:
            body = "return " + chance.choice(SCALARS + TABLES)
        elif kind == 1:
            body = chance.choice(ERRORS)
        elif kind == 2:
            body = "return cjson.encode(%s)" % self.value()
        elif kind == 3:
            body = "return cmsgpack.pack(%s)" % ", ".join(self.value() for _ in range(chance.randint(1, 3)))
        elif kind == 4:
            body = "return cjson.encode({cmsgpack.unpack(cmsgpack.pack(%s))})" % self.value()
        elif kind == 5:
            body = "return {bit.tohex(bit.%s(%s, %s)), bit.bnot(%s), bit.bswap(%s)}" % (
                chance.choice(BITS), self.number(), chance.randint(0, 40), self.number(), self.number())
        elif kind == 6:
            order = chance.choice(["<", ">", "=", "!4", ""])
            letters = [chance.choice("bBhHlLifdI") for _ in range(chance.randint(1, 4))]
            numbers = ",".join(str(chance.randint(0, 100)) for _ in letters)
            body = "local p = struct.pack('%s%s', %s) return {p, struct.size('%s%s'), cjson.encode({struct.unpack('%s%s', p)})}" % (
                order, "".join(letters), numbers, order, "".join(letters), order, "".join(letters))
        elif kind == 7:
            body = "local ok, v = pcall(cjson.decode, %s) return {tostring(ok), tostring(v):gsub('0x%%x+', '')}" % self.json()
        elif kind == 8:
            body = "local r = {} " + " ".join(f"r[#r+1] = redis.pcall({self.command()})" for _ in range(chance.randint(1, 5))) + " return r"
        elif kind == 9:
            body = " ".join(f"redis.call({self.command()})" for _ in range(chance.randint(1, 3))) + f" return redis.call({self.command()})"
        elif kind == 10:
            body = "redis.setresp(%d) return %s" % (chance.choice([2, 3]), chance.choice(SCALARS + TABLES + [f"redis.pcall({self.command()})"]))
        else:
            body = "return {tostring(%s), %s, select(2, pcall(function() %s end))}" % (self.number(), self.value(), chance.choice(ERRORS[:30]).replace("x ==", "error('z')"))
        if chance.random() < 0.1:
            body = "#!lua flags=%s\n%s" % (chance.choice(["no-writes", "allow-oom", "", "no-writes,allow-stale", "zz"]), body)
        keys = chance.sample(KEYS, chance.randint(0, 3))
        name = "EVAL_RO" if chance.random() < 0.1 else "EVAL"
        return [name, body, str(len(keys)), *keys]

    def json(self):
        chance = self.chance
        text = chance.choice(['[1,2,{"a":"b"}]', '{"a":[true,false,null]}', '"\\\\u00e9\\\\ud83d\\\\ude00"', '-1.5e3', '0x10', 'nan', '[[[]]]', '{"a":1,}', ' [1 , 2 ] ', '"a\\\\qb"', '1e', '--1', '[1 2]', '{1:2}', '"abc', 'tru', '[1]]'])
        if chance.random() < 0.5 and len(text) > 1:
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice('[]{},:"0x') + text[at + 1:]
            text = text.replace("\\", "")
        return "'" + text.replace("'", "") + "'"


def differential(steps, count, seed):
    with Server("sexton") as ours, Server("redis", {"save": ""}) as redis:
        for resp in (2, 3):
            pair = [server.connect() for server in (ours, redis)]
            for connection in pair:
                connection.cmd("HELLO", str(resp))
                connection.cmd("FLUSHALL")
                connection.cmd("SET", "text", "words")
            maker, wrong, first = Maker(seed + resp), 0, ""
            for _ in range(count // 2):
                request = maker.script()
                replies = [connection.node(*request).raw for connection in pair]
                if replies[0] != replies[1]:
                    wrong += 1
                    first = first or f"{request!r}: {replies[0][:300]!r}, redis {replies[1][:300]!r}"
            states = [[connection.node("GET", key).raw for key in KEYS] for connection in pair]
            steps.check(f"{count // 2} scripts under RESP{resp} answer as redis-server", wrong == 0, f"{wrong} differ, the first: {first}" if wrong else "")
            equal = states[0] == states[1]
            steps.check(f"the keys are equal behind them under RESP{resp}", equal, "" if equal else repr(states)[:300])


#: Requests beside a script without end are answered within this, but one in a thousand, in ms: on a machine that does nothing else.
BESIDE_MAX_MS = 5


def endless(steps, seconds, most_ms):
    with Server("sexton", {"busy-reply-threshold": "300"}) as server:
        def loop(body):
            answers = []

            def run():
                try:
                    answers.append(server.connect(timeout_s=2 * seconds + 60).node("EVAL", body, "1", "held").raw)
                except OSError:
                    answers.append(b"closed")

            thread = threading.Thread(target=run)
            thread.start()
            return thread, answers
        client = server.connect()

        def worst_ms(names, limit_s):
            times, at, until = [], 0, time.monotonic() + limit_s
            while at < 4000 or time.monotonic() < until:
                at += 1
                begun = time.monotonic()
                client.cmd("GET", names[at % len(names)]) if at % 2 else client.cmd("PING")
                times.append(time.monotonic() - begun)
            return sorted(times)[-(len(times) // 1000)] * 1000

        # Other processes of the machine hold up requests, too.
        alone_ms = worst_ms(["other"], seconds / 4)
        thread, answers = loop("while true do pcall(function() while true do end end) end")
        time.sleep(0.5)
        # Some keys share the latch of the script's key.
        others = [f"other{at}" for at in range(50) if not client.node("SET", f"other{at}", "x").is_error()]
        worst = worst_ms(others, seconds)
        steps.check(f"most other keys are served beside a script without end, within {most_ms} ms", len(others) > 40 and worst < max(most_ms, 2 * alone_ms),
                    f"{len(others)} of 50, p99.9 {worst:.1f} ms, {alone_ms:.1f} ms without it")
        held = server.connect().node("GET", "held").raw
        steps.check("its key answers BUSY", held.startswith(b"-BUSY"), repr(held))
        steps.check("SCRIPT KILL ends it", client.node("SCRIPT", "KILL").raw == b"+OK\r\n")
        thread.join(10)
        steps.check("its client hears so", bool(answers) and answers[0].startswith(b"-ERR Script killed by user with SCRIPT KILL... script: "), repr(answers))
        steps.check("the key is free", client.node("GET", "held").raw == b"$-1\r\n" or client.node("GET", "held").raw == b"_\r\n")
        steps.check("none runs then", client.node("SCRIPT", "KILL").raw.startswith(b"-NOTBUSY"))
        thread, answers = loop("redis.call('set', KEYS[1], 'x') while true do end")
        time.sleep(0.5)
        steps.check("one that has written is not killed", client.node("SCRIPT", "KILL").raw.startswith(b"-UNKILLABLE"))
        client.send_raw(encode([b"SHUTDOWN", b"NOSAVE"]))
        deadline = time.monotonic() + 20
        while server.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        steps.check("SHUTDOWN NOSAVE ends the server", not server.alive())
        thread.join(5)
        server.start()
        steps.check("and nothing of it is left", server.connect().cmd("GET", "held") is None)


def peak_bytes(pid):
    """Peak memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


#: Takes a millisecond or so: less than a worker gives a script.
BUSY = "local x = 0 for i = 1, 100000 do x = x + i % 7 end return redis.call('incrby', KEYS[1], x)"


def side_by_side(steps):
    """Two workers run scripts on different keys at once: together they do more than one alone."""
    rates, shares = {"1": 0, "2": 0}, 0
    # The best of several turns: other processes take time from some.
    for workers in ("1", "2") * 4:
        with Server("sexton", {"worker-threads": workers}) as server:
            counts = [0] * 4
            until = time.monotonic() + 2

            def run(number):
                client = server.connect()
                while time.monotonic() < until:
                    client.cmd("EVAL", BUSY, "1", f"key{number}")
                    counts[number] += 1

            before = worker_cpu_ns(server.pid)
            threads = [threading.Thread(target=run, args=(number,)) for number in range(len(counts))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rates[workers] = max(rates[workers], sum(counts) / 2)
            took = [after - then for then, after in zip(before, worker_cpu_ns(server.pid))]
            if workers == "2":
                shares = max(shares, min(took) / sum(took))
    # Where other processes have the cores, two workers get no more of them than one.
    steps.check("two workers run scripts on different keys at the same time", rates["2"] > 1.3 * rates["1"] or shares > 0.25,
                f"{rates['1']:.0f}/s with one worker, {rates['2']:.0f}/s with two, of which the other one took {shares:.0%} of the time")


def worker_cpu_ns(pid):
    """CPU time of each worker thread."""
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
    workers = [task for task in tasks if (task / "comm").read_text().startswith("worker-")]
    return [int((task / "schedstat").read_text().split()[0]) for task in workers]


def memory(steps):
    with Server("sexton", {"maxmemory": "200mb"}) as server:
        client = server.connect()
        node = client.node("EVAL", "local s = 'x' while true do s = s .. s end", "0")
        steps.check("a text without end ends in an error", node.is_error() and b"not enough memory" in node.raw, repr(node.raw[:200]))
        for body in ("return #string.rep('x', 2^30)", "local t = {} for i = 1, 1024 do t[i] = string.rep('x', 2^20) .. i end return #table.concat(t)"):
            node = client.node("EVAL", body, "0")
            steps.check("one of 1 GB, too", node.is_error() and b"not enough memory" in node.raw, repr(node.raw[:200]))
        peak = peak_bytes(server.pid)
        steps.check("within the bound of memory", peak < 200 << 20, f"{peak >> 20} MB")
        steps.check("and the server goes on", client.cmd("EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "k") == b"OK" or client.cmd("GET", "k") == b"v")


TRANSFER = """
local from, to, amount = 'acct' .. ARGV[1], 'acct' .. ARGV[2], tonumber(ARGV[3])
redis.call('decrby', from, amount)
for i = 1, 200 do local x = i * i end
redis.call('incrby', to, amount)
return 1
"""


def crashes(steps, rounds, policy):
    accounts, total = 20, 20 * 1000
    with Server("sexton", {"appendonly": "yes", "appendfsync": policy}) as server:
        client = server.connect()
        for at in range(accounts):
            client.cmd("SET", f"acct{at}", "1000")
        if policy == "everysec":
            client.cmd("WAITAOF", "1", "0", "5000")
        wrong = []
        for nth in range(rounds):
            stop, done = threading.Event(), [0]

            def move(seed):
                chance = random.Random(seed)
                try:
                    mine = server.connect()
                    while not stop.is_set():
                        a, b = chance.sample(range(accounts), 2)
                        declared = ["2", f"acct{a}", f"acct{b}"] if chance.random() < 0.5 else ["0"]
                        mine.cmd("EVAL", TRANSFER, *declared, str(a), str(b), str(chance.randint(1, 50)))
                        done[0] += 1
                except OSError:
                    # The server was killed.
                    pass

            threads = [threading.Thread(target=move, args=(nth * 10 + i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(random.Random(nth).uniform(0.05, 0.25))
            server.kill()
            stop.set()
            for thread in threads:
                thread.join()
            server.start()
            client = server.connect()
            found = sum(int(client.cmd("GET", f"acct{at}")) for at in range(accounts))
            if found != total:
                wrong.append((nth, found))
        steps.check(f"{rounds} times kill -9 under {policy}: the sum stays", not wrong, repr(wrong[:5]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer scripts and crashes")
    parser.add_argument("--scripts", type=int, help="number of generated scripts")
    parser.add_argument("--rounds", type=int, help="number of crashes for each policy")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    steps = Steps("scripts")
    differential(steps, options.scripts or (3000 if options.quick else 20_000), options.seed)
    endless(steps, *((0, 100) if options.quick else (60, BESIDE_MAX_MS)))
    memory(steps)
    if not options.quick:
        side_by_side(steps)
    for policy in ("always", "everysec"):
        crashes(steps, options.rounds or (5 if options.quick else 100), policy)
    steps.finish()


if __name__ == "__main__":
    main()
