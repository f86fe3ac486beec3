"""make study-mvcc: the MVCC study (old versions on a device of their own), and the cost of a held snapshot.

    .venv/bin/python scripts/study_mvcc.py [--parts undo,held] [--runs 3] [--minutes 15] [--plan] [--quick | --full] [--out DIR]

undo: the paper's script, in flsm-bench (--benchmarks=mvccundo). Transaction A inserts 100 MB, opens a snapshot
and reads everything; B, C and D overwrite everything in turn; A reads everything again at its snapshot. Tables,
and with them the newest data, are on an emulation of the paper's disk. Undo runs are on a second disk of that model
and on the emulated flash, in parallel processes, which mostly wait for their emulated devices. Then
both are on this machine's own device. With --device hdd=DIR and --device flash=DIR these are used instead, the tables on
the disk, and nothing is emulated. A reads again in four ways:

    ahead    a scan with read-ahead, as in the server
    block    a scan that reads one block at a time, like the paper's database
    single   gets of random keys (--gets of them), one by one
    batch    these keys in one batch, whose blocks are read in order

held: overwrites of 20 times the keys with and without a held snapshot, in pairs of alternating order, then reads
of the newest state, on this machine's own device. RocksDB runs this test too. db_bench has no benchmark that
writes while it holds a snapshot, so held_rocksdb.c uses its library directly (skipped with a message
if there is no librocksdb or C compiler).

Results: undo.csv and held.csv in study/mvcc (or --out), one line per way of reading, or per run; a run that was stopped
or killed is resumed.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench_common import ROOT, median_interval
from studies import machine, rocksdb
from studies.cells import Cells, Job, add_arguments, budget_s, measure, tell_plan
from studies.report.archive import archive
from studies.sitting import Sitting, prefix

BENCH = ROOT / "target/release/flsm-bench"
HDD, FLASH, OWN = "hdd-7200.7", "slc-nand", "disk"
#: The user's: a disk with the tables and, in turn, undo runs, and a device with undo runs alone.
REAL = ("hdd", "flash")
#: Way of reading -> (reads ahead, in the order of blocks).
WAYS = {"ahead": ("yes", "yes"), "block": ("no", "yes"), "single": ("no", "no"), "batch": ("no", "yes")}
UNDO_KEY = ["run", "undo_device", "reread"]
UNDO_VALUES = [
    "undo_emulated", "tree_device", "read_ahead", "block_order", "keys", "value_bytes",
    "insert_s", "first_read_s", "overwrite_B_s", "overwrite_C_s", "overwrite_D_s", "undo_write_s", "undo_bytes",
    "undo_written_bytes", "undo_runs", "tree_bytes", "reread_s", "reread_keys", "tree_reads", "tree_read_bytes",
    "undo_reads", "undo_read_bytes", "undo_read_s", "note",
]
HELD_KEY = ["run", "engine", "held_snapshot"]
HELD_VALUES = [
    "order", "keys", "value_bytes", "overwrites", "write_us", "write_cpu_us", "readrandom_us",
    "readrandom_cpu_us", "readseq_us", "readseq_cpu_us", "seekrandom_us", "seekrandom_cpu_us", "filled_tree_bytes",
    "tree_bytes", "undo_bytes_computed", "undo_bytes", "undo_runs", "note",
]
VALUE_BYTES = 1000
HELD_VALUE_BYTES, HELD_BUFFER, HELD_CACHE = 100, 16 << 20, 32 << 20
#: What a process may take before it counts as stuck.
SECONDS_MAX = 1800
#: What the default may take.
MINUTES = 15
#: For the estimate, of 100,000 keys: the script on an emulated disk, and once for each way on the machine's own;
#: of a pair of 200,000 keys, 20 times overwritten: ours and RocksDB's.
EMULATED_S, OWN_S, PAIR_S = 265, 52, {"flsm": 12, "rocksdb": 48}
#: The same on real devices, which nobody has measured: four times the script, on a disk mostly seeks.
REAL_S = {"hdd": 180, "flash": 80}


def bench(args, benchmark, flags):
    """Runs one benchmark on an empty store; returns its figures by name."""
    with tempfile.TemporaryDirectory(prefix=prefix(), dir=args.dir) as work:
        out = Path(work) / "figures.json"
        command = [BENCH, f"--benchmarks={benchmark}", f"--db={work}/db", f"--json={out}", f"--num={args.keys}",
                   "--key_size=16", "--compression_type=none", "--progress_reports=0", "--settle=900", *flags]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode:
            raise RuntimeError(f"flsm-bench {benchmark}: {done.stderr.strip()[-250:]}")
        return json.loads(out.read_text())["results"][-1]["figures"]


def undo_rows(args, run, device, ways):
    """One run of the script; a row for each way of reading again."""
    with ExitStack() as stack:
        tree_device, placed, where = HDD, [f"--db_profile={HDD}", f"--undo_profile={device}"], args.dir
        if device in args.real:
            flash = stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix(), dir=args.real[device]))
            tree_device, placed, where = "hdd", [f"--undo_dir={flash}"], args.real["hdd"]
        elif device == OWN:
            tree_device, placed = OWN, [f"--undo_profile={OWN}"]
        figures = bench(argparse.Namespace(**vars(args) | {"dir": where}), "mvccundo", [
            f"--value_size={VALUE_BYTES}", *placed,
            # The log is not what is studied.
            "--wal_profile=nvram", f"--reads={args.gets}", "--write_buffer_size=16777216", "--cache_size=8388608",
            "--use_direct_io_for_flush_and_compaction=1", "--rereads=" + ",".join(ways)])
    for way in ways:
        row = dict(figures, run=run, undo_device=device, undo_emulated="yes" if device in (HDD, FLASH) else "no",
                   tree_device=tree_device, reread=way, read_ahead=WAYS[way][0], block_order=WAYS[way][1], keys=args.keys,
                   value_bytes=VALUE_BYTES, note=args.note)
        row_prefix = f"reread_{way}_"
        for name, value in figures.items():
            if name.startswith(row_prefix):
                short = name.removeprefix(row_prefix)
                row[f"reread_{short}" if short in ("s", "keys") else short] = value
        yield row


class Undo:
    """The paper's script on the three devices."""

    def __init__(self, args, cells):
        self.args, self.cells = args, cells

    def jobs(self):
        """Runs on the emulated devices side by side, then each of them on the machine's own; or on the user's two."""
        args, scale = self.args, self.args.keys / 100_000
        for run in range(1, args.runs + 1) if args.real else ():
            for device in REAL:
                yield Job(self.key(run, device), partial(self.own, run, device), REAL_S[device] * scale + 2)
        if args.real:
            return
        for first in range(1, args.runs + 1, args.side_by_side):
            runs = range(first, min(args.runs + 1, first + args.side_by_side))
            yield Job(self.key(runs[-1], FLASH), partial(self.emulated, runs), EMULATED_S * scale)
            for run in runs:
                yield Job(self.key(run, OWN), partial(self.own, run, OWN), OWN_S * scale + 2)

    @staticmethod
    def key(run, device):
        return {"run": run, "undo_device": device, "reread": list(WAYS)[-1]}

    def emulated(self, runs):
        """Runs all of these on both devices in parallel: they mostly wait for their emulated devices."""
        jobs = [(run, device) for run in runs for device in (HDD, FLASH)]
        with ThreadPoolExecutor(len(jobs)) as side_by_side:
            made = side_by_side.map(lambda job: list(undo_rows(self.args, *job, list(WAYS))), jobs)
            rows = [row for part in made for row in part]
        self.cells.add(*rows)
        return told(rows)

    def own(self, run, device):
        """On a real device."""
        # What one way has read, the page cache would give the next one.
        rows = [row for way in WAYS for row in undo_rows(self.args, run, device, [way])]
        self.cells.add(*rows)
        return told(rows)

    def summary(self):
        """The table of the results so far."""
        rows = list(self.cells.rows.values())

        def figures(device, way, name):
            found = {int(row["run"]): float(row[name]) for row in rows if (row["undo_device"], row["reread"]) == (device, way)}
            return [found[run] for run in sorted(found)]

        devices = REAL if self.args.real else (HDD, FLASH, OWN)
        what = "the user's devices" if self.args.real else f"{HDD} and {FLASH} are emulated"
        print(f"\n### {self.args.keys} keys of {VALUE_BYTES} bytes; {what}\n")
        print(f"| A reads again | {' | '.join(f'{device}, s' for device in devices)} | disk / flash |")
        print("|" + " --- |" * (len(devices) + 2))
        for way, name in [*((way, "reread_s") for way in WAYS), ("ahead", "undo_write_s")]:
            seconds = {device: figures(device, way, name) for device in devices}
            line = [f"{statistics.median(values):.2f}" if values else "-" for values in seconds.values()]
            pairs = [hdd / flash for hdd, flash in zip(seconds[devices[0]], seconds[devices[1]])]
            what = way if name == "reread_s" else "undo is written in"
            print(f"| {what} | {' | '.join(line)} | {interval(pairs)} |")


class Held:
    """Pairs of long overwrites, with and without a snapshot."""

    ENGINES = ("flsm", "rocksdb")

    def __init__(self, args, cells):
        self.args, self.cells = args, cells
        #: Where the program is built that drives RocksDB.
        self.work = None
        self.binary = None

    def jobs(self):
        scale = self.args.keys * self.args.overwrites / 4_000_000
        for run in range(1, self.args.pairs + 1):
            for engine in self.ENGINES:
                key = {"run": run, "engine": engine, "held_snapshot": 1}
                yield Job(key, partial(self.pair, run, engine), PAIR_S[engine] * scale)

    def pair(self, run, engine):
        rows = []
        for order, snapshot in enumerate((0, 1) if run % 2 else (1, 0), 1):
            figures = self.flsm(snapshot) if engine == "flsm" else self.rocksdb(snapshot)
            rows.append(dict(figures, run=run, order=order, engine=engine, held_snapshot=snapshot, keys=self.args.keys,
                             value_bytes=HELD_VALUE_BYTES, overwrites=self.args.overwrites, note=self.args.note))
        self.cells.add(*rows)
        return f"pair {run}, {engine}: " + "; ".join(
            f"snapshot {row['held_snapshot']}: {row['write_us']:.2f} us a write, {row['readrandom_us']:.2f} a get" for row in rows)

    def rocksdb(self, snapshot):
        if self.binary is None:
            self.binary = rocksdb.build("held_rocksdb", self.work)
        args = self.args
        with tempfile.TemporaryDirectory(prefix=prefix(), dir=args.dir) as work:
            command = [self.binary, f"{work}/db", args.keys, HELD_VALUE_BYTES, args.overwrites, snapshot, HELD_BUFFER,
                       HELD_CACHE, args.keys]
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX)
            if done.returncode:
                raise RuntimeError(f"held_rocksdb: {done.stderr.strip()[-250:]}")
            return json.loads(done.stdout)

    def flsm(self, snapshot):
        args = self.args
        return bench(args, "heldsnapshot", [
            f"--value_size={HELD_VALUE_BYTES}", f"--held_snapshot={snapshot}", f"--overwrites={args.overwrites}",
            f"--reads={args.keys}", f"--write_buffer_size={HELD_BUFFER}", f"--cache_size={HELD_CACHE}", "--seek_nexts=10"])

    def summary(self):
        rows = list(self.cells.rows.values())

        def pairs(engine, name):
            by = {(row["run"], row["held_snapshot"]): row[name] for row in rows if row["engine"] == engine}
            runs = sorted(run for run, snapshot in by if snapshot == "1" and (run, "0") in by)
            return [float(by[run, "0"]) / float(by[run, "1"]) for run in runs]

        print("\nWithout / with a held snapshot: at 1 it costs nothing, below 1 it is slower with one.\n")
        print("| figure | " + " | ".join(self.ENGINES) + " |\n| --- |" + " --- |" * len(self.ENGINES))
        names = [f"{name}{kind}" for name in ("write", "readrandom", "readseq", "seekrandom") for kind in ("_us", "_cpu_us")]
        for name in [*names, "tree_bytes"]:
            print(f"| {name} | " + " | ".join(interval(pairs(engine, name)) for engine in self.ENGINES) + " |")
        computed = [float(row["undo_bytes"]) / float(row["undo_bytes_computed"])
                    for row in rows if row["engine"] == "flsm" and row["held_snapshot"] == "1"]
        print(f"\nundo bytes / those computed: {interval(computed)}")


def interval(values):
    """Median and bootstrap interval."""
    if not values:
        return "-"
    median, low, high = median_interval(values)
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


def told(rows):
    return "; ".join(f"run {row['run']}, undo on {row['undo_device']}, {row['reread']} {row['reread_s']:.2f} s" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="undo,held")
    parser.add_argument("--runs", type=int, help="runs of the part undo (default 3, with --full the paper's 10)")
    parser.add_argument("--pairs", type=int, help="pairs of the part held (default 3, with --full 9)")
    parser.add_argument("--side-by-side", type=int, default=2, help="parallel runs of the part undo, with two processes each")
    parser.add_argument("--keys", type=int, help="default: 100000 of 1000 bytes for undo, 200000 of 100 for held")
    parser.add_argument("--gets", type=int, help="reads of the ways single and batch; default: a fiftieth of the keys")
    parser.add_argument("--overwrites", type=int, default=20, help="overwrites of the part held, as a multiple of the keys")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dir", type=Path, help="directory of the stores: faster than the emulated devices")
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME=DIR", help="a real disk and real flash: both, hdd and flash"
    )
    add_arguments(parser, MINUTES)
    parser.add_argument("--full", action="store_true", help="ten runs, nine pairs (about 45 min)")
    parser.add_argument("--quick", action="store_true", help="one small smoke run")
    args = parser.parse_args()
    args.note = "small run" if args.quick else ""
    args.real = dict(pair.split("=", 1) for pair in args.device)
    if args.real and set(args.real) != set(REAL):
        parser.error("--device hdd=DIR and --device flash=DIR, both")
    missing = [directory for directory in args.real.values() if not Path(directory).is_dir()]
    if missing:
        parser.error(f"no such directory: {missing[0]}")
    args.out = args.out or ROOT / ("study/quick/mvcc" if args.quick else "study/mvcc")
    args.runs = args.runs or (1 if args.quick else 10 if args.full else 3)
    args.pairs = args.pairs or (1 if args.quick else 9 if args.full else 3)
    if args.quick:
        args.overwrites = 3
        if not args.plan:
            shutil.rmtree(args.out, ignore_errors=True)
    if not BENCH.exists():
        sys.exit(f"{BENCH} is missing: run 'make study-tools' first")
    build = machine.build() if args.plan else machine.record(args.out)["build"]
    keys = {"undo": 5_000 if args.quick else 100_000, "held": 20_000 if args.quick else 200_000}
    studies = []
    for part in args.parts.split(","):
        own = argparse.Namespace(**vars(args) | {"keys": args.keys or keys[part]})
        own.gets = args.gets or own.keys // 50
        if part == "undo":
            studies.append(Undo(own, Cells(args.out / "undo.csv", UNDO_KEY, UNDO_VALUES, build)))
        else:
            studies.append(Held(own, Cells(args.out / "held.csv", HELD_KEY, HELD_VALUES, build)))
    budget = budget_s(args)
    if args.plan:
        for study in studies:
            tell_plan(list(study.jobs()), study.cells, budget)
        return 0
    begun, code = time.monotonic(), 0
    with Sitting(args.out, [args.dir, *args.real.values()]), tempfile.TemporaryDirectory(prefix=prefix()) as work:
        for study in studies:
            study.work = Path(work)
            left_s = None if budget is None else max(0.0, budget - (time.monotonic() - begun))
            code = measure(study.cells, list(study.jobs()), left_s) or code
            if study.cells.rows:
                study.summary()
    archive("mvcc", args.out)
    return code


if __name__ == "__main__":
    sys.exit(main())
