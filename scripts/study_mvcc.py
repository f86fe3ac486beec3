"""make study-mvcc: the MVCC study (old versions on a device of their own), and what a held snapshot costs.

    .venv/bin/python scripts/study_mvcc.py [--parts undo,held] [--runs 10] [--keys 100000] [--quick] [--out DIR]

undo: the paper's script, in flsm-bench (--benchmarks=mvccundo). Transaction A inserts 100 MB, opens a snapshot
and reads everything; B, C and D overwrite everything in turn; A reads everything again at its snapshot. Tables,
and with them the newest data, lie on the emulated disk of the paper; undo runs lie on that disk's model (one more
of it) and on the emulated flash, in two processes side by side, which mostly wait for their emulated devices. Then
both lie on this machine's own device. A reads again in four ways:

    ahead    a scan that reads ahead, as the server does
    block    a scan that reads one block at a time, as the database of the paper did
    single   gets of random keys (--gets of them), one by one
    batch    the same keys in one batch, whose blocks are read in their order

held: overwrites of 20 times the keys with a snapshot held and without, in pairs whose order alternates, then reads
of the newest state, on this machine's own device. RocksDB does the same beside it: db_bench has no benchmark that
writes while it holds a snapshot, so its library is driven by held_rocksdb.c (left out, with a line that says so,
where there is no librocksdb or C compiler).

Results: undo.csv and held.csv in study/mvcc (or --out), one line a way of reading, or a run.
"""

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from bench_common import ROOT, median_interval
from studies import machine

BENCH = ROOT / "target/release/flsm-bench"
HDD, FLASH, OWN = "hdd-7200.7", "slc-nand", "disk"
#: Way of reading -> (reads ahead, in the order of blocks).
WAYS = {"ahead": ("yes", "yes"), "block": ("no", "yes"), "single": ("no", "no"), "batch": ("no", "yes")}
UNDO_COLUMNS = [
    "run", "undo_device", "undo_emulated", "tree_device", "reread", "read_ahead", "block_order", "keys", "value_bytes",
    "insert_s", "first_read_s", "overwrite_B_s", "overwrite_C_s", "overwrite_D_s", "undo_write_s", "undo_bytes",
    "undo_written_bytes", "undo_runs", "tree_bytes", "reread_s", "reread_keys", "tree_reads", "tree_read_bytes",
    "undo_reads", "undo_read_bytes", "undo_read_s", "note",
]
HELD_COLUMNS = [
    "run", "order", "engine", "held_snapshot", "keys", "value_bytes", "overwrites", "write_us", "write_cpu_us", "readrandom_us",
    "readrandom_cpu_us", "readseq_us", "readseq_cpu_us", "seekrandom_us", "seekrandom_cpu_us", "filled_tree_bytes",
    "tree_bytes", "undo_bytes_computed", "undo_bytes", "undo_runs", "note",
]
VALUE_BYTES = 1000
HELD_VALUE_BYTES, HELD_BUFFER, HELD_CACHE = 100, 16 << 20, 32 << 20
SECONDS_MAX = 7200


def bench(args, benchmark, flags):
    """Runs one benchmark on an empty store; its figures by name."""
    with tempfile.TemporaryDirectory(prefix="study-mvcc-", dir=args.dir) as work:
        out = Path(work) / "figures.json"
        command = [BENCH, f"--benchmarks={benchmark}", f"--db={work}/db", f"--json={out}", f"--num={args.keys}",
                   "--key_size=16", "--compression_type=none", "--progress_reports=0", "--settle=900", *flags]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
        return json.loads(out.read_text())["results"][-1]["figures"]


class Table:
    """A CSV file, one line at a time."""

    def __init__(self, path, columns):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows, self.path = [], path
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, columns, extrasaction="ignore")
        self.writer.writeheader()

    def add(self, row):
        self.rows.append(row)
        self.writer.writerow(row)
        self.file.flush()


def undo_rows(args, run, device, ways):
    """One run of the script; a row for each way of reading again."""
    tree_device, placed = (OWN, []) if device == OWN else (HDD, [f"--db_profile={HDD}"])
    figures = bench(args, "mvccundo", [
        f"--value_size={VALUE_BYTES}", *placed, f"--undo_profile={device}",
        # The log is not what is studied.
        "--wal_profile=nvram", f"--reads={args.gets}", "--write_buffer_size=16777216", "--cache_size=8388608",
        "--use_direct_io_for_flush_and_compaction=1", "--rereads=" + ",".join(ways)])
    for way in ways:
        row = dict(figures, run=run, undo_device=device, undo_emulated="no" if device == OWN else "yes",
                   tree_device=tree_device, reread=way, read_ahead=WAYS[way][0], block_order=WAYS[way][1], keys=args.keys,
                   value_bytes=VALUE_BYTES, note=args.note)
        prefix = f"reread_{way}_"
        for name, value in figures.items():
            if name.startswith(prefix):
                short = name.removeprefix(prefix)
                row[f"reread_{short}" if short in ("s", "keys") else short] = value
        yield row


def undo(args):
    """The paper's script on the three devices, in turn."""
    table = Table(args.out / "undo.csv", UNDO_COLUMNS)
    for run in range(1, args.runs + 1):
        with ThreadPoolExecutor() as side_by_side:
            emulated = list(side_by_side.map(lambda device: list(undo_rows(args, run, device, list(WAYS))), (HDD, FLASH)))
        for row in chain.from_iterable(emulated):
            table.add(row)
            show(row)
        # What one way has read, the page cache would give the next one.
        for way in WAYS:
            for row in undo_rows(args, run, OWN, [way]):
                table.add(row)
                show(row)

    def figures(device, way, name):
        return [float(row[name]) for row in table.rows if row["undo_device"] == device and row["reread"] == way]

    print(f"\n### {args.runs} runs, {args.keys} keys of {VALUE_BYTES} bytes; {HDD} and {FLASH} are emulated\n")
    print("| A reads again | HDD, s | flash, s | own disk, s | HDD / flash | HDD's reads of undo | of the tree |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for way in WAYS:
        seconds = {device: figures(device, way, "reread_s") for device in (HDD, FLASH, OWN)}
        pairs = [hdd / flash for hdd, flash in zip(seconds[HDD], seconds[FLASH])]
        cells = [f"{statistics.median(values):.2f}" for values in seconds.values()]
        reads = [f"{statistics.median(figures(HDD, way, name)):.0f}" for name in ("undo_reads", "tree_reads")]
        print(f"| {way} | {' | '.join(cells)} | {interval(pairs)} | {' | '.join(reads)} |")
    writes = {device: figures(device, "ahead", "undo_write_s") for device in (HDD, FLASH, OWN)}
    cells = [f"{statistics.median(values):.2f}" for values in writes.values()]
    pairs = [hdd / flash for hdd, flash in zip(writes[HDD], writes[FLASH])]
    print(f"| undo is written in | {' | '.join(cells)} | {interval(pairs)} | | |")
    for slow, fast, what in (("block", "ahead", "read-ahead"), ("single", "batch", "block order")):
        for device in (HDD, FLASH):
            pairs = [a / b for a, b in zip(figures(device, slow, "reread_s"), figures(device, fast, "reread_s"))]
            print(f"{what} gains on {device}: {interval(pairs)}")
    print(f"\nAll runs: {table.path}")


def build_rocksdb(work):
    """held_rocksdb, or None with a line that says why."""
    libraries = sorted(Path("/usr/lib").glob("*/librocksdb.so*"))
    compiler = shutil.which("cc")
    if not libraries or not compiler:
        print("RocksDB is left out: " + ("no C compiler" if libraries else "no librocksdb (package rocksdb-tools)"))
        return None
    binary = work / "held_rocksdb"
    command = [compiler, "-O2", "-o", binary, ROOT / "scripts/held_rocksdb.c", libraries[0]]
    subprocess.run([str(word) for word in command], check=True)
    return binary


def rocksdb(args, binary, snapshot):
    with tempfile.TemporaryDirectory(prefix="study-mvcc-", dir=args.dir) as work:
        command = [binary, f"{work}/db", args.keys, HELD_VALUE_BYTES, args.overwrites, snapshot, HELD_BUFFER, HELD_CACHE, args.keys]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode:
            sys.exit(f"held_rocksdb failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)


def flsm(args, snapshot):
    return bench(args, "heldsnapshot", [
        f"--value_size={HELD_VALUE_BYTES}", f"--held_snapshot={snapshot}", f"--overwrites={args.overwrites}",
        f"--reads={args.keys}", f"--write_buffer_size={HELD_BUFFER}", f"--cache_size={HELD_CACHE}", "--seek_nexts=10"])


def held(args):
    """Pairs of long overwrites, with and without a snapshot."""
    table = Table(args.out / "held.csv", HELD_COLUMNS)
    with tempfile.TemporaryDirectory(prefix="study-mvcc-") as work:
        engines = {"flsm": lambda snapshot: flsm(args, snapshot)}
        if binary := build_rocksdb(Path(work)):
            engines["rocksdb"] = lambda snapshot: rocksdb(args, binary, snapshot)
        for run in range(1, args.pairs + 1):
            for engine, measure in engines.items():
                for order, snapshot in enumerate((0, 1) if run % 2 else (1, 0), 1):
                    figures = measure(snapshot)
                    table.add(dict(figures, run=run, order=order, engine=engine, held_snapshot=snapshot, keys=args.keys,
                                   value_bytes=HELD_VALUE_BYTES, overwrites=args.overwrites, note=args.note))
                    print(f"run {run}, {engine}, snapshot {snapshot}: {figures['write_us']:.2f} us a write, "
                          f"{figures['readrandom_us']:.2f} a get, {figures['readseq_us']:.3f} a step, tree "
                          f"{figures['tree_bytes']:.0f}, undo {figures.get('undo_bytes', 0):.0f} bytes", flush=True)

    def pairs(engine, name):
        by = {(row["run"], row["held_snapshot"]): float(row[name]) for row in table.rows if row["engine"] == engine}
        return [by[run, 0] / by[run, 1] for run in range(1, args.pairs + 1)]

    print(f"\n### {args.pairs} pairs: {args.keys} keys, {args.overwrites} times as many overwrites\n")
    print("Without / with a held snapshot: at 1 it costs nothing, below 1 it is slower with one.\n")
    print("| figure | " + " | ".join(engines) + " |\n| --- |" + " --- |" * len(engines))
    names = [f"{name}{kind}" for name in ("write", "readrandom", "readseq", "seekrandom") for kind in ("_us", "_cpu_us")]
    for name in [*names, "tree_bytes"]:
        print(f"| {name} | " + " | ".join(interval(pairs(engine, name)) for engine in engines) + " |")
    computed = [float(row["undo_bytes"]) / float(row["undo_bytes_computed"])
                for row in table.rows if row["engine"] == "flsm" and row["held_snapshot"]]
    print(f"\nundo bytes / those computed: {interval(computed)}\nAll runs: {table.path}")


def interval(values):
    """Median and bootstrap interval."""
    median, low, high = median_interval(values)
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


def show(row):
    print(f"run {row['run']}, undo on {row['undo_device']}, {row['reread']}: written in {row['undo_write_s']:.2f} s, "
          f"{row['reread_keys']:.0f} keys read in {row['reread_s']:.2f} s, {row['undo_reads']:.0f} reads of undo, "
          f"{row['tree_reads']:.0f} of the tree", flush=True)


PARTS = {"undo": undo, "held": held}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="undo,held")
    parser.add_argument("--runs", type=int, default=10, help="of the part undo")
    parser.add_argument("--pairs", type=int, default=9, help="of the part held")
    parser.add_argument("--keys", type=int, help="default: 100000 of 1000 bytes for undo, 500000 of 100 for held")
    parser.add_argument("--gets", type=int, help="of the ways single and batch; default: a fiftieth of the keys")
    parser.add_argument("--overwrites", type=int, default=20, help="of the part held, as a multiple of the keys")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dir", type=Path, help="where the stores lie: faster than the emulated devices")
    parser.add_argument("--quick", action="store_true", help="one small run, to see that it works")
    args = parser.parse_args()
    args.note = "small run" if args.quick else ""
    args.out = args.out or ROOT / ("study/quick/mvcc" if args.quick else "study/mvcc")
    if args.quick:
        args.runs, args.pairs, args.overwrites = 1, 1, 3
    machine.record(args.out)
    subprocess.run(["cargo", "build", "--release", "-p", "sexton-engine", "--bin", "flsm-bench"], cwd=ROOT, check=True)
    keys = {"undo": 5_000 if args.quick else 100_000, "held": 20_000 if args.quick else 500_000}
    for part in args.parts.split(","):
        own = argparse.Namespace(**vars(args) | {"keys": args.keys or keys[part]})
        own.gets = args.gets or own.keys // 50
        PARTS[part](own)


if __name__ == "__main__":
    main()
