"""make bench-redis: sexton-server compared with redis-server 7.0 and valkey-server 9.1, interleaved.

    .venv/bin/python scripts/bench_redis.py [--quick] [--rows set-P64,...] [--subject redis]

Server on core 0, client (redis-benchmark 7.0, or our command_load with --generator) on core 1. 1,000,000 keys are loaded
beforehand, so every GET hits. One *round* runs every server once, in alternating order; ratios are computed within a
round and reported as the median with a bootstrap 95 % interval. Figures per run: requests/s as the
client sees them, and the server's CPU time per request, the sum of /proc/PID/task/*/schedstat over
all its threads, including background work: it is read only after compaction debt has returned to its level
before the run. Under everysec and always the clock stops when the last byte is synced
(the policy is set to `always` for one write, on every server).

A row is marked `!` if it must not be cited: fewer than 5 flushes in a run of the subject (N16; a row of SETs is sized so that
its warm-up, an ordinary run, has two more), compaction debt above the start, unsynced data older than 2 s, fewer than 9
rounds, or other processes busy in more than a quarter of the runs.
"""

import argparse
import json
import re
import subprocess
import time

from bench_common import (
    Report,
    children_cpu_s,
    load_keys,
    machine_busy_s,
    median_interval,
    process_cpu_s,
)
from bench_workloads import SCRIPTS, SIZES, STRINGS, TYPES, WORKLOADS, fill
from harness.resp import ReplyError
from harness.server import Server, process_tasks_cpu_ns, redis_tool
from studies.load import COMMAND_LOAD

#: INFO fields of the subject, with or without a prefix, that show whether a row may be cited.
FLUSHES, DEBT, FROZEN = "flushes", "compaction_debt_bytes", "memtables_frozen"
UNSYNCED_AGE_MS = "largest_unsynced_ms"

KEYS = 1_000_000
RUN_SECONDS_MAX = 600
#: A run of large values sends no more.
RUN_BYTES_MAX = 2_000_000_000
FOREIGN_MAX = 0.08
UNSYNCED_MAX_MS = 2000
FLUSHES_MIN = 5
ROUNDS_MIN = 9
#: "Not slower" means that the interval reaches this ratio.
NOT_SLOWER = 0.97

#: Wanted figures: (row, measure, peer or other policy) -> (relation, bound).
WANTED = {
    ("get-P64", "cpu", "valkey"): ("<=", 0.50),
    ("set-P64", "cpu-everysec", "valkey"): ("<=", 0.65),
    ("set-P16", "cpu", "valkey"): ("<=", 0.75),
    ("get-P16", "cpu", "valkey"): ("<=", 0.75),
    ("set-P1", "cpu", "valkey"): ("<=", 1.0),
    ("get-P1", "cpu", "valkey"): ("<=", 1.0),
    ("get-P64", "rps", "valkey"): (">=", 1.7),
    ("set-P64", "rps", "valkey"): (">=", 1.4),
    ("set-P64", "kept", "none"): (">=", 0.85),
    ("set-P16", "kept", "none"): (">=", 0.85),
    **{(f"eval-{what}-P{depth}", "cpu", "valkey"): ("<=", 1.0) for what in ("incr", "get", "hset") for depth in (1, 16)},
    ("always-c500", "rps", "redis"): (">=", 2.0),
    ("always-c50", "rps", "redis"): (">=", 1.8),
    ("always-c50", "rps", "better"): (">=", 1.5),
    ("always-c1", "rps", "redis"): (">=", 0.95),
    ("always-c1", "rps", "better"): (">=", 0.95),
}

class Row:
    """One workload: test, pipeline depth, clients, requests, and the policies run in one round."""

    def __init__(self, name, test, depth, clients, requests, policies):
        self.name, self.test, self.depth, self.clients = name, test, depth, clients
        self.requests, self.policies = requests, policies
        self.workload = WORKLOADS[test]
        if self.workload.value_bytes:
            self.requests = min(requests, RUN_BYTES_MAX // self.workload.value_bytes)


def rows(quick):
    # A memtable takes 500,000 SETs of 64 bytes, and up to twice that while another one is flushed.
    many, some, few = (600_000, 400_000, 60_000) if quick else (5_000_000, 5_000_000, 400_000)
    deep = 200_000 if quick else 1_000_000
    return [
        Row("set-P64", "set", 64, 50, many, ("none", "everysec")),
        Row("get-P64", "get", 64, 50, many, ("none",)),
        Row("set-P16", "set", 16, 50, some, ("none", "everysec")),
        Row("get-P16", "get", 16, 50, some, ("none",)),
        Row("set-P1", "set", 1, 50, few, ("none", "everysec")),
        Row("get-P1", "get", 1, 50, few, ("none",)),
        Row("eval-incr-P1", "eval-incr", 1, 50, few, ("none",)),
        Row("eval-incr-P16", "eval-incr", 16, 50, few, ("none",)),
        Row("eval-get-P1", "eval-get", 1, 50, few, ("none",)),
        Row("eval-get-P16", "eval-get", 16, 50, few, ("none",)),
        Row("eval-hset-P1", "eval-hset", 1, 50, few, ("none",)),
        Row("eval-hset-P16", "eval-hset", 16, 50, few, ("none",)),
        Row("always-c500", "set", 1, 500, 50_000 if quick else 400_000, ("always",)),
        Row("always-c50", "set", 1, 50, 50_000 if quick else 300_000, ("always",)),
        Row("always-c1", "set", 1, 1, 8_000 if quick else 40_000, ("always",)),
        *[Row(f"{test}-P{depth}", test, depth, 50, few if depth == 1 else deep, ("everysec",))
          for group in GROUPS.values() for test in group for depth in (1, 16, 64)],
    ]


def chosen_rows(args):
    """The requested rows: by name, by the name of a command without its depth, or by group; by default all rows that are in no group."""
    known = rows(args.quick)
    grouped = {test for group in GROUPS.values() for test in group}
    if not args.rows:
        return [row for row in known if row.test not in grouped]
    wanted = set(args.rows.split(","))
    for group, tests in GROUPS.items():
        wanted |= set(tests) if group in wanted else set()
    return [row for row in known if row.name in wanted or row.test in wanted]


#: Rows that `--rows` takes by one name.
GROUPS = {"strings": STRINGS, "sizes": SIZES, "types": TYPES}


def options(kind, policy):
    """Equal persistence for all: no snapshots, and no rewrite of the log during a run."""
    if policy == "none":
        return {"appendonly": "no"}
    made = {"appendonly": "yes", "appendfsync": policy}
    if kind != "sexton":
        made["auto-aof-rewrite-percentage"] = "0"
    return made


class Candidate:
    """A running, loaded server; with directives of `made`, and data in `directory`, if these are given."""

    def __init__(self, args, kind, policy, made=None, directory=None, workload=WORKLOADS["set"]):
        self.kind, self.policy, self.workload = kind, policy, workload
        self.keys, self.value_bytes = workload.range(args.keys), workload.value_bytes or args.value_bytes
        prefix = ["taskset", "-c", "0"] + (["chrt", "-r", "1"] if args.realtime else [])
        made = made or options(kind, policy)
        if kind == args.subject:
            made.update(option.split("=", 1) for option in args.option)
        self.server = Server(kind, made, prefix=prefix, directory=directory)
        self.server.start()
        if not workload.consumed:
            self.fill(0)
        connection = self.server.connect(timeout_s=60)
        for script, _ in SCRIPTS.values():
            connection.cmd("SCRIPT", "LOAD", script)
        connection.close()
        self.label = f"{kind}/{policy}"

    def fill(self, count):
        """Gives the server what the workload needs for a run of `count` requests."""
        if self.workload.strings:
            load_keys(self.server.port, 0, self.keys, self.value_bytes)
        if self.workload.needs:
            fill(self.server.port, self.workload.needs(count, "x" * self.value_bytes))

    def field(self, name):
        """An INFO field as a number; None when the server has no such field."""
        for field, value in self.server.info().items():
            if field == name or field.endswith("_" + name):
                return float(value)
        return None

    def settle(self, debt_start, limit_s=120):
        """Waits until no memtable waits for its flush and compaction debt is not above what it was;
        returns the debt."""
        deadline = time.monotonic() + limit_s
        while True:
            debt, frozen = self.field(DEBT), self.field(FROZEN)
            if debt is None or debt_start is None or time.monotonic() > deadline:
                return debt
            if debt <= debt_start and not frozen:
                return debt
            time.sleep(0.1)

    def sync(self):
        """Returns when everything written so far is synced; seconds it took."""
        if self.policy in ("none", "shared", "wbl"):
            return 0.0  # there is nothing to sync, or what was answered is durable
        begun = time.monotonic()
        connection = self.server.connect(timeout_s=60)
        try:
            if self.policy != "always":
                connection.cmd("CONFIG", "SET", "appendfsync", "always")
            connection.cmd("SET", "sync", "1")
            took = time.monotonic() - begun
            if self.policy != "always":
                connection.cmd("CONFIG", "SET", "appendfsync", self.policy)
        finally:
            connection.close()
        return took


def redis_benchmark(candidate, row):
    return [redis_tool("redis-benchmark"), "-p", str(candidate.server.port), "-n", str(row.requests), "-r", str(candidate.keys),
            "-d", str(candidate.value_bytes), "-c", str(row.clients), "-P", str(row.depth), "--csv",
            *candidate.workload.words("x" * candidate.value_bytes)]


def command_load(candidate, row):
    requests = str(row.requests)
    return [COMMAND_LOAD, str(candidate.server.port), row.test, requests, requests, str(RUN_SECONDS_MAX), str(row.clients), str(row.depth),
            str(candidate.keys), str(candidate.value_bytes)]


#: What sends the requests: the tool people know, or our own, which needs less of its core a request.
GENERATORS = {"redis-benchmark": redis_benchmark, "command_load": command_load}


def client_rps(printed):
    """Requests/s from a generator's output; None if it prints none."""
    last = printed.strip().splitlines()[-1] if printed.strip() else ""
    if last.startswith("{"):
        made = json.loads(last)
        return made["requests"] / made["seconds"]
    match = re.match(r'"[^"]+","([\d.]+)"', last)
    return float(match[1]) if match else None


def run_once(args, candidate, row):
    """One redis-benchmark run; a disturbed one is repeated once."""
    for attempt in (1, 2):
        result = measure(args, candidate, row)
        if result["foreign"] <= FOREIGN_MAX or attempt == 2:
            return result
    return result


def measure(args, candidate, row):
    server = candidate.server
    if candidate.workload.consumed:
        candidate.fill(row.requests)
        candidate.sync()
        candidate.settle(float("inf"))
    client = ["taskset", "-c", "1"] + (["chrt", "-r", "1"] if args.realtime else [])
    client += GENERATORS[candidate.workload.generator or args.generator](candidate, row)
    is_subject = candidate.kind == args.subject
    debt_start = candidate.field(DEBT) if is_subject else None
    flushes = candidate.field(FLUSHES) if is_subject else None
    cpu_ns, cpu_s = process_tasks_cpu_ns(server.pid), process_cpu_s(server.pid)
    busy_s, client_s, begun = machine_busy_s(), children_cpu_s(), time.monotonic()
    done = subprocess.run(client, capture_output=True, text=True)
    wall_s = time.monotonic() - begun
    foreign_s = (machine_busy_s() - busy_s) - (children_cpu_s() - client_s) - (process_cpu_s(server.pid) - cpu_s)
    rps = None if done.returncode else client_rps(done.stdout)
    if rps is None:
        raise RuntimeError(f"{candidate.label} {row.name}: {done.stdout[-200:]} {done.stderr[-200:]}")
    synced_rps = row.requests / (row.requests / rps + candidate.sync())
    debt_end = candidate.settle(debt_start) if is_subject else None
    by_thread_us = (process_tasks_cpu_ns(server.pid) - cpu_ns) / 1000
    # Threads that ended during the run are missing in /proc/PID/task, not in the process' total.
    whole_us = (process_cpu_s(server.pid) - cpu_s) * 1e6
    return {
        "row": row.name, "server": candidate.kind, "policy": candidate.policy, "rps": synced_rps, "client_rps": rps,
        "cpu_us": max(by_thread_us, whole_us if whole_us > by_thread_us * 1.05 else 0) / row.requests,
        "foreign": max(0.0, foreign_s / wall_s),
        "flushes": None if flushes is None else candidate.field(FLUSHES) - flushes,
        "debt_start": debt_start, "debt_end": debt_end,
        "unsynced_age_ms": candidate.field(UNSYNCED_AGE_MS) if is_subject else None,
    }


def run_row(args, row, report):
    """All rounds of one row: {label: [result of each round]}."""
    kinds = [args.subject] + [k for k in ("redis", "valkey") if k != args.subject]
    candidates, results = [], {}
    try:
        for policy in row.policies:
            for kind in kinds:
                candidates.append(Candidate(args, kind, policy, workload=row.workload))
        # Warm-up, not counted: a whole run, after which memory and files are those of the runs to come.
        flushes = [measure(args, candidate, row)["flushes"] for candidate in candidates if candidate.kind == args.subject]
        fewest = min((f for f in flushes if f is not None), default=0)
        if row.test == "set" and row.depth > 1 and not args.quick and 0 < fewest < FLUSHES_MIN + 2:
            row.requests = int(row.requests * (FLUSHES_MIN + 2) / fewest)
            print(f"{row.name:11} {row.requests} requests a run: {fewest:.0f} flushes in the warm-up", flush=True)
        short = Row(row.name, row.test, row.depth, row.clients, max(2000, row.requests // 10), row.policies)
        for candidate in candidates:
            if candidate.kind != args.subject:
                measure(args, candidate, short)
        for number in range(args.rounds):
            order = candidates if number % 2 == 0 else candidates[::-1]
            for candidate in order:
                result = run_once(args, candidate, row)
                report.add({"round": number + 1, **result})
                results.setdefault(candidate.label, []).append(result)
    finally:
        for candidate in candidates:
            candidate.server.close()
    return results


def ratios(ours, theirs, measure_name):
    return [a[measure_name] / b[measure_name] for a, b in zip(ours, theirs)]


def verdict(row, what, against, interval):
    """Compares an interval with its target: met if the interval reaches it."""
    median, low, high = interval
    if (row.name, what, against) not in WANTED:
        if not what.startswith("rps"):
            return ""
        return "  not slower" if high >= NOT_SLOWER else "  SLOWER"
    relation, bound = WANTED[(row.name, what, against)]
    met = median <= bound if relation == "<=" else median >= bound
    reached = low <= bound if relation == "<=" else high >= bound
    return f"  wanted {relation} {bound}: {'met' if met else 'within the interval' if reached else 'NOT met'}"


def print_row(args, row, results):
    for label, runs in results.items():
        rps, cpu = median_interval([r["rps"] for r in runs]), median_interval([r["cpu_us"] for r in runs])
        print(f"{row.name:11} {label:18} {rps[0] / 1000:8.1f} k/s [{rps[1] / 1000:.1f}, {rps[2] / 1000:.1f}]"
              f"   {cpu[0]:6.2f} us CPU [{cpu[1]:.2f}, {cpu[2]:.2f}]")
    problems = []
    for policy in row.policies:
        ours = results[f"{args.subject}/{policy}"]
        suffix = "" if policy == "none" or len(row.policies) == 1 else f"-{policy}"
        for peer in ("redis", "valkey"):
            theirs = results.get(f"{peer}/{policy}")
            if not theirs or peer == args.subject:
                continue
            for what, field in (("rps", "rps"), ("cpu", "cpu_us")):
                show(row, what + suffix, peer, median_interval(ratios(ours, theirs, field)), policy)
        peers = [results[f"{p}/{policy}"] for p in ("redis", "valkey") if f"{p}/{policy}" in results and p != args.subject]
        if policy == "always" and peers:
            better = [{"rps": max(runs)} for runs in zip(*[[r["rps"] for r in p] for p in peers])]
            show(row, "rps", "better", median_interval(ratios(ours, better, "rps")), policy)
        problems += validity(args, row, policy, ours)
    if set(row.policies) >= {"none", "everysec"}:
        for kind in {label.split("/")[0] for label in results}:
            kept = median_interval(ratios(results[f"{kind}/everysec"], results[f"{kind}/none"], "rps"))
            extra = verdict(row, "kept", "none", kept) if kind == args.subject else ""
            print(f"{row.name:11} {kind}: rate kept with everysec {kept[0]:.2f} [{kept[1]:.2f}, {kept[2]:.2f}]{extra}")
    for problem in dict.fromkeys(problems):
        print(f"{row.name:11} ! not to be cited: {problem}")
    print(flush=True)


def show(row, what, against, interval, policy):
    print(f"{row.name:11}   {what.split('-')[0]} beside {against} ({policy}): "
          f"{interval[0]:.2f} [{interval[1]:.2f}, {interval[2]:.2f}]{verdict(row, what, against, interval)}")


def validity(args, row, policy, runs):
    """Why the subject's runs of this row must not be cited; prints the figures that N14 and N16 require."""
    problems = []
    if len(runs) < ROUNDS_MIN:
        problems.append(f"{len(runs)} rounds, at least {ROUNDS_MIN} are needed")
    disturbed = sum(r["foreign"] > FOREIGN_MAX for r in runs)
    if disturbed * 4 > len(runs):
        problems.append(f"other processes disturbed {disturbed} of {len(runs)} runs")
    if args.subject != "sexton":
        return problems
    if row.test == "set":
        flushes = [r["flushes"] for r in runs]
        if None in flushes:
            problems.append(f"INFO has no {FLUSHES}")
        else:
            print(f"{row.name:11}   flushes in {args.subject}/{policy}: {sum(flushes):.0f} in all, {min(flushes):.0f} in the run with fewest")
            if (min(flushes) if row.depth > 1 else sum(flushes)) < FLUSHES_MIN:
                problems.append(f"a run with {min(flushes):.0f} flushes, at least {FLUSHES_MIN} are needed")
        if runs[0]["debt_start"] is not None:
            worst = max(runs, key=lambda r: r["debt_end"] - r["debt_start"])
            print(f"{row.name:11}   compaction debt in {args.subject}/{policy}: at most {worst['debt_end'] - worst['debt_start']:.0f} bytes above the start")
        if runs[0]["debt_start"] is None:
            problems.append(f"INFO has no {DEBT}")
        elif any(r["debt_end"] > r["debt_start"] for r in runs):
            problems.append("compaction debt did not go back to the start")
        if policy == "everysec":
            age = runs[-1]["unsynced_age_ms"]
            print(f"{row.name:11}   oldest unsynced data in {args.subject}/everysec: {'unknown' if age is None else f'{age:.0f} ms'}")
            if age is None or age > UNSYNCED_MAX_MS:
                problems.append("unsynced data older than 2 s" if age else f"INFO has no {UNSYNCED_AGE_MS}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds of short runs: a smoke run, not to be cited")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--rows", help="only these rows, comma-separated: by name, by command (incr), or by group (strings, sizes, types)")
    parser.add_argument("--subject", default="sexton", help="server compared with the others")
    parser.add_argument("--value-bytes", type=int, default=64)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--realtime", action="store_true", help="chrt -r 1 for server and client")
    parser.add_argument("--generator", choices=list(GENERATORS), default="redis-benchmark")
    parser.add_argument("--option", action="append", default=[], help="directive for the subject, name=value")
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else ROUNDS_MIN)
    chosen = chosen_rows(args)
    if not chosen:
        raise SystemExit("no such row: " + ", ".join(r.name for r in rows(args.quick)))
    report = Report("bench-redis", ["round", "row", "server", "policy", "rps", "client_rps", "cpu_us", "foreign", "flushes",
                                    "debt_start", "debt_end", "unsynced_age_ms"])
    print(f"{args.rounds} rounds, values of {args.value_bytes} bytes, {args.keys} keys; medians, 95 % intervals in brackets", flush=True)
    for row in chosen:
        try:
            print_row(args, row, run_row(args, row, report))
        except (RuntimeError, ReplyError, OSError) as error:
            print(f"{row.name:11} ! failed: {error}", flush=True)
    print(f"every run: {report.path}")


if __name__ == "__main__":
    main()
