"""make study-wbl: YCSB on the engine, with a log and with write-behind memtables, compared with RocksDB.

    .venv/bin/python scripts/study_wbl.py [--quick | --full] [--part ycsb,rocksdb,recovery,burst,redis] [--dir DIR] [--wal-dir DIR]

ycsb      load, C six times to warm up, then C, B, A, F, D, G, H on 1 KB records and memtables as large as three of 16 MB, for each
          durability setting: no log; a log on persistent memory, NVMe and HDD, synced every second or with each
          write; wbl
rocksdb   the same workloads beside RocksDB, which ycsb_rocksdb.c runs over its library (db_bench has no YCSB), with its log
          unsynced and synced. Nothing is slowed down here, neither our tables nor our memtables: tables, log and
          pool all lie in memory (or in --dir, --wal-dir, --pmem-dir). RocksDB's block cache is as large as ours and the
          DRAM table together
recovery  kill -9 with a large unflushed memtable, and the start after it
redis     SET through the server, values of 8 to 4096 bytes, pipelines of 1 and 16: wbl, a log on the same memory with each
          write synced, and no persistence; three servers side by side, one core for them and one for redis-benchmark,
          in rounds. Persistent memory is a tmpfs with pages of 2 MiB where that can be mounted, and not slowed down
burst     ten memtables of writes at full speed while the tables lie on a slow disk

Without --dir and --wal-dir everything is stored in memory, and the log and the tables have the delays of a device of
config/profiles.conf; the rows say so. With these options the devices are real, and only the rows without a profile are run.
Results: study/wbl/cells.csv; a run that was stopped is resumed.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench_common import ROOT
from bench_rocksdb import BENCH, fresh
from studies import machine, rocksdb, sets
from studies.cells import Absent, Cells, Job, add_arguments, budget_s, measure, tell_plan
from studies.report.archive import archive
from studies.sitting import Sitting, fast_directory, prefix

KEY = ["part", "setting", "workload", "repetition"]
VALUES = [
    "emulated",
    "mode",
    "wal_device",
    "tree_device",
    "records",
    "threads",
    "operations",
    "seconds",
    "ops_per_s",
    "cpu_us_per_op",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "update_p99_us",
    "update_p999_us",
    "read_p99_us",
    "read_p999_us",
    "insert_p99_us",
    "insert_p999_us",
    "dram_hit_ratio",
    "stalls",
    "stall_ms",
    "flushes",
    "debt_grew",
    "unsynced_age_ms",
    "table_bytes",
    "log_bytes",
    "log_syncs",
    "groups_replayed",
    "records_kept",
    "scan_ms",
    "note",
]
#: The profile of a log that lies in the same memory as the memtables of wbl.
MEMORY = "optane-pmem"
#: Setting -> (--mode, device of the log). A log on a device shares nothing with the tables.
SETTINGS = {
    "no log": ("none", None),
    "everysec, pmem": ("everysec", MEMORY),
    "always, pmem": ("always", MEMORY),
    "everysec, nvme": ("everysec", "nvme"),
    "always, nvme": ("always", "nvme"),
    "everysec, hdd": ("everysec", "hdd"),
    "always, hdd": ("always", "hdd"),
    "wbl": ("wbl", None),
}
#: With directories of real devices only the policy differs.
REAL = {"no log": ("none", None), "everysec": ("everysec", None), "always": ("always", None), "wbl": ("wbl", None)}
#: Reads first, then those that change the data, inserts last.
WORKLOADS = "cbafdgh"
#: Before them, and not counted: so that the DRAM table holds what is asked for often in all of them. Of the reads that find
#: a key in a table only one in eight brings it in, so this takes more than a million reads.
WARM_UP = 6 * "c"
RUNS = [
    *(f"ycsb{letter}" for letter in WARM_UP),
    *(name for letter in WORKLOADS for name in ("waitforcompaction", f"ycsb{letter}")),
]
#: Small: nothing is awaited, which says nothing but that it works.
RUNS_QUICK = [f"ycsb{letter}" for letter in "c" + WORKLOADS]
#: Settings of the part rocksdb: of our engine --mode, of RocksDB whether each write is synced. With `synced` a write is as
#: durable as one of wbl.
BESIDE = {"wbl": "wbl", "everysec": "everysec", "rocksdb": False, "rocksdb, synced": True}
REPETITIONS = 3
#: N15: a claim needs so many.
REPETITIONS_FULL = 9
#: What the default may take.
MINUTES = 35
#: For the estimate, of 200,000 records and as many operations, and of 1 GiB to recover: seconds of a job, and of one
#: that syncs each write, which goes by --seconds.
JOB_S = {"ycsb": 35, "rocksdb": 25, "recovery": 22, "burst": 8, "redis": 85}
#: Workloads of the latter, by what waiting for the background and the warm-up add to them.
SYNCED_WORKLOADS, SYNCED_S = 7, 2.5
#: Figures of flsm-bench's report -> column.
FIGURES = {
    "dram hit ratio": "dram_hit_ratio",
    "stalls": "stalls",
    "stall ms": "stall_ms",
    "flushes": "flushes",
    "oldest unsynced ms": "unsynced_age_ms",
    "table bytes written": "table_bytes",
    "log bytes written": "log_bytes",
    "log syncs": "log_syncs",
    "update p99 us": "update_p99_us",
    "update p99.9 us": "update_p999_us",
    "read p99 us": "read_p99_us",
    "read p99.9 us": "read_p999_us",
    "insert p99 us": "insert_p99_us",
    "insert p99.9 us": "insert_p999_us",
    "groups replayed": "groups_replayed",
    "records kept": "records_kept",
    "scan and index ms": "scan_ms",
}


class Study:
    def __init__(self, args, cells):
        self.args, self.cells = args, cells
        #: Where the stores and the pools lie, from the moment on that something is measured.
        self.work = self.memory = None
        #: The program that runs RocksDB, once it is built.
        self.driver = None
        self.settings = REAL if args.dir or args.wal_dir else SETTINGS
        self.emulated = "no" if self.settings is REAL else "yes"

    def common(self, mode):
        """Flags of flsm-bench, except those for slowed-down devices."""
        args = self.args
        flags = [
            f"--num={args.records}",
            f"--value_size={args.value_size}",
            f"--write_buffer_size={args.write_buffer_size}",
            f"--cache_size={args.cache_size}",
            f"--dram_size={args.dram_size}",
            "--compression_ratio=1.0",
            "--histogram=1",
            "--progress_reports=0",
            f"--threads={args.threads}",
        ]
        flags.append(f"--mode={mode}")
        if args.wal_dir:
            flags.append(f"--wal_dir={args.wal_dir / 'log'}")
        if mode == "wbl":
            flags.append(f"--pmem_dir={args.pmem_dir or self.memory}")
        return flags

    def flags(self, setting, tree_device="nvme"):
        mode, device = self.settings[setting]
        flags = self.common(mode)
        if mode == "wbl" and not self.args.pmem_dir and not self.args.no_bandwidth:
            flags.append(f"--pmem_profile={MEMORY}")
        if self.emulated == "yes":
            flags.append(f"--db_profile={tree_device}")
            flags += [f"--wal_profile={device}"] if device else []
        return flags

    def stands_in(self, mode):
        """Whether a device of this way is emulated: yes or no."""
        return "yes" if mode == "wbl" and not self.args.pmem_dir else self.emulated

    def bench(self, benchmarks, flags, kill_at=None):
        """Runs flsm-bench; returns its results. Kills it with SIGKILL when the line of `kill_at` appears."""
        out = self.work / "out.json"
        out.unlink(missing_ok=True)
        command = [
            str(BENCH),
            f"--db={self.work / 'store'}",
            "--benchmarks=" + ",".join(benchmarks),
            f"--json={out}",
            *flags,
        ]
        with open(self.work / "errors", "w+", encoding="utf-8") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            for line in process.stdout:
                if kill_at and line.startswith(kill_at):
                    process.kill()
            code = process.wait()
            errors.seek(0)
            text = errors.read().strip()
        if code and not kill_at:
            last = text.splitlines()[-1] if text else f"ended with {code}"
            if "--mode=wbl" in last:
                raise Absent("this build has no wbl")
            raise RuntimeError(last[-250:])
        return json.loads(out.read_text())["results"] if out.exists() else []

    def devices(self, setting, tree_device="nvme"):
        """Columns for the locations of all files, in the parts that slow devices down."""
        mode, device = self.settings[setting]
        return {
            "emulated": self.stands_in(mode),
            "mode": mode,
            "wal_device": device or ("" if self.emulated == "yes" else self.args.wal_dir),
            "tree_device": tree_device if self.emulated == "yes" else self.args.dir,
        }

    def row(self, part, setting, workload, repetition, result, devices):
        latency, figures = result.get("latency_us", {}), result.get("figures", {})
        row = {
            "part": part,
            "setting": setting,
            "workload": workload,
            "repetition": repetition,
            **devices,
            "records": self.args.records,
            "threads": result["threads"],
            "operations": result["operations"],
            "seconds": result["seconds"],
            "ops_per_s": result["ops_per_sec"],
            "cpu_us_per_op": result["cpu_us_per_op"],
            "p50_us": latency.get("p50", ""),
            "p99_us": latency.get("p99", ""),
            "p999_us": latency.get("p99_9", ""),
            "max_us": latency.get("max", ""),
            "note": self.args.note,
        }
        row |= {column: figures[name] for name, column in FIGURES.items() if name in figures}
        if "compaction debt at end" in figures:
            row["debt_grew"] = (
                "yes" if figures["compaction debt at end"] > figures["compaction debt at start"] else "no"
            )
        if row.get("unsynced_age_ms", 0) > 2000:
            row["note"] = f"{row['note']} INVALID: unsynced data of {row['unsynced_age_ms']:.0f} ms (N14)".strip()
        return row

    def ycsb(self, setting, repetition):
        """One load, then the workloads, with the background at rest before each."""
        shutil.rmtree(self.work / "store", ignore_errors=True)
        flags = self.flags(setting)
        if self.settings[setting][0] == "always":
            # What is loaded with a sync for each record is measured in G.
            self.bench(["ycsbload", "waitforcompaction"], [*flags, "--mode=everysec"])
            results = []
        else:
            results = (
                self.bench(["ycsbload", "waitforcompaction"], flags) if self.settings[setting][0] != "none" else []
            )
        # A store without a log is empty at the next start, so it is loaded by the same process.
        head = ["ycsbload", "waitforcompaction"] if self.settings[setting][0] == "none" else []
        limits = [
            f"--operations={self.args.operations}",
            f"--duration={self.args.seconds if self.goes_by_time(setting) else 0}",
        ]
        keep = [] if head else ["--use_existing_db=1"]
        results += self.bench(head + self.runs(), [*flags, *limits, *keep, f"--seed={repetition}"])
        return self.note("ycsb", setting, repetition, results, self.devices(setting))

    def goes_by_time(self, setting):
        """Whether a workload is limited by time, because each write waits for a device. In memory it has the length of one
        without waiting: a longer one would find more of what it reads in the DRAM table."""
        mode, device = self.settings[setting]
        return mode == "always" and device != MEMORY

    def runs(self):
        return RUNS_QUICK if self.args.quick else RUNS

    def note(self, part, setting, repetition, results, devices):
        """Adds the rows of a load and its workloads. If there are several C, all but the last are warm-up."""
        results = {result["name"].removeprefix("ycsb"): result for result in results}
        rows = (self.row(part, setting, workload, repetition, result, devices) for workload, result in results.items())
        self.cells.add(*rows)
        rates = (f"{name} {result['ops_per_sec'] / 1000:.0f} k/s" for name, result in results.items())
        return f"{part} {setting}: " + ", ".join(rates)

    def rocksdb(self, setting, repetition):
        """The workloads in memory, ours or RocksDB's."""
        args, beside = self.args, BESIDE[setting]
        store = fresh(self.work / "store")
        devices = {"emulated": "no", "mode": beside, "wal_device": args.wal_dir, "tree_device": args.dir}
        if isinstance(beside, str):
            devices["emulated"] = "yes" if beside == "wbl" and not args.pmem_dir else "no"
            flags = [f"--operations={args.operations}", f"--seed={repetition}"]
            results = self.bench(["ycsbload", "waitforcompaction", *self.runs()], [*self.common(beside), *flags])
        else:
            self.driver = self.driver or rocksdb.build("ycsb_rocksdb", self.work)
            devices["mode"] = "always" if beside else "no"
            log = fresh((args.wal_dir or self.memory) / "rocksdb-log")
            numbers = [args.records, args.operations, 0, args.threads, args.value_size, int(beside)]
            sizes = [args.write_buffer_size, args.cache_size + args.dram_size]
            command = [self.driver, store, log, *numbers, *sizes, repetition, WARM_UP + WORKLOADS]
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            shutil.rmtree(log)
            if done.returncode:
                raise RuntimeError(f"ycsb_rocksdb: {done.stderr.strip()[-250:]}")
            results = json.loads(done.stdout)["results"]
        shutil.rmtree(store)
        return self.note("rocksdb", setting, repetition, results, devices)

    def recovery(self, setting, repetition):
        """Load into memtables that are never flushed, kill -9, start."""
        bytes_unflushed = self.args.unflushed_bytes
        records = bytes_unflushed // (self.args.value_size + 64)
        flags = [
            *self.flags(setting),
            f"--num={records}",
            f"--write_buffer_size={bytes_unflushed * 5 // 4}",
            f"--dram_size={bytes_unflushed * 2}",
        ]
        shutil.rmtree(self.work / "store", ignore_errors=True)
        self.bench(["ycsbload", "ycsbc"], [*flags, "--duration=600"], kill_at="ycsbload")
        begun = time.monotonic()
        results = self.bench(["recover", "ycsbc"], [*flags, "--use_existing_db=1", "--operations=20000"])
        took = time.monotonic() - begun
        found, asked = results[1].get("found"), results[1].get("asked")
        if found != asked:
            raise RuntimeError(f"{asked - found} of {asked} records were lost")
        row = self.row("recovery", setting, "recover", repetition, results[0], self.devices(setting))
        self.cells.add(row | {"records": records})
        return f"recovery {setting}: {row['seconds']:.2f} s for {records} records ({took:.1f} s with the process)"

    def burst(self, setting, repetition):
        """Ten memtables of writes with the tables on a slow disk."""
        records = 10 * self.args.write_buffer_size // (self.args.value_size + 64)
        shutil.rmtree(self.work / "store", ignore_errors=True)
        results = self.bench(["ycsbload"], [*self.flags(setting, "hdd"), f"--num={records}"])
        row = self.row("burst", setting, "load", repetition, results[0], self.devices(setting, "hdd"))
        self.cells.add(row | {"records": records})
        rate, longest_ms = row["ops_per_s"] / 1000, row["max_us"] / 1000
        return f"burst {setting}: {rate:.0f} k/s, p99.9 {row['p999_us']:.0f} us, max {longest_ms:.0f} ms"

    def redis(self, value_bytes, *_key):
        """All rounds of a size of value, through the server."""
        with ExitStack() as stack:
            pmem, is_huge = self.args.pmem_dir, True
            if not pmem:
                pmem, is_huge = stack.enter_context(sets.memory_with_huge_pages(self.memory))
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.work)))
            found = sets.Sets(self.args, work, Path(pmem)).rows(value_bytes)
        note = f"{self.args.note} {'' if is_huge else 'pages of 4 KiB'}".strip()
        for row, results in found:
            for way, runs in results.items():
                for number, result in enumerate(runs, 1):
                    line = self.key("redis", way, row.name, number)
                    line |= {
                        "emulated": "no" if self.args.pmem_dir or way in ("none", "shared") else "yes",
                        "mode": way,
                        "records": sets.KEYS,
                        "operations": row.requests,
                        "ops_per_s": result["rps"],
                        "cpu_us_per_op": result["cpu_us"],
                        "flushes": result["flushes"],
                        "note": f"{note} other processes {result['foreign']:.0%}".strip(),
                    }
                    self.cells.add(line)
        return "\n  ".join(["SET through the server", *(sets.told(row, value_bytes, results) for row, results in found)])

    def work_list(self, parts):
        """(marker of completion, function) of all jobs."""
        for repetition in range(1, self.args.repetitions + 1):
            settings = list(self.settings)
            random.Random(repetition).shuffle(settings)
            for part, setting in itertools.product(parts, settings):
                mode = self.settings[setting][0]
                if part == "ycsb":
                    yield self.key(part, setting, "h", repetition), self.ycsb
                elif part == "burst" and (mode != "always" or self.args.full):
                    yield self.key(part, setting, "load", repetition), self.burst
                elif part == "recovery" and mode not in ("none", "always"):
                    yield self.key(part, setting, "recover", repetition), self.recovery
            if "rocksdb" in parts:
                for setting in list(BESIDE)[:: 1 if repetition % 2 else -1]:
                    yield self.key("rocksdb", setting, "h", repetition), self.rocksdb

        if "redis" in parts:
            for size in sets.SIZES:
                # The row that is written last.
                yield self.key("redis", "always", f"P1 d{size}", self.args.repetitions), partial(self.redis, size)

    def estimate_s(self, key):
        """Estimated duration of a job, from the rows measured so far."""
        args, part = self.args, key["part"]
        if part == "ycsb" and self.goes_by_time(key["setting"]):
            return SYNCED_WORKLOADS * (args.seconds + SYNCED_S) + JOB_S[part] / 4 * args.records / 200_000
        scale = args.unflushed_bytes / (1 << 30) if part == "recovery" else args.operations / 200_000
        if part == "redis":
            return JOB_S[part] * (args.repetitions + 1) / 4 * (0.2 if args.quick else 1)
        return JOB_S[part] * (args.write_buffer_size / (16 << 20) if part == "burst" else scale)

    @staticmethod
    def key(part, setting, workload, repetition):
        return {"part": part, "setting": setting, "workload": workload, "repetition": repetition}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--operations", type=int, default=200_000, help="operations per workload")
    parser.add_argument("--seconds", type=int, default=3, help="duration of a workload that syncs each write, used instead of --operations")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--value-size", type=int, default=1024)
    parser.add_argument("--write-buffer-size", type=int, default=16 << 20)
    parser.add_argument("--cache-size", type=int, default=32 << 20)
    parser.add_argument("--dram-size", type=int, default=64 << 20, help="DRAM table")
    parser.add_argument("--unflushed-bytes", type=int, default=1 << 30, help="unflushed bytes in the recovery part")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--part", default="ycsb,rocksdb,recovery,burst", help="parts to run; redis only on request")
    parser.add_argument("--realtime", action="store_true", help="chrt -r 1 for server and client of the part redis")
    parser.add_argument("--settings", help="only these, semicolon-separated")
    parser.add_argument("--dir", type=Path, help="a real device for the tables")
    parser.add_argument("--wal-dir", type=Path, help="a real device for the log")
    parser.add_argument("--pmem-dir", type=Path, help="real persistent memory for the memtables of wbl")
    parser.add_argument(
        "--no-bandwidth", action="store_true", help="do not slow down the memory that represents persistent memory"
    )
    parser.add_argument("--out", type=Path)
    add_arguments(parser, MINUTES)
    parser.add_argument(
        "--full", action="store_true", help="10,000,000 records, 4,000,000 operations, nine repetitions"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run of half a minute")
    args = parser.parse_args()
    args.note = "small run" if args.quick else ""
    if args.no_bandwidth:
        args.note = f"{args.note} memory not slowed down".strip()
        # libpmem's way to say that a mapping counts as persistent memory.
        os.environ["PMEM_IS_PMEM_FORCE"] = "1"
    args.repetitions = args.repetitions or (1 if args.quick else REPETITIONS_FULL if args.full else REPETITIONS)
    if args.full:
        args.records, args.operations, args.dram_size = 10_000_000, 4_000_000, 2 << 30
    if args.quick:
        args.records, args.operations, args.seconds, args.dram_size = 10_000, 5_000, 1, 8 << 20
        args.write_buffer_size, args.unflushed_bytes = 1 << 20, 8 << 20
    out = args.out or ROOT / ("study/quick/wbl" if args.quick else "study/wbl")
    if args.quick and not args.plan:
        shutil.rmtree(out, ignore_errors=True)
    build = machine.build() if args.plan else machine.record(out)["build"]
    study = Study(args, Cells(out / "cells.csv", KEY, VALUES, build))
    if args.settings or args.quick:
        wanted = args.settings.split(";") if args.settings else ["no log", "everysec, hdd", "always, nvme", "wbl"]
        study.settings = {name: made for name, made in study.settings.items() if name in wanted}
    wanted = study.work_list(args.part.split(","))
    jobs = [Job(key, partial(job, key["setting"], key["repetition"]), study.estimate_s(key)) for key, job in wanted]
    if args.plan:
        tell_plan(jobs, study.cells, budget_s(args))
        return 0
    with (
        Sitting(out, [args.dir, args.wal_dir, args.pmem_dir]),
        tempfile.TemporaryDirectory(prefix=prefix(), dir=args.dir or fast_directory()) as work,
        tempfile.TemporaryDirectory(prefix=prefix(), dir=fast_directory()) as memory,
    ):
        study.work, study.memory = Path(work), Path(memory)
        code = measure(study.cells, jobs, budget_s(args))
    archive("wbl", out)
    return code


if __name__ == "__main__":
    sys.exit(main())
