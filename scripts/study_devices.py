"""make study-devices: what durability costs on each device, for Sexton, redis-server and valkey-server.

    .venv/bin/python scripts/study_devices.py [--device hdd=DIR ...] [--quick | --full] [--part grid,commands,rewrite,...]
        [--sizes 2048,4096] [--modes everysec]

The grid is device x value size x mode x server. A cell starts a server on an empty directory, sends SETs of
values that do not compress over 10^8 keys from 50 connections (command_load), waits until the last byte
is synced, and stops the clock. The same generator drives every cell; `--generator redis-benchmark` takes that one,
which sends one value to every key. N is 1,000,000, 20 s of work or 1.5 GB, whichever comes first, and at least 20,000.
Snapshots are forced in the RDB modes. Other modes keep each server's defaults, automatic rewrites included.

Devices are, in this order: directories named with --device, block devices with a timing model under the
unmodified servers (root, FUSE, nbdkit), Sexton's in-process profiles (marked; the other servers have none then).

Results: study/devices/cells.csv, one line a cell; a run that was stopped goes on where it was. The default stops after
--hours 3, with the most telling cells first; --full does all of them, --quick a handful in a minute, which says
that it works and nothing about devices. scripts/study_report.py draws the report.
"""

import argparse
import itertools
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
from harness.resp import ReplyError
from harness.server import Server, binary_of, process_tasks_cpu_ns, redis_tool
from studies import machine
from studies.cells import OK, Cells, Progress
from studies.load import CLIENTS, Snapshots, Watch, field, generate, sync, wait_for_save
from studies.stacks import DEVICES, NotHere, choose, fast_directory

SERVERS = ("sexton", "redis", "valkey")
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: Mode -> appendfsync, forced snapshots.
MODES = {
    "none": (None, False),
    "rdb": (None, True),
    "everysec": ("everysec", False),
    "always": ("always", False),
    "rdb-aof": ("everysec", True),
    "wbl": (None, False),
}
N_MAX, N_MIN, SECONDS_MAX, BYTES_MAX = 1_000_000, 20_000, 20, 1.5e9
#: Bytes of a command beside its value, in the log.
COMMAND_BYTES = 45
QUICK_LEAST, QUICK_SECONDS = 2000, 2
REPETITIONS = 3
#: Older unsynced data makes a row invalid (N14).
UNSYNCED_MAX_MS = 2000

KEY = ["part", "device", "stack", "placement", "server", "mode", "command", "value_bytes", "pipeline", "repetition"]
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
    "bound_rps",
    "requested_sync_us",
    "achieved_sync_us",
    "requested_write_mb_s",
    "achieved_write_mb_s",
    "rps_before",
    "rps_during",
    "rps_after",
    "during_s",
    "off_synced_rps",
    "note",
]


class Plan:
    """Which cells are measured, in which order: the most telling first, and repetition by repetition, so that a run
    that is stopped has whole ones."""

    def __init__(self, args):
        self.args = args
        self.repetitions = args.repetitions or (1 if args.quick else REPETITIONS)

    @staticmethod
    def cell(**made):
        return {"part": "grid", "placement": "same", "command": "set", "pipeline": 1, **made}

    @staticmethod
    def placements(device, server, mode):
        """Tables on the device of the log, and on another: two rows, where that can matter."""
        if server == "sexton" and device in ("hdd", "sata") and mode in ("none", "everysec", "always"):
            return ("same", "other")
        return ("same",)

    def grid(self, devices, sizes, modes):
        for device, size, mode, server in itertools.product(devices, sizes, modes, self.args.servers):
            for placement in self.placements(device, server, mode):
                yield self.cell(device=device, server=server, mode=mode, value_bytes=size, placement=placement)

    def commands(self, devices, sizes, modes):
        for device, size, command, mode, server in itertools.product(
            devices, sizes, ("get", "incr", "del", "mset", "expire"), modes, self.args.servers
        ):
            yield self.cell(part="commands", device=device, server=server, mode=mode, command=command, value_bytes=size)

    def rewrite(self, devices, sizes):
        for device, size, server in itertools.product(devices, sizes, self.args.servers):
            yield self.cell(part="rewrite", device=device, server=server, mode="everysec", value_bytes=size)

    def route(self, sizes):
        """Small values on a fast log device and large ones on a slow one (aof-route), beside each device alone."""
        if "sexton" in self.args.servers:
            for size, device in itertools.product(sizes, ("hdd", "nvme", "hdd+nvme")):
                yield self.cell(
                    part="route", device=device, server="sexton", mode="everysec", value_bytes=size, placement="other"
                )

    def pmem(self, sizes):
        """The same memory as a block device, and through libpmem without RDB or AOF."""
        for size, pipeline, mode, server in itertools.product(
            sizes, (1, 16), ("none", "everysec", "always", "wbl"), self.args.servers
        ):
            if mode != "wbl" or server == "sexton":
                yield self.cell(
                    part="pmem", device="pmem", server=server, mode=mode, value_bytes=size, pipeline=pipeline
                )

    def groups(self):
        """Groups of the default, and the rest."""
        devices = self.args.devices
        disk = [device for device in devices if device == "hdd"]
        if self.args.quick:
            fast = [device for device in devices if device == "nvram"]
            return [
                self.grid(disk, (64, 4096), ("none", "everysec")),
                self.grid(fast, (4096,), ("none", "everysec")),
                self.grid(disk, (64,), ("rdb", "always")),
                self.rewrite(disk, (64,)),
                self.route((4096,)) if disk else (),
            ], []
        if self.args.sizes or self.args.modes:
            return [self.grid(devices, self.args.sizes or SIZES, self.args.modes or MODES)], []
        others = [device for device in devices if device != "pmem"]
        default = [
            self.grid(others, (8, 64, 512, 2048, 4096), ("none", "everysec")),
            self.grid(others, (64, 4096), ("always", "wbl", "rdb-aof", "rdb")),
            self.pmem((64, 1024)) if "pmem" in devices else (),
            self.commands(disk, (64,), ("none", "everysec")),
            self.rewrite(disk, (1024,)),
            self.route((64, 4096)),
        ]
        rest = [
            self.grid(devices, SIZES, MODES),
            self.commands(devices, (8, 64, 1024), ("none", "everysec", "always")),
            self.rewrite(devices, (64, 1024, 4096)),
            self.pmem(SIZES) if "pmem" in devices else (),
        ]
        return default, rest

    def cells(self):
        seen, cells = set(), []
        for group in map(list, map(itertools.chain.from_iterable, self.groups())):
            for repetition in range(1, self.repetitions + 1):
                for cell in group:
                    cell = {**cell, "repetition": repetition}
                    key = tuple(cell[name] for name in KEY if name != "stack")
                    if key not in seen and (self.args.part is None or cell["part"] in self.args.part):
                        seen.add(key)
                        cells.append(cell)
        return cells


def requests_of(args, cell, memory_bytes):
    """(N, note): 1.5 GB or a tenth of the free memory at most."""
    if args.quick:
        return N_MIN, "small run"
    bytes_max, note = BYTES_MAX, ""
    if memory_bytes / 10 < bytes_max:
        bytes_max, note = memory_bytes / 10, "N lowered: memory"
    keys = 10 if cell["command"] == "mset" else 1
    return max(N_MIN, int(min(N_MAX, bytes_max / (cell["value_bytes"] + COMMAND_BYTES) / keys))), note


def server_options(cell, stack):
    """(directory, directives) of a cell.

    NotHere when the server cannot do it."""
    appendfsync, snapshots = MODES[cell["mode"]]
    is_sexton = cell["server"] == "sexton"
    options = {"appendonly": "no"} if appendfsync is None else {"appendonly": "yes", "appendfsync": appendfsync}
    if not is_sexton:
        if cell["mode"] == "wbl":
            raise NotHere("only Sexton has wbl")
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
    """Where the memtables of wbl lie."""
    return Path(stack.pmem or fast_directory()) / "sexton-study-pmem"


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
    except RuntimeError as error:
        server.close()
        raise NotHere(f"the server does not start: {str(error).strip().splitlines()[-1][-200:]}") from None


def redis_benchmark(port, cell, requests):
    """The same figures as command_load's, as far as redis-benchmark has them."""
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
    """Runs one cell; its row."""
    requests, note = requests_of(args, cell, memory_bytes)
    appendfsync, snapshots = MODES[cell["mode"]]
    least, seconds = (QUICK_LEAST, QUICK_SECONDS) if args.quick else (N_MIN, SECONDS_MAX)
    server, directory = start(cell, stack, port)
    saver = rewriting = watch = None
    try:
        if cell["command"] in ("get", "del", "expire"):
            requests = min(requests, 400_000)
            generate(server.port, "set", requests, cell["value_bytes"], pipeline=16, keys=requests, first=0)
            sync(server, appendfsync)
        watch = Watch(server)
        watch.start()
        cpu_ns = process_tasks_cpu_ns(server.pid)
        if snapshots:
            saver = Snapshots(server, requests, seconds)
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
        info = server.info()
    finally:
        if watch:
            watch.stop()
        server.kill()
        for path in (directory, *stack.places(), pool_directory(stack)):
            shutil.rmtree(path, ignore_errors=True)
    return figures(args, cell, stack, loaded, synced_s, cpu_us, watch, info, note, rewriting, saver)


class Rewriting(Snapshots):
    """BGREWRITEAOF once, when half of the keys are there (or half of the time is over); when it began and ended,
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
        }


def figures(args, cell, stack, loaded, synced_s, cpu_us, watch, info, note, rewriting, saver):
    requests = loaded["requests"]
    keys = 10 if cell["command"] == "mset" else 1
    logged = field(info, "log_written_bytes") if cell["server"] == "sexton" else field(info, "aof_current_size")
    write_mb_s = stack.requested[1] or stack.achieved[1]
    logs = MODES[cell["mode"]][0] is not None and cell["command"] != "get"
    bound = requests / (logged / (write_mb_s * 1e6)) if logs and logged and write_mb_s else None
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
        "logged_bytes": logged,
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
    rates = []
    for repetition in range(1, REPETITIONS + 1):
        row = cells.get({**cell, "mode": "none", "repetition": repetition})
        if row:
            rates.append(float(row["synced_rps"]))
    return statistics.median(rates) if rates else None


def describe(row):
    text = (
        f"{row['part']} {row['device']} ({row['stack']}, {row['placement']}) {row['server']} {row['mode']} "
        f"{row['command']} {row['value_bytes']} B"
    )
    if row.get("status", OK) != OK:
        return f"{text}: not measured: {row['status']}"
    off = row.get("off_synced_rps")
    beside = f", off {float(off):,.0f} ({float(off) / float(row['synced_rps']):.2f} x)" if off else ""
    return f"{text}: {row['synced_rps']:,.0f}/s{beside}{'  ' + row['note'] if row['note'] else ''}"


def run_cells(args, plan, cells, scratch):
    """Measures what is missing; the stack of a device stays up from one cell to the next."""
    todo = plan.cells()
    progress = Progress(len(todo), None if args.full else args.hours * 3600)
    directories = dict(pair.split("=", 1) for pair in args.device)
    memory_bytes = machine.available_bytes()
    stack, reasons = None, {}
    try:
        for cell in todo:
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
                if why:
                    reasons[device] = f"an in-process profile is Sexton's alone; {why}"
            cell = {**cell, "stack": stack.name if stack else "none"}
            if cells.measured(cell):
                progress.step("already measured", was_measured=False)
                continue
            if progress.over():
                print(f"the time is over: {progress.left} cells left for the next run, or --full", flush=True)
                return
            if stack is None:
                row = {**cell, "status": reasons[device]}
            else:
                try:
                    row = measure(args, cell, stack, args.port, memory_bytes)
                    row["off_synced_rps"] = row["synced_rps"] if cell["mode"] == "none" else off_of(cells, cell)
                except NotHere as error:
                    row = {
                        **cell,
                        "status": reasons.get(device, str(error)) if cell["server"] != "sexton" else str(error),
                    }
                except (RuntimeError, ReplyError, OSError, subprocess.SubprocessError) as error:
                    row = {**cell, "status": f"failed: {error}"[:300]}
            cells.add(row)
            progress.step(describe(row), was_measured=row.get("status", OK) == OK)
    finally:
        if stack is not None:
            stack.__exit__()


def words(text):
    return text.split(",")


def sizes(text):
    return [int(size) for size in words(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--device", action="append", default=[], metavar="NAME=DIR", help=f"a real device: {', '.join(DEVICES)}"
    )
    parser.add_argument("--devices", type=words, default=list(DEVICES), help="only these, with commas")
    parser.add_argument("--servers", type=words, default=list(SERVERS))
    parser.add_argument("--sizes", type=sizes, help="the grid's cells of these value sizes only, with commas")
    parser.add_argument("--modes", type=words, help=f"the grid's cells of these modes only: {', '.join(MODES)}")
    parser.add_argument("--part", type=words, help="grid, commands, rewrite, route, pmem; all without")
    parser.add_argument("--stack", choices=["directory", "block", "profile"], help="this one instead of the best")
    parser.add_argument("--generator", choices=["command_load", "redis-benchmark"], default="command_load")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--hours", type=float, default=3)
    parser.add_argument("--full", action="store_true", help="all cells, however long it takes")
    parser.add_argument("--quick", action="store_true", help="a few cells in a minute: to see that it works")
    parser.add_argument("--out", type=Path, help="directory of the results (study/devices, or study/quick/devices)")
    parser.add_argument("--port", type=int, help="of the servers")
    args = parser.parse_args()
    unknown = [d for d in [*args.devices, *(pair.split("=")[0] for pair in args.device)] if d not in DEVICES]
    if unknown:
        parser.error(f"unknown device {unknown[0]}: {', '.join(DEVICES)}")
    unknown = [mode for mode in args.modes or () if mode not in MODES]
    if unknown:
        parser.error(f"unknown mode {unknown[0]}: {', '.join(MODES)}")
    out = args.out or ROOT / ("study/quick/devices" if args.quick else "study/devices")
    if args.quick:
        shutil.rmtree(out, ignore_errors=True)
    facts = machine.record(out, [(kind, binary_of(kind)) for kind in args.servers])
    print(
        f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['kernel']}, build {facts['build']}",
        flush=True,
    )
    # A stopped run takes its devices down like one that ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cells = Cells(out / "cells.csv", KEY, VALUES, facts["build"])
    with tempfile.TemporaryDirectory(prefix="sexton-study-") as scratch:
        try:
            run_cells(args, Plan(args), cells, Path(scratch))
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here", flush=True)
            return 1
    print(f"{len(cells.rows)} cells measured: {cells.path}")
    failed = args.quick and not cells.rows
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
