"""python3 -m point_in_time [--writes N]: restores the data of a given second from a checkpoint and the log behind it.

A server with `aof-timestamp-enabled yes` and `aof-archive-dir` writes, makes a checkpoint, writes for several
more seconds through several memtables (so that log segments retire), and then loses everything by
FLUSHALL. The checkpoint with the log of archive and log directory, truncated at seconds before that, yields
exactly the data of these seconds (DEBUG DIGEST). Also: `sexton-check --truncate-to-timestamp` on a store
whose tables contain nothing later, its refusals, and `redis-check-aof --truncate-to-timestamp` on the
files that BGREWRITEAOF leaves.
"""

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from harness.server import Server, redis_tool, sexton_check
from harness.steps import Steps

OPTIONS = {"appendonly": "yes", "appendfsync": "always", "enable-debug-command": "local",
           "aof-timestamp-enabled": "yes"}


def next_second():
    """Waits until the current second is over; returns the new one."""
    begun = int(time.time())
    while int(time.time()) == begun:
        time.sleep(0.005)
    return begun


def write(connection, rng, count):
    batch = []
    for _ in range(count):
        key = b"k%d" % rng.randrange(2000)
        batch.append(rng.choice([
            [b"SET", key, rng.randbytes(300)],
            [b"SET", key, b"x", b"EX", b"100000"],
            [b"INCR", b"n%d" % rng.randrange(50)],
            [b"DEL", key],
            [b"APPEND", b"a%d" % rng.randrange(20), b"%d," % rng.randrange(100)],
        ]))
        if rng.random() < 0.05:
            batch += [[b"MULTI"], [b"INCR", b"t1"], [b"INCR", b"t2"], [b"EXEC"]]
    connection.pipeline(batch)


def digest_of(server):
    connection = server.connect()
    found = connection.cmd("DEBUG", "DIGEST"), connection.cmd("DBSIZE")
    connection.close()
    return found


def restored(steps, name, checkpoint, sources, second, expected):
    home = Path(tempfile.mkdtemp(prefix="sexton-test-restored-"))
    try:
        shutil.copytree(checkpoint, home, dirs_exist_ok=True)
        arguments = [word for source in sources for word in ("--with-log", source)]
        code, text = sexton_check(*arguments, "--truncate-to-timestamp", second, home)
        if not steps.check(f"{name}: sexton-check", code == 0, text if code else ""):
            return
        with Server("sexton", OPTIONS, directory=home) as server:
            steps.equal(f"{name}: the data of that second", digest_of(server), expected)
            connection = server.connect()
            steps.equal(f"{name}: it takes writes", connection.cmd("SET", "after", "1"), b"OK")
            connection.close()
        with Server("sexton", OPTIONS, directory=home) as server:
            connection = server.connect()
            steps.equal(f"{name}: and keeps them", connection.cmd("GET", "after"), b"1")
            connection.close()
    finally:
        shutil.rmtree(home)


def from_checkpoint(steps, args):
    rng = random.Random(args.seed)
    # A single memtable is not enough: the log of the first ones must have been retired.
    options = dict(OPTIONS, **{"memtable-bytes": "1mb", "aof-archive-dir": "archive", "enable-protected-configs": "yes"})
    with Server("sexton", options) as server:
        connection = server.connect()
        write(connection, rng, args.writes)
        before = int(time.time())
        next_second()
        checkpoint = server.directory.with_name(server.directory.name + "-checkpoint")
        connection.cmd("SEXTON.CHECKPOINT", checkpoint)
        points = []
        for _ in range(4):
            write(connection, rng, args.writes)
            second = next_second()
            points.append((second, digest_of(server)))
        connection.cmd("FLUSHALL")
        connection.cmd("SET", "lost", "everything else")
        write(connection, rng, args.writes)
        archive, log = server.directory / "archive", server.directory / "appendonlydir"
        kept = [path for path in archive.iterdir() if path.name.endswith(".incr.aof")]
        steps.check("segments were retired into the archive", len(kept) >= 2, f"{len(kept)} segments")
        try:
            # The server goes on meanwhile.
            for nth, (second, expected) in enumerate(points):
                restored(steps, f"point {nth + 1}", checkpoint, [log, archive], second, expected)
            code, text = sexton_check("--with-log", log, "--with-log", archive, "--truncate-to-timestamp", before, checkpoint)
            refused = code == 1 and "earlier checkpoint" in text
            steps.check("a second before the checkpoint is refused", refused, "" if refused else text)
            shutil.rmtree(checkpoint / "appendonlydir")
            code, text = sexton_check("--with-log", log, checkpoint)
            refused = code == 1 and "starts after sequence" in text
            steps.check("a log without its archive is refused", refused, "" if refused else text)
        finally:
            shutil.rmtree(checkpoint)
        connection.close()


def in_place(steps, args):
    rng = random.Random(args.seed + 1)
    server = Server("sexton", OPTIONS)
    try:
        server.start()
        connection = server.connect()
        write(connection, rng, 500)
        second = next_second()
        expected = digest_of(server)
        connection.cmd("FLUSHALL")
        write(connection, rng, 500)
        connection.close()
        code, text = sexton_check("--truncate-to-timestamp", second, server.directory)
        steps.check("a store in use is refused", code == 2, text)
        server.kill()
        code, text = sexton_check("--truncate-to-timestamp", second - 100, server.directory)
        steps.check("a second before the log is refused", code == 1 and "earlier" in text, text)
        code, text = sexton_check("--truncate-to-timestamp", second, server.directory)
        steps.check("the log of a store is cut at a second", code == 0 and "was cut at byte" in text, text)
        server.start()
        steps.equal("it has the data of that second", digest_of(server), expected)
        connection = server.connect()
        connection.cmd("CONFIG", "SET", "aof-timestamp-enabled", "no")
        connection.cmd("SET", "untimed", "1")
        connection.close()
        server.kill()
        code, text = sexton_check("--truncate-to-timestamp", second, server.directory)
        steps.check("writes without a time go with those before them", code == 0 and "nothing was cut off" in text, text)
    finally:
        server.close()


def by_redis(steps, args):
    rng = random.Random(args.seed + 2)
    with Server("sexton", OPTIONS) as server:
        connection = server.connect()
        write(connection, rng, 500)
        connection.cmd("BGREWRITEAOF")
        while server.info()["aof_rewrite_in_progress"] == "1":
            time.sleep(0.02)
        write(connection, rng, 200)
        second = next_second()
        expected = digest_of(server)
        write(connection, rng, 500)
        connection.close()
        server.kill()
        home = Path(tempfile.mkdtemp(prefix="sexton-test-redis-"))
        shutil.copytree(server.directory / "appendonlydir", home / "appendonlydir")
        log = home / "appendonlydir"
        manifest = log / "appendonly.aof.manifest"
        # It cuts the last file only, which here was made ahead and is empty.
        lines = [line for line in manifest.read_text().splitlines() if not line.startswith("#")]
        last = log / lines[-1].split(" ")[1]
        if not last.read_bytes().startswith(b"#SXH"):
            lines.pop()
        manifest.write_text("\n".join(lines) + "\n")
        tool = redis_tool("redis-check-aof")
        done = subprocess.run([tool, "--truncate-to-timestamp", str(second), manifest], capture_output=True, text=True, input="y\n")
        steps.check("redis-check-aof cuts at our times", done.returncode == 0, done.stdout[-300:])
        peer = Server("redis", {"appendonly": "yes", "enable-debug-command": "local"}, directory=home)
        try:
            peer.start()
            steps.equal("redis-server has the data of that second", digest_of(peer), expected)
        finally:
            peer.kill()
            shutil.rmtree(home)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    steps = Steps("point in time")
    from_checkpoint(steps, args)
    in_place(steps, args)
    by_redis(steps, args)
    steps.finish()


if __name__ == "__main__":
    main()
