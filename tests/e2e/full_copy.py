"""python3 -m full_copy: full copies for clients that speak the replica protocol: redis-cli --rdb, SYNC, and servers with REPLICAOF.

redis-server loads the copies, and DEBUG DIGEST compares them; REPLCONF, SYNC and PSYNC are sent to redis-server, too.
"""

import argparse
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import rdb_data
from harness.resp import Connection
from harness.server import Server, redis_tool
from harness.steps import Steps

KEPT = {"enable-debug-command": "yes", "save": "", "appendonly": "no"}
OURS = dict(KEPT, appendonly="yes")
#: Socket buffers of a client that reads nothing.
SMALL_BYTES = 4096


def until(is_so, timeout_s=30.0):
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def loaded(file, folder, kind="redis"):
    """(digest, keys, libraries) of a Redis or Valkey server that starts with the file."""
    home = Path(tempfile.mkdtemp(dir=folder))
    shutil.copy(file, home / "dump.rdb")
    with Server(kind, KEPT, directory=home) as other:
        return seen(other)


def seen(server):
    connection = server.connect()
    info = server.info()
    keys = {name: text.split(",")[0] for name, text in info.items() if name.startswith("db") and name[2:].isdigit()}
    found = connection.cmd("DEBUG", "DIGEST"), keys, connection.cmd("FUNCTION", "LIST", "WITHCODE")
    connection.close()
    return found


def sync(port, *before):
    """The bytes that SYNC sends, and whether an end mark follows them."""
    connection = Connection(port)
    for request in before:
        connection.cmd(*request)
    connection.send_raw(b"SYNC\r\n")
    data = b""
    while piece := connection.sock.recv(1 << 18):
        data += piece
    connection.close()
    head, _, rest = data.lstrip(b"\n").partition(b"\r\n")
    if head.startswith(b"$EOF:"):
        mark = head[5:]
        return rest[: -len(mark)] if len(mark) == 40 and rest.endswith(mark) else None
    return rest if int(head[1:]) == len(rest) else None


def by_redis_cli(steps, server, folder):
    want = seen(server)
    for mode in ("--rdb", "--functions-rdb"):
        file = folder / "cli.rdb"
        done = subprocess.run([redis_tool("redis-cli"), "-p", str(server.port), mode, file], capture_output=True, text=True)
        steps.check(f"redis-cli {mode}", "Transfer finished with success" in done.stdout + done.stderr)
        digest, keys, functions = loaded(file, folder)
        if mode == "--rdb":
            steps.equal("all types, expiry, two databases: same digest", digest, want[0])
            steps.equal("same number of keys", keys, want[1])
        else:
            steps.equal("functions alone: no keys", keys, {})
        steps.equal(f"{mode}: same functions", functions, want[2])
    for name, before in (("with its length in front", ()), ("to a mark", [("REPLCONF", "capa", "eof")])):
        data = sync(server.port, *before)
        file.write_bytes(data or b"")
        steps.equal(f"SYNC, {name}: same digest", loaded(file, folder)[0], want[0])
    nothing = sync(server.port, ("REPLCONF", "rdb-filter-only", ""))
    file.write_bytes(nothing or b"")
    steps.equal("a copy of nothing", loaded(file, folder)[1:], ({}, []))


def by_replica(steps, kind, server, folder):
    """A Redis or Valkey server becomes a replica once: equal data, a link that is down, and no second copy."""
    connection = server.connect()
    # Valkey has a digest of its own.
    file = folder / "replica.rdb"
    file.write_bytes(sync(server.port))
    want = loaded(file, folder, kind)[0]
    with Server(kind, {"enable-debug-command": "yes"}) as replica:
        other = replica.connect()
        refused = lambda: replica.log_path.read_text(errors="replace").count("NOMASTERLINK")
        copies = lambda: server.log_path.read_text().count("asks for synchronization")
        before = copies()
        other.cmd("REPLICAOF", "127.0.0.1", server.port)
        steps.check(f"{kind}: asks again and is refused", until(lambda: refused() >= 2))
        steps.equal(f"{kind}: one copy was sent", copies() - before, 1)
        steps.equal(f"{kind}: same digest", other.cmd("DEBUG", "DIGEST"), want)
        steps.equal(f"{kind}: its link is down", replica.info()["master_link_status"], "down")
        connection.cmd("SET", "later", kind)
        other.cmd("REPLICAOF", "NO", "ONE")
        other.cmd("REPLICAOF", "127.0.0.1", server.port)
        is_new = lambda: other.node("GET", "later").value == kind.encode()
        steps.check(f"{kind}: REPLICAOF NO ONE, REPLICAOF: a new copy", until(is_new))
        steps.equal(f"{kind}: two copies were sent", copies() - before, 2)
    connection.cmd("DEL", "later")
    connection.close()


def behind_its_back(steps, server):
    """A restarted server recognizes a replica that has had its copy."""
    with Server("redis", {"enable-debug-command": "yes"}) as replica:
        replica.connect().cmd("REPLICAOF", "127.0.0.1", server.port)
        refused = lambda: replica.log_path.read_text(errors="replace").count("NOMASTERLINK")
        until(lambda: refused() >= 1)
        server.kill()
        server.start()
        seen_before = refused()
        steps.check("after kill -9 of ours: still refused", until(lambda: refused() > seen_before))
        steps.equal("no copy was sent again", server.log_path.read_text().split("is starting")[-1].count("asks for"), 0)


def replies(port, requests):
    connection = Connection(port)
    found = [node.raw for node in map(lambda request: connection.node(*request), requests)]
    connection.close()
    return found


def beside_redis(steps, server):
    requests = [
        ("REPLCONF", "listening-port", 7000, "capa", "eof", "capa", "psync2"), ("REPLCONF", "ip-address", "1.2.3.4"),
        ("REPLCONF", "ip-address", "1" * 300), ("REPLCONF", "listening-port", "x"), ("REPLCONF", "listening-port"),
        ("REPLCONF", "rdb-only", 1), ("REPLCONF", "rdb-filter-only", "functions"), ("REPLCONF", "rdb-filter-only", "keys"),
        ("REPLCONF", "rdb-filter-only", '"'), ("REPLCONF", "version", "8.0.0"), ("REPLCONF",), ("PSYNC", "?"),
        ("MULTI",), ("SYNC",), ("PSYNC", "?", -1), ("EXEC",), ("EVAL", "return redis.call('sync')", 0),
    ]
    users = [("ACL", "SETUSER", "u", "on", "nopass", "~*", "+@all", "-sync", "-psync", "-replconf"), ("AUTH", "u", ""), ("SYNC",),
             ("PSYNC", "?", -1), ("REPLCONF", "capa", "eof"), ("AUTH", "default", ""), ("ACL", "DELUSER", "u")]
    with Server("redis", dict(KEPT, repl_diskless_sync_delay=0)) as redis:
        for asked in (requests, users):
            ours, theirs = replies(server.port, asked), replies(redis.port, asked)
            wrong = [(request, our, their) for request, our, their in zip(asked, ours, theirs) if our != their]
            steps.equal(f"{len(asked)} replies as redis-server", wrong, [])
        shape = {port: Connection(port) for port in (server.port, redis.port)}
        told = {}
        for port, connection in shape.items():
            connection.cmd("REPLCONF", "capa", "eof")
            connection.send_raw(b"PSYNC ? -1\r\n")
            while (line := connection.sock.recv(1000).lstrip(b"\n")) == b"":
                pass
            told[port] = line.split(b"\r\n")[0].split()
            listed = Connection(port)
            told[port] = told[port][0], len(told[port][1]), b" flags=S " in listed.cmd("CLIENT", "LIST", "TYPE", "replica")
            listed.close()
            connection.close()
        steps.equal("PSYNC ? -1 and CLIENT LIST as redis-server", told[server.port], told[redis.port])


def greedy_client(port):
    """A client that requests a copy and does not read it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BYTES)
    sock.connect(("127.0.0.1", port))
    sock.sendall(b"SYNC\r\n")
    return sock


def bounds(steps):
    """A client that does not read uses little memory and is disconnected; one that disconnects leaves nothing behind."""
    with Server("sexton", dict(OURS, appendfsync="always")) as server:
        connection = server.connect()
        connection.cmd("DEBUG", "POPULATE", 40_000, "key", 1000)
        connection.cmd("CONFIG", "SET", "rdbcompression", "no")
        snapshots = lambda: len(connection.cmd("SEXTON.SNAPSHOT", "LIST"))

        def waiting():
            lines = connection.cmd("CLIENT", "LIST", "TYPE", "replica").decode().splitlines()
            return [int(word[8:]) for line in lines for word in line.split() if word.startswith("tot-mem=")]

        greedy = [greedy_client(server.port) for _ in range(8)]
        # A copy waits as soon as its next piece, of at most 64 KiB, does not fit into the window of 512 KiB any more.
        begun = until(lambda: len(waiting()) == 8 and min(waiting()) > 448 << 10)
        steps.check("eight copies begin", begun, str(waiting()))
        steps.check("each holds at most 3 MB", max(waiting()) < 3 << 20, f"{max(waiting())} bytes")
        ninth = server.connect()
        answer = ninth.node("SYNC").value
        steps.check("the ninth is told to come later", answer.startswith(b"NOMASTERLINK too many"), str(answer))
        steps.equal("its connection goes on", ninth.cmd("PING"), b"PONG")
        for sock in greedy[:4]:
            sock.close()
        steps.check("four leave: four snapshots", until(lambda: snapshots() == 4), str(snapshots()))
        connection.cmd("CONFIG", "SET", "repl-timeout", 1)
        steps.check("nothing read for repl-timeout: closed", until(lambda: snapshots() == 0 and not waiting()), str(waiting()))
        steps.check("and the log says so", "has read nothing for 1 s (repl-timeout)" in server.log_path.read_text())
        connection.cmd("CONFIG", "SET", "repl-timeout", 60)
        killed = greedy_client(server.port)
        steps.check("a ninth copy begins", until(lambda: snapshots() == 1))
        steps.equal("CLIENT KILL TYPE replica", connection.cmd("CLIENT", "KILL", "TYPE", "replica"), 1)
        steps.check("and its snapshot has gone", until(lambda: snapshots() == 0))
        connection.cmd("CONFIG", "SET", "client-output-buffer-limit", "replica 100kb 0 0")
        narrow = greedy_client(server.port)
        steps.check("a hard limit of 100 kb", until(lambda: snapshots() == 1 and waiting() and max(waiting()) > 30_000), str(waiting()))
        steps.check("bounds what waits", max(waiting()) < 250_000, str(waiting()))
        steps.equal("a whole copy fits through it", len(sync(server.port, ("REPLCONF", "capa", "eof")) or b"") > 40_000_000, True)
        steps.equal("SIGTERM while a copy is sent", server.terminate(10), 0)
        for sock in (*greedy, killed, narrow):
            sock.close()


def instant(steps):
    """A copy is of one instant, while others write."""
    with Server("sexton", OURS) as server:
        connection, writer = server.connect(), server.connect()
        for nth in range(2000):
            connection.cmd("SET", f"a{nth}", 0)
        held = Connection(server.port)
        held.cmd("REPLCONF", "capa", "eof")
        held.send_raw(b"SYNC\r\n")
        until(lambda: len(connection.cmd("SEXTON.SNAPSHOT", "LIST")) == 1 or b"flags=S" in connection.cmd("CLIENT", "LIST"))
        writer.pipeline([("SET", f"a{nth}", 1) for nth in range(2000)] + [("FLUSHALL",)])
        data = b""
        while piece := held.sock.recv(1 << 18):
            data += piece
        with tempfile.TemporaryDirectory(prefix="sexton-test-copy-") as folder:
            file = Path(folder) / "held.rdb"
            file.write_bytes(data.partition(b"\r\n")[2][:-40])
            keys, _ = rdb_data.by_file(file)
        steps.equal("2,000 keys of one instant", {value for _, _, value in keys.values()}, {b"0"})
        steps.equal("none is missing", len(keys), 2000)


def fields_that_expire(steps):
    """The first bytes of a copy tell whether Redis can read it, long before its last key is known."""
    with Server("sexton", OURS) as server:
        connection = server.connect()
        connection.pipeline([("HSET", f"hash{nth}", "field", "value") for nth in range(1000)])
        ways = (("with its length in front", ()), ("to a mark", [("REPLCONF", "capa", "eof")]))
        begins = lambda: [(sync(server.port, *before) or b"").split(b"\xfa")[0] for _, before in ways]
        steps.equal("a copy that Redis can read", begins(), [b"REDIS0009"] * 2)
        connection.cmd("HEXPIRE", "hash999", 100_000, "FIELDS", 1, "field")
        steps.equal("a copy with fields that expire is of Valkey's version", begins(), [b"VALKEY080"] * 2)
        connection.cmd("HPERSIST", "hash999", "FIELDS", 1, "field")
        steps.equal("one without them is not any more", begins(), [b"REDIS0009"] * 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one replica, and no restart behind its back")
    quick = parser.parse_args().quick
    steps = Steps("full copies")
    with tempfile.TemporaryDirectory(prefix="sexton-test-copy-") as folder:
        home = Path(folder) / "home"
        with Server("sexton", OURS, directory=home) as server:
            connection = server.connect()
            rdb_data.fill(connection, (7, 0))
            connection.cmd("SET", "gone", "x", "PX", 1)
            until(lambda: connection.cmd("EXISTS", "gone") == 0)
            connection.close()
            by_redis_cli(steps, server, Path(folder))
            by_replica(steps, "redis", server, Path(folder))
            beside_redis(steps, server)
            if not quick:
                by_replica(steps, "valkey", server, Path(folder))
                behind_its_back(steps, server)
    instant(steps)
    fields_that_expire(steps)
    bounds(steps)
    steps.finish()


if __name__ == "__main__":
    main()
