"""make study-flsm: the cost of deletes, with a cemetery, with tombstones, and in RocksDB.

    .venv/bin/python scripts/study_flsm.py [--quick | --full] [--minutes 18] [--plan]
        [--part paper,deletes,scan,trap,profile,expiry] [--dir DIR]

paper    the paper's run: 4 threads, 2,000,000 puts in all, then deletes and reads of 10,000 a thread
deletes  10,000 to 1,000,000 of 2,000,000 keys deleted in sequence or at random, then reads
scan     a scan's cost and the space on the device, after every twentieth of 1,000,000 random deletes and after
trap     a deleted prefix: seeks and first entries at once, again, after a restart, once burial has run
profile  the symbols that deletes, and the reads behind them, spend their time in, with a cemetery and with tombstones
expiry   half of the keys of a server expire at one instant: how long it takes, and how it affects other clients

The engine parts run flsm-bench and RocksDB's db_bench through scripts/bench_rocksdb.py with equal flags, one right
after the other, in alternating order. Results: study/flsm/cells.csv; a run that was stopped is resumed.
`make bench-rocksdb` runs the nine interleaved pairs that a claim needs (N15).
"""

import argparse
import itertools
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import bench_rocksdb
import profile_sets
from bench_common import ROOT, load_keys
from bench_rocksdb import PAPER, PAPER_ROWS, Tool, fresh, space_bytes
from harness.server import Server, binary_of, process_rss_bytes, process_tasks_cpu_ns
from studies import machine
from studies.cells import Absent, Cells, Job, add_arguments, budget_s, measure, tell_plan
from studies.load import field
from studies.report.archive import archive
from studies.sitting import Sitting, end_benches, prefix

KEY = ["part", "setting", "order", "deletes", "repetition", "step", "benchmark"]
VALUES = [
    "emulated",
    "keys",
    "threads",
    "operations",
    "wall_us_per_op",
    "ops_per_s",
    "cpu_us_per_op",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "found",
    "peak_rss_bytes",
    "written_bytes",
    "space_bytes",
    "unsynced_age_ms",
    "seconds",
    "foreign_cpu",
    "symbol",
    "share",
    "note",
]
#: Settings of the parts that go beyond the paper.
SETTINGS = ("cemetery", "tombstones", "rocksdb")
SCAN_STEPS = 20
#: Looks of the scan part after the last delete.
SCAN_AFTER = 5
#: The probing client begins so long before the keys expire.
EARLY_S = 0.5
REPETITIONS = 3
#: What the default may take.
MINUTES = 18
#: A bench that takes longer is stuck.
BENCH_SECONDS_MAX = 900
#: For the estimate, of 2,000,000 keys: seconds of a run by part and tool, and of a million deletes beside it, from rows
#: that were measured.
RUN_S = {
    ("paper", "flsm"): (4, 0),
    ("paper", "rocksdb"): (8, 0),
    ("deletes", "flsm"): (4, 9),
    ("deletes", "rocksdb"): (6, 8),
    ("scan", "flsm"): (10, 15),
    ("scan", "rocksdb"): (20, 40),
}
TRAP_S, EXPIRY_S, PROFILE_S = 55, 27, 10
#: What is profiled, and how many symbols of each.
PROFILED, PROFILE_LINES = ("deleteseq", "readrandom", "readseq"), 10


class Study:
    def __init__(self, args, cells):
        self.args, self.cells = args, cells
        #: Where the stores lie, from the moment on that something is measured.
        self.work = None
        self.tools = {"flsm": Tool("flsm", args)}
        self.no_rocksdb = None if shutil.which("db_bench") else "db_bench is missing: package rocksdb-tools"
        if not self.no_rocksdb:
            self.tools["rocksdb"] = Tool("rocksdb", args)

    def engine_runs(self):
        """Every run of the engine parts: (key, benchmarks, flags)."""
        args = self.args
        for repetition in range(1, args.repetitions + 1):
            settings = list(PAPER)
            random.Random(repetition).shuffle(settings)
            for setting in settings:
                flags = [
                    f"--num={args.num // 4}",
                    "--threads=4",
                    "--reads=10000",
                    f"--deletes={args.num // 200}",
                    f"--seed={repetition}",
                ]
                yield self.key("paper", setting, "seq", args.num // 50, repetition), PAPER_ROWS, flags
            for order, deletes, setting in itertools.product(("seq", "random"), args.deletes, SETTINGS):
                flags = [f"--num={args.num}", "--reads=10000", f"--deletes={deletes}", f"--seed={repetition}"]
                rows = ["fillseq", f"delete{order}", "readrandom", "readseq"]
                yield self.key("deletes", setting, order, deletes, repetition), rows, flags
            for setting in SETTINGS:
                flags = [
                    f"--num={args.num}",
                    "--reads=10",
                    "--seek_nexts=10",
                    f"--deletes={args.num // 2 // SCAN_STEPS}",
                    f"--seed={repetition}",
                ]
                look = ["readseq", "seekrandom"]
                rows = [
                    "fillrandom",
                    *look,
                    *(["deleterandom", *look] * SCAN_STEPS),
                    "waitforcompaction",
                    *(look * SCAN_AFTER),
                ]
                yield self.key("scan", setting, "random", args.num // 2, repetition), rows, flags

    @staticmethod
    def key(part, setting, order, deletes, repetition):
        return {
            "part": part,
            "setting": setting,
            "order": order,
            "deletes": deletes,
            "repetition": repetition,
            "step": 0,
            "benchmark": "whole",
        }

    def run_engine(self, key, benchmarks, flags):
        """Runs one process and records a line for each of its benchmarks; the line `whole` marks that all are present."""
        tool, own = PAPER[key["setting"]]
        if tool not in self.tools:
            raise Absent(self.no_rocksdb)
        watchdog = threading.Timer(BENCH_SECONDS_MAX, end_benches)
        watchdog.start()
        try:
            rows = self.tools[tool].run(fresh(self.work / "store"), benchmarks, [*own, *flags, "--histogram=1"])
        finally:
            watchdog.cancel()
        made = {"keys": self.args.num, "emulated": "no", "note": self.args.note}
        threads = 4 if key["part"] == "paper" else 1
        self.cells.add(
            *({**key, **row, **made, "step": step, "threads": threads} for step, row in enumerate(rows, 1)),
            {**key, **made, "seconds": rows[-1]["seconds"]},
        )
        return f"{key['part']} {key['setting']} {key['order']} {key['deletes']}: " + ", ".join(
            f"{row['benchmark']} {row['wall_us_per_op']:.2f} us" for row in rows[:4]
        )

    def run_profile(self, setting):
        """CPU profile of deletes and of the reads after them: `share` of the samples, in percent, by symbol."""
        if not shutil.which("perf"):
            raise Absent("perf is missing: package linux-perf")
        args, (_, own) = self.args, PAPER[setting]
        store, data = fresh(self.work / "store"), self.work / "perf.data"
        share = [f"--num={args.num // 4}", f"--deletes={args.num // 8}", f"--reads={args.num // 8}", "--threads=4", *own]
        tool = self.tools["flsm"]
        tool.run(store, ["fillseq"], share)
        lines, step = [], 0
        for benchmark in PROFILED:
            command = ["perf", "record", "-q", "-F", "997", "-o", data, "--", *tool.command, f"--db={store}"]
            command += [f"--benchmarks={benchmark}", "--use_existing_db=1", *share]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BENCH_SECONDS_MAX)
            if done.returncode:
                raise Absent(f"perf: {(done.stderr.strip() or 'failed').splitlines()[-1][:200]}")
            for line in profile_sets.report(data)[1][:PROFILE_LINES]:
                percent, symbol = line.split("%", 1)
                symbol = re.split(r"\s{2,}", symbol.strip().replace("[.] ", "").replace("[k] ", "kernel: "))[0]
                step += 1
                lines.append(
                    {
                        **self.key("profile", setting, "seq", args.num // 2, 1),
                        "step": step,
                        "benchmark": benchmark,
                        "symbol": symbol,
                        "share": float(percent),
                        "emulated": "no",
                        "keys": args.num,
                        "note": args.note,
                    }
                )
        self.cells.add(*lines, {**self.key("profile", setting, "seq", args.num // 2, 1), "note": args.note})
        return f"profile {setting}: {len(lines)} symbols"

    def run_trap(self):
        """bench_rocksdb's own part; `benchmark` names the moment and what was read."""
        if self.no_rocksdb:
            raise Absent(self.no_rocksdb)
        raw, lines = [], []
        step = 0
        for deletes, moment, our_first, their_first, our_seek, their_seek in bench_rocksdb.trap(
            self.args, Collected(raw), self.work
        ):
            for setting, what, us in (
                ("cemetery", "first 10", our_first),
                ("rocksdb", "first 10", their_first),
                ("cemetery", "seek + 10 next", our_seek),
                ("rocksdb", "seek + 10 next", their_seek),
            ):
                if us is not None:
                    step += 1
                    lines.append(
                        {
                            **self.key("trap", setting, "seq", deletes, 1),
                            "step": step,
                            "benchmark": f"{moment}: {what}",
                            "wall_us_per_op": round(us, 2),
                            "emulated": "no",
                            "keys": self.args.num,
                            "note": self.args.note,
                        }
                    )
        for row in raw:
            step += 1
            setting = "cemetery" if row["tool"] == "flsm" else row["tool"]
            lines.append(
                {
                    **row,
                    **self.key("trap", setting, "seq", int(row["part"].split("-")[1]), 1),
                    "step": step,
                    "benchmark": row["benchmark"],
                    "emulated": "no",
                    "keys": self.args.num,
                    "note": self.args.note,
                }
            )
        self.cells.add(*lines, {**self.key("trap", "all", "seq", 0, 1), "note": self.args.note})
        return "trap: done"

    def run_expiry(self, server_kind, repetition):
        """Half of the keys expire at one instant."""
        try:
            binary_of(server_kind)
        except SystemExit as missing:
            raise Absent(str(missing)) from None
        keys = self.args.expiry_keys
        key = self.key("expiry", server_kind, "random", keys // 2, repetition)
        lines = []
        with Server(server_kind, {"appendonly": "yes"}, directory=fresh(self.work / "server")) as server:
            load_keys(server.port, 0, keys, 64, random_values=True)
            connection = server.connect(timeout_s=120)
            lead_ms = max(2000, keys // 50)
            due_ms = int(time.time() * 1000) + lead_ms
            for first in range(0, keys, 2000):
                connection.pipeline(
                    [[b"PEXPIREAT", b"key:%012d" % i, b"%d" % due_ms] for i in range(first, min(keys, first + 2000), 2)]
                )
            late = int(time.time() * 1000) > due_ms
            time.sleep(max(0.0, due_ms / 1000 - time.time() - EARLY_S))
            prober = server.connect(timeout_s=120)
            begun, cpu_ns = time.monotonic(), process_tasks_cpu_ns(server.pid)
            left_s = (due_ms - time.time() * 1000) / 1000
            latencies, step, drained = [], 0, None
            numbers = random.Random(repetition)
            while drained is None or time.monotonic() - begun < left_s + drained + 1:
                at = time.monotonic()
                prober.cmd("GET", b"key:%012d" % (numbers.randrange(keys // 2) * 2 + 1))
                latencies.append((time.monotonic() - at) * 1e6)
                if len(latencies) % 200:
                    continue
                size = connection.cmd("DBSIZE")
                at = time.monotonic()
                connection.cmd("SCAN", "0", "COUNT", "100")
                scan_us = (time.monotonic() - at) * 1e6
                step += 1
                lines.append(
                    {
                        **key,
                        "step": step,
                        "benchmark": "scan",
                        "seconds": round(at - begun - left_s, 4),
                        "found": size,
                        "wall_us_per_op": round(scan_us, 1),
                        "space_bytes": space_bytes(server.directory),
                        "peak_rss_bytes": process_rss_bytes(server.pid),
                        "note": self.args.note,
                        "emulated": "no",
                        "keys": keys,
                    }
                )
                if drained is None and size <= keys - keys // 2:
                    drained = time.monotonic() - begun - left_s
                if time.monotonic() - begun > left_s + 120:
                    raise RuntimeError(f"{size} keys left 120 s after the instant")
            connection.close()
            prober.close()
            age_ms = field(server.info(), "largest_unsynced_ms")
            latencies.sort()
            row = {
                **key,
                "operations": keys // 2,
                "seconds": round(drained, 3),
                "emulated": "no",
                "keys": keys,
                "cpu_us_per_op": round((process_tasks_cpu_ns(server.pid) - cpu_ns) / 1000 / (keys // 2), 3),
                "p50_us": latencies[len(latencies) // 2],
                "p99_us": latencies[int(len(latencies) * 0.99)],
                "p999_us": latencies[int(len(latencies) * 0.999)],
                "max_us": latencies[-1],
                "unsynced_age_ms": age_ms,
                "note": "; ".join(
                    filter(
                        None,
                        [
                            self.args.note,
                            "the instant had passed before all keys had it" if late else "",
                            f"INVALID: unsynced data of {age_ms:.0f} ms (N14)" if (age_ms or 0) > 2000 else "",
                        ],
                    )
                ),
            }
            self.cells.add(
                *lines, {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}
            )
        return (
            f"expiry {server_kind}: {keys // 2} keys gone {drained:.2f} s after the instant, "
            f"GET p99.9 {row['p999_us']:.0f} us, max {row['max_us']:.0f} us"
            + (f", oldest unsynced {age_ms:.0f} ms" if age_ms is not None else "")
        )

    def jobs(self, parts):
        """All jobs, repetition by repetition, with their estimated times."""
        args, scale = self.args, self.args.num / 2_000_000
        trap = Job(self.key("trap", "all", "seq", 0, 1), self.run_trap, TRAP_S * scale)
        runs = list(self.engine_runs())
        for repetition in range(1, args.repetitions + 1):
            for key, benchmarks, flags in runs:
                if key["repetition"] == repetition and key["part"] in parts:
                    whole_s, deletes_s = RUN_S[key["part"], PAPER[key["setting"]][0]]
                    seconds = whole_s * scale + deletes_s * key["deletes"] / 1_000_000
                    yield Job(key, partial(self.run_engine, key, benchmarks, flags), seconds)
            if "expiry" in parts:
                for kind in args.servers.split(","):
                    key = self.key("expiry", kind, "random", args.expiry_keys // 2, repetition)
                    seconds = 3 + EXPIRY_S * args.expiry_keys / 1_000_000
                    yield Job(key, partial(self.run_expiry, kind, repetition), seconds)
            if repetition == 1 and "trap" in parts:
                yield trap
            for setting in ("cemetery", "tombstones") if repetition == 1 and "profile" in parts else ():
                key = self.key("profile", setting, "seq", args.num // 2, 1)
                yield Job(key, partial(self.run_profile, setting), 4 + PROFILE_S * scale)


class Collected:
    """Collects rows through the interface of a report."""

    def __init__(self, rows):
        self.rows = rows

    def add(self, row):
        self.rows.append(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=2_000_000)
    parser.add_argument("--deletes", default="10000,100000,1000000")
    parser.add_argument("--expiry-keys", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--part", help="paper, deletes, scan, trap, profile, expiry; default: all")
    parser.add_argument("--servers", default="sexton,redis,valkey")
    parser.add_argument("--value-size", type=int, default=100)
    parser.add_argument("--cache-size", type=int, default=32 << 20)
    parser.add_argument("--write-buffer-size", type=int, default=16 << 20)
    parser.add_argument("--dir", type=Path, help="directory of the stores")
    parser.add_argument("--out", type=Path)
    add_arguments(parser, MINUTES)
    parser.add_argument("--full", action="store_true", help="nine repetitions")
    parser.add_argument("--quick", action="store_true", help="a smoke run of half a minute")
    args = parser.parse_args()
    args.note = "small run" if args.quick else ""
    args.repetitions = args.repetitions or (1 if args.quick else 9 if args.full else REPETITIONS)
    if args.quick:
        args.num, args.deletes, args.expiry_keys = 20_000, "1000", 20_000
    args.deletes = [int(deletes) for deletes in args.deletes.split(",")]
    parts = args.part.split(",") if args.part else ["paper", "deletes", "scan", "trap", "profile", "expiry"]
    out = args.out or ROOT / ("study/quick/flsm" if args.quick else "study/flsm")
    if args.quick and not args.plan:
        shutil.rmtree(out, ignore_errors=True)
    build = machine.build() if args.plan else machine.record(out, machine.programs(args.servers.split(",")))["build"]
    study = Study(args, Cells(out / "cells.csv", KEY, VALUES, build))
    jobs = list(study.jobs(parts))
    if args.plan:
        tell_plan(jobs, study.cells, budget_s(args))
        return 0
    with Sitting(out, [args.dir]), tempfile.TemporaryDirectory(prefix=prefix(), dir=args.dir) as work:
        study.work = Path(work)
        code = measure(study.cells, jobs, budget_s(args))
    archive("flsm", out)
    return code


if __name__ == "__main__":
    sys.exit(main())
