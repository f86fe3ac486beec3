"""python3 -m parity [--server sexton]: behaviour that depends on settings, compared with redis-server 7.0.15.

The random run keeps its two servers at their defaults. Here both get common scripts of settings and
commands, and the raw replies must be equal. A step that only our server knows (commands of 7.2) is
checked against the documentation of Redis 7.2.
"""

import argparse
import re

from harness.resp import to_bytes
from harness.server import Server
from harness.steps import Steps

MB = 1 << 20

#: name -> commands, sent to both servers; the raw replies must be equal.
SAME = {
    "strings end at proto-max-bulk-len": [
        ("CONFIG", "SET", "proto-max-bulk-len", 2 * MB),
        ("SET", "s", "x" * (2 * MB - 10)),
        ("APPEND", "s", "0123456789"),
        ("APPEND", "s", "!"),
        ("STRLEN", "s"),
        ("SETRANGE", "s", 2 * MB, "!"),
        ("SETRANGE", "s", 2 * MB - 1, "!"),
        ("SETRANGE", "new", 2 * MB, "!"),
        ("SETRANGE", "new", 2 * MB - 1, "!"),
        ("SETRANGE", "new", "9223372036854775807", "!"),
        ("STRLEN", "new"),
        ("SET", "a", "x" * 1000),
        ("SET", "b", "y" * 1000),
        ("LCS", "a", "b", "LEN"),
        ("CONFIG", "SET", "proto-max-bulk-len", MB),
        ("LCS", "a", "b", "LEN"),
        ("APPEND", "s", ""),
        ("APPEND", "fresh", "x"),
        ("CONFIG", "SET", "proto-max-bulk-len", MB - 1),
        ("DEL", "s", "new"),
        ("CONFIG", "SET", "proto-max-bulk-len", 512 * MB),
    ],
    "RESTORE with IDLETIME and FREQ": [
        ("SET", "k", "hello"),
        ("RESTORE", "idle", 0, "@dump", "IDLETIME", 1000),
        ("OBJECT", "IDLETIME", "idle"),
        ("OBJECT", "FREQ", "idle"),
        ("RESTORE", "idle", 0, "@dump", "REPLACE", "FREQ", 7),
        ("OBJECT", "IDLETIME", "idle"),
        ("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"),
        ("RESTORE", "freq", 0, "@dump", "FREQ", 200),
        ("OBJECT", "FREQ", "freq"),
        ("OBJECT", "IDLETIME", "freq"),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "FREQ", 0),
        ("OBJECT", "FREQ", "freq"),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "FREQ", 256),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "FREQ", -1),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "IDLETIME", -1),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "IDLETIME", 5, "FREQ", 5),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "FREQ", 5, "IDLETIME", 5),
        ("RESTORE", "freq", 0, "@dump", "REPLACE", "FREQ"),
        ("CONFIG", "SET", "maxmemory-policy", "noeviction"),
    ],
    "RANDOMKEY of few keys": [
        ("FLUSHALL",),
        ("RANDOMKEY",),
        ("SET", "only", 1),
        ("RANDOMKEY",),
        ("SELECT", 1),
        ("RANDOMKEY",),
        ("SELECT", 0),
        ("DEL", "only"),
        ("RANDOMKEY",),
        ("SET", "gone", 1, "PXAT", 1),
        ("RANDOMKEY",),
        ("SET", "stays", 1),
        ("MULTI",),
        ("RANDOMKEY",),
        ("DEL", "stays"),
        ("RANDOMKEY",),
        ("SET", "new", 1),
        ("RANDOMKEY",),
        ("EXEC",),
    ],
    "maxclients beyond what the system allows": [
        ("CONFIG", "SET", "maxclients", 100),
        ("CONFIG", "GET", "maxclients"),
        ("CONFIG", "SET", "maxclients", 10000),
    ],
    "several directives, all or none": [
        ("CONFIG", "SET", "timeout", 100, "maxmemory-samples", 3),
        ("CONFIG", "GET", "timeout"),
        ("CONFIG", "SET", "timeout", 200, "maxmemory-samples", "x"),
        ("CONFIG", "GET", "timeout"),
        ("MULTI",),
        ("CONFIG", "SET", "timeout", 0, "maxmemory-samples", 5),
        ("CONFIG", "GET", "timeout"),
        ("EXEC",),
    ],
}


def a_second_apart(got, expected):
    """Idle times are whole seconds: the two servers may be asked on either side of a tick."""
    numbers = [reply[1:].strip() for reply in (got, expected) if reply.startswith(b":")]
    return len(numbers) == 2 and abs(int(numbers[0]) - int(numbers[1])) <= 1


def same_replies(steps, ours, theirs):
    payload = None
    with_connections = [(server, server.connect()) for server in (ours, theirs)]
    reference = with_connections[1][1]
    reference.cmd("SET", "x", "hello")
    payload = reference.cmd("DUMP", "x")
    for name, script in SAME.items():
        for _, connection in with_connections:
            connection.cmd("FLUSHALL")
        different = []
        for command in script:
            words = [payload if word == "@dump" else to_bytes(word) for word in command]
            got, expected = (connection.node(*words).raw for _, connection in with_connections)
            if got != expected and not (command[:2] == ("OBJECT", "IDLETIME") and a_second_apart(got, expected)):
                shown = b" ".join(word[:30] for word in words)
                different.append(f"{shown!r}: {got[:100]!r}, redis {expected[:100]!r}")
        steps.check(name, not different, "; ".join(different[:3]) or f"{len(script)} commands")
    for _, connection in with_connections:
        connection.close()


def no_touch(steps, server):
    """CLIENT NO-TOUCH (7.2): only TOUCH changes the access time or the counter then."""
    client = server.connect()
    client.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction")
    payload_of = server.connect()
    payload_of.cmd("SET", "x", "hello")
    payload = payload_of.cmd("DUMP", "x")
    readers = [
        ("GET", "k"), ("MGET", "k", "x"), ("GETRANGE", "k", 0, 1), ("STRLEN", "k"), ("GETEX", "k"),
        ("DUMP", "k"), ("COPY", "k", "copy", "REPLACE"), ("LCS", "k", "x"), ("SET", "k", "y", "NX"),
        ("EXISTS", "k"), ("TYPE", "k"), ("TTL", "k"), ("OBJECT", "ENCODING", "k"), ("EXPIRE", "k", 100),
    ]

    def idle_after(command):
        client.cmd("RESTORE", "k", 0, payload, "REPLACE", "IDLETIME", 5000)
        client.cmd(*command)
        return client.cmd("OBJECT", "IDLETIME", "k") >= 5000

    client.cmd("CLIENT", "NO-TOUCH", "ON")
    touched = [" ".join(map(str, command)) for command in readers if not idle_after(command)]
    steps.check("CLIENT NO-TOUCH ON: access times stay", not touched, ", ".join(touched))
    client.cmd("RESTORE", "k", 0, payload, "REPLACE", "IDLETIME", 5000)
    client.pipeline([("GET", "k")] * 50)
    steps.check("also in a pipeline", client.cmd("OBJECT", "IDLETIME", "k") >= 5000)
    steps.check("TOUCH sets them all the same", not idle_after(("TOUCH", "k")))
    client.cmd("CLIENT", "NO-TOUCH", "OFF")
    kept = [" ".join(map(str, command)) for command in readers[:8] if idle_after(command)]
    steps.check("CLIENT NO-TOUCH OFF: they are set again", not kept, ", ".join(kept))
    client.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    client.cmd("CLIENT", "NO-TOUCH", "ON")
    client.cmd("RESTORE", "k", 0, payload, "REPLACE", "FREQ", 1)
    client.pipeline([("GET", "k")] * 200 + [("SET", "k", "z")])
    steps.equal("under LFU the counter stays, SET included", client.cmd("OBJECT", "FREQ", "k"), 1)
    client.cmd("RESET")
    client.pipeline([("GET", "k")] * 200)
    steps.check("RESET ends it", client.cmd("OBJECT", "FREQ", "k") > 1)
    client.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction")
    client.close()
    payload_of.close()


def plain_requests_are_seen(steps, ours, theirs):
    """Pipelined plain GETs and SETs, which take the short path: slow log and statistics of both servers."""
    script = [("SET", f"k{i % 7}", "v" * i) if i % 3 else ("GET", f"k{i % 11}") for i in range(100)]
    seen = []
    for server in (ours, theirs):
        client = server.connect()
        client.cmd("FLUSHALL")
        client.pipeline([("CONFIG", "RESETSTAT"), ("CONFIG", "SET", "slowlog-log-slower-than", 0), ("SLOWLOG", "RESET")])
        client.pipeline(script)
        client.cmd("CONFIG", "SET", "slowlog-log-slower-than", -1)
        slow = [entry[3] for entry in client.cmd("SLOWLOG", "GET", -1)]
        info = server.info()
        calls = [re.match(r"calls=(\d+),", info[f"cmdstat_{name}"])[1] for name in ("get", "set")]
        seen.append((slow, calls, info["keyspace_hits"], info["keyspace_misses"]))
        client.cmd("SLOWLOG", "RESET")
        # A SET of this length takes longer than a microsecond.
        client.cmd("CONFIG", "SET", "slowlog-log-slower-than", 1)
        client.pipeline([("SET", "long", "x" * 60_000)] * 50)
        client.cmd("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
        logged = client.cmd("SLOWLOG", "LEN")
        steps.check(f"slow SETs are in the slow log of {server.kind}", logged >= 10, f"{logged} of 50")
        client.close()
    steps.check("plain GETs and SETs: the slow log", seen[0][0] == seen[1][0], f"{len(seen[0][0])} and {len(seen[1][0])} entries")
    steps.equal("plain GETs and SETs: calls, hits, misses", seen[0][1:], seen[1][1:])


def own_directives(steps, server_kind):
    """Directives of ours that control how files are created."""
    options = {"aof-segment-bytes": "1mb", "compression-upper": "lz4", "filter-bits-per-key": 16}
    with Server(server_kind, options) as server:
        client = server.connect()
        for batch in range(8):
            client.pipeline([("SET", f"k{batch}:{i}", "x" * 1000) for i in range(1000)])
        client.close()
        segments = list((server.directory / "appendonlydir").glob("*.incr.aof"))
        steps.check("aof-segment-bytes 1mb: 8 MB take several files", len(segments) >= 4, f"{len(segments)} files")
        largest = max(path.stat().st_size for path in segments)
        steps.check("none of them much larger", largest <= 2 * MB, f"{largest} bytes")
        steps.equal("SIGTERM", server.terminate(), 0)
        tables = sum(path.stat().st_size for path in (server.directory / "tree").glob("*.tbl"))
        steps.check("compression-upper lz4: the flushed table is small", 0 < tables < 2 * MB, f"{tables} bytes")
        server.start()
        client = server.connect()
        steps.equal("all of it is there after a restart", client.cmd("DBSIZE"), 8000)
        client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="sexton")
    args = parser.parse_args()
    steps = Steps("parity with redis-server")
    with Server(args.server) as ours, Server("redis", {"appendonly": "no"}) as theirs:
        same_replies(steps, ours, theirs)
        plain_requests_are_seen(steps, ours, theirs)
        no_touch(steps, ours)
        steps.check("the server lives", ours.alive())
    own_directives(steps, args.server)
    steps.finish()


if __name__ == "__main__":
    main()
