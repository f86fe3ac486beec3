"""python3 -m snapshot_session [--server sexton] [--keys 20000] [--reads 10000] [--rounds 2]

A snapshot session compared with a copy of the data taken at that moment. In each round the writers stop, a
session opens, everything is copied into a redis-server, and the writers continue at full speed: they overwrite,
delete and re-create these keys, change their expiry, empty one database and swap the two. Meanwhile the
session sends random GET, MGET, EXISTS, TYPE, STRLEN, GETRANGE, TTL, PEXPIRETIME, DUMP and SCAN, and ZRANGE and others to
the keys that hold sorted sets; every reply must equal that of the copy. The copy has no expiry times, because the session's
clock is stopped; they are kept separately.
"""

import argparse
import multiprocessing
import random
import time

from harness.load import Timer, incompressible, pipelined, scan_all
from harness.resp import Connection
from harness.server import Server
from harness.steps import Steps

DATABASES = 2
#: Share of the keys that exist when a session opens, and of those the share with an expiry time.
ALIVE, EXPIRING = 0.8, 0.3
WRITERS = 2


def name(number):
    return b"key:%06d" % number


def is_sorted(number):
    """Whether a key holds a sorted set whenever it exists."""
    return number % 10 == 3


def value(rng):
    """Integers, text that compresses, and bytes that do not, of all lengths."""
    kind = rng.random()
    if kind < 0.2:
        return b"%d" % rng.randrange(-(10**12), 10**12)
    if kind < 0.5:
        return b"abcdefgh" * rng.randrange(1, 60)
    return incompressible(b"%d" % rng.getrandbits(40), rng.randrange(0, 600))


def change(rng, keys):
    """One write to a random key."""
    number, roll = rng.randrange(keys), rng.random()
    key = name(number)
    if is_sorted(number):
        return change_sorted(rng, key)
    if roll < 0.45:
        return [b"SET", key, value(rng)]
    if roll < 0.6:
        return [b"SET", key, value(rng), b"PX", b"%d" % rng.choice((50, 2000, 600_000))]
    if roll < 0.85:
        return [b"DEL", key, name(rng.randrange(keys))]
    if roll < 0.9:
        return [b"APPEND", key, b"more"]
    if roll < 0.95:
        return [b"PEXPIRE", key, b"%d" % rng.choice((1, 5000, 600_000))]
    return [rng.choice((b"PERSIST", b"GETDEL")), key]


def scored(rng):
    """Scores and members."""
    count = rng.choice((1, 2, 5, 30, 200))
    return [word for _ in range(count) for word in (b"%d" % rng.randrange(-50, 50), b"member %d" % rng.randrange(300))]


def change_sorted(rng, key):
    """One write to a sorted set."""
    roll = rng.random()
    if roll < 0.5:
        return [b"ZADD", key, *scored(rng)]
    if roll < 0.6:
        return [b"ZINCRBY", key, b"0.5", b"member %d" % rng.randrange(300)]
    if roll < 0.75:
        return [b"ZREMRANGEBYSCORE", key, b"%d" % rng.randrange(-50, 50), b"+inf"]
    if roll < 0.85:
        return [rng.choice((b"ZPOPMIN", b"ZPOPMAX")), key, b"3"]
    return [b"PEXPIRE", key, b"%d" % rng.choice((1, 5000, 600_000))] if roll < 0.9 else [b"DEL", key]


def write(port, seed, keys, stop, done, refused):
    """A writer's process. `done` and `refused` count operations and error replies."""
    rng, connection = random.Random(seed), Connection(port, timeout_s=120)
    database = seed % DATABASES
    connection.cmd("SELECT", database)
    next_upheaval = time.monotonic() + 1
    while not stop.is_set():
        requests = [change(rng, keys) for _ in range(128)]
        if database == 1 and time.monotonic() > next_upheaval:
            requests.append(rng.choice(([b"FLUSHDB"], [b"SWAPDB", b"0", b"1"])))
            next_upheaval = time.monotonic() + 1
        for _, reply in pipelined(connection, requests):
            done.value += 1
            refused.value += reply.is_error()
    connection.close()


class Writers:
    """Processes that write until `stop`, so that the session's thread does not share the interpreter."""

    def __init__(self, port, keys, seed):
        self.ended = multiprocessing.Event()
        self.done = [multiprocessing.Value("q", 0, lock=False) for _ in range(WRITERS)]
        self.refused = [multiprocessing.Value("q", 0, lock=False) for _ in range(WRITERS)]
        self.processes = [
            multiprocessing.Process(
                target=write, args=(port, seed * WRITERS + n, keys, self.ended, self.done[n], self.refused[n]), daemon=True)
            for n in range(WRITERS)]
        for process in self.processes:
            process.start()

    def stop(self):
        """Returns operations, error replies, and whether all processes ended normally."""
        self.ended.set()
        for process in self.processes:
            process.join(60)
        good = all(process.exitcode == 0 for process in self.processes)
        return sum(n.value for n in self.done), sum(n.value for n in self.refused), good


class Copy:
    """A server's complete data, in a redis-server, with dumps and expiry times kept separately."""

    def __init__(self, source, target):
        self.dumps, self.due_ms, self.target = {}, {}, target
        target.cmd("FLUSHALL")
        for database in range(DATABASES):
            source.cmd("SELECT", database)
            target.cmd("SELECT", database)
            keys = list(scan_all(source))
            dumps = [reply.value for _, reply in pipelined(source, ([b"DUMP", key] for key in keys))]
            due = [reply.value for _, reply in pipelined(source, ([b"PEXPIRETIME", key] for key in keys))]
            # Keys that came due meanwhile are gone by now; the session still has them.
            there = [(key, dump, ms) for key, dump, ms in zip(keys, dumps, due) if dump is not None and ms != -2]
            restores = ([b"RESTORE", key, b"0", dump] for key, dump, _ in there)
            bad = [reply.raw for _, reply in pipelined(target, restores) if reply.raw != b"+OK\r\n"]
            if bad:
                raise SystemExit(f"redis-server does not take a dump: {bad[0]!r}")
            self.dumps[database] = {key: dump for key, dump, _ in there}
            self.due_ms[database] = {key: ms for key, _, ms in there}

    def ttl(self, database, key, opened_ms):
        """The possible replies of TTL in a session that was opened between the two times."""
        ms = self.due_ms[database].get(key, -2)
        return {ms} if ms < 0 else {(ms - at + 500) // 1000 for at in range(opened_ms[0], opened_ms[1] + 1)}


def fill(connection, keys, rng):
    """Brings both databases to about the wanted share of existing keys. Nothing expires during the copy."""
    for database in range(DATABASES):
        connection.cmd("SELECT", database)
        requests = []
        for number in range(keys):
            request = [b"DEL", name(number)]
            if rng.random() < ALIVE:
                request = [b"SET", name(number), value(rng)]
                if is_sorted(number):
                    requests.append([b"DEL", name(number)])
                    request = [b"ZADD", name(number), *scored(rng)]
                elif rng.random() < EXPIRING:
                    request += [b"PX", b"%d" % rng.randrange(20_000, 3_000_000)]
            requests.append(request)
        errors = [reply.raw for _, reply in pipelined(connection, requests) if reply.is_error()]
        if errors:
            raise SystemExit(f"a write was refused: {errors[0]!r}")


class Session:
    """A reader of one instant, and the comparison of its replies."""

    def __init__(self, connection, copy, opened_ms, keys, rng):
        self.connection, self.copy, self.opened_ms = connection, copy, opened_ms
        self.keys, self.rng = keys, rng
        self.wrong, self.counts, self.database = [], {}, None

    def compare(self, request, got, expected):
        self.counts[request[0]] = self.counts.get(request[0], 0) + 1
        if got != expected:
            self.wrong.append((self.database, request[:3], got if len(repr(got)) < 200 else repr(got)[:200]))

    def read(self):
        """One random read, which must be answered as the copy answers it."""
        rng, database = self.rng, self.rng.randrange(DATABASES)
        if database != self.database:
            self.database = database
            self.connection.cmd("SELECT", database)
            self.copy.target.cmd("SELECT", database)
        number = rng.randrange(self.keys)
        key = name(number)
        some = [name(rng.randrange(self.keys)) for _ in range(rng.randrange(1, 20))]
        verb = rng.choices(
            (b"GET", b"MGET", b"EXISTS", b"TYPE", b"STRLEN", b"GETRANGE", b"TTL", b"PEXPIRETIME", b"DUMP", b"SCAN"),
            (30, 15, 10, 8, 5, 5, 10, 7, 9, 1))[0]
        if is_sorted(number) and rng.random() < 0.7:
            request = rng.choice((
                [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"], [b"ZCARD", key], [b"ZSCORE", key, b"member 7"], [b"ZREVRANK", key, b"member 7"],
                [b"ZRANGEBYSCORE", key, b"(0", b"10"], [b"ZUNION", b"2", key, name(13), b"WITHSCORES"], [b"ZCOUNT", key, b"-inf", b"0"]))
            self.compare(request, self.connection.node(*request).raw, self.copy.target.node(*request).raw)
        elif verb == b"TTL":
            got = self.connection.cmd(verb, key)
            allowed = self.copy.ttl(database, key, self.opened_ms)
            self.compare([verb, key], got, got if got in allowed else sorted(allowed))
        elif verb == b"PEXPIRETIME":
            self.compare([verb, key], self.connection.cmd(verb, key), self.copy.due_ms[database].get(key, -2))
        elif verb == b"DUMP":
            self.compare([verb, key], self.connection.cmd(verb, key), self.copy.dumps[database].get(key))
        elif verb == b"SCAN":
            match = rng.choice((None, b"key:00*", b"*7"))
            count = rng.choice((100, 1000, 5000))
            got = sorted(scan_all(self.connection, count, match))
            # A redis-server whose table grows returns some keys twice.
            self.compare([verb, match], got, sorted(set(scan_all(self.copy.target, count, match))))
        else:
            request = {
                b"MGET": [verb, *some], b"EXISTS": [verb, *some], b"GETRANGE": [verb, key, b"-5", b"-2"],
            }.get(verb, [verb, key])
            self.compare(request, self.connection.node(*request).raw, self.copy.target.node(*request).raw)


def play(server, target, args, steps, number):
    """One round: a session, its copy, and the writers beside it."""
    rng = random.Random(args.seed * 1000 + number)
    control, connection = server.connect(timeout_s=120), server.connect(timeout_s=120)
    with Timer("load", DATABASES * args.keys):
        fill(control, args.keys, rng)
    before = time.time_ns() // 1_000_000
    sequence = connection.cmd("SEXTON.SNAPSHOT", "OPEN")
    opened_ms = (before, time.time_ns() // 1_000_000)
    with Timer("copy", DATABASES * args.keys):
        copy = Copy(control, target)
    session = Session(connection, copy, opened_ms, args.keys, rng)
    writers = Writers(server.port, args.keys, number + 1)
    at_start = server.info()
    with Timer("reads", args.reads):
        for _ in range(args.reads):
            session.read()
    at_end = server.info()
    operations, refused, good = writers.stop()
    shown = ", ".join(f"{count} {verb.decode()}" for verb, count in sorted(session.counts.items()))
    title = f"round {number + 1}"
    steps.check(f"{title}: {args.reads} reads equal those of the copy", not session.wrong,
                f"{len(session.wrong)} differ, {session.wrong[:3]}" if session.wrong else shown)
    steps.check(f"{title}: nobody stopped the writers", good and refused == 0 and operations > args.reads,
                f"{operations} writes, {refused} refused")
    moved = {field: int(at_end[field]) - int(at_start[field]) for field in ("flsm_flushes", "flsm_compactions")}
    steps.check(f"{title}: memtables were flushed and tables merged meanwhile", min(moved.values()) > 0, f"{moved}")
    steps.check(f"{title}: what the session needs is in undo runs", int(at_end["flsm_undo_bytes"]) > 0,
                f"{at_end['flsm_undo_bytes']} bytes in {at_end['flsm_undo_runs']} runs")
    info = dict(zip(*[iter(connection.cmd("SEXTON.SNAPSHOT", "INFO"))] * 2))
    steps.equal(f"{title}: it is the instant of its OPEN", info[b"sequence"], sequence)
    listed = [line for line in control.cmd("CLIENT", "LIST").decode().splitlines() if f"snapshot-seq={sequence} " in line]
    held = int(listed[0].rsplit("snapshot-bytes=", 1)[1].split()[0]) if len(listed) == 1 else 0
    steps.check(f"{title}: bytes held, in INFO and CLIENT LIST", info[b"held-bytes"] > 0 and held > 0, f"{held}")
    refusal = connection.node("SET", name(0), "x")
    steps.check(f"{title}: a write is refused", refusal.raw.startswith(b"-SNAPSHOT "), repr(refusal.raw[:60]))
    connection.cmd("SEXTON.SNAPSHOT", "CLOSE")
    connection.cmd("SELECT", 0)
    control.cmd("SELECT", 0)
    control.cmd("SET", name(0), "of now")
    steps.equal(f"{title}: after CLOSE it reads the newest state", connection.cmd("GET", name(0)), b"of now")
    deadline = time.monotonic() + 30
    while (left := int(server.info()["flsm_undo_bytes"])) and time.monotonic() < deadline:
        time.sleep(0.05)
    steps.equal(f"{title}: its undo runs are gone", left, 0)
    control.close()
    connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--keys", type=int, default=20_000, help="in each of the databases")
    parser.add_argument("--reads", type=int, default=10_000, help="in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--option", action="append", default=[], help="directive=value for the server")
    args = parser.parse_args()
    steps = Steps(f"snapshot sessions against copies, {args.rounds} rounds of {args.reads} reads")
    options = {"appendonly": "yes", "appendfsync": "everysec", "memtable-bytes": "1mb", "maxmemory": "64mb"}
    options.update(option.split("=", 1) for option in args.option)
    with Server(args.server, options) as server, Server("redis") as oracle:
        target = oracle.connect(timeout_s=120)
        for number in range(args.rounds):
            play(server, target, args, steps, number)
        target.close()
    steps.finish()


if __name__ == "__main__":
    main()
