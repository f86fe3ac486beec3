"""make bench-bgsave: BGSAVE of many keys, compared with redis-server, while clients are active.

For each server: load KEYS random values of 100 bytes, save once while idle, then compare clients
alone (50 connections, 90/10 GET/SET, one request in flight) with clients during a save. No other
persistence is enabled. Output: duration of the save, alone and with clients; p99.9 and request rate of
the clients without and with it; memory used by the save. For redis-server this is the memory its child
copied (`rdb_last_cow_size`), for Sexton the growth of the resident memory during the save.

With --copy it is not BGSAVE that saves, but `redis-cli --rdb`, which asks for a full copy by SYNC.

With only two cores, clients and server share them: the save's thread or process then takes CPU time
from both, equally for both servers.
"""

import argparse
import math
import re
import statistics
import subprocess
import threading
import time

from bench_common import ROOT, Report, load_keys
from harness.load import RssSampler
from harness.server import Server, process_rss_bytes

VALUE_BYTES, CONNECTIONS, WRITE_PERCENT = 100, 50, 10


def clients(port, seconds, keys):
    line = [ROOT / "target/release/mixed_load", port, CONNECTIONS, seconds, WRITE_PERCENT, keys, VALUE_BYTES]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=seconds + 120)
    if done.returncode:
        raise SystemExit(f"mixed_load: {done.stderr}")
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", done.stdout)}
    return {"rate": (found["gets"] + found["sets"]) / seconds, "p999_us": found["get_p999_us"]}


def copy(server):
    """Fetches a full copy."""
    path = server.directory / "dump.rdb"
    done = subprocess.run(["redis-cli", "-p", str(server.port), "--rdb", path], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"redis-cli --rdb: {done.stderr}")


def save(server):
    """Saves in the background, and waits for its end."""
    connection = server.connect(timeout_s=300)
    connection.cmd("BGSAVE")
    while "rdb_bgsave_in_progress:0" not in (info := connection.cmd("INFO", "persistence").decode()):
        time.sleep(0.02)
    if "rdb_last_bgsave_status:ok" not in info:
        raise SystemExit(f"the save failed:\n{server.log_tail()}")


def measured(server, work):
    """Seconds of `work`, and bytes of memory that it took in the server."""
    before = process_rss_bytes(server.pid)
    sampler = RssSampler(server)
    sampler.start()
    begun = time.monotonic()
    work(server)
    took = time.monotonic() - begun
    peak = sampler.stop()
    copied = int(re.search(r"rdb_last_cow_size:(\d+)", server.connect().cmd("INFO", "persistence").decode())[1])
    return took, copied if server.kind == "redis" else max(0, peak - before)


def run(kind, keys, rounds, work):
    with Server(kind, {"appendonly": "no"}) as server:
        load_keys(server.port, 0, keys, VALUE_BYTES, random_values=True)
        alone_s, _ = measured(server, work)
        seconds = max(2, math.ceil(alone_s))
        rows = []
        for _ in range(rounds):
            without = clients(server.port, seconds, keys)
            saved = []
            thread = threading.Thread(target=lambda: saved.append(measured(server, work)))
            thread.start()
            during = clients(server.port, seconds, keys)
            thread.join()
            rows.append((without, during, *saved[0]))
        middle = statistics.median
        size = (server.directory / "dump.rdb").stat().st_size
        return {
            "alone_s": alone_s,
            "with_clients_s": middle(row[2] for row in rows),
            "p999_without_us": middle(row[0]["p999_us"] for row in rows),
            "p999_during_us": middle(row[1]["p999_us"] for row in rows),
            "rate_without": middle(row[0]["rate"] for row in rows),
            "rate_during": middle(row[1]["rate"] for row in rows),
            "extra_mb": middle(row[3] for row in rows) / 1e6,
            "file_mb": size / 1e6,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="sexton,redis")
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copy", action="store_true")
    args = parser.parse_args()
    print(f"{args.keys:,} keys x {VALUE_BYTES} B, {args.rounds} rounds, medians")
    report = None
    for kind in args.servers.split(","):
        figures = run(kind, args.keys, args.rounds, copy if args.copy else save)
        report = report or Report("bench-copy" if args.copy else "bench-bgsave", ["server", "keys", *figures])
        report.add({"server": kind, "keys": args.keys} | {name: round(figure, 3) for name, figure in figures.items()})
        print(kind + ":  " + "  ".join(f"{name} {figure:,.2f}" for name, figure in figures.items()), flush=True)
    print(report.path)


if __name__ == "__main__":
    main()
