"""python3 -m large_collections [--elements 10000000] [--maxmemory-mb 256]

A list, a set, a hash and a sorted set that are each larger than `maxmemory` allows to be resident: commands for single
elements answer right without loading the rest, whole collections are read as a stream, all is there after kill -9. Then each
collection goes in a way of its own (DEL, expiry, RENAME over it, FLUSHDB), and its bytes leave the disk. LPOS, LREM and LINSERT
search a list of as many elements, and answer what redis-server does; the lists are equal afterwards, and after kill -9. SINTER, ZDIFF
and their like of such sets answer right, whether the others are small or as large. ZREMRANGEBYRANK, LTRIM and XTRIM take out
more than memory holds, and XREAD answers a stream that is larger, too. Meanwhile the
resident memory is sampled, and another process asks GET of a small key a thousand times a second.
"""

import argparse
import contextlib
import random
import shutil
import socket
import time

from harness.load import RssSampler, Timer, send_all
from harness.resp import ReplyError, encode, to_bytes
from harness.server import Server
from harness.steps import Steps
from harness.visitor import Visitor, answer_ms

#: Elements a command of the load.
A_COMMAND = 200
KINDS = ("list", "set", "hash", "zset")
#: Time for which others are watched while a collection is swept.
SWEEP_S = 2.0
#: Resident beside a small bound.
BASE_MB = 24
#: Of the directive delete-persist-seconds.
DEADLINE_S = 20


def member(number):
    return b"member:%010d" % number


def value(number):
    return b"value:%010d:%06d" % (number, number * 7919 % 999_983)


def words_of(kind, number):
    """The words that add an element to a collection of this kind."""
    return {
        "list": (value(number),),
        "set": (member(number),),
        "hash": (member(number), value(number)),
        "zset": (b"%d" % (2 * number), member(number)),
    }[kind]


COMMANDS = {"list": b"RPUSH", "set": b"SADD", "hash": b"HSET", "zset": b"ZADD"}


def loads(kind, count):
    for start in range(0, count, A_COMMAND):
        words = [COMMANDS[kind], kind.encode()]
        for number in range(start, min(start + A_COMMAND, count)):
            words += words_of(kind, number)
        yield words


def single(kind, number, count):
    """Requests for one element each, with their replies."""
    name = kind.encode()
    if kind == "list":
        return [
            ([b"LINDEX", name, b"%d" % number], value(number)),
            ([b"LINDEX", name, b"%d" % (number - count)], value(number)),
            ([b"LSET", name, b"%d" % number, value(number)], b"OK"),
            ([b"LRANGE", name, b"%d" % number, b"%d" % (number + 2)], [value(n) for n in range(number, min(number + 3, count))]),
        ]
    if kind == "set":
        return [
            ([b"SISMEMBER", name, member(number)], 1),
            ([b"SISMEMBER", name, b"absent:%d" % number], 0),
            ([b"SADD", name, member(number)], 0),
            ([b"SREM", name, member(number)], 1),
            ([b"SADD", name, member(number)], 1),
        ]
    if kind == "hash":
        return [
            ([b"HGET", name, member(number)], value(number)),
            ([b"HEXISTS", name, b"absent:%d" % number], 0),
            ([b"HSET", name, member(number), value(number)], 0),
            ([b"HDEL", name, member(number)], 1),
            ([b"HSET", name, member(number), value(number)], 1),
        ]
    return [
        ([b"ZSCORE", name, member(number)], b"%d" % (2 * number)),
        ([b"ZRANK", name, member(number)], number),
        ([b"ZREVRANK", name, member(number)], count - 1 - number),
        ([b"ZRANGE", name, b"%d" % number, b"%d" % number], [member(number)]),
        ([b"ZRANGEBYSCORE", name, b"%d" % (2 * number - 1), b"%d" % (2 * number + 1)], [member(number)]),
        ([b"ZCOUNT", name, b"-inf", b"%d" % (2 * number)], number + 1),
        ([b"ZINCRBY", name, b"0", member(number)], b"%d" % (2 * number)),
    ]


#: The command that counts the elements.
LENGTH = {"list": "LLEN", "set": "SCARD", "hash": "HLEN", "zset": "ZCARD"}


#: What others write while a whole collection is answered, and what takes it back.
COMMANDS_BESIDE = {
    "list": ["LSET", "list", "-1", "changed:9"],
    "set": ["SREM", "set", member(0)],
    "hash": ["HDEL", "hash", member(0)],
    "zset": ["ZREM", "zset", member(0)],
}


class Visited:
    """`with Visited(server, "load")`: what others see meanwhile."""

    def __init__(self, server, what):
        self.server, self.what = server, what

    def __enter__(self):
        self.visitor = Visitor(self.server)

    def __exit__(self, *_):
        p50, p99, p999, longest = answer_ms(self.visitor.leave())
        seen = f"GETs of others: p50 {p50:.2f}, p99 {p99:.2f}, p99.9 {p999:.2f}, longest {longest:.1f} ms"
        print(f"      {self.what}: {seen}", flush=True)


def load(steps, server, connection, kind, count):
    title = f"load of the {kind}"
    with Visited(server, title):
        send_all(steps, title, connection, loads(kind, count), count, lambda reply: not reply.is_error(), depth=64)


def elements(steps, server, connection, kind, count, rng, asked):
    """Commands for single elements, at random places, one at a time: each has to wait for its pages."""
    wrong, took_s = [], {}
    with Visited(server, f"elements of the {kind}"):
        for _ in range(asked):
            for words, expected in single(kind, rng.randrange(count), count):
                begun = time.perf_counter()
                got = connection.cmd(*words)
                took_s.setdefault(words[0].decode(), []).append(time.perf_counter() - begun)
                if got != expected:
                    wrong.append((words, got if not isinstance(got, bytes) else got[:60], expected))
    for command, times_s in took_s.items():
        times_s.sort()
        print(f"      {command:13} {len(times_s) / sum(times_s):8,.0f}/s, p50 {1000 * times_s[len(times_s) // 2]:.2f}, "
              f"p99.9 {1000 * times_s[int(len(times_s) * 0.999)]:.2f} ms", flush=True)
    steps.check(f"single elements of the {kind}", not wrong, f"{len(wrong)} wrong, first {wrong[:2]}" if wrong else "")
    steps.equal(f"length of the {kind}", connection.cmd(LENGTH[kind], kind), count)


def walk(steps, server, connection, kind, count):
    """All elements, by ranges or by its SCAN command."""
    seen, wrong = 0, 0
    with Visited(server, f"walk through the {kind}"), Timer(f"walk through the {kind}", count):
        if kind in ("list", "zset"):
            # A reply may take an eighth of the bound.
            together = count // 100
            for start in range(0, count, together):
                command = "LRANGE" if kind == "list" else "ZRANGE"
                got = connection.cmd(command, kind, start, start + together - 1)
                of = value if kind == "list" else member
                wrong += sum(one != of(start + at) for at, one in enumerate(got))
                seen += len(got)
        else:
            command, cursor, sum_of = ("SSCAN", b"0", 0) if kind == "set" else ("HSCAN", b"0", 0)
            while True:
                cursor, got = connection.cmd(command, kind, cursor, "COUNT", 2000)
                step = 1 if kind == "set" else 2
                for at in range(0, len(got), step):
                    number = int(got[at][7:])
                    sum_of += number
                    wrong += kind == "hash" and got[at + 1] != value(number)
                seen += len(got) // step
                if cursor == b"0":
                    break
            wrong += sum_of != count * (count - 1) // 2
    steps.check(f"every element of the {kind}", seen == count and not wrong, f"{seen} of {count} seen, {wrong} wrong")


#: Requests whose replies have a whole collection: the words, and how many strings a reply has for each element.
WHOLE = {
    "list": [(["LRANGE", "list", 0, -1], 1)],
    "set": [(["SMEMBERS", "set"], 1)],
    "hash": [(["HGETALL", "hash"], 2), (["HKEYS", "hash"], 1), (["HVALS", "hash"], 1)],
    "zset": [(["ZRANGE", "zset", 0, -1], 1), (["ZRANGE", "zset", "+inf", "-inf", "BYSCORE", "REV"], 1)],
}


@contextlib.contextmanager
def reply_to(server, words):
    """The reply to a request, with that of a PING behind it, as a file: it may be larger than this process likes to hold."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as sock, sock.makefile("rb", 1 << 20) as replies:
        sock.sendall(encode([to_bytes(word) for word in words]) + encode([b"PING"]))
        yield replies


def strings(server, words):
    """The strings of a reply, one after the other."""
    with reply_to(server, words) as replies:
        head = replies.readline()
        if head[:1] != b"*":
            raise ReplyError(head)
        for _ in range(int(head[1:])):
            yield replies.read(int(replies.readline()[1:]) + 2)[:-2]
        if replies.readline() != b"+PONG\r\n":
            raise ReplyError(b"no PONG behind the reply")


def lines(server, words):
    """The lines of a reply, one after the other."""
    with reply_to(server, words) as replies:
        for line in replies:
            if line == b"+PONG\r\n":
                return
            yield line


def wholes(steps, server, connection, kind, count):
    """Whole collections in one reply, while others write to them: the reply has one instant."""
    for words, step in WHOLE[kind]:
        title = f"{words[0]} of the whole {kind}"
        seen, sum_of, values, last, ascends = 0, 0, 0, -1, True
        with Visited(server, title), Timer(title, count):
            for at, string in enumerate(strings(server, words)):
                if at == 0:
                    # The reply has begun: this is behind its instant.
                    connection.cmd(*COMMANDS_BESIDE[kind])
                if at % step:
                    values += string == value(last)
                    continue
                number = int(string.split(b":")[1])
                seen, sum_of, ascends, last = seen + 1, sum_of + number, ascends and number > last, number
        is_whole = seen == count and sum_of == count * (count - 1) // 2 and values == (step - 1) * count
        steps.check(title, is_whole, f"{seen} elements, {values} values of {count}, sum {sum_of}")
        if words[0] == "LRANGE":
            steps.check("in its order", ascends)
        added = count - 1 if kind == "list" else 0
        change = ["LSET", "list", -1] if kind == "list" else [COMMANDS[kind], kind]
        connection.cmd(*change, *words_of(kind, added))


def algebra(steps, server, connection, count, rng):
    """Small sets beside large ones, and large ones beside each other, which are larger than memory."""
    numbers = rng.sample(range(1, 2 * count), 500)
    inside = sorted(member(number) for number in numbers if number < count)
    outside = sorted(member(number) for number in numbers if number >= count)
    connection.cmd("SADD", "some", *[member(number) for number in numbers])
    scored = [(b"%d" % (2 * number + 1), member(number)) for number in sorted(numbers) if number < count]
    half = count // 2
    for words, expected in (
        (["SINTER", "some", "set"], inside),
        (["SDIFF", "some", "set"], outside),
        (["SINTERCARD", 2, "set", "some", "LIMIT", 7], 7),
        (["SINTERSTORE", "made", "set", "some"], len(inside)),
        (["SMEMBERS", "made"], inside),
        (["ZINTER", 2, "some", "zset", "WITHSCORES"], [word for score, name in scored for word in (name, score)]),
        (["ZINTERCARD", 2, "set", "zset"], count),
        (["ZINTERCARD", 2, "zset", "set", "LIMIT", half], half),
        (["ZDIFF", 2, "set", "zset"], []),
        (["ZDIFFSTORE", "made", 2, "some", "zset"], len(outside)),
        (["DEL", "made", "some"], 2),
    ):
        title = " ".join(str(word) for word in words)
        if words[1:] == [2, "set", "zset"]:
            with Visited(server, title), Timer(title, 2 * count):
                found = connection.cmd(*words)
        else:
            found = connection.cmd(*words)
        steps.equal(title, sorted(found) if words[0] in ("SINTER", "SDIFF", "SMEMBERS") else found, expected)


def saved(steps, server, connection, kinds, count):
    """BGSAVE, and redis-server on the file."""
    with Visited(server, "BGSAVE"), Timer("BGSAVE", count * len(kinds)):
        connection.cmd("BGSAVE")
        while b"rdb_bgsave_in_progress:1" in connection.cmd("INFO", "persistence"):
            time.sleep(0.05)
    file = server.directory / "dump.rdb"
    steps.check("the file of BGSAVE", file.exists() and b"rdb_last_bgsave_status:ok" in connection.cmd("INFO", "persistence"))
    redis = Server("redis", {"dbfilename": file.name})
    shutil.move(file, redis.directory)
    with redis:
        loaded = redis.connect(timeout_s=600)
        for kind in kinds:
            steps.equal(f"length of the {kind} in redis-server", loaded.cmd(LENGTH[kind], kind), count)
            for number in (0, count // 3, count - 1):
                words, expected = single(kind, number, count)[0]
                steps.equal(f"element {number} of the {kind} in redis-server", loaded.cmd(*words), expected)
        loaded.close()


def word(number, count):
    """An element of the list that is searched: there are three of most, and few that are long."""
    return value(number % (count // 3 + 1)) + b"long" * (200 if number % 5000 == 17 else 0)


def search(rng, count):
    """A request that looks for elements, or moves some under the next one."""
    wanted = word(rng.randrange(count), count) if rng.random() < 0.9 else b"absent"
    new = word(rng.randrange(count), count)
    options = []
    for option, number in (("RANK", rng.choice([1, 2, 3, 4, -1, -2, -3, -4])), ("COUNT", rng.randrange(4)), ("MAXLEN", rng.randrange(2 * count))):
        if rng.random() < 0.4:
            options += [option, number]
    return rng.choice([
        ["LPOS", "searched", wanted, *options],
        ["LPOS", "searched", wanted, *options],
        ["LREM", "searched", rng.randrange(-3, 4), wanted],
        ["LINSERT", "searched", rng.choice(["BEFORE", "AFTER"]), wanted, new],
        ["LSET", "searched", rng.randrange(-count // 2, count // 2), new],
        [rng.choice(["LPUSH", "RPUSH"]), "searched", new],
    ])  # fmt: skip


def equal_lists(steps, title, connection, oracle, count):
    length, wrong = oracle.cmd("LLEN", "searched"), 0
    together = count // 100
    for start in range(0, length, together):
        words = ["LRANGE", "searched", start, start + together - 1]
        wrong += connection.cmd(*words) != oracle.cmd(*words)
    steps.check(title, not wrong and connection.cmd("LLEN", "searched") == length, f"{wrong} ranges differ")


def searches(steps, server, connection, oracle, count, rng, asked):
    """LPOS, LREM and LINSERT in a list larger than a request may hold, each beside redis-server."""
    for one in (connection, oracle):
        requests = ([b"RPUSH", b"searched", *(word(n, count) for n in range(at, min(at + A_COMMAND, count)))] for at in range(0, count, A_COMMAND))
        send_all(steps, "load of the list that is searched", one, requests, count, lambda reply: not reply.is_error(), depth=64)
    wrong, took_s = [], {}
    with Visited(server, "searches of the list"):
        for nth in range(asked):
            words = search(rng, count) if nth else ["LINSERT", "searched", "BEFORE", "absent", "x"]
            begun = time.perf_counter()
            got = connection.cmd(*words)
            took_s.setdefault(words[0], []).append(time.perf_counter() - begun)
            expected = oracle.cmd(*words)
            if got != expected:
                wrong.append((words, got, expected))
    for command, times_s in took_s.items():
        print(f"      {command:13} {len(times_s)} times, {1000 * sum(times_s) / len(times_s):.1f} ms on average, longest {1000 * max(times_s):.1f} ms", flush=True)
    steps.check("searches of the list", not wrong, f"{len(wrong)} wrong, first {wrong[:2]}" if wrong else "")
    equal_lists(steps, "the list that was searched", connection, oracle, count)


def removals(steps, server, connection, kinds, count):
    """Takes more out of a collection than memory holds, without the rest. Answers what must be true from then on."""
    low, high, quarter = count // 3, count // 10, count // 4
    asked = {
        "zset": [
            (["ZREMRANGEBYRANK", "zset", 0, low - 1], low),
            (["ZREMRANGEBYSCORE", "zset", f"({2 * (count - high) - 1}", "+inf"], high),
        ],
        "list": [(["LTRIM", "list", quarter, -quarter - 1], b"OK")],
    }
    true = {
        "zset": [(["ZCARD", "zset"], count - low - high), (["ZRANGE", "zset", 0, 0], [member(low)]),
                 (["ZRANGE", "zset", -1, -1], [member(count - high - 1)]), (["ZSCORE", "zset", member(low - 1)], None)],
        "list": [(["LLEN", "list"], count - 2 * quarter), (["LINDEX", "list", 0], value(quarter)),
                 (["LINDEX", "list", -1], value(count - quarter - 1))],
    }  # fmt: skip
    chosen = [kind for kind in ("zset", "list") if kind in kinds]
    for words, expected in [request for kind in chosen for request in asked[kind]]:
        title = " ".join(str(word) for word in words)
        with Visited(server, title), Timer(title):
            steps.equal(title, connection.cmd(*words), expected)
    return [look for kind in chosen for look in true[kind]]


def stream(steps, server, connection, count):
    """A stream that is larger than memory is read in one reply, and loses nearly all of it. Answers what must be true from then on."""
    title = f"XADD of {count:,} entries"
    entries = ([b"XADD", b"stream", b"%d-1" % (number + 1), b"field", value(number)] for number in range(count))
    with Visited(server, title):
        send_all(steps, title, connection, entries, count, lambda reply: not reply.is_error())
    title = "XREAD of the whole stream"
    with Visited(server, title), Timer(title, count):
        seen = sum(line.startswith(b"value:") for line in lines(server, ["XREAD", "STREAMS", "stream", 0]))
    steps.equal(title, seen, count)
    for words, expected in ((["XTRIM", "stream", "MAXLEN", 1000], count - 1000), (["XTRIM", "stream", "MINID", count - 99], 900)):
        title = " ".join(str(word) for word in words)
        with Visited(server, title), Timer(title):
            steps.equal(title, connection.cmd(*words), expected)
    return [(["XLEN", "stream"], 100),
            (["XRANGE", "stream", "-", "+", "COUNT", 1], [[b"%d-1" % (count - 99), [b"field", value(count - 100)]]])]  # fmt: skip


def disk_bytes(server):
    """Bytes of tables, without the log. Files come and go meanwhile."""
    total = 0
    for path in server.directory.rglob("*"):
        if "appendonly" in str(path) or path == server.log_path:
            continue
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            pass
    return total


#: What takes each collection away. FLUSHDB takes what is left in its database, with the key that others ask for.
GOES = {
    "zset": ["DEL", "zset"],
    "hash": ["PEXPIRE", "hash", "1"],
    "set": ["RENAME", "small", "set"],
    "list": ["FLUSHDB"],
}


def go(steps, server, connection, kind):
    """Takes a collection away: how long the reply took, and what others saw while its pages were swept."""
    words = GOES[kind]
    connection.cmd("SET", "small", "a value")
    with Visited(server, f"{words[0]} of the {kind}"):
        begun = time.perf_counter()
        connection.cmd(*words)
        took_ms = 1000 * (time.perf_counter() - begun)
        time.sleep(SWEEP_S)
    print(f"      {words[0]} of the {kind}: answered after {took_ms:.2f} ms", flush=True)
    steps.equal(f"{words[0]} takes the {kind}", connection.cmd("TYPE", kind), b"string" if kind == "set" else b"none")


def leave_disk(steps, server, most):
    """What was deleted leaves the disk within the deadline, and what flushes and merges need beyond it."""
    begun = time.monotonic()
    while disk_bytes(server) > most and time.monotonic() < begun + 4 * DEADLINE_S:
        time.sleep(0.1)
    left, took_s = disk_bytes(server), time.monotonic() - begun
    steps.check("their bytes leave the disk", left <= most, f"{left:,} of {most:,} bytes left after {took_s:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--maxmemory-mb", type=int, default=256)
    parser.add_argument("--asked", type=int, default=2000, help="elements that are asked for one at a time")
    parser.add_argument("--searched", type=int, default=60, help="requests that search a list, 0 for none")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    kinds, count = args.kinds.split(","), args.elements
    # FLUSHDB takes the list that is searched, too.
    is_searched = args.searched > 0 and "list" in kinds
    steps = Steps(f"collections of {count:,} elements, maxmemory {args.maxmemory_mb} MB")
    rng = random.Random(args.seed)
    options = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory": f"{args.maxmemory_mb}mb",
               "maxmemory-policy": "noeviction"}  # fmt: skip
    # A process without data takes some MB, whatever the bound.
    bound = max(1.25 * args.maxmemory_mb, args.maxmemory_mb + BASE_MB) * 2**20
    with Server(args.server, options) as server, Server("redis", {"save": ""}) as redis:
        sampler = RssSampler(server)
        sampler.start()
        connection = server.connect(timeout_s=300)
        connection.cmd("SET", "visited", "a value")
        for kind in kinds:
            load(steps, server, connection, kind, count)
            steps.equal(f"length of the {kind} after the load", connection.cmd(LENGTH[kind], kind), count)
        for kind in kinds:
            elements(steps, server, connection, kind, count, rng, args.asked)
            walk(steps, server, connection, kind, count)
            wholes(steps, server, connection, kind, count)
        if {"set", "zset"} <= set(kinds):
            algebra(steps, server, connection, count, rng)
        saved(steps, server, connection, kinds, count)
        oracle = redis.connect(timeout_s=300)
        if is_searched:
            searches(steps, server, connection, oracle, count, rng, args.searched)
        connection.close()
        time.sleep(2.1)  # everysec
        server.kill()
        with Timer("restart after kill -9"):
            server.start(timeout_s=600)
        connection = server.connect(timeout_s=300)
        for kind in kinds:
            elements(steps, server, connection, kind, count, rng, args.asked // 4)
        if is_searched:
            equal_lists(steps, "the list that was searched, after the restart", connection, oracle, count)
        looks = stream(steps, server, connection, count)
        looks += removals(steps, server, connection, kinds, count)
        connection.close()
        time.sleep(2.1)  # everysec
        server.kill()
        server.start(timeout_s=600)
        connection = server.connect(timeout_s=300)
        for words, expected in looks:
            steps.equal(f"{' '.join(map(str, words))} after the removals and kill -9", connection.cmd(*words), expected)
        # Not before: a reply that takes longer than half of it is cut, as its snapshot ends (N17).
        connection.cmd("CONFIG", "SET", "delete-persist-seconds", DEADLINE_S)
        before = disk_bytes(server)
        print(f"      on disk: {before:,} bytes of tables", flush=True)
        for kind in sorted(kinds, key=list(GOES).index):
            go(steps, server, connection, kind)
        leave_disk(steps, server, before // 10)
        peak = sampler.stop()
        steps.check("resident memory stays within its bound", peak < bound,
                    f"peak {peak / 2**20:.0f} MiB of {bound / 2**20:.0f}, {sampler.samples} samples")
        connection.close()
    steps.finish()


if __name__ == "__main__":
    main()
