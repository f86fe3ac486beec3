"""python3 -m long_strings [--edits 600] [--mb 32]

Strings of up to some megabytes, edited at random beside redis-server: replies byte for byte, DEBUG DIGEST, after kill -9, after
BGREWRITEAOF and from the file of BGSAVE, in memory and with a `maxmemory` that holds a fraction of them. Then large requests of all
kinds, and one client that works on strings of `--mb` megabytes while another asks for small keys.
"""

import argparse
import os
import random
import shutil
import tempfile

from crash_loop import persistent_memory
from harness.resp import ReplyError
from harness.server import Server
from harness.steps import Steps
from harness.visitor import Visitor, answer_ms

#: Lengths of what is written: within a page, over the end of one, over several, so much that a helper thread writes it.
LENGTHS = (1, 10, 5000, 20_000, 300_000, 700_000)
LONGEST = 3_000_000


def request(rng, keys, longest):
    key, other, third = (b"s:%d" % rng.randrange(keys) for _ in range(3))
    at = rng.randrange(longest)
    text = bytes([rng.randrange(256)]) * rng.choice(LENGTHS)
    bit = rng.randrange(2)
    start = rng.randrange(-longest, longest)
    return rng.choice([
        lambda: [b"APPEND", key, text],
        lambda: [b"APPEND", key, text],
        lambda: [b"SETRANGE", key, at, text],
        lambda: [b"SETRANGE", key, at, text],
        lambda: [b"SETBIT", key, 8 * at + 3, bit],
        lambda: [b"BITFIELD", key, "SET", "u63", 8 * at + 5, at, "GET", "i16", at, "INCRBY", "u7", 8 * at, 99],
        lambda: [b"GETRANGE", key, start, start + len(text)],
        lambda: [b"GET", key],
        lambda: [b"STRLEN", key],
        lambda: [b"GETBIT", key, 8 * at],
        lambda: [b"BITCOUNT", key, start, start + 50_000],
        lambda: [b"BITCOUNT", key],
        lambda: [b"BITPOS", key, bit, start],
        lambda: [b"BITOP", "XOR", other, key, third],
        lambda: [b"COPY", key, other, "REPLACE"],
        lambda: [b"RENAME", key, other],
        lambda: [b"SET", key, text, "PX", 10**9],
        lambda: [b"GETEX", key, "PERSIST"],
        lambda: [b"MGET", key, other],
        lambda: [b"DUMP", key] if rng.randrange(4) == 0 else [b"OBJECT", "ENCODING", key],
    ])()


def ask(connection, words):
    try:
        return connection.cmd(*words)
    except ReplyError as error:
        return error.args


def run(connection, words, in_transaction):
    """The reply; one that fails in EXEC fails there."""
    if not in_transaction:
        return ask(connection, words)
    connection.cmd("MULTI")
    connection.cmd(*words)
    return [error.args if isinstance(error, ReplyError) else error for error in connection.cmd("EXEC")]


def edit(steps, name, ours, theirs, edits, rng, extent):
    """The same requests to both."""
    for connection in (ours, theirs):
        connection.cmd("HELLO", 3 if rng.randrange(2) else 2)
    differs = ""
    for number in range(edits):
        words, in_transaction = request(rng, *extent), rng.randrange(8) == 0
        got, expected = (run(connection, words, in_transaction) for connection in (ours, theirs))
        if got != expected:
            differs = f"request {number}: {str(words)[:100]}: {str(got)[:80]} instead of {str(expected)[:80]}"
            break
    steps.check(f"{name}: {edits} requests are answered as redis-server does", not differs, differs)


def check_edits(steps, name, options, edits, seed, extent=(6, LONGEST), env=None):
    rng = random.Random(seed)
    redis = {"appendonly": "no", "enable-debug-command": "yes"}
    with Server("redis", redis) as reference, \
            Server("sexton", {"appendonly": "yes", "enable-debug-command": "yes", **options}, env=env) as server:
        theirs = reference.connect()
        ours = server.connect()
        for number in range(extent[0]):
            words = [b"SET", b"s:%d" % number, rng.randbytes(extent[1])]
            ours.cmd(*words), theirs.cmd(*words)
        ours.close()
        for round_number in range(3):
            ours = server.connect()
            edit(steps, f"{name}, round {round_number}", ours, theirs, edits // 3, rng, extent)
            digest = theirs.cmd("DEBUG", "DIGEST")
            steps.equal(f"{name}, round {round_number}: equal data", ours.cmd("DEBUG", "DIGEST"), digest)
            if round_number == 1 and env is None:
                ours.cmd("BGREWRITEAOF")
                while ours.cmd("INFO", "persistence").find(b"aof_rewrite_in_progress:1") >= 0:
                    pass
            ours.close()
            server.kill()
            server.start()
            ours = server.connect()
            steps.equal(f"{name}, round {round_number}: equal after kill -9", ours.cmd("DEBUG", "DIGEST"), digest)
            ours.close()
        ours = server.connect()
        ours.cmd("SAVE")
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(os.path.join(server.directory, "dump.rdb"), directory)
            with Server("redis", redis, directory=directory) as loaded:
                connection = loaded.connect()
                steps.equal(f"{name}: redis-server loads what SAVE wrote", connection.cmd("DEBUG", "DIGEST"), digest)


def large_requests(rng):
    """Requests whose largest argument goes to the log without a further copy, each on a key of its own and on the same one."""
    def large():
        return rng.randbytes(rng.choice((600_000, 1_048_576, 1_048_577, 2_500_000)))

    far_s = 4 * 10**9
    for key in (b"l:a", b"l:b"):
        yield from (
            [b"SET", key, large()], [b"SET", key, large(), "EXAT", far_s], [b"SET", key, large(), "KEEPTTL", "GET"],
            [b"SET", key, large(), "NX"], [b"SETNX", key, large()], [b"GETSET", key, large()], [b"GETRANGE", key, 8000, 8400],
            [b"APPEND", key, large()], [b"SETRANGE", key, 5000, large()], [b"MSET", key, large(), b"l:c", large(), b"l:d", "x"],
            [b"MSETNX", b"l:%d" % rng.randrange(10**9), large(), key + b":new", large()], [b"SETEX", key, 10**9, large()],
            [b"PERSIST", key], [b"APPEND", key, "after"], [b"COPY", key, b"l:copy", "REPLACE"], [b"SETBIT", b"l:copy", 70_000, 1],
            [b"DEL", b"l:t"], [b"RPUSH", b"l:t", "x", large(), "y"], [b"LSET", b"l:t", 0, large()], [b"LPUSH", key, large()],
            [b"HSET", b"l:h", "f", large(), "g", 1], [b"SADD", b"l:s", large()], [b"ZADD", b"l:z", 3, large()],
            [b"EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, key, large()], [b"PFADD", b"l:p", large()],
        )
        # The same bytes twice, and an argument that is larger than what is stored.
        text = large()
        yield from ([b"MSET", key, text, b"l:e", text], [b"SETRANGE", b"l:f", 0, text], [b"LREM", b"l:t", 0, text])


def check_large_requests(steps, name, options, seed):
    """What large requests leave, and what of it a restart finds."""
    rng = random.Random(seed)
    with Server("redis", {"appendonly": "no", "enable-debug-command": "yes"}) as reference, \
            Server("sexton", {"appendonly": "yes", "enable-debug-command": "yes", **options}) as server:
        ours, theirs = server.connect(), reference.connect()
        differs = ""
        for words in large_requests(rng):
            in_transaction = rng.randrange(4) == 0
            got, expected = (run(connection, words, in_transaction) for connection in (ours, theirs))
            same = got == expected and ours.cmd("DEBUG", "DIGEST") == theirs.cmd("DEBUG", "DIGEST")
            differs = differs or ("" if same else f"{str(words)[:60]}: {str(got)[:60]} instead of {str(expected)[:60]}")
        steps.check(f"large requests, {name}: answered as by redis-server, with equal data", not differs, differs)
        ours.close()
        server.kill()
        server.start()
        steps.equal(f"large requests, {name}: equal after kill -9", server.connect().cmd("DEBUG", "DIGEST"), theirs.cmd("DEBUG", "DIGEST"))


def check_longer_than_loads(steps):
    """A string that is longer than a request may bring into memory: what reads it reads a part at a time."""
    options = {"maxmemory": "48mb", "memtable-bytes": "4mb", "appendonly": "yes"}
    with Server("redis", {"appendonly": "no"}) as reference, Server("sexton", options) as server:
        ours, theirs = server.connect(timeout_s=60), reference.connect()
        rng = random.Random(3)
        for connection in (ours, theirs):
            for number in range(1, 10):
                connection.cmd("SETBIT", "s", number * 8_000_000 - 1, 0)
        for _ in range(20):
            piece = rng.randbytes(1_000_000)
            for connection in (ours, theirs):
                connection.cmd("APPEND", "s", piece)
        for words in (["BITCOUNT", "s"], ["BITPOS", "s", 1], ["BITPOS", "s", 0, 9_000_001, -1], ["BITCOUNT", "s", 5, -7, "BIT"],
                      ["BITPOS", "s", 1, 20, 30], ["STRLEN", "s"], ["GETRANGE", "s", 8_999_000, 12_000_000]):
            got, expected = ours.cmd(*words), theirs.cmd(*words)
            steps.check(f"{words[0]} {words[2:]} of 29 MB under a bound of 48", got == expected, f"{str(got)[:80]} instead of {str(expected)[:80]}")


def check_others(steps, mb):
    """Half of the others' answers, and all but the slowest, while one client works on strings of so many megabytes."""
    with Server("sexton", {"appendonly": "yes"}) as server:
        connection = server.connect(timeout_s=120)
        keys = [b"small:%d" % number for number in range(500)]
        for key in keys:
            connection.cmd("SET", key, b"v")
        content = os.urandom(1 << 20) * mb
        for name, requests in {
            "SET": [[b"SET", b"k%d" % number, content] for number in range(4)],
            "APPEND, SETRANGE, SETBIT": [words for number in range(300) for words in (
                [b"APPEND", b"k0", b"x" * 10], [b"SETRANGE", b"k1", number * 5003, b"abc"], [b"SETBIT", b"k2", number * 7001, 1])],
            "GET": [[b"GET", b"k%d" % number] for number in range(4)],
            "GETRANGE": [[b"GETRANGE", b"k3", number * 1000, number * 1000 + 900] for number in range(500)],
            "COPY, RENAME, BITCOUNT": [[b"COPY", b"k0", b"c"], [b"RENAME", b"c", b"d"], [b"BITCOUNT", b"d"], [b"DEL", b"d"]] * 2,
        }.items():
            visitor = Visitor(server, keys, rate=200)
            for words in requests:
                connection.cmd(*words)
            half_ms, *_, late_ms, longest_ms = answer_ms(visitor.leave())
            steps.check(f"others are answered beside {name} of {mb} MB", half_ms < 50 and longest_ms < 2000,
                        f"half within {half_ms:.2f} ms, 99.9 % within {late_ms:.1f} ms, the longest {longest_ms:.0f} ms")


def check_sent_values(steps, name, options, rng):
    """Replies of clients that read late, while another overwrites, edits and deletes what they asked for: each is a value that was there."""
    lengths = (8000, 16_384, 100_000, 400_000)
    # More of a cache than it keeps.
    keys = [b"v:%d" % number for number in range(700 if "maxmemory" in options else 30)]
    values, known, number = {}, {None}, 0
    with Server("sexton", {"appendonly": "yes", "client-output-buffer-limit": "normal 0 0 0", **options}) as server:
        writer = server.connect(timeout_s=120)

        def write(key):
            nonlocal number
            number += 1
            mark, old = b"%08d" % number, values.get(key)
            # What was evicted cannot be edited.
            kind = rng.randrange(10) if old and "maxmemory" not in options else 0
            if kind < 6:
                values[key] = mark * (rng.choice(lengths) // 8)
                writer.cmd("SET", key, values[key])
            elif kind < 7:
                del values[key]
                writer.cmd("DEL", key)
            elif kind < 8:
                writer.cmd("EXPIRE", key, 1000)
            elif kind < 9:
                values[key] = old + mark
                writer.cmd("APPEND", key, mark)
            else:
                values[key] = mark + old[8:]
                writer.cmd("SETRANGE", key, 0, mark)
            known.add(hash(values.get(key)) if key in values else None)

        for key in keys:
            write(key)
        wrong = missing = answered = 0
        for _ in range(8):
            readers = [server.connect(timeout_s=120) for _ in range(4)]
            for reader in readers:
                reader.send([[b"GET", rng.choice(keys)] for _ in range(40)] + [[b"ECHO", b"all"]])
            for _ in range(60):
                write(rng.choice(keys))
            for reader in readers:
                for _ in range(40):
                    value = reader.read_node().value
                    answered += 1
                    missing += value is None
                    wrong += (None if value is None else hash(value)) not in known
                wrong += reader.read_node().value != b"all"
                reader.close()
        steps.check(f"values that change while they are sent, {name}", wrong == 0 and 0 < missing < answered / 2,
                    f"{wrong} of {answered} replies were never a value, {missing} are nil")
        held_bytes = 0
        for _ in range(1000):
            held_bytes = int(server.info()["mem_clients_normal"])
            if held_bytes < 1 << 20:
                break
        steps.check(f"nothing is held for clients that are gone, {name}", held_bytes < 1 << 20, f"{held_bytes} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--edits", type=int, default=600)
    parser.add_argument("--mb", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    steps = Steps("long strings")
    check_edits(steps, "in memory", {}, args.edits, args.seed)
    check_edits(steps, "always", {"appendfsync": "always"}, args.edits // 2, args.seed + 1)
    # A request may have three megabytes of it, BITOP's result included.
    small = {"maxmemory": "96mb", "memtable-bytes": "4mb"}
    check_edits(steps, "beyond memory", small, args.edits, args.seed + 2, (250, 700_000))
    check_edits(steps, "in small pieces", {"collection-inline-max": "64"}, args.edits // 2, args.seed + 3)
    wbl = {}
    place, env = persistent_memory(wbl)
    check_edits(steps, "write-behind", wbl, args.edits // 2, args.seed + 4, env=env)
    shutil.rmtree(place)
    check_longer_than_loads(steps)
    rng = random.Random(args.seed)
    for name, options in {
        "everysec": {}, "always": {"appendfsync": "always"}, "without a log": {"appendonly": "no"},
        "shared with memtables": {"appendonly": "no", "share-values": "yes"}, "as a cache": {"maxmemory": "96mb", "maxmemory-policy": "allkeys-lru"},
    }.items():
        check_sent_values(steps, name, options, rng)
    always = {"appendfsync": "always"}
    for number, (name, options) in enumerate({
        "always": always,
        "with the time in the log": {**always, "aof-timestamp-enabled": "yes"},
        "in small pieces": {**always, "collection-inline-max": "64"},
    }.items()):
        check_large_requests(steps, name, options, args.seed + 5 + number)
    with tempfile.TemporaryDirectory() as place:
        devices = os.path.join(place, "devices.conf")
        with open(devices, "w") as config:
            config.write(f"device far kind hdd path {place}/far\naof-route 600 far\n")
        os.mkdir(os.path.join(place, "far"))
        check_large_requests(steps, "logged on another device", {**always, "include": devices}, args.seed + 9)
    check_others(steps, args.mb)
    steps.finish()


if __name__ == "__main__":
    main()
