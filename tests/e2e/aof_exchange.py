"""python3 -m aof_exchange [--server sexton] [--writes N]: append only files exchanged with Redis.

Before BGREWRITEAOF, once log segments were retired, redis-server 7.0 and valkey-server 9.1 refuse the directory.
Afterwards redis-check-aof passes, both start on it, and hold equal data (DEBUG DIGEST, DBSIZE of every
database, PEXPIRETIME of every key that has one), with writes from before, during and after the rewrite.
When the log behind the base has grown too large, the base is renewed, or, with
`auto-aof-rewrite-percentage 0`, given up: then the directory is refused again. All of this with time
annotations in the log.

In the other direction, writes of a redis-server that was started on the directory are never lost
silently: our start is refused until they are imported, or given up with sexton-check.
"""

import argparse
import random
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from harness.resp import Connection
from harness.server import Server, redis_tool, sexton_check
from harness.steps import Steps

DATABASES = (0, 3)
FAR_MS = 4102444800000
PEERS = ("redis", "valkey")


class Load(threading.Thread):
    """Commands of every kind on two databases, `count` of them."""

    def __init__(self, port, seed, count):
        super().__init__(daemon=True)
        self.port, self.rng, self.count, self.error = port, random.Random(seed), count, None

    def request(self):
        rng, key = self.rng, b"k%d" % self.rng.randrange(4000)
        return rng.choice([
            [b"SET", key, rng.randbytes(rng.choice([3, 40, 400]))],
            [b"SET", key, b"%d" % rng.randrange(10**6), b"PXAT", b"%d" % (FAR_MS + rng.randrange(10**6))],
            [b"SET", key, b"x", b"EX", b"100000"],
            [b"DEL", key],
            [b"APPEND", b"a%d" % rng.randrange(50), b"%d," % rng.randrange(100)],
            [b"INCR", b"n%d" % rng.randrange(50)],
            [b"SETRANGE", b"r%d" % rng.randrange(50), b"%d" % rng.randrange(20), b"mid"],
            [b"RENAME", b"n%d" % rng.randrange(50), b"n%d" % rng.randrange(50)],
            [b"PERSIST", key],
            [b"MSET", key, b"1", b"m%d" % rng.randrange(50), b"2"],
        ])

    def run(self):
        try:
            connection = Connection(self.port)
            sent = 0
            while sent < self.count:
                batch = [[b"SELECT", b"%d" % self.rng.choice(DATABASES)]]
                if self.rng.random() < 0.2:
                    batch += [[b"MULTI"], self.request(), self.request(), [b"EXEC"]]
                if self.rng.random() < 0.001:
                    batch.append([b"SWAPDB", b"0", b"3"])
                batch += [self.request() for _ in range(16)]
                sent += len(batch)
                connection.pipeline(batch)
            connection.close()
        except OSError as error:
            self.error = error


def digest(server):
    """Digest of all data, keys of each database, expiry of every key that has one."""
    connection = server.connect()
    found = {"digest": connection.cmd("DEBUG", "DIGEST")}
    for db in DATABASES:
        connection.cmd("SELECT", db)
        found["size", db] = connection.cmd("DBSIZE")
        names = sorted(connection.cmd("KEYS", "*"))
        times = connection.pipeline([[b"PEXPIRETIME", name] for name in names])
        found["expiry", db] = {name: node.value for name, node in zip(names, times) if node.value != -1}
    connection.close()
    return found


def copy_of(server):
    """A copy of the server's append only files as one manifest names them: a flush may retire log meanwhile."""
    files = server.directory / "appendonlydir"
    manifest = files / "appendonly.aof.manifest"
    for _ in range(100):
        named = manifest.read_bytes()
        directory = Path(tempfile.mkdtemp(prefix="sexton-test-exchange-"))
        try:
            shutil.copytree(files, directory / "appendonlydir")
            if manifest.read_bytes() == named:
                return directory
        except shutil.Error:
            pass  # a file of it was retired
        shutil.rmtree(directory)
    raise RuntimeError(f"{files} changed under each of 100 copies")


def peer_on(kind, directory):
    options = {"appendonly": "yes", "auto-aof-rewrite-percentage": 0, "enable-debug-command": "local"}
    return Server(kind, options, directory=directory)


def check_refused(steps, server, when):
    manifest = server.directory / "appendonlydir/appendonly.aof.manifest"
    deadline = time.monotonic() + 30
    while b"run-BGREWRITEAOF-first.rdb" not in manifest.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)  # the flush that retires log is under way
    for kind in PEERS:
        directory = copy_of(server)
        peer = peer_on(kind, directory)
        try:
            peer.start(timeout_s=20)
            steps.check(f"{when}: {kind} refuses", False, "it serves")
        except RuntimeError:
            named = "run-BGREWRITEAOF-first.rdb" in peer.log_tail()
            steps.check(f"{when}: {kind} refuses", named, "" if named else peer.log_tail(4))
        finally:
            peer.kill()
            shutil.rmtree(directory)


def check_served(steps, server, when):
    expected = digest(server)
    connection = server.connect()
    connection.cmd("WAITAOF", 1, 0, 0)
    connection.close()
    directory = copy_of(server)
    manifest = directory / "appendonlydir/appendonly.aof.manifest"
    result = subprocess.run([redis_tool("redis-check-aof"), manifest], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    steps.check(f"{when}: redis-check-aof passes", result.returncode == 0, result.stdout[-200:] if result.returncode else "")
    shutil.rmtree(directory)
    for kind in PEERS:
        directory = copy_of(server)
        peer = peer_on(kind, directory)
        try:
            peer.start(timeout_s=60)
            found = digest(peer)
            wrong = [name for name in expected if found[name] != expected[name]]
            sizes = "/".join(str(expected["size", db]) for db in DATABASES)
            steps.check(f"{when}: {kind} holds equal data", not wrong, f"differs in {wrong}" if wrong else f"{sizes} keys")
        except RuntimeError as error:
            steps.check(f"{when}: {kind} holds equal data", False, str(error))
        finally:
            peer.kill()
            shutil.rmtree(directory)


def rewrite(steps, server, name, load=None):
    connection = server.connect()
    steps.equal(f"{name}: BGREWRITEAOF is taken", connection.cmd("BGREWRITEAOF"), b"Background append only file rewriting started")
    if load:
        load.start()
    deadline = time.monotonic() + 60
    while server.info()["aof_rewrite_in_progress"] == "1" and time.monotonic() < deadline:
        time.sleep(0.02)
    info = server.info()
    steps.equal(f"{name}: it ends well", info["aof_last_bgrewrite_status"], "ok")
    steps.check(f"{name}: INFO knows the base", int(info["aof_base_size"]) > 0)
    connection.close()


def start_refused(server):
    """The output of a server that must not start; None if it does."""
    try:
        server.start(timeout_s=20)
    except RuntimeError:
        return server.log_tail(3)
    return None


def with_redis_in_between(steps, kind, policy, stays_silent=False, rewrites=False):
    """BGREWRITEAOF, then another server on the directory, then ours again."""
    name = f"{kind}, appendfsync {policy}" + (", silent" if stays_silent else "") + (", rewriting" if rewrites else "")
    options = {"appendonly": "yes", "appendfsync": policy, "memtable-bytes": "256kb", "enable-debug-command": "local"}
    server = Server("sexton", options)
    peer = peer_on(kind, server.directory)
    try:
        server.start()
        run_load(server, 4, 3000)
        rewrite(steps, server, name)
        run_load(server, 5, 500)
        ours = digest(server)
        server.kill()
        peer.start()
        steps.equal(f"{name}: it has our data", digest(peer), ours)
        if not stays_silent:
            run_load(peer, 6, 300)
            connection = peer.connect()
            if rewrites:
                connection.cmd("BGREWRITEAOF")
                while peer.info()["aof_rewrite_in_progress"] == "1" or peer.info()["aof_rewrite_scheduled"] == "1":
                    time.sleep(0.05)
            connection.cmd("SET", "of", kind)
            connection.close()
        theirs = digest(peer)
        peer.terminate()
        if stays_silent:
            server.start()
            steps.equal(f"{name}: we go on", digest(server), ours)
            return
        said = start_refused(server)
        wanted = "put its own log here" if rewrites else "a Redis server has appended"
        told = said is not None and wanted in said and "--import" in said
        steps.check(f"{name}: the start is refused", told, "" if told else said or "it serves")
        server.kill()
        code, text = sexton_check(server.directory)
        steps.check(f"{name}: sexton-check says so", code == 1 and wanted in text, "" if code == 1 else text)
        spare = Path(tempfile.mkdtemp(prefix="sexton-test-exchange-"))
        shutil.copytree(server.directory, spare, dirs_exist_ok=True)

        server.options["import"] = "appendonlydir/appendonly.aof.manifest"
        server.start()
        steps.equal(f"{name}: imported, we have their data", digest(server), theirs)
        kept = [path for path in server.directory.glob("imported-*/*")]
        steps.check(f"{name}: the originals are kept", {path.name for path in kept} >= {"tree", "appendonlydir"})
        run_load(server, 7, 300)
        after = digest(server)
        server.kill()
        server.start()
        steps.equal(f"{name}: the option may stay", digest(server), after)

        if not rewrites:
            code, text = sexton_check("--truncate-log", spare)
            steps.check(f"{name}: told so, sexton-check gives their writes up", code == 0 and "was cut at byte" in text, "" if code == 0 else text)
            with Server("sexton", options, directory=spare) as other:
                steps.equal(f"{name}: then we have ours", digest(other), ours)
        shutil.rmtree(spare)
    finally:
        peer.kill()
        server.close()


def run_load(server, seed, count):
    load = Load(server.port, seed, count)
    load.start()
    load.join()
    if load.error:
        raise RuntimeError(f"the load ended: {load.error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--writes", type=int, default=60000)
    args = parser.parse_args()
    steps = Steps("append only files for Redis")
    options = {"appendonly": "yes", "memtable-bytes": "256kb", "auto-aof-rewrite-percentage": 1000, "enable-debug-command": "local",
               "aof-timestamp-enabled": "yes"}
    server = Server(args.server, options)
    try:
        server.start()
        run_load(server, 1, args.writes)
        check_refused(steps, server, "before")
        load = Load(server.port, 2, args.writes)
        rewrite(steps, server, "first", load)
        load.join()
        check_served(steps, server, "written during the rewrite")
        run_load(server, 3, args.writes)
        check_served(steps, server, "written after it")
        expected = digest(server)
        server.kill()
        server.start()
        steps.equal("after kill -9 the server has its data", digest(server), expected)
        check_served(steps, server, "after kill -9")
        rewrite(steps, server, "second")
        check_served(steps, server, "second base")

        connection = server.connect()
        connection.cmd("CONFIG", "SET", "auto-aof-rewrite-percentage", 50, "auto-aof-rewrite-min-size", "1mb")
        begun = int(server.info()["aof_rewrites"])
        deadline = time.monotonic() + 60
        while int(server.info()["aof_rewrites"]) == begun and time.monotonic() < deadline:
            run_load(server, random.randrange(1 << 30), 5000)
        while server.info()["aof_rewrite_in_progress"] == "1":
            time.sleep(0.05)
        steps.check("growth renews the base by itself", int(server.info()["aof_rewrites"]) > begun)
        check_served(steps, server, "renewed by itself")
        connection.cmd("CONFIG", "SET", "auto-aof-rewrite-percentage", 0)
        deadline = time.monotonic() + 60
        while int(server.info()["aof_base_size"]) > 0 and time.monotonic() < deadline:
            run_load(server, random.randrange(1 << 30), 5000)
        steps.equal("without renewal the base is given up", server.info()["aof_base_size"], "0")
        check_refused(steps, server, "without a base")
        expected = digest(server)
        server.terminate()
        server.start()
        steps.equal("after an orderly restart the server has its data", digest(server), expected)
    finally:
        server.close()
    for kind in PEERS:
        for policy in ("everysec", "always"):
            with_redis_in_between(steps, kind, policy)
    with_redis_in_between(steps, "redis", "always", stays_silent=True)
    with_redis_in_between(steps, "redis", "everysec", rewrites=True)
    steps.finish()


if __name__ == "__main__":
    main()
