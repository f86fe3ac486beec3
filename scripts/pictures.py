"""make pictures: the three pictures of the README, drawn from what is measured here and now, beside other servers.

    .venv/bin/python scripts/pictures.py [--only expiry,save,cold,deletes] [--keys 1000000] [--quick]

- expiry: p99 of one client's GETs while a million keys become due at one instant, beside redis-server and valkey-server.
- save: memory of the server and its children during BGSAVE of two million keys, while another client overwrites keys, beside both.
- cold: resident memory with a million keys of 1 KB, of which few are used, under `maxmemory 256mb`; the others hold all of them.
- deletes: time to the first ten entries after so many deletes in front of them, beside RocksDB (`bench_rocksdb.py --parts trap`).

All on the cores of this machine together; no figure is better than its method: one client in Python, which waits for each reply.
"""

import argparse
import math
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import bench_rocksdb
from bench_common import ROOT, Report, load_keys
from harness.load import pipelined
from harness.server import Server, process_rss_bytes
from harness.visitor import percentiles
from studies import chart

PICTURES = ROOT / "docs/pictures"
NAMES = {"sexton": "Sexton", "redis": "redis-server 7.0", "valkey": "valkey-server 9.1"}
WINDOW_S, CALM_S, WATCHED_S = 0.25, 2.0, 10.0
HOT_KEYS = 1_000


def bytes_of(server):
    """Memory of a server and its children, what they share counted once; None if a child came or went meanwhile."""
    def children():
        return [int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()]

    before, total = children(), 0
    for pid in (*before, server.pid):
        try:
            found = [line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:")]
        except (FileNotFoundError, ProcessLookupError):
            found = []
        # A child that ends has given its part of the shared pages back, but not its name.
        if not found or int(found[0].split()[1]) == 0:
            return None
        total += int(found[0].split()[1]) * 1024
    return total if children() == before else None


def expiry(args, report):
    """Server -> [(second, p99 of the GETs sent in its window)]; 0 is the instant."""
    found = {}
    for kind, name in NAMES.items():
        with Server(kind, {"appendonly": "yes", "appendfsync": "everysec"}) as server:
            load_keys(server.port, args.keys, args.keys + HOT_KEYS, 100)
            # Loading takes as long as it takes; the instant comes after it.
            instant_s = time.time() + args.keys / 100_000 + CALM_S + 2
            load_keys(server.port, 0, args.keys, 100, due_ms=lambda _: int(instant_s * 1000))
            if time.time() > instant_s - CALM_S:
                raise SystemExit(f"{name}: loading took too long for the instant")
            connection = server.connect()
            windows = defaultdict(list)
            time.sleep(max(0, instant_s - CALM_S - time.time()))
            number = 0
            while (begun_s := time.time()) < instant_s + WATCHED_S:
                connection.cmd("GET", f"key:{args.keys + number % HOT_KEYS:012d}")
                windows[math.floor((begun_s - instant_s) / WINDOW_S)].append(time.time() - begun_s)
                number += 1
            left = connection.cmd("DBSIZE")
        found[name] = [(window * WINDOW_S, 1e6 * percentiles(times)[1]) for window, times in sorted(windows.items())]
        print(f"expiry: {name}: p99 at most {max(us for _, us in found[name]):,.0f} us, {left:,} keys left after {WATCHED_S:.0f} s", flush=True)
        for second, us in found[name]:
            report.add({"picture": "expiry", "server": name, "x": second, "y": round(us, 1)})
    series = {name: [(second, us, us, us) for second, us in line] for name, line in found.items()}
    return chart.lines(f"GETs while {args.keys:,} keys expire at second 0: p99, us", series, "seconds", "us", note=args.note, log_y=True)


def save(args, report):
    """Server -> [(second, MB more than before)] from the beginning of the save to two seconds after its end."""
    found = {}
    for kind, name in NAMES.items():
        with Server(kind, {"appendonly": "no"}) as server:
            load_keys(server.port, 0, 2 * args.keys, 100, random_values=True)
            ended = threading.Event()

            def write(server=server, ended=ended):
                connection, at = server.connect(), 0
                while not ended.is_set():
                    # Every so many-th key: neighbours in memory are not written together.
                    numbers = (n * 7919 % (2 * args.keys) for n in range(at, at + 200))
                    for _ in pipelined(connection, ([b"SET", b"key:%012d" % number, b"y" * 100] for number in numbers)):
                        pass
                    at += 200

            writer = threading.Thread(target=write)
            connection = server.connect()
            writer.start()
            time.sleep(1)
            before, begun_s = bytes_of(server), time.monotonic()
            connection.cmd("BGSAVE")
            line, end_s = [], None
            while end_s is None or time.monotonic() < end_s + 2:
                if held := bytes_of(server):
                    line.append((time.monotonic() - begun_s, (held - before) / 1e6))
                if end_s is None and b"rdb_bgsave_in_progress:0" in connection.cmd("INFO", "persistence"):
                    end_s = time.monotonic()
                time.sleep(0.1)
            ended.set()
            writer.join()
        found[name] = line
        print(f"save: {name}: {end_s - begun_s:.1f} s, at most {max(mb for _, mb in line):,.0f} MB more", flush=True)
        for second, mb in line:
            report.add({"picture": "save", "server": name, "x": round(second, 2), "y": round(mb, 1)})
    series = {name: [(second, mb, mb, mb) for second, mb in line] for name, line in found.items()}
    return chart.lines(f"BGSAVE of {2 * args.keys:,} keys beside a writer: memory it takes, MB", series, "seconds", "MB", note=args.note)


def cold(args, report):
    """Server -> resident MB with a million keys of 1 KB."""
    found = {}
    for kind, name in NAMES.items():
        bound = {"maxmemory": "256mb"} if kind == "sexton" else {}
        with Server(kind, {"appendonly": "yes", "appendfsync": "everysec"} | bound) as server:
            load_keys(server.port, 0, args.keys, 1024, random_values=True)
            time.sleep(2)
            connection = server.connect()
            if connection.cmd("DBSIZE") != args.keys or len(connection.cmd("GET", "key:000000000007")) != 1024:
                raise SystemExit(f"{name}: keys are missing")
            found[name] = process_rss_bytes(server.pid) / 1e6
        print(f"cold: {name}: {found[name]:,.0f} MB", flush=True)
        report.add({"picture": "cold", "server": name, "x": args.keys, "y": round(found[name], 1)})
    title = f"{args.keys:,} keys of 1 KB: resident memory, MB (Sexton: maxmemory 256mb)"
    return chart.bars(title, {"": {name: (mb, mb, mb) for name, mb in found.items()}}, list(found), "MB", note=args.note)


def deletes(args, report):
    """Sexton's engine and RocksDB: time to the first ten entries behind so many deleted ones."""
    if shutil.which("db_bench") is None:
        print("deletes: db_bench is missing: install the package rocksdb-tools")
        return None
    options = bench_rocksdb.arguments(["--num", str(2 * args.keys)])
    series = {"Sexton's engine": [], "RocksDB": []}
    with tempfile.TemporaryDirectory(prefix="pictures-") as work:
        for count, moment, ours, theirs, *_ in bench_rocksdb.trap(options, Report("pictures-trap", bench_rocksdb.COLUMNS), Path(work)):
            if moment == "deleted, at once":
                for name, us in zip(series, (ours, theirs)):
                    series[name].append((count, us, us, us))
                    report.add({"picture": "deletes", "server": name, "x": count, "y": round(us, 1)})
    title = "The first ten entries after deletes in front of them: us"
    return chart.lines(title, series, "deleted keys", "us", note=args.note, log_x=True, log_y=True)


def main():
    parts = {"expiry": expiry, "save": save, "cold": cold, "deletes": deletes}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(parts))
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="100,000 keys: to see that it works; the pictures go to reports/")
    parser.add_argument("--note", default="", help="stands below each title: the machine, the build")
    args = parser.parse_args()
    directory = ROOT / "reports" if args.quick else PICTURES
    if args.quick:
        args.keys = 100_000
    report = Report("pictures", ("picture", "server", "x", "y"))
    directory.mkdir(exist_ok=True)
    for name in args.only.split(","):
        picture = parts[name](args, report)
        if picture:
            (directory / f"{name}.svg").write_text(picture)
            print(directory.relative_to(ROOT) / f"{name}.svg", flush=True)
    print(report.path)


if __name__ == "__main__":
    sys.exit(main())
