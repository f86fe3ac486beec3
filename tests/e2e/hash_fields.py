"""python3 -m hash_fields: hash fields that expire, compared with valkey-server 9.1.

Random commands over common hashes are sent to both servers, plain, in MULTI and in scripts, under RESP2 and RESP3; replies,
key-space events and the final data must be equal. Then fields expire by time, in memory and on a device, across
restarts, kill -9 and BGREWRITEAOF; dumps, payloads and logs are exchanged between the servers.
"""

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from crash_loop import persistent_memory
from harness.resp import Connection
from harness.server import Server
from harness.steps import Steps

DEBUG = {"enable-debug-command": "yes"}
CHECKPOINTS = {"enable-protected-configs": "yes"}
EVENTS = {"notify-keyspace-events": "KEA"}
NOW_S = int(time.time())
FAR_S = NOW_S + 100_000_000
KEYS = [b"h1", b"h2", b"h3", b"fields", b"string"]
FIELDS = [b"f%d" % number for number in range(6)] + [b"FIELDS", b"ex", b"", b"x" * 70]
# Relative times are counted from clocks that are read one after the other.
LATE_MS = 5_000


class Grammar:
    """Commands whose outcome does not depend on a clock: times are far in the future or long past."""

    def __init__(self, rng):
        self.rng = rng

    def fields(self, each=1):
        rng = self.rng
        names = [rng.choice(FIELDS) for _ in range(rng.choice([1, 1, 2, 3, 12]))]
        words = [word for name in names for word in ([name] if each == 1 else [name, self.value()])]
        count = len(names) if rng.random() < 0.95 else rng.choice([0, -1, len(names) + 1, b"x", b"9223372036854775807"])
        label = rng.choice([b"FIELDS", b"fields"]) if rng.random() < 0.98 else b"FOO"
        return [label, b"%d" % count if isinstance(count, int) else count, *words]

    def value(self):
        return self.rng.choice([b"1", b"-7", b"12.5", b"text", b"", b"y" * 70])

    def time_for(self, unit):
        rng = self.rng
        relative = {"s": FAR_S - NOW_S, "ms": 1000 * (FAR_S - NOW_S), "at": FAR_S, "msat": 1000 * FAR_S}[unit]
        past = {"s": 0, "ms": 0, "at": 1, "msat": 1}[unit]
        odd = [b"x", b"-1", b"9223372036854775807", b"9223372036854775", b"", b"1.5"]
        draw = rng.random()
        if draw < 0.05:
            word = rng.choice(odd)
            # What is far enough to be refused by one clock alone is drawn by nobody.
            return word
        return b"%d" % (past if draw < 0.15 else relative + 1000 * rng.randrange(5))

    def expiry(self, more):
        rng = self.rng
        options = [[b"EX", self.time_for("s")], [b"px", self.time_for("ms")], [b"EXAT", self.time_for("at")],
                   [b"PXAT", self.time_for("msat")], more]
        chosen = rng.choice(options)
        if rng.random() < 0.03:
            chosen = chosen + rng.choice(options)
        return chosen

    def some(self, share, *choices):
        return list(self.rng.choice(choices)) if self.rng.random() < share else []

    def command(self):
        rng, key = self.rng, self.rng.choice(KEYS[:3] + KEYS)
        field = rng.choice(FIELDS)
        condition = self.some(0.3, [b"NX"], [b"XX"], [b"gt"], [b"LT"], [b"NX", b"XX"], [b"GT", b"LT"], [b"XX", b"LT"], [b"foo"])
        plain = {
            "hset": [b"HSET", key, field, self.value(), rng.choice(FIELDS), self.value()],
            "hdel": [b"HDEL", key, field],
            "hget": [b"HGET", key, field],
            "hmget": [b"HMGET", key, field, rng.choice(FIELDS)],
            "hlen": [b"HLEN", key],
            "hgetall": [b"HGETALL", key],
            "hkeys": [b"HKEYS", key],
            "hvals": [b"HVALS", key],
            "hexists": [b"HEXISTS", key, field],
            "hstrlen": [b"HSTRLEN", key, field],
            "hincrby": [b"HINCRBY", key, field, b"3"],
            "hincrbyfloat": [b"HINCRBYFLOAT", key, field, b"0.5"],
            "hsetnx": [b"HSETNX", key, field, self.value()],
            "hrandfield": [b"HRANDFIELD", key, b"100", b"WITHVALUES"],
            "hscan": [b"HSCAN", key, b"0", b"COUNT", b"1000"],
            "copy": [b"COPY", key, rng.choice(KEYS[:3]), b"REPLACE"],
            "rename": [b"RENAME", key, rng.choice(KEYS[:3])],
            "del": [b"DEL", key],
            "set": [b"SET", b"string", b"word"],
            "expire": [b"PEXPIREAT", key, b"%d" % (1000 * FAR_S)],
            "persist": [b"PERSIST", key],
            "encoding": [b"OBJECT", b"ENCODING", key],
            "type": [b"TYPE", key],
            "digest": [b"DEBUG", b"DIGEST-VALUE", key],
            "exists": [b"EXISTS", key],
        }
        # Valkey looks for the word from the beginning on, and takes the key for it.
        other = KEYS[0] if key == b"fields" else key
        timed = {
            "hexpire": [b"HEXPIRE", key, self.time_for("s"), *condition, *self.fields()],
            "hpexpire": [b"HPEXPIRE", key, self.time_for("ms"), *condition, *self.fields()],
            "hexpireat": [b"HEXPIREAT", key, self.time_for("at"), *condition, *self.fields()],
            "hpexpireat": [b"HPEXPIREAT", key, self.time_for("msat"), *condition, *self.fields()],
            "httl": [b"HTTL", key, *self.fields()],
            "hpttl": [b"HPTTL", key, *self.fields()],
            "hexpiretime": [b"HEXPIRETIME", key, *self.fields()],
            "hpexpiretime": [b"HPEXPIRETIME", key, *self.fields()],
            "hpersist": [b"HPERSIST", key, *self.fields()],
            "hgetdel": [b"HGETDEL", key, *self.fields()],
            "hgetex": [b"HGETEX", other, *(self.expiry([b"PERSIST"]) if rng.random() < 0.8 else []), *self.fields()],
            "hsetex": [b"HSETEX", other, *self.some(0.2, [b"NX"], [b"xx"], [b"NX", b"XX"]),
                       *self.some(0.2, [b"FNX"], [b"fxx"], [b"FNX", b"FXX"]),
                       *(self.expiry([b"KEEPTTL"]) if rng.random() < 0.7 else []), *self.fields(2)],
        }
        family = plain if rng.random() < 0.45 else timed
        words = rng.choice(list(family.values()))
        if rng.random() < 0.01:
            words = words[: rng.randrange(1, len(words) + 1)]
        return words


UNORDERED = {b"HGETALL", b"HKEYS", b"HVALS", b"HRANDFIELD", b"HSCAN"}
CLOCKED = {b"HTTL", b"HPTTL", b"HEXPIRETIME", b"HPEXPIRETIME"}


def pairs_of(node, words):
    """Sorted replies of HGETALL and similar commands."""
    if node.items is None:
        return (node.kind, node.raw)
    if words[0] == b"HSCAN":
        return (node.items[0].raw, pairs_of(node.items[1], [b"HGETALL"]) if len(node.items) == 2 else None)
    flat = [item.raw for item in node.items]
    if words[0] in (b"HKEYS", b"HVALS") or node.items and node.items[0].items is not None:
        return (node.kind, sorted(flat))
    return (node.kind, sorted(zip(flat[::2], flat[1::2])))


def alike(words, ours, theirs):
    if words[0] == b"HRANDFIELD" and len(words) == 2:
        return ours.kind == theirs.kind
    if words[0] in UNORDERED:
        return pairs_of(ours, words) == pairs_of(theirs, words)
    if words[0] in CLOCKED and ours.items is not None and theirs.items is not None:
        late = LATE_MS if words[0].startswith(b"HP") else LATE_MS // 1000
        return len(ours.items) == len(theirs.items) and all(
            a.raw == b.raw or isinstance(a.value, int) and isinstance(b.value, int) and min(a.value, b.value) > 1000
            and abs(a.value - b.value) <= late
            for a, b in zip(ours.items, theirs.items)
        )
    return ours.raw == theirs.raw


def script_of(words):
    return [b"EVAL", b"return redis.call(unpack(ARGV))", b"0", *words]


def state(connection):
    """All hashes: fields with values and times."""
    found = {}
    for key in sorted(connection.cmd("KEYS", "*")):
        if connection.cmd("TYPE", key) != b"hash":
            continue
        flat = connection.cmd("HGETALL", key)
        names = flat[::2]
        times = connection.cmd("HPEXPIRETIME", key, "FIELDS", len(names), *names) if names else []
        found[key] = (sorted(zip(names, flat[1::2], times)), connection.cmd("PEXPIRETIME", key))
    return found


def same_state(ours, theirs):
    """Times may differ by the interval between two clock readings."""
    if ours.keys() != theirs.keys():
        return False
    for key, (fields, expiry) in ours.items():
        others, other_expiry = theirs[key]
        if expiry != other_expiry or [f[:2] for f in fields] != [f[:2] for f in others]:
            return False
        if any((a[2] < 0) != (b[2] < 0) or abs(a[2] - b[2]) > LATE_MS for a, b in zip(fields, others)):
            return False
    return True


class Listener:
    def __init__(self, port):
        self.connection = Connection(port)
        self.connection.cmd("PSUBSCRIBE", "__keyevent@*")

    def until(self, mark):
        """The events up to an event of this key."""
        told = []
        while True:
            message = self.connection.read_node().python()
            name, key = message[2].split(b":", 1)[1], message[3]
            if key == mark:
                return told
            told.append((name, key))


def commands(steps, count, seed, inline_max):
    rng = random.Random(seed)
    grammar = Grammar(rng)
    options = dict(DEBUG, **EVENTS)
    own = {"appendonly": "yes", "collection-inline-max": inline_max}
    with Server("sexton", dict(options, **own)) as ours, Server("valkey", options) as theirs:
        pair = [ours.connect(), theirs.connect()]
        pair[1].cmd("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        listeners = [Listener(ours.port), Listener(theirs.port)]
        wrong = []

        def both(*words):
            return [connection.node(*words) for connection in pair]

        for step in range(count):
            words = grammar.command()
            draw = rng.random()
            if draw < 0.1 and words[0] != b"DEBUG":
                sent = script_of(words)
                answers = both(*sent)
                # A script answers in its own types: errors and values are compared, not their order.
                fine = answers[0].is_error() == answers[1].is_error()
                if fine and not answers[0].is_error() and words[0] not in UNORDERED | CLOCKED:
                    fine = answers[0].raw == answers[1].raw
            elif draw < 0.2:
                queue = [words] + [grammar.command() for _ in range(rng.randrange(3))]
                both("MULTI")
                for words in queue:
                    both(*words)
                answers = both("EXEC")
                items = [answer.items or [] for answer in answers]
                refused = [b"" if answer.items is not None else answer.raw for answer in answers]
                runs = [words for words in queue]
                fine = refused[0] == refused[1] and len(items[0]) == len(items[1])
                if fine and len(items[0]) == len(runs):
                    fine = all(alike(words, a, b) for words, a, b in zip(runs, *items))
                sent = [b"MULTI", *[b" ".join(words) for words in queue]]
            else:
                sent = words
                answers = both(*words)
                fine = alike(words, *answers)
            if not fine:
                wrong.append((step, sent, answers[0].raw, answers[1].raw))
            if step % 200 == 199:
                mark = b"mark%d" % step
                both("SET", mark, "1")
                events = [listener.until(mark) for listener in listeners]
                if events[0] != events[1]:
                    at = next((i for i, (a, b) in enumerate(zip(*events)) if a != b), min(map(len, events)))
                    wrong.append((step, "events", events[0][at - 2 : at + 3], events[1][at - 2 : at + 3]))
                both("DEL", mark)
                [listener.until(mark) for listener in listeners]
                states = [state(connection) for connection in pair]
                if not same_state(*states):
                    wrong.append((step, "state", states[0], states[1]))
                if step % 1000 == 999:
                    protocol = rng.choice([b"2", b"3"])
                    both("HELLO", protocol)
            if len(wrong) > 5:
                break
        for case in wrong:
            print("     ", *case, sep="\n        ")
        steps.check(f"{count} commands: replies, events and what is left", not wrong, f"seed {seed}, pages above {inline_max} bytes")
        before = state(pair[0])
        pair[0].cmd("WAITAOF", 1, 0, 0)
        ours.kill()
        ours.start()
        after = ours.connect()
        steps.equal("what they have left is there behind kill -9", state(after), before)
        rewrite(after)
        ours.kill()
        ours.start()
        steps.equal("and behind BGREWRITEAOF", state(ours.connect()), before)


def rewrite(connection):
    connection.cmd("BGREWRITEAOF")
    wait_for("BGREWRITEAOF", lambda: b"aof_rewrite_in_progress:0" in connection.cmd("INFO", "persistence"))


def wait_for(what, holds, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {timeout_s} s")
        time.sleep(0.01)


def without_display_text(reply):
    """Redis 7.0 does not have that field."""
    if not isinstance(reply, list):
        return reply
    at = reply.index(b"display_text") if b"display_text" in reply else None
    return [without_display_text(item) for place, item in enumerate(reply) if at is None or place not in (at, at + 1)]


def metadata(steps):
    """COMMAND INFO and COMMAND DOCS of the new commands."""
    names = ["hexpire", "hpexpire", "hexpireat", "hpexpireat", "httl", "hpttl", "hexpiretime", "hpexpiretime", "hpersist",
             "hgetex", "hsetex", "hgetdel", "zrank", "zrevrank"]
    with Server("sexton", DEBUG) as ours, Server("valkey", DEBUG) as theirs:
        pair = [ours.connect(), theirs.connect()]
        for name in names:
            infos = [connection.node("COMMAND", "INFO", name) for connection in pair]
            steps.equal(f"COMMAND INFO {name}", infos[0].python(), infos[1].python())
            if not name.startswith("z"):
                docs = [without_display_text(connection.node("COMMAND", "DOCS", name).python()) for connection in pair]
                steps.equal(f"COMMAND DOCS {name}", docs[0], docs[1])


def ranks(steps):
    """ZRANK and ZREVRANK with WITHSCORE, of small sorted sets and of large ones."""
    with Server("sexton", DEBUG) as ours, Server("valkey", DEBUG) as theirs:
        pair = [ours.connect(), theirs.connect()]
        for connection in pair:
            connection.cmd("ZADD", "small", 1, "a", 2.5, "b", "inf", "c", "-inf", "d")
            connection.cmd("ZADD", "large", *(word for n in range(3000) for word in (n / 8, f"m{n}")))
            connection.cmd("SET", "string", 1)
        wrong = []
        for protocol in (2, 3):
            for connection in pair:
                connection.cmd("HELLO", protocol)
            for name in ("ZRANK", "zrevrank"):
                for key in ("small", "large", "string", "none"):
                    for member in ("a", "b", "c", "d", "m0", "m1234", "none"):
                        for more in ((), ("WITHSCORE",), ("withscore",), ("WITHSCORES",), ("WITHSCORE", "x"), ("",)):
                            raw = [connection.node(name, key, member, *more).raw for connection in pair]
                            if raw[0] != raw[1]:
                                wrong.append((protocol, name, key, member, more, *raw))
        steps.check("ZRANK and ZREVRANK with WITHSCORE", not wrong, wrong[:3])


def on_time(steps, cold):
    """Fields that no client reads are removed when they are due, and the last one removes its key."""
    options = dict(DEBUG, appendonly="yes", **{"notify-keyspace-events": "Exg"})
    if cold:
        options |= CHECKPOINTS
    where = "on a device" if cold else "in memory"
    with Server("sexton", options) as server:
        connection = server.connect()
        count, due_s = 2000, 4 if cold else 1
        due_ms = int(time.time() * 1000) + 1000 * due_s
        for number in range(0, count, 100):
            connection.pipeline([["HSET", f"h{n}", "keep", 1, "due", "x" * 100] for n in range(number, number + 100)])
            connection.pipeline([["HPEXPIREAT", f"h{n}", due_ms + n % 500, "FIELDS", 1, "due"] for n in range(number, number + 100)])
        connection.pipeline([["HSET", f"all{n}", "due", 1] for n in range(100)])
        connection.pipeline([["HPEXPIREAT", f"all{n}", due_ms, "FIELDS", 1, "due"] for n in range(100)])
        if cold:
            # What is in tables is not read at the start.
            connection.cmd("SEXTON.CHECKPOINT", server.directory / "checkpoint")
            server.terminate()
            server.start()
            connection = server.connect()
        listener = server.connect()
        listener.cmd("PSUBSCRIBE", "__keyevent@0__:hexpired", "__keyevent@0__:del")
        listener.read_node()
        seen = {}
        deleted = 0
        deadline = time.monotonic() + 30
        while (len(seen) < count + 100 or deleted < 100) and time.monotonic() < deadline:
            message = listener.read_node().python()
            if message[2].endswith(b":del"):
                deleted += 1
            else:
                seen[message[3]] = time.time() * 1000
        late = [at - due_ms - (int(key[1:]) % 500 if key[:1] == b"h" else 0) for key, at in seen.items()]
        steps.equal(f"{where}: as many fields went as were due", len(seen), count + 100)
        steps.equal(f"{where}: keys went with their last field", deleted, 100)
        bound_ms = 3000 if cold else 1000
        steps.check(f"{where}: within {bound_ms} ms, and none too early", late and -1 <= min(late) and max(late) < bound_ms,
                    f"from {min(late, default=0):.0f} to {max(late, default=0):.0f} ms")
        fields = {connection.cmd("HLEN", f"h{n}") for n in range(0, count, 37)}
        steps.equal(f"{where}: others stay", fields, {1})
        steps.equal(f"{where}: hashes are small again", connection.cmd("DBSIZE"), count)


def large(steps, cold):
    """Fields of one paged hash are removed when they are due, whether or not a client reads them, in memory or on a device."""
    options = dict(DEBUG, appendonly="yes", **(CHECKPOINTS if cold else {}))
    where = "one large hash on a device" if cold else "one large hash"
    with Server("sexton", options) as server:
        connection, count = server.connect(), 20_000
        due_ms = int(time.time() * 1000) + (5000 if cold else 2000)
        for number in range(0, count, 100):
            words = [word for n in range(number, number + 100) for word in (f"f{n}", f"value{n}")]
            connection.cmd("HSET", "h", *words)
            for n in range(number, number + 100, 10):
                names = [f"f{m}" for m in range(n, n + 10) if m % 4]
                connection.cmd("HPEXPIREAT", "h", due_ms + n % 500, "FIELDS", len(names), *names)
        if cold:
            # What is in tables is not read at the start.
            connection.cmd("SEXTON.CHECKPOINT", server.directory / "checkpoint")
            server.terminate()
            server.start()
            connection = server.connect()
        in_time = time.time() * 1000 < due_ms - 500
        steps.check(f"{where}: this machine is fast enough to see them all", in_time)
        steps.equal(f"{where}: all are there", connection.cmd("HLEN", "h"), count)
        wait_for("the time", lambda: time.time() * 1000 > due_ms + 250)
        values = connection.cmd("HMGET", "h", *(f"f{n}" for n in range(0, 240)))
        wanted = [b"value%d" % n if n % 4 == 0 else None for n in range(0, 240)]
        steps.equal(f"{where}: who asks sees none of them", values, wanted)
        stat = lambda: int(connection.cmd("INFO", "stats").split(b"expired_fields:")[1].split(b"\r\n")[0])
        due = count - count // 4
        wait_for("fields that nobody asks for", lambda: stat() >= due)
        late_ms = time.time() * 1000 - due_ms - 500
        bound_ms = 3000 if cold else 1000
        steps.check(f"{where}: gone in time", late_ms < bound_ms, f"{late_ms:.0f} ms behind the last")
        steps.equal(f"{where}: no more than were due", stat(), due)
        steps.equal(f"{where}: others stay", sorted(connection.cmd("HKEYS", "h")), sorted(b"f%d" % n for n in range(0, count, 4)))
        connection.cmd("HPEXPIREAT", "h", FAR_S * 1000, "FIELDS", 2, "f0", "f4")
        before = state(connection)
        connection.cmd("WAITAOF", 1, 0, 0)
        server.kill()
        server.start()
        steps.equal(f"{where}: and behind kill -9", state(server.connect()), before)


def while_it_was_down(steps):
    """Fields that expire between two starts are gone after the second."""
    for name in ("appendonly yes", "appendonly no", "write-behind log"):
        policy, place, env = {"appendonly": "no" if name == "appendonly no" else "yes"}, None, None
        if name == "write-behind log":
            place, env = persistent_memory(policy)
        with Server("sexton", dict(DEBUG, **policy), env=env) as server:
            connection = server.connect()
            connection.cmd("HSET", "h", "a", 1, "b", 2, "c", 3)
            connection.cmd("HPEXPIRE", "h", 300, "FIELDS", 1, "a")
            connection.cmd("HEXPIRE", "h", 1000, "FIELDS", 1, "b")
            connection.cmd("HSET", "gone", "a", 1)
            connection.cmd("HPEXPIRE", "gone", 300, "FIELDS", 1, "a")
            times = connection.cmd("HPEXPIRETIME", "h", "FIELDS", 2, "b", "c")
            if name == "appendonly no":
                connection.cmd("SAVE")
            server.terminate()
            due = time.monotonic() + 0.4
            wait_for("the time", lambda: time.monotonic() > due)
            server.start()
            connection = server.connect()
            steps.equal(f"{name}: HGETALL", connection.cmd("HGETALL", "h"), [b"b", b"2", b"c", b"3"])
            steps.equal(f"{name}: times are the same", connection.cmd("HPEXPIRETIME", "h", "FIELDS", 2, "b", "c"), times)
            wait_for("a key without fields", lambda: connection.cmd("EXISTS", "gone") == 0)
            steps.equal(f"{name}: a key without fields is gone", connection.cmd("DBSIZE"), 1)
        if place:
            shutil.rmtree(place)


def fill(connection, seed):
    rng = random.Random(seed)
    for number in range(300):
        count = rng.choice([1, 2, 5, 40])
        names = [b"field%d" % n for n in range(count)]
        words = [word for name in names for word in (name, rng.choice([b"1", b"text", b"y" * 100, rng.randbytes(20)]))]
        connection.cmd("HSET", b"h%d" % number, *words)
        if number % 3:
            due = names[: 1 + count // 2]
            connection.cmd("HPEXPIREAT", b"h%d" % number, 1000 * FAR_S + number, "FIELDS", len(due), *due)
        if number % 7 == 0:
            connection.cmd("PEXPIREAT", b"h%d" % number, 1000 * FAR_S)


def exchange(steps, folder):
    with Server("sexton", dict(DEBUG, **{"appendonly": "no", "collection-inline-max": "100"})) as ours, Server("valkey", DEBUG) as theirs:
        us, them = ours.connect(), theirs.connect()
        fill(us, 1)
        before = state(us)
        payloads = 0
        for key in us.cmd("KEYS", "*"):
            them.cmd("RESTORE", key, max(0, us.cmd("PEXPIRETIME", key)), us.cmd("DUMP", key), "ABSTTL")
            us.cmd("RESTORE", b"back:" + key, 0, them.cmd("DUMP", key))
            payloads += 1
        steps.check("payloads of DUMP: valkey takes ours", state(them) == before, f"{payloads} keys")
        back = {key[5:]: value[0] for key, value in state(us).items() if key.startswith(b"back:")}
        steps.equal("and we take valkey's", back, {key: value[0] for key, value in before.items()})
        digests = [connection.cmd("DEBUG", "DIGEST-VALUE", *sorted(before)) for connection in (us, them)]
        steps.equal("digests are equal", *digests)
        for key in us.cmd("KEYS", "back:*"):
            us.cmd("DEL", key)
        us.cmd("SAVE")
        data = (ours.directory / "dump.rdb").read_bytes()
        steps.equal("dump.rdb has the version of Valkey 9", data[:9], b"VALKEY080")
        steps.check("the log says so", "fields that expire" in ours.log_path.read_text())
        home = folder / "valkey-loads"
        home.mkdir()
        (home / "dump.rdb").write_bytes(data)
        with Server("valkey", DEBUG, directory=home) as other:
            steps.equal("valkey loads it", state(other.connect()), before)
        us.cmd("DEBUG", "RELOAD")
        steps.equal("we load it (DEBUG RELOAD)", state(us), before)
        for key in before:
            us.cmd("HPERSIST", key, "FIELDS", 1, "field0")
        for key, (fields, _) in state(us).items():
            timed = [name for name, _, at in fields if at > 0]
            if timed:
                us.cmd("HPERSIST", key, "FIELDS", len(timed), *timed)
        us.cmd("SAVE")
        us.cmd("SAVE")
        data = (ours.directory / "dump.rdb").read_bytes()
        steps.equal("without such fields it is one that Redis 5 reads", data[:9], b"REDIS0009")

    for form, more in {"dump.rdb": {"appendonly": "no"}, "log": {"appendonly": "yes", "aof-use-rdb-preamble": "no"},
                       "log with preamble": {"appendonly": "yes"}}.items():
        home = folder / f"from-valkey-{form.replace(' ', '-')}"
        with Server("valkey", dict(DEBUG, **more), directory=home) as other:
            them = other.connect()
            fill(them, 2)
            if form == "dump.rdb":
                them.cmd("SAVE")
            else:
                rewrite(them)
                them.cmd("HSETEX", "later", "EX", 100_000_000, "FIELDS", 2, "a", 1, "b", 2)
                them.cmd("HGETEX", "later", "PERSIST", "FIELDS", 1, "b")
                them.cmd("HINCRBY", "later", "a", 5)
                them.cmd("HINCRBYFLOAT", "later", "a", "0.5")
                them.cmd("HGETDEL", "h1", "FIELDS", 1, "field0")
                them.cmd("HEXPIRE", "h2", 0, "FIELDS", 1, "field0")
            before = state(them)
            other.terminate()
        with Server("sexton", DEBUG, directory=home) as server:
            steps.equal(f"we take over the {form} of valkey", state(server.connect()), before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    steps = Steps("fields that expire")
    folder = Path(tempfile.mkdtemp(prefix="sexton-hash-fields-"))
    try:
        metadata(steps)
        ranks(steps)
        commands(steps, args.commands, args.seed, "2048")
        # Each hash with fields that expire lies in pages.
        commands(steps, args.commands // 2, args.seed + 1, "0")
        on_time(steps, cold=False)
        on_time(steps, cold=True)
        large(steps, cold=False)
        large(steps, cold=True)
        while_it_was_down(steps)
        exchange(steps, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    steps.finish()


if __name__ == "__main__":
    main()
