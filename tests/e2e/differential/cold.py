"""python3 -m differential.cold --batches 40 [--modes memory,spilled,tombstones] [--seed N]

The differential test with cold keys: `maxmemory` is tiny, and the server under test is restarted before each
batch, so that every key must be loaded from a device. A batch is a pipeline of 50 random commands in one write, each third
one inside MULTI, each tenth one of 1,500 commands. Its replies, and afterwards all keys of all databases used, must match
redis-server, which is not restarted. A missing reply is a failure, too. Modes: graves in memory,
graves spilled to the device, tombstones, memtables in persistent memory.
"""

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.resp import ProtocolError, encode  # noqa: E402
from harness.server import Server  # noqa: E402

from . import allowed  # noqa: E402
from .compare import Skew, TransactionTags  # noqa: E402
from .episode import raw  # noqa: E402
from .grammar import KEYS, Grammar  # noqa: E402
from .step import SHAPE, Step  # noqa: E402

PIPELINE = 50
LONG_PIPELINE = 1500
#: Beside the few keys in which commands meet: enough that filters of tables are wrong now and then.
KEYS_BESIDE = 3000
REPLY_TIMEOUT_S = 15
DATABASES = (0, 1, 2, 15)

TINY = {
    "maxmemory": "1mb",
    "memtable-bytes": "256kb",
    "appendfsync": "always",
    "enable-debug-command": "yes",
    "collection-inline-max": "40",
    "hash-max-listpack-entries": "6",
    "set-max-intset-entries": "6",
    "zset-max-listpack-entries": "6",
    "stream-node-max-entries": "6",
}
MODES = {
    "memory": {},
    "spilled": {"cemetery-max-memory": "65536"},
    "tombstones": {"deletes": "tombstones"},
    "wbl": {"persistence-mode": "wbl"},
}


class ColdGrammar(Grammar):
    """More keys, and more commands that read several keys, change databases or concern the whole server."""

    def key(self):
        return b"beside:%d" % self.rng.randrange(KEYS_BESIDE) if self.chance(30) else super().key()

    def table(self):
        pick = self.rng.choice
        return super().table() + [
            ("MGET", 4, lambda: [Step([b"MGET", *self.keys(2, 5)])]),
            ("COPY", 4, self.copy),
            ("SWAPDB", 1, lambda: [Step([b"SWAPDB", b"0", pick([b"1", b"2"])])]),
            ("FLUSHDB", 0.6, lambda: [Step([b"FLUSHDB"])]),
            ("SELECT", 2, lambda: [Step([b"SELECT", pick([b"0", b"0", b"1", b"2", b"15"])])]),
            ("SORT", 1.5, self.sort),
            ("SORT_RO", 1, lambda: [Step([b"SORT_RO", self.key()])]),
            ("INFO", 1, lambda: [Step([b"INFO", *pick([[], [b"keyspace"], [b"memory"], [b"persistence"]])], SHAPE)]),
            ("MEMORY", 0.5, lambda: [Step([b"MEMORY", b"STATS"], SHAPE)]),
            ("CONFIG", 1, lambda: [Step([b"CONFIG", b"SET", *pick([
                [b"maxmemory", b"1073741824"], [b"maxmemory-policy", b"noeviction"]])])]),
        ]

    def sort(self):
        return [Step([b"SORT", self.key(), *self.rng.choice([[], [], [b"ALPHA"], [b"STORE", self.key()], [b"nope"]])])]

    def batch(self, commands, in_multi):
        """`commands` requests for one new connection."""
        self.conn, self.in_multi = 0, [False] * 3
        steps = [Step([b"HELLO", b"3"])] if self.resp3 else []
        steps[:] = [Step([b"SELECT", self.rng.choice([b"0", b"0", b"1", b"2"])])]
        if in_multi:
            steps += self.multi()
        while len(steps) < commands:
            made = self.rng.choices(self.methods, self.weights)[0]()
            ends = {b"EXEC", b"DISCARD", b"RESET"} & {step.args[0] for step in made if step.kind == "cmd"}
            if all(step.kind == "cmd" for step in made) and not (ends and in_multi):
                steps += [self.mutate(step) for step in made]
        return steps + ([Step([b"EXEC"])] if self.in_multi[0] else [])


class Failure(Exception):
    """The failure of a batch."""


def exchange(connection, requests):
    """Replies as nodes; the exception for requests without a reply."""
    replies = []
    try:
        connection.send_raw(b"".join(encode(request) for request in requests))
        for _ in requests:
            replies.append(connection.read_node())
    except (OSError, ProtocolError) as error:
        replies += [error] * (len(requests) - len(replies))
    return replies


def run_batch(steps, resp3, ours, theirs, skew):
    """One pipeline on both sides; raises Failure."""
    answers = []
    with skew.sending():
        for server in (ours, theirs):
            connection = server.connect(timeout_s=REPLY_TIMEOUT_S)
            if resp3:
                connection.cmd("HELLO", "3")
            answers.append(exchange(connection, [step.args for step in steps]))
            connection.close()
    tags = TransactionTags(skew)
    for at, (step, mine, other) in enumerate(zip(steps, *answers)):
        broken = isinstance(mine, Exception) or isinstance(other, Exception)
        same = raw(mine) == raw(other) if broken else tags.same(step, mine, other)
        if not same and not allowed.is_allowed(step.name(), raw(other), raw(mine)):
            theirs, own = raw(other), raw(mine)
            # Where they part, with what stands before.
            parts = next((i for i, (a, b) in enumerate(zip(theirs, own)) if a != b), min(len(theirs), len(own)))
            shown = slice(max(0, parts - 300), parts + 300)
            raise Failure(f"request {at} of {len(steps)}, {step!r}\n  redis: {theirs[shown]!r}\n  ours:  {own[shown]!r}")


def state(server):
    """Every key of the databases used, with the digest of its value and its expiry, and their numbers."""
    connection = server.connect(timeout_s=REPLY_TIMEOUT_S)
    found = {}
    for database in DATABASES:
        # Redis counts keys whose time has come until it meets them.
        names = [*KEYS, *(b"beside:%d" % number for number in range(KEYS_BESIDE))]
        meet = [[b"EXISTS", *names[at : at + 50]] for at in range(0, len(names), 50)]
        counts = exchange(connection, [[b"SELECT", b"%d" % database], *meet, [b"KEYS", b"*"], [b"DBSIZE"]])
        if any(isinstance(reply, Exception) for reply in counts):
            raise Failure(f"no answer to EXISTS, KEYS or DBSIZE in database {database}: {counts[-1]}")
        keys = sorted(item.value for item in counts[-2].items)
        times = exchange(connection, [[b"PEXPIRETIME", key] for key in keys])
        values = exchange(connection, [[b"DEBUG", b"DIGEST-VALUE", *keys[at : at + 20]] for at in range(0, len(keys), 20)])
        if any(isinstance(reply, Exception) for reply in times + values):
            raise Failure(f"no answer about the keys of database {database}")
        found[database] = (counts[-1].raw, list(zip(keys, (item.raw for reply in values for item in reply.items))), times)
    connection.close()
    return found


def same_state(ours, theirs):
    mine, others = state(ours), state(theirs)
    for database in DATABASES:
        (our_size, our_keys, our_times), (size, keys, times) = mine[database], others[database]
        if our_size != size or our_keys != keys:
            wrong = sorted(set(our_keys) ^ set(keys))[:6]
            raise Failure(f"database {database} differs: DBSIZE {our_size!r}, redis {size!r}; keys and values {wrong!r}")
        for (key, _), ours_ms, theirs_ms in zip(keys, our_times, times):
            if abs(ours_ms.value - theirs_ms.value) > REPLY_TIMEOUT_S * 1000:
                raise Failure(f"database {database}, {key!r} expires at {ours_ms.value}, redis {theirs_ms.value}")


def fill(rng, ours, theirs):
    """Writes identical keys to both, with and without expiry, and deletes some of them again."""
    requests = []
    for database in (0, 1, 2):
        requests.append([b"SELECT", b"%d" % database])
        for number in range(KEYS_BESIDE):
            key, value = b"beside:%d" % number, b"%d" % rng.randrange(10**6)
            requests.append([b"SET", key, value, *rng.choice([[], [], [b"PXAT", b"4102444800123"]])])
        requests += [[b"SET", key, b"7"] for key in KEYS]
        requests += [[b"DEL", b"beside:%d" % number] for number in range(0, KEYS_BESIDE, 3)]
    for server in (ours, theirs):
        connection = server.connect(timeout_s=REPLY_TIMEOUT_S)
        answers = exchange(connection, [[b"FLUSHALL"], *requests])
        if any(isinstance(reply, Exception) for reply in answers):
            raise Failure("the keys could not be set")
        connection.close()


def restart(server, hard):
    """Stops the server, by kill -9 or properly, and starts it again."""
    if hard:
        server.kill()
    elif (code := server.terminate(timeout_s=20)) != 0:
        raise Failure(f"the stop ended with {code}:\n{server.log_tail()}")
    server.start()


def run_mode(mode, args, reference, names, dump):
    """The batches of one mode; answers the number of failures."""
    options = {**TINY, **MODES[mode]}
    failures, number, begun = 0, 0, time.monotonic()
    subject = Server("sexton", options)
    if mode == "wbl":
        subject.options.update({"device": f"pm kind pmem path {subject.directory}/pm", "memtable-device": "pm"})
        Path(subject.directory, "pm").mkdir()
    subject.start()
    fresh, skew = True, Skew()
    while number < args.batches and failures < args.max_failures:
        seed = args.seed + number
        rng = random.Random(seed)
        resp3, in_multi, long = bool(number & 1), number % 3 == 2, number % 10 == 9
        number += 1
        steps = []
        try:
            if fresh or number % 15 == 0:
                fill(rng, subject, reference)
                fresh = False
            restart(subject, hard=number % 7 == 6)
            steps = ColdGrammar(seed, resp3, names, dump).batch(LONG_PIPELINE if long else PIPELINE, in_multi)
            run_batch(steps, resp3, subject, reference, skew)
            same_state(subject, reference)
        except (Failure, OSError, RuntimeError) as error:
            failures += 1
            print(f"\nFAILED: {mode}, batch {number}, seed {seed}, {'in MULTI' if in_multi else 'plain'}: {error}")
            if args.verbose:
                print(*map(repr, steps), sep="\n")
            print(subject.log_tail(8), flush=True)
            subject.kill()
            for left in Path(subject.directory).iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            if mode == "wbl":
                Path(subject.directory, "pm").mkdir()
            subject.start()
            fresh = True
    subject.close()
    print(f"{mode}: {number} batches, {failures} failures, {time.monotonic() - begun:.0f} s", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=40, help="batches per mode")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--max-failures", type=int, default=5, help="stop a mode after this many failures")
    parser.add_argument("--verbose", action="store_true", help="print all commands of a failed batch")
    args = parser.parse_args()
    print(f"differential.cold: seed {args.seed}", flush=True)
    failures = 0
    small = {name: TINY[name] for name in ("hash-max-listpack-entries", "set-max-intset-entries", "stream-node-max-entries")}
    with Server("redis", {"appendonly": "no", "enable-debug-command": "yes", **small}) as reference:
        connection = reference.connect()
        names = {name.decode().lower() for name in connection.cmd("COMMAND", "LIST")}
        connection.cmd("SET", "x", "hello")
        dump = connection.cmd("DUMP", "x")
        connection.close()
        with Server("sexton") as probe:
            connection = probe.connect()
            names &= {name.decode().lower() for name in connection.cmd("COMMAND", "LIST")}
            connection.close()
        for mode in args.modes.split(","):
            failures += run_mode(mode, args, reference, names, dump)
    print(f"differential.cold: {failures} failures", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
