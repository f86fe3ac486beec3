"""make bench-rocksdb: flsm-bench compared with RocksDB's db_bench, interleaved, and the delete studies.

    .venv/bin/python scripts/bench_rocksdb.py [--num 2000000] [--rounds 9] [--threads 1,2,4]
        [--parts speed,paper,deleted,trap,queue,space,overwrite,recovery] [--quick] [--dir DIR]

One *pair* runs both tools once with equal flags, one right after the other, in alternating
order; ratios are computed within a pair and reported as the median with a bootstrap 95 % interval.
A ratio is db_bench's time divided by flsm-bench's: above 1, the FLSM-tree is faster. Wall is the tool's own
figure (microseconds per operation of one thread). CPU is that of the whole process, including flush and
compaction, read from /proc when the tools print the line that ends a benchmark.

Both write a log without syncing it, compress with LZ4 below level 0, use 10 filter bits per key, equal
block caches and write buffers, two background threads, and jemalloc: flsm-bench is linked with it like the
server, Debian's db_bench gets it preloaded. --num of both tools counts per thread: each thread writes all
keys. flsm-bench additionally has a DRAM table of twice the write buffer, which is its memtables' index; the CSV file
lists the peak resident memory of both.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_common import ROOT, Report, machine_busy_s, median_interval
from harness.server import jemalloc

BENCH = ROOT / "target/release/flsm-bench"
LINE = re.compile(r"^(\w+)\s+:\s+([\d.]+) micros/op (\d+) ops/sec ([\d.]+) seconds (\d+) operations;(.*)")
#: Of a histogram, which follows the line of its benchmark.
PERCENTILES = re.compile(r"P(50|99|99\.9): ([\d.]+)")
#: The end of a wait for the background, as each tool says it.
WAITED = re.compile(r"^(waited|waitforcompaction\S*: finished)")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

FILL = ["fillseq"]
#: readmissing comes last: db_bench goes on with keys of its length.
MIXED = ["fillrandom", "overwrite", "waitforcompaction", "readrandom", "readseq", "seekrandom",
         "readwhilewriting", "readmissing"]
ROWS = FILL + [name for name in MIXED if name != "waitforcompaction"]
COLUMNS = ["part", "round", "threads", "tool", "setting", "benchmark", "operations", "wall_us_per_op",
           "ops_per_s", "cpu_us_per_op", "found", "peak_rss_bytes", "written_bytes", "space_bytes", "table_bytes",
           "p50_us", "p99_us", "p999_us", "seconds", "foreign_cpu"]
ROUND_SECONDS_MAX = 3600


class Tool:
    """One of the two benches, with the flags that make them do the same."""

    def __init__(self, name, args):
        self.name = name
        self.env = dict(os.environ)
        common = [f"--key_size=16 --value_size={args.value_size} --compression_type=lz4",
                  "--compression_ratio=0.5 --bloom_bits=10 --sync=0 --disable_wal=0",
                  f"--cache_size={args.cache_size} --write_buffer_size={args.write_buffer_size}"]
        flags = " ".join(common).split() + ["--progress_reports=0"]
        if name == "flsm":
            self.command = [str(BENCH)] + flags
        else:
            self.env["LD_PRELOAD"] = jemalloc()
            # Line by line, so that the end of a wait is seen when it is reached.
            self.command = ["stdbuf", "-oL", "db_bench"] + flags + ["--min_level_to_compress=1", "--max_background_jobs=2"]

    def killed_after(self, directory, benchmark, flags):
        """Runs one benchmark and kills the process as soon as its line is there."""
        command = self.command + [f"--db={directory}", f"--benchmarks={benchmark}", *flags]
        if self.name == "flsm":
            command = ["stdbuf", "-oL", *command]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.env)
        if not any(LINE.match(line) for line in process.stdout):
            raise RuntimeError(f"{' '.join(command)} ended without its line")
        process.kill()
        process.wait()

    def run(self, directory, benchmarks, flags=(), watch=None):
        """Runs the benchmarks in one process; one row of figures each, with percentiles given --histogram=1.
        `seconds` is since the start of the process. `watch` sees every line."""
        command = self.command + [f"--db={directory}", "--benchmarks=" + ",".join(benchmarks), *flags]
        foreign_before, begun = machine_busy_s(), time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        rows, cpu_before, errors = [], 0.0, []
        for line in process.stdout:
            if watch:
                watch(line)
            found = LINE.match(line)
            if rows and line.startswith("Percentiles:"):
                for percent, us in PERCENTILES.findall(line):
                    rows[-1]["p" + percent.replace(".", "") + "_us"] = float(us)
            if not found and not WAITED.match(line):
                continue
            cpu = cpu_seconds(process.pid)
            if found:
                operations = int(found[5])
                rows.append({
                    "benchmark": found[1], "operations": operations, "cpu_s": cpu - cpu_before,
                    "wall_us_per_op": float(found[2]), "ops_per_s": int(found[3]),
                    "found": (re.findall(r"\((\d+ of \d+) found\)", found[6]) or [""])[0],
                    "peak_rss_bytes": peak_rss_bytes(process.pid),
                    "written_bytes": written_bytes(process.pid),
                    "space_bytes": space_bytes(directory), "table_bytes": space_bytes(directory, TABLES),
                    "seconds": round(time.monotonic() - begun, 3),
                })
            elif rows:
                # What the writes left to do belongs to them.
                rows[-1]["cpu_s"] += cpu - cpu_before
            cpu_before = cpu
        errors.append(process.stderr.read())
        if process.wait(timeout=ROUND_SECONDS_MAX) != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{errors[0][-2000:]}")
        own = sum(row["cpu_s"] for row in rows)
        foreign = max(0.0, machine_busy_s() - foreign_before - own)
        for row in rows:
            row["cpu_us_per_op"] = row.pop("cpu_s") * 1e6 / max(1, row["operations"])
            row["foreign_cpu"] = round(foreign / max(own, 1e-9), 3)
        return rows


def cpu_seconds(pid):
    """utime + stime of a process, in ticks of 10 ms; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S


def peak_rss_bytes(pid):
    """VmHWM; 0 when the process has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def written_bytes(pid):
    """Bytes sent to devices so far; 0 when the process has ended or may not be asked."""
    try:
        found = re.search(r"^write_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


#: Names of the files that hold the tree, of both.
TABLES = (".tbl", ".sst")


def space_bytes(directory, endings=("",)):
    """Bytes that the files below a directory take up, those with one of the endings."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            if not name.endswith(endings):
                continue
            try:
                total += os.stat(os.path.join(root, name)).st_blocks * 512
            except OSError:
                pass  # dropped meanwhile
    return total


def fresh(directory):
    """An empty directory in place of whatever was there."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def table(title, header, rows):
    """Prints a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    sys.stdout.flush()


def ratio_text(values):
    """Median and interval of a list of ratios."""
    values = [value for value in values if value and math.isfinite(value)]
    if not values:
        return "-"
    median, low, high = median_interval(values)
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def speed(args, report, work):
    """The eight benchmarks at each number of threads, in pairs."""
    tools = [Tool("flsm", args), Tool("rocksdb", args)]
    ratios, figures = {}, {}
    for threads in args.threads:
        for number in range(args.rounds):
            seen = {}
            for tool in tools if number % 2 == 0 else reversed(tools):
                # The same keys for all threads of a tool, other ones each round.
                flags = [f"--num={args.num}", f"--threads={threads}", f"--seed={number + 1}"]
                for benchmarks in (FILL, MIXED):
                    for row in tool.run(fresh(work / tool.name), benchmarks, flags):
                        seen[tool.name, row["benchmark"]] = row
                        report.add(dict(row, part="speed", round=number, threads=threads, tool=tool.name))
                shutil.rmtree(work / tool.name)
            for name in ROWS:
                ours, theirs = seen["flsm", name], seen["rocksdb", name]
                key = threads, name
                for measure in ("wall_us_per_op", "cpu_us_per_op"):
                    ratio = theirs[measure] / ours[measure] if ours[measure] else math.nan
                    ratios.setdefault((key, measure), []).append(ratio)
                    figures.setdefault((key, measure), []).append((ours[measure], theirs[measure]))
            print(f"... {threads} threads: pair {number + 1} of {args.rounds}", file=sys.stderr)
    rows = []
    for threads in args.threads:
        for name in ROWS:
            cells = [threads, name]
            for measure in ("wall_us_per_op", "cpu_us_per_op"):
                pairs = figures[(threads, name), measure]
                ours, theirs = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
                cells += [f"{ours:.3f}", f"{theirs:.3f}", ratio_text(ratios[(threads, name), measure])]
            rows.append(cells)
    table(f"flsm-bench beside db_bench: {args.num} keys a thread, {args.rounds} pairs",
          ["threads", "benchmark", "wall us", "RocksDB", "ratio", "CPU us", "RocksDB", "ratio"], rows)
    for measure, word in (("wall_us_per_op", "wall"), ("cpu_us_per_op", "CPU")):
        medians = [statistics.median(values) for (_, m), values in ratios.items()
                   if m == measure and all(v > 0 and math.isfinite(v) for v in values)]
        if medians:
            mean = math.exp(sum(map(math.log, medians)) / len(medians))
            print(f"\nGeometric mean of the {word} ratios: {mean:.2f}; smallest {min(medians):.2f}")


#: Settings of the paper's run: name -> (tool, flags). "paper" is the paper's own: skip list, no filter.
PAPER = {
    "cemetery": ("flsm", []),
    "tombstones": ("flsm", ["--delete_mode=tombstones"]),
    "paper: cemetery": ("flsm", ["--memtable=skiplist", "--bloom_bits=0"]),
    "paper: tombstones": ("flsm", ["--memtable=skiplist", "--bloom_bits=0", "--delete_mode=tombstones"]),
    "rocksdb": ("rocksdb", []),
}
PAPER_ROWS = ["fillseq", "deleteseq", "readrandom", "readseq"]


def settings_of_round(number):
    """(Name, tool, flags) of each setting, in an order that is the round's own."""
    names = list(PAPER)
    random.Random(number).shuffle(names)
    return [(name, *PAPER[name]) for name in names]


def paper(args, report, work):
    """4 threads, the puts in all, then deletes and reads of 10,000 a thread; more deletes after that."""
    tools = {name: Tool(name, args) for name in ("flsm", "rocksdb")}
    for deletes in args.paper_deletes:
        seen = {}
        for number in range(args.rounds):
            for setting, tool, flags in settings_of_round(number):
                # Four threads write a quarter of all puts each; as in db_bench, the same keys.
                flags = flags + [f"--num={args.num // 4}", "--threads=4", "--reads=10000",
                                 f"--deletes={deletes}", f"--seed={number + 1}"]
                for row in tools[tool].run(fresh(work / "paper"), PAPER_ROWS, flags):
                    seen.setdefault((setting, row["benchmark"]), []).append(row["wall_us_per_op"])
                    report.add(dict(row, part=f"paper-{deletes}", round=number, threads=4, tool=tool,
                                    setting=setting))
            print(f"... paper, {deletes} deletes: round {number + 1} of {args.rounds}", file=sys.stderr)
        rows = []
        for name in PAPER_ROWS:
            medians = {s: statistics.median(seen[s, name]) for s in PAPER if (s, name) in seen}
            gain = [t / c for c, t in zip(seen["cemetery", name], seen["tombstones", name])]
            own = [t / c for c, t in zip(seen["paper: cemetery", name], seen["paper: tombstones", name])]
            rows.append([name] + [f"{medians[s]:.3f}" for s in PAPER] + [ratio_text(gain), ratio_text(own)])
        table(f"The paper's run: 4 threads, {args.num} puts, {deletes} deletes a thread (wall us/op)",
              ["benchmark", *PAPER, "tombstones / cemetery", "the same, paper's setting"], rows)


#: Shares of all keys that the deleted part deletes: 100,000, 500,000 and 1,000,000 of 2,000,000.
DELETED_SHARES = (0.05, 0.25, 0.5)
#: What is read then, in each round twice: at once, and when the background has nothing more to do.
DELETED_READS = ["readrandom", "readseq"]


def deleted(args, report, work):
    """The paper's reads, on one thread, after a share of all keys was deleted in sequence or at random: at once, and
    after burial."""
    tools = {name: Tool(name, args) for name in ("flsm", "rocksdb")}
    for order in ("deleteseq", "deleterandom"):
        for share in DELETED_SHARES:
            # Random draws meet a key twice: so many delete the share.
            deletes = int(args.num * (share if order == "deleteseq" else -math.log1p(-share)))
            seen = {}
            for number in range(args.rounds):
                for setting, tool, flags in settings_of_round(number):
                    flags = flags + [f"--num={args.num}", "--reads=10000", f"--deletes={deletes}",
                                     f"--seed={number + 1}"]
                    flags += ["--settle=600"] if tool == "flsm" else []
                    steps = ["fillseq", "waitforcompaction", order, *DELETED_READS, "flush", "waitforcompaction",
                             *DELETED_READS]
                    rows = tools[tool].run(fresh(work / "deleted"), steps, flags)[1:]
                    moments = [""] + ["at once"] * len(DELETED_READS) + ["buried"] * len(DELETED_READS)
                    for row, moment in zip(rows, moments):
                        seen.setdefault((setting, row["benchmark"], moment), []).append(row["wall_us_per_op"])
                        report.add(dict(row, part=f"{order}-{share}", round=number, threads=1, tool=tool,
                                        setting=f"{setting} {moment}".strip()))
                print(f"... {order}, {share:.0%}: round {number + 1} of {args.rounds}", file=sys.stderr)
            table_rows = []
            for name, moment in dict.fromkeys(key[1:] for key in seen):
                values = {setting: seen[setting, name, moment] for setting in PAPER}
                gain, own = ([t / c for c, t in zip(values[prefix + "cemetery"], values[prefix + "tombstones"])]
                             for prefix in ("", "paper: "))
                medians = [f"{statistics.median(values[setting]):.3f}" for setting in PAPER]
                table_rows.append([name, moment or "-", *medians, ratio_text(gain), ratio_text(own)])
            table(f"{share:.0%} of {args.num} keys deleted by {order}, one thread (wall us/op)",
                  ["benchmark", "moment", *PAPER, "tombstones / cemetery", "the same, paper's setting"], table_rows)


def trap(args, report, work):
    """A deleted prefix, then a seek to the head. Returns what it prints: (deletes, moment, first entries and seek
    in us, of flsm-bench and of db_bench), None where one has no such moment."""
    tools = {name: Tool(name, args) for name in ("flsm", "rocksdb")}
    rows, seen = [], []
    for share in (0.005, 0.25, 0.5):
        deletes = int(args.num * share)
        out = work / "trap.json"
        flags = [f"--num={args.num}", f"--deletes={deletes}"]
        ours = {}
        for row in tools["flsm"].run(fresh(work / "trap"), ["trap"], [*flags, f"--json={out}"]):
            report.add(dict(row, part=f"trap-{deletes}", round=0, threads=1, tool="flsm"))
        for name, value in json.loads(out.read_text())["results"][-1]["figures"].items():
            moment, what = name.split(": ")
            ours[moment, what.split()[0]] = value
        theirs = []
        reads = flags + ["--reads=10", "--seek_nexts=10"]
        first = ["fillseq", "deleteseq", "readseq", "readseq", "seekrandom"]
        theirs += tools["rocksdb"].run(fresh(work / "trap"), first, reads)
        again = ["readseq", "readseq", "seekrandom"]
        theirs += tools["rocksdb"].run(work / "trap", again, [*reads, "--use_existing_db=1"])
        for row in theirs:
            report.add(dict(row, part=f"trap-{deletes}", round=0, threads=1, tool="rocksdb"))
        read = [row["wall_us_per_op"] * row["operations"] for row in theirs if row["benchmark"] == "readseq"]
        seek = [row["wall_us_per_op"] for row in theirs if row["benchmark"] == "seekrandom"]
        moments = [("deleted, at once", read[0], None), ("deleted, again", read[1], seek[0]),
                   ("reopened, at once", read[2], None), ("reopened, again", read[3], seek[1]),
                   ("settled, at once", None, None), ("settled, again", None, None), ("undeleted", None, None)]
        for moment, their_read, their_seek in moments:
            def show(value):
                return "-" if value is None else f"{value:,.0f}"
            seen.append((deletes, moment, ours[moment, "first"], their_read, ours[moment, "seek"], their_seek))
            rows.append([deletes, moment, show(ours[moment, "first"]), show(their_read),
                         show(ours[moment, "seek"]), show(their_seek)])
    table(f"The trap: a prefix of {args.num} keys deleted, no manual compaction (us)",
          ["deleted", "moment", "first 10", "RocksDB", "seek + 10 next", "RocksDB"], rows)
    return seen


def queue(args, _report, work):
    """The queue's seeks over time, and Get beside graves."""
    tool = Tool("flsm", args)
    out = work / "queue.json"
    flags = [f"--num={args.num // 2}", f"--graves={args.num // 2}", f"--json={out}"]
    tool.run(fresh(work / "queue"), ["queue", "graves"], flags)
    for result in json.loads(out.read_text())["results"]:
        rows = [[name, f"{value:,.3f}"] for name, value in result["figures"].items()]
        table(f"{result['name']}: {result['operations']} operations", ["figure", "value"], rows)


def space(args, report, work):
    """Half of all keys deleted at random, then no more writes: how far disk space follows, and what is written for it."""
    deletes = int(args.num * math.log(2))
    steps = ["fillseq", "waitforcompaction", "readseq", "deleterandom", "flush", "waitforcompaction",
             "readseq"]
    rows = []
    for name in args.tools:
        flags = [f"--num={args.num}", f"--deletes={deletes}"] + (["--settle=600"] if name == "flsm" else [])
        full, deleted, settled = Tool(name, args).run(fresh(work / "space"), steps, flags)[1:]
        for row in (full, deleted, settled):
            report.add(dict(row, part="space", round=0, threads=1, tool=name))
        freed = full["table_bytes"] - settled["table_bytes"]
        written = settled["written_bytes"] - deleted["written_bytes"]
        waited_s = settled["seconds"] - deleted["seconds"]
        rows.append([name, settled["operations"]]
                    + [f"{row['table_bytes'] / 1e6:,.0f}" for row in (full, deleted, settled)]
                    + [f"{waited_s:.1f}", f"{written / 1e6:,.0f}", f"{written / max(1, freed):.2f}",
                       f"{settled['wall_us_per_op'] / full['wall_us_per_op']:.2f}"])
    table(f"Half of {args.num} keys deleted at random, nothing written afterwards (tables, MB)",
          ["tool", "keys left", "before", "deleted", "settled", "seconds", "written meanwhile", "by freed",
           "scan an entry, after / before"], rows)


#: What db_bench and flsm-bench say of the time that writers stood still.
STALLS = {"rocksdb": re.compile(r"Cumulative stall: (\d+):(\d+):([\d.]+)"), "flsm": re.compile(r"stall_ms: (\d+)")}


def overwrite(args, report, work):
    """Random overwrites for --overwrite-seconds: amplification of writes and of space, and stalls."""
    rows = []
    user_bytes = 16 + args.value_size
    for name in args.tools:
        tool = Tool(name, args)
        flags = [f"--num={args.num}", f"--duration={args.overwrite_seconds}", "--histogram=1"]
        stalls_s = []

        def stalled(line, pattern=STALLS[name], stalls_s=stalls_s):
            found = pattern.search(line)
            if found:
                parts = [float(part) for part in found.groups()]
                stalls_s.append(parts[0] / 1000 if len(parts) == 1 else parts[0] * 3600 + parts[1] * 60 + parts[2])

        row = tool.run(fresh(work / "overwrite"), ["overwrite", "stats"], flags, watch=stalled)[0]
        report.add(dict(row, part="overwrite", round=0, threads=1, tool=name))
        # What lives, had it been written once: compressed as the flags say.
        live_bytes = args.num * (1 - math.exp(-row["operations"] / args.num)) * (16 + args.value_size / 2)
        rows.append([name, f"{row['operations']:,}", row["wall_us_per_op"], f"{row['cpu_us_per_op']:.2f}",
                     row.get("p99_us", "-"), row.get("p999_us", "-"),
                     f"{row['written_bytes'] / row['operations'] / user_bytes:.2f}",
                     f"{row['table_bytes'] / live_bytes:.2f}", f"{stalls_s[0]:.1f}" if stalls_s else "-"])
    table(f"Random overwrites of {args.num} keys for {args.overwrite_seconds} s, log included",
          ["tool", "operations", "wall us", "CPU us", "p99 us", "p99.9 us", "bytes written a byte", "tables a live byte",
           "stalled s"], rows)


def recovery(args, report, work):
    """kill -9 with a full memtable over --recovery-bytes of tables, then the time of a process that opens the store
    and reads one key."""
    value_size = 1000
    num = max(1000, int(args.recovery_bytes / (16 + value_size / 2)))
    unflushed = int(RECOVERY_BUFFER_BYTES * 0.8 / (16 + value_size))
    rows, times = [], {}
    for name in args.tools:
        tool = Tool(name, args)
        store = fresh(work / f"recovery-{name}")
        flags = [f"--num={num}", f"--value_size={value_size}", f"--write_buffer_size={RECOVERY_BUFFER_BYTES}"]
        tool.run(store, ["fillseq", "waitforcompaction"], flags)
        again = [*flags, "--use_existing_db=1"]
        for number in range(min(args.rounds, 5)):
            tool.run(store, ["flush"], again)
            tool.killed_after(store, "overwrite", [*again, f"--num={unflushed}"])
            row = tool.run(store, ["readrandom"], [*again, "--reads=1"])[0]
            report.add(dict(row, part="recovery", round=number, threads=1, tool=name))
            times.setdefault(name, []).append(row["seconds"])
        # What the process takes without anything to recover.
        clean = tool.run(store, ["readrandom"], [*again, "--reads=1"])[0]["seconds"]
        rows.append([name, f"{space_bytes(store) / 1e9:.2f}", f"{statistics.median(times[name]):.3f}",
                     f"{max(times[name]):.3f}", f"{clean:.3f}"])
        shutil.rmtree(store)
    table(f"kill -9 with {unflushed * (16 + value_size) / 1e6:.0f} MB in the memtable, then open and read one key (s)",
          ["tool", "GB of files", "median", "longest", "after a clean end"], rows)


#: One memtable of the recovery part, in bytes.
RECOVERY_BUFFER_BYTES = 64 << 20

PARTS = {"speed": speed, "paper": paper, "deleted": deleted, "trap": trap, "queue": queue, "space": space,
         "overwrite": overwrite, "recovery": recovery}


def arguments(line=None):
    """What the command line asks for, or `line` in its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=2_000_000, help="keys, per thread")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", default="1,2,4", help="thread counts of the speed part")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--value-size", type=int, default=100)
    parser.add_argument("--cache-size", type=int, default=32 << 20)
    parser.add_argument("--write-buffer-size", type=int, default=16 << 20,
                        help="bytes; small enough for five flushes (N16)")
    parser.add_argument("--paper-deletes", default="10000,100000", help="deletes a thread, one run each")
    parser.add_argument("--tools", default="flsm,rocksdb", help="of the parts space, overwrite and recovery")
    parser.add_argument("--overwrite-seconds", type=int, default=3600)
    parser.add_argument("--recovery-bytes", type=int, default=10_000_000_000, help="of tables")
    parser.add_argument("--dir", type=Path, help="where the stores lie; the device under test")
    parser.add_argument("--quick", action="store_true", help="one small round, to see that it works")
    args = parser.parse_args(line)
    if args.quick:
        args.num, args.rounds, args.paper_deletes = 50_000, 1, "1000"
        args.overwrite_seconds, args.recovery_bytes = 2, 50_000_000
    args.threads = [int(n) for n in args.threads.split(",")]
    args.tools = args.tools.split(",")
    args.paper_deletes = [int(n) for n in args.paper_deletes.split(",")]
    return args


def main():
    args = arguments()
    subprocess.run(["cargo", "build", "--release", "-p", "sexton-engine", "--bin", "flsm-bench"],
                   cwd=ROOT, check=True)
    if shutil.which("db_bench") is None:
        sys.exit("db_bench is missing: install the package rocksdb-tools")
    report = Report("bench-rocksdb", COLUMNS)
    with tempfile.TemporaryDirectory(prefix="bench-rocksdb-", dir=args.dir) as work:
        for part in args.parts.split(","):
            PARTS[part](args, report, Path(work))
    print(f"\nAll runs: {report.path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
