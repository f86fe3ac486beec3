"""make study-devices: the cost of durability on each device, for Sexton, redis-server and valkey-server.

    .venv/bin/python scripts/study_devices.py [--device hdd=DIR ...] [--quick | --full] [--part grid,commands,rewrite,...]
        [--sizes 2048,4096] [--modes everysec] [--minutes 80] [--plan]

The grid is device x value size x mode x server. A cell starts a server on an empty directory, sends SETs of
incompressible values over 10^8 keys from 50 connections (command_load), waits until the last byte
is synced, and stops the clock. All cells use this generator; `--generator redis-benchmark` replaces it with one
that sends one value to every key. N is 1,000,000, 20 s of work or 1.5 GB, whichever is reached first, and at least 20,000.
In the RDB modes a snapshot is forced at a quarter of the keys. Other modes keep each server's defaults, including automatic rewrites.

Devices are, in order of preference: directories named with --device, block devices with a timing model below the
unmodified servers (root, FUSE, nbdkit), Sexton's in-process profiles (marked; not available for the other servers).

Results: study/devices/cells.csv, one line per cell; a run that was stopped or killed is resumed. The default measures a
selection of sizes, modes and servers, three times, within --minutes; cells that no longer fit are marked and measured by the
next run. --full measures the whole grid, --quick a handful of cells in a minute, as a smoke run without meaningful figures.
--plan prints what would be measured and the estimated time. scripts/study_report.py writes the report.
"""

import argparse
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_common import ROOT
from harness.server import Server, process_tasks_cpu_ns, redis_tool
from studies import machine
from studies.cells import FAILURES, OK, Cells, Job, Progress, add_arguments, budget_s, failed, out_of_time, tell_plan
from studies.load import CLIENTS, Saving, Watch, field, generate, sync, wait_for_save, written_bytes
from studies.plan import (
    FOUND_MAX,
    KEY,
    MODES,
    N_MIN,
    REPETITIONS,
    SECONDS_MAX,
    SERVERS,
    STACK_S,
    Plan,
    estimate_s,
    off_modes,
    requests_of,
)
from studies.report.archive import archive
from studies.sitting import Sitting, fast_directory, prefix
from studies.stacks import DEVICES, NotHere, choose

QUICK_LEAST, QUICK_SECONDS = 2000, 2
#: Older unsynced data makes a row invalid (N14).
UNSYNCED_MAX_MS = 2000
#: What the default may take.
MINUTES = 80

VALUES = [
    "emulated",
    "generator",
    "requests",
    "seconds",
    "synced_seconds",
    "rps",
    "synced_rps",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "client_stalls",
    "client_stall_ms",
    "client_longest_stall_ms",
    "worker_stalls",
    "worker_stall_ms",
    "worker_longest_stall_ms",
    "server_stall_ms",
    "unsynced_age_ms",
    "cpu_us",
    "peak_rss_mb",
    "snapshots",
    "rewrites",
    "logged_bytes",
    "written_bytes",
    "bound_rps",
    "requested_sync_us",
    "achieved_sync_us",
    "requested_write_mb_s",
    "achieved_write_mb_s",
    "rps_before",
    "rps_during",
    "rps_after",
    "during_s",
    "timeline",
    "off_synced_rps",
    "note",
]


def server_options(cell, stack):
    """(directory, directives) of a cell.

    Raises NotHere if the server does not support it."""
    appendfsync, snapshots = MODES[cell["mode"]]
    is_sexton = cell["server"] == "sexton"
    options = {"appendonly": "no"} if appendfsync is None else {"appendonly": "yes", "appendfsync": appendfsync}
    if cell["mode"] == "none-copied":
        options["share-values"] = "no"
    if not is_sexton:
        if cell["mode"] in ("wbl", "none-copied"):
            raise NotHere(f"only Sexton has {cell['mode']}")
        if stack.name == "profile":
            raise NotHere("an in-process profile is Sexton's alone")
        return stack.directory / "data", options
    directory, placed = stack.sexton_options(cell["placement"])
    options |= placed
    if snapshots and stack.name == "profile":
        options["rdb-device"] = "model"
    if cell["mode"] == "wbl":
        options |= {"persistence-mode": "wbl", "memtable-device": "memory"}
        config = stack.scratch / "memory.conf"
        before = Path(options["include"]).read_text() if "include" in options else ""
        # Memory of this machine stands for persistent memory where none was named.
        emulate = "" if stack.pmem else " emulate optane-pmem"
        config.write_text(f"{before}device memory kind pmem path {pool_directory(stack)}{emulate}\n")
        options["include"] = config
        options.pop("aof-device", None)
        options.pop("appendonly", None)
    return directory, options


def pool_directory(stack):
    """The directory of wbl's memtables."""
    return Path(stack.pmem or fast_directory()) / f"{prefix()}pmem"


def start(cell, stack, port):
    """A running server on an empty directory."""
    directory, options = server_options(cell, stack)
    for old in (directory, *stack.places(), pool_directory(stack)):
        shutil.rmtree(old, ignore_errors=True)
    directory.mkdir(parents=True)
    if cell["part"] == "rewrite" and cell["server"] != "sexton":
        options["auto-aof-rewrite-percentage"] = "0"
    logs = stack.scratch / "server"
    server = Server(cell["server"], {**options, "dir": directory}, directory=logs, port=port)
    server.log_path.unlink(missing_ok=True)
    try:
        return server.start(), directory
    except SystemExit as missing:
        raise NotHere(str(missing)) from None
    except RuntimeError as error:
        server.close()
        raise NotHere(f"the server does not start: {str(error).strip().splitlines()[-1][-200:]}") from None


def redis_benchmark(port, cell, requests):
    """Runs redis-benchmark; returns the figures of command_load that it also has."""
    line = [
        redis_tool("redis-benchmark"),
        "-p",
        port,
        "-t",
        cell["command"],
        "-n",
        requests,
        "-r",
        100_000_000,
        "-d",
        cell["value_bytes"],
        "-c",
        CLIENTS,
        "-P",
        cell["pipeline"],
        "--csv",
    ]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True)
    found = re.findall(r'"([\d.]+)"', done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else []
    if done.returncode or len(found) < 7:
        raise RuntimeError(f"redis-benchmark: {done.stderr[-200:]}")
    rps, _average, _least, p50, _p95, p99, longest = (float(number) for number in found[:7])
    return {
        "requests": requests,
        "seconds": requests / rps,
        "p50_us": p50 * 1000,
        "p99_us": p99 * 1000,
        "max_us": longest * 1000,
        "timeline": [],
    }


def measure(args, cell, stack, port, memory_bytes):
    """Runs one cell; returns its row."""
    requests, note = requests_of(args, cell, memory_bytes)
    appendfsync, snapshots = MODES[cell["mode"]]
    least, seconds = (QUICK_LEAST, QUICK_SECONDS) if args.quick else (N_MIN, SECONDS_MAX)
    server, directory = start(cell, stack, port)
    saver = rewriting = watch = None
    try:
        if cell["command"] in ("get", "del", "expire"):
            requests = min(requests, FOUND_MAX)
            generate(server.port, "set", requests, cell["value_bytes"], pipeline=16, keys=requests, first=0)
            sync(server, appendfsync)
        # What the preparation wrote is not the cell's.
        logged = -logged_bytes(server, cell)
        watch = Watch(server)
        watch.start()
        cpu_ns = process_tasks_cpu_ns(server.pid)
        if snapshots:
            saver = Saving(server, requests, seconds)
            saver.start()
        if cell["part"] == "rewrite":
            rewriting = Rewriting(server, requests, seconds)
            rewriting.start()
        begun = time.monotonic()
        if args.generator == "redis-benchmark":
            loaded = redis_benchmark(server.port, cell, requests)
        else:
            where = {"keys": requests, "first": 0} if cell["command"] in ("get", "del", "expire") else {}
            loaded = generate(
                server.port,
                cell["command"],
                requests,
                cell["value_bytes"],
                least=least,
                seconds=seconds,
                pipeline=cell["pipeline"],
                **where,
            )
        loaded_s = time.monotonic() - begun
        if rewriting:
            rewriting.stop()
        if saver:
            saver.stop()
        sync(server, appendfsync)
        # The generator's own clock, and what came after it ended.
        synced_s = loaded["seconds"] + (time.monotonic() - begun - loaded_s)
        cpu_us = (process_tasks_cpu_ns(server.pid) - cpu_ns) / 1000 / loaded["requests"]
        watch.stop()
        written = written_bytes(server.pid)
        info = server.info()
        logged += logged_bytes(server, cell)
    finally:
        if watch:
            watch.stop()
        server.kill()
        for path in (directory, *stack.places(), pool_directory(stack)):
            shutil.rmtree(path, ignore_errors=True)
    return figures(args, cell, stack, loaded, synced_s, cpu_us, watch, info, logged, written, note, rewriting, saver)


def logged_bytes(server, cell):
    """Bytes in the log so far. For the other servers this is the size of the file, which their own rewrites shrink."""
    return field(server.info(), "log_written_bytes" if cell["server"] == "sexton" else "aof_current_size") or 0.0


class Rewriting(Saving):
    """BGREWRITEAOF once, when half of the keys are loaded (or half of the time is over); records when it began and ended,
    in seconds of the run."""

    SHARE = 0.5

    def __init__(self, server, keys, seconds):
        super().__init__(server, keys, seconds)
        self.span = None

    def run(self):
        connection = self.server.connect(timeout_s=300)
        at = time.monotonic()
        try:
            self.wait_for_share(connection)
            first = time.monotonic() - at
            connection.cmd("BGREWRITEAOF")
            while b"aof_rewrite_in_progress:1" in connection.cmd("INFO", "persistence"):
                time.sleep(0.02)
            self.span = (first, time.monotonic() - at)
            wait_for_save(connection)
        except Exception as error:  # noqa: BLE001 - it is the cell's reason, not a traceback
            self.error = error
        finally:
            connection.close()

    def parts(self, timeline):
        """Replies/s before, during and after the rewrite, of command_load's timeline of 100 ms."""
        if not self.span or not timeline:
            return {}
        first, last = (int(at * 10) for at in self.span)

        def rate(part):
            return round(sum(part) / len(part) * 10) if part else ""

        return {
            "rps_before": rate(timeline[:first]),
            "rps_during": rate(timeline[first : last + 1]),
            "rps_after": rate(timeline[last + 1 : -1]),
            "during_s": round(self.span[1] - self.span[0], 3),
            "timeline": ";".join(str(replies) for replies in timeline),
        }


def figures(args, cell, stack, loaded, synced_s, cpu_us, watch, info, logged, written, note, rewriting, saver):
    requests = loaded["requests"]
    keys = 10 if cell["command"] == "mset" else 1
    write_mb_s = stack.requested[1] or stack.achieved[1]
    logs = MODES[cell["mode"]][0] is not None and cell["command"] != "get"
    bound = requests * keys / (logged / (write_mb_s * 1e6)) if logs and logged > 0 and write_mb_s else None
    age = field(info, "largest_unsynced_ms") if cell["mode"] in ("everysec", "rdb-aof") else None
    notes = [note] if note else []
    if age is not None and age > UNSYNCED_MAX_MS:
        notes.append(f"INVALID: unsynced data of {age:.0f} ms (N14)")
    if cell["mode"] == "wbl":
        notes.append("memtables on the pmem device" if stack.pmem else "memtables on EMULATED persistent memory")
    if stack.name == "block" and cell["device"] == "nvme":
        notes.append("the emulation's floor is above the device")
    achieved = stack.achieved
    if stack.name == "profile":
        achieved = in_process(info) or achieved
    row = {
        **cell,
        "emulated": "yes" if stack.emulated else "no",
        "stack": stack.name,
        "generator": "redis-benchmark: one value for all keys"
        if args.generator == "redis-benchmark"
        else "command_load: incompressible",
        "requests": requests,
        "seconds": loaded["seconds"],
        "synced_seconds": synced_s,
        "rps": requests * keys / loaded["seconds"],
        "synced_rps": requests * keys / synced_s,
        "cpu_us": cpu_us,
        "client_stalls": loaded.get("stalls", ""),
        "client_stall_ms": loaded.get("stall_ms", ""),
        "client_longest_stall_ms": loaded.get("longest_stall_ms", ""),
        "worker_stalls": watch.stalls,
        "worker_stall_ms": watch.stalled_s * 1e3,
        "worker_longest_stall_ms": watch.longest_s * 1e3,
        "server_stall_ms": field(info, "stall_ms"),
        "unsynced_age_ms": age,
        "peak_rss_mb": watch.peak_rss_bytes / 1e6,
        "snapshots": saver.begun if saver else 0,
        "rewrites": field(info, "aof_rewrites"),
        "logged_bytes": logged if logs else None,
        "written_bytes": written,
        "bound_rps": bound,
        "requested_sync_us": stack.requested[0],
        "requested_write_mb_s": stack.requested[1],
        "achieved_sync_us": achieved[0],
        "achieved_write_mb_s": achieved[1],
        "note": "; ".join(notes),
    }
    row |= {name: loaded[name] for name in ("p50_us", "p99_us", "p999_us", "max_us") if name in loaded}
    if rewriting:
        row |= rewriting.parts(loaded["timeline"])
    return {
        name: round(value, 3) if isinstance(value, float) else "" if value is None else value
        for name, value in row.items()
    }


def in_process(info):
    """(median sync in us, MB/s of writing) that Sexton's emulated device took, from INFO."""
    for number in range(8):
        head = dict(pair.split("=", 1) for pair in info.get(f"device{number}", "").split(",") if pair)
        if head.get("emulated", "no") == "no":
            continue
        syncs = dict(pair.split("=", 1) for pair in info[f"device{number}_syncs"].split(",") if pair)
        writes = dict(pair.split("=", 1) for pair in info[f"device{number}_writes"].split(",") if pair)
        busy_us = float(syncs["total_us"]) + float(writes["total_us"])
        rate = float(head["written_bytes"]) / busy_us if busy_us else None
        return float(syncs["p50_us"]), round(rate, 1) if rate else None
    return None


def off_of(cells, cell):
    """Median synced rate of the same stack without persistence."""
    for mode in off_modes(cell["server"], cell["mode"], cell["value_bytes"]):
        found = [cells.get({**cell, "mode": mode, "repetition": n}) for n in range(1, REPETITIONS + 1)]
        rates = [float(row["synced_rps"]) for row in found if row]
        if rates:
            return statistics.median(rates)
    return None


def describe(row):
    text = (
        f"{row['part']} {row['device']} ({row['stack']}, {row['placement']}) {row['server']} {row['mode']} "
        f"{row['command']} {row['value_bytes']} B"
    )
    if row.get("status", OK) != OK:
        return f"{text}: not measured: {row['status']}"
    off, bound, age = (row.get(name) for name in ("off_synced_rps", "bound_rps", "unsynced_age_ms"))
    beside = f", off {float(off):,.0f} ({float(off) / float(row['synced_rps']):.2f} x)" if off else ""
    beside += f", bound {float(bound):,.0f}" if bound and row["device"] == "hdd" else ""
    beside += f", oldest unsynced {float(age):,.0f} ms" if age not in (None, "") else ""
    return f"{text}: {row['synced_rps']:,.0f}/s{beside}{'  ' + row['note'] if row['note'] else ''}"


def run_cells(args, jobs, cells, scratch, directories, memory_bytes):
    """Measures what is missing; the stack of a device stays up from one cell to the next. Also returns when the time is
    over."""
    todo = tell_plan(jobs, cells, budget_s(args))
    progress = Progress([job.estimate_s for job in todo], budget_s(args))
    stack, reasons = None, {}
    try:
        for number, job in enumerate(todo):
            if not progress.fits():
                out_of_time(cells, [left.key for left in todo[number:]])
                break
            cell = job.key
            device = cell["device"]
            if stack is None or stack.device != device:
                if stack is not None:
                    stack.__exit__()
                stack, why = None, ""
                try:
                    made, why = choose(device, scratch, directories, args.stack)
                    made.pmem = directories.get("pmem")
                    made.__enter__()
                    stack = made
                except NotHere as error:
                    reasons[device] = str(error)
                except (OSError, subprocess.SubprocessError) as error:
                    reasons[device] = f"failed: the device does not come up: {error}"[:300]
                if why:
                    reasons[device] = f"an in-process profile is Sexton's alone; {why}"
            if stack is None:
                row = {**cell, "status": reasons[device]}
            else:
                try:
                    row = measure(args, cell, stack, args.port, memory_bytes)
                    row["off_synced_rps"] = row["synced_rps"] if cell["mode"] == "none" else off_of(cells, cell)
                except NotHere as error:
                    profile = stack.name == "profile" and cell["server"] != "sexton"
                    row = {**cell, "status": reasons.get(device, str(error)) if profile else str(error)}
                except FAILURES as error:
                    row = {**cell, "status": failed(error)}
            cells.add(row)
            progress.step(describe(row))
        print(progress.summary(), flush=True)
    finally:
        if stack is not None:
            stack.__exit__()


def make_jobs(args, directories, memory_bytes):
    """The plan with its estimated times, and the stack that each device will use."""
    jobs, last, names = [], None, {}
    for cell in Plan(args).cells():
        device = cell["device"]
        if device not in names:
            names[device] = planned_stack(device, directories, args.stack)
        if names[device] == "none" or (names[device] == "profile" and cell["server"] != "sexton"):
            seconds = 0.0
        else:
            seconds = estimate_s(args, cell, memory_bytes) + (STACK_S if device != last else 0)
        last = device
        jobs.append(Job({**cell, "stack": names[device]}, None, seconds))
    return jobs


def planned_stack(device, directories, forced):
    try:
        return choose(device, Path("."), directories, forced)[0].name
    except NotHere:
        return "none"


def words(text):
    return text.split(",")


def sizes(text):
    return [int(size) for size in words(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME=DIR", help=f"a real device: {', '.join(DEVICES)}"
    )
    parser.add_argument("--devices", type=words, default=list(DEVICES), help="only these, comma-separated")
    parser.add_argument("--servers", type=words, default=list(SERVERS))
    parser.add_argument("--sizes", type=sizes, help="only the grid's cells of these value sizes, comma-separated")
    parser.add_argument("--modes", type=words, help=f"the grid's cells of these modes only: {', '.join(MODES)}")
    parser.add_argument("--part", type=words, help="grid, commands, rewrite, route, pmem; default: all")
    parser.add_argument("--stack", choices=["directory", "block", "profile"], help="use this one instead of the best available")
    parser.add_argument("--generator", choices=["command_load", "redis-benchmark"], default="command_load")
    parser.add_argument("--repetitions", type=int)
    add_arguments(parser, MINUTES)
    parser.add_argument("--full", action="store_true", help="the whole grid, without a time limit (about 16 h)")
    parser.add_argument("--quick", action="store_true", help="a few cells in a minute: a smoke run")
    parser.add_argument("--out", type=Path, help="directory of the results (study/devices, or study/quick/devices)")
    parser.add_argument("--port", type=int, help="port of the servers")
    args = parser.parse_args()
    unknown = [d for d in [*args.devices, *(pair.split("=")[0] for pair in args.device)] if d not in DEVICES]
    if unknown:
        parser.error(f"unknown device {unknown[0]}: {', '.join(DEVICES)}")
    unknown = [mode for mode in args.modes or () if mode not in MODES]
    if unknown:
        parser.error(f"unknown mode {unknown[0]}: {', '.join(MODES)}")
    out = args.out or ROOT / ("study/quick/devices" if args.quick else "study/devices")
    directories = dict(pair.split("=", 1) for pair in args.device)
    memory_bytes = machine.available_bytes()
    jobs = make_jobs(args, directories, memory_bytes)
    if args.plan:
        tell_plan(jobs, Cells(out / "cells.csv", KEY, VALUES, machine.build()), budget_s(args))
        return 0
    if args.quick:
        shutil.rmtree(out, ignore_errors=True)
    facts = machine.record(out, machine.programs(args.servers))
    print(
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['kernel']}, build {facts['build']}",
        flush=True,
    )
    # A stopped run takes its devices down like one that ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cells = Cells(out / "cells.csv", KEY, VALUES, facts["build"])
    with (
        Sitting(out, directories.values()),
        tempfile.TemporaryDirectory(prefix=prefix()) as scratch,
    ):
        try:
            run_cells(args, jobs, cells, Path(scratch), directories, memory_bytes)
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here", flush=True)
            return 1
    print(f"{len(cells.rows)} cells measured: {cells.path}")
    archive("devices", out)
    failed = args.quick and not cells.rows
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
