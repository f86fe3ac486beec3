"""Data of every type in small and large encodings, and two ways to read it: through a server's
replies, and through the lines of `rdb_tool print`. Both yield identical plain Python values."""

import json
import random
import subprocess

from harness.resp import ReplyError
from harness.server import ROOT

NUMBERS = [0, 1, 12, 13, 127, 128, -1, -128, -4096, 4095, 4096, -32768, 32768, 65535, 8388607, -8388609,
           2**31 - 1, -2**31, 2**31, 2**63 - 1, -2**63]


def texts(rng, count, size_max):
    """Distinct byte strings: compressible, random, empty-ish, numbers."""
    out = {b"", b"a", b"\0\xff\r\n", b"x" * size_max}
    out.update(str(number).encode() for number in NUMBERS)
    while len(out) < count:
        size = rng.randrange(1, size_max)
        out.add(rng.randbytes(size) if rng.random() < 0.5 else str(size).encode() * (size // 3 + 1))
    chosen = sorted(out)
    rng.shuffle(chosen)
    return chosen[:count]


def commands(seed, version):
    """Commands that fill databases 0 and 5; `version` is (major, minor) of the server."""
    rng = random.Random(seed)
    yield ("FLUSHALL",)
    for db, far in ((0, 4102444800000), (5, 4102444800001)):
        yield ("SELECT", db)
        for nth, text in enumerate(texts(rng, 60, 3000)):
            yield ("SET", f"string:{nth}", text)
        yield ("SET", "expiring", "x", "PX", far - 3600_000 - 4102444800000 + 10**11)
        for size, longest in ((3, 20), (30, 60), (500, 60), (600, 5000), (2, 70000)):
            name = f"{size}:{longest}"
            some = texts(rng, size, longest)
            for text in some:
                yield ("RPUSH", f"list:{name}", text)
            yield ("SADD", f"set:{name}", *some)
            for text in some:
                score = rng.choice([0, -1.5, 1e300, 3.25, 17, float("inf"), -float("inf"), 0.1, 1e-10])
                yield ("ZADD", f"zset:{name}", repr(score), text)
            for field, value in zip(some, texts(rng, size, longest)):
                yield ("HSET", f"hash:{name}", field, value)
            yield ("PEXPIREAT", f"hash:{name}", far)
        for width in (2**15 - 1, 2**31 - 1, 2**63 - 1):
            yield ("SADD", f"intset:{width}", 1, -2, 300, width, -width)
        yield ("SADD", "intset:500", *range(-250, 250))
        yield from stream_commands(rng, version)
        if version >= (9, 0):
            for nth in range(5):
                yield ("HSET", "hash:times", f"f{nth}", nth)
            yield ("HPEXPIREAT", "hash:times", far, "FIELDS", 2, "f1", "f3")
            yield ("HPEXPIREAT", "hash:times", far + 5000, "FIELDS", 1, "f4")
    if version >= (7, 0):
        yield ("FUNCTION", "FLUSH")
        yield ("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")


def stream_commands(rng, version):
    yield ("XADD", "stream:small", "5-1", "field", "value")
    for nth in range(450):
        fields = ["a", nth, "b", "v" * rng.randrange(60)]
        if nth % 17 == 0:
            fields += [f"other{nth}", -nth]
        yield ("XADD", "stream:large", f"{1000 + nth // 4}-{nth % 4 + 1}", *fields)
    for nth in range(3, 40, 3):
        yield ("XDEL", "stream:large", f"{1000 + nth}-1")
    yield ("XGROUP", "CREATE", "stream:large", "readers", "0")
    yield ("XGROUP", "CREATE", "stream:large", "idle", "1010-2")
    yield ("XREADGROUP", "GROUP", "readers", "anna", "COUNT", 7, "STREAMS", "stream:large", ">")
    yield ("XREADGROUP", "GROUP", "readers", "ben", "COUNT", 30, "STREAMS", "stream:large", ">")
    yield ("XACK", "stream:large", "readers", "1001-2", "1002-2", "1004-1")
    yield ("XADD", "stream:empty", "9-9", "a", "b")
    yield ("XDEL", "stream:empty", "9-9")


def fill(connection, version, seed=1):
    batch = list(commands(seed, version))
    for request, node in zip(batch, connection.pipeline(batch)):
        if node.is_error():
            raise SystemExit(f"{request[:2]}: {node.value!r}")


def pairs(flat):
    return list(zip(flat[0::2], flat[1::2]))


def pending_of(part):
    """The pending list of a group or consumer, under one of its two names."""
    return part[b"pel"] if b"pel" in part else part[b"pending"]


def stream_view(connection, key, with_groups):
    entries = [[entry[0], entry[1]] for entry in connection.cmd("XRANGE", key, "-", "+")]
    info = dict(pairs(connection.cmd("XINFO", "STREAM", key, "FULL", "COUNT", 0)))
    view = {"entries": entries, "last": info[b"last-generated-id"], "groups": []}
    if b"entries-added" in info:
        view["added"] = info[b"entries-added"]
        view["max_deleted"] = info[b"max-deleted-entry-id"]
    for group in info[b"groups"] if with_groups else []:
        group = dict(pairs(group))
        consumers = []
        for consumer in group[b"consumers"]:
            consumer = dict(pairs(consumer))
            consumers.append([consumer[b"name"], consumer[b"seen-time"], [p[0] for p in pending_of(consumer)]])
        seen = {"name": group[b"name"], "last": group[b"last-delivered-id"], "consumers": consumers}
        seen["pending"] = [[p[0], p[2], p[3]] for p in pending_of(group)]
        if b"entries-read" in group:
            seen["read"] = group[b"entries-read"]
        view["groups"].append(seen)
    return view


def value_by_reply(connection, key, kind, version):
    if kind == b"string":
        return connection.cmd("GET", key)
    if kind == b"list":
        return connection.cmd("LRANGE", key, 0, -1)
    if kind == b"set":
        return sorted(connection.cmd("SMEMBERS", key))
    if kind == b"zset":
        found = pairs(connection.cmd("ZRANGE", key, 0, -1, "WITHSCORES"))
        return sorted((member, float(score)) for member, score in found)
    if kind == b"hash":
        flat = connection.cmd("HGETALL", key)
        times = {}
        if version >= (9, 0):
            fields = flat[0::2]
            found = connection.cmd("HPEXPIRETIME", key, "FIELDS", len(fields), *fields)
            times = {field: time for field, time in zip(fields, found) if time > 0}
        return dict(pairs(flat)), times
    return stream_view(connection, key, with_groups=True)


def by_reply(connection, version):
    """Every key of every database as the server answers: (db, key) -> (type, expiry, value)."""
    out = {}
    for db in range(16):
        connection.cmd("SELECT", db)
        for key in connection.cmd("KEYS", "*"):
            kind = connection.cmd("TYPE", key)
            try:
                expires = connection.cmd("PEXPIRETIME", key)
            except ReplyError:
                expires = None  # before 7.0 there is no way to ask for the exact time
            out[(db, key)] = (kind, expires, value_by_reply(connection, key, kind, version))
    return out


def rdb_tool(*arguments):
    """Runs the tool, built beside the server under test; returns its lines."""
    import os
    from pathlib import Path
    server = os.environ.get("SEXTON_SERVER")
    folder = Path(server).resolve().parent if server else ROOT / "target/release"
    done = subprocess.run([folder / "rdb_tool", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.splitlines()


def unhex(value):
    if isinstance(value, str):
        return bytes.fromhex(value)
    if isinstance(value, list):
        return [unhex(item) for item in value]
    if isinstance(value, dict):
        return {name: unhex(item) for name, item in value.items()}
    return value


def decoded_value(kind, value):
    if kind == "set":
        return sorted(unhex(value))
    if kind == "zset":
        return sorted((bytes.fromhex(member), float(score)) for member, score in value)
    if kind == "hash":
        fields = unhex(value["fields"])
        times = zip(fields[0::2], value["times"])
        return dict(pairs(fields)), {field: time for field, time in times if time}
    return unhex(value)


def by_file(path):
    """Like `by_reply`, but from a file, with the sources of its function libraries."""
    out, functions = {}, []
    for line in rdb_tool("print", path):
        record = json.loads(line)
        if record["type"] == "function":
            functions.append(bytes.fromhex(record["value"]))
            continue
        expires = -1 if record["expires"] is None else record["expires"]
        value = decoded_value(record["type"], record["value"])
        out[(record["db"], bytes.fromhex(record["key"]))] = (record["type"].encode(), expires, value)
    return out, functions


def reduced(value, like):
    """A stream decoded from a file, without the parts that the reply does not show."""
    if not isinstance(like, dict) or "entries" not in like:
        return value
    groups = []
    for group, seen in zip(value["groups"], like["groups"]):
        groups.append({name: group[name] for name in seen})
    return {name: value[name] for name in like} | {"groups": groups + value["groups"][len(like["groups"]):]}


def differences(replies, decoded):
    """Keys on which the two views differ, at most five."""
    wrong = sorted(set(replies) ^ set(decoded))
    for name in replies.keys() & decoded.keys():
        (kind, expires, value), (other_kind, other_expires, other) = replies[name], decoded[name]
        same_time = expires is None or expires == other_expires
        if kind != other_kind or not same_time or value != reduced(other, value):
            wrong.append(name)
    return wrong[:5]
