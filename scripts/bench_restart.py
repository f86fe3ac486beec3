"""make bench-restart: the start after kill -9 with a large append-only file, compared with redis-server.

For each server: load KEYS random values of 100 bytes under `appendonly yes`, `appendfsync everysec`, wait until all
of it is on disk, kill -9, start again. The time is measured from the start of the process until PING is answered
without LOADING; then DBSIZE must be right, and a thousand random keys are read. This is repeated after BGREWRITEAOF, which
gives redis-server a base in its faster format. Files are in the page cache for both servers.

A Sexton start reads the tables' indexes and the log after the last flush, and then answers. Values are read from the
tables until they are in memory again: `1000 GETs` shows the cost of the first reads.
"""

import argparse
import random
import time

from bench_common import Report, load_keys
from harness.server import Server

VALUE_BYTES = 100
COLUMNS = ["server", "keys", "after", "round", "restart_s", "first_gets_ms", "dbsize"]


def settled(server):
    """Waits until nothing is being rewritten and all writes are synced."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        info = server.info()
        pending = int(info.get("aof_pending_bio_fsync", 0)) + int(info.get("aof_buffer_length", 0))
        if info["aof_rewrite_in_progress"] == "0" and info.get("aof_rewrite_scheduled", "0") == "0" and not pending:
            time.sleep(2)  # what everysec may still hold back
            return
        time.sleep(0.2)
    raise SystemExit(f"{server.kind}: the log does not come to rest")


def restart(server, keys):
    server.kill()
    begun = time.monotonic()
    server.start(timeout_s=600)
    took_s = time.monotonic() - begun
    connection = server.connect(timeout_s=300)
    numbers = random.Random(1)
    begun = time.monotonic()
    for _ in range(1000):
        if connection.cmd("GET", "key:%012d" % numbers.randrange(keys)) is None:
            raise SystemExit(f"{server.kind}: a key is missing")
    gets_ms = (time.monotonic() - begun) * 1000
    size = connection.cmd("DBSIZE")
    connection.close()
    if size != keys:
        raise SystemExit(f"{server.kind}: {size} keys after the start, {keys} before")
    return took_s, gets_ms, size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="sexton,redis,valkey")
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    report = Report("bench-restart", COLUMNS)
    print(f"{args.keys:,} keys x {VALUE_BYTES} B, {args.rounds} rounds, median of the start in s (1000 GETs in ms)")
    for kind in args.servers.split(","):
        with Server(kind, {"appendonly": "yes", "appendfsync": "everysec", "auto-aof-rewrite-percentage": "0"}) as server:
            load_keys(server.port, 0, args.keys, VALUE_BYTES, random_values=True)
            for after in ("load", "rewrite"):
                if after == "rewrite":
                    connection = server.connect(timeout_s=300)
                    connection.cmd("BGREWRITEAOF")
                    connection.close()
                settled(server)
                figures = []
                for number in range(args.rounds):
                    took_s, gets_ms, size = restart(server, args.keys)
                    figures.append((took_s, gets_ms))
                    row = [kind, args.keys, after, number, round(took_s, 3), round(gets_ms, 1), size]
                    report.add(dict(zip(COLUMNS, row)))
                took_s, gets_ms = sorted(figures)[len(figures) // 2]
                print(f"{kind}, after the {after}: {took_s:.2f} s ({gets_ms:.0f} ms)", flush=True)
    print(report.path)


if __name__ == "__main__":
    main()
