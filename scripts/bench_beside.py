"""One client that works on large values, and how long others wait meanwhile, beside redis-server 7.0 and valkey-server 9.1.

Each server runs alone, one after the other; a round has every server once, in alternating order. All have `appendonly yes` and `appendfsync
everysec`. Another process asks GET of 500 small keys in turn, 500 times a second; a request that is late because the answer before it was
counts as late. Figures of an operation: seconds and CPU seconds of all threads of the server for one request, and the percentiles of the
other process while they run, but for 0.3 s at least. The client is Python: much of what a large reply takes is its own time. The table has
the medians of the rounds.
"""

import argparse
import statistics
import time

from bench_common import Report
from harness.server import Server, process_tasks_cpu_ns
from harness.visitor import Visitor, answer_ms

KINDS = ("sexton", "redis", "valkey")
SMALL_KEYS = [b"small:%d" % number for number in range(500)]
#: Others are watched for as long, however short the operation is.
WATCHED_MIN_S = 0.3
#: 99.9 % of others' answers come within this, in milliseconds.
WANTED_MS = 2.0


def parser(description):
    """The options that all of these benches have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--servers", default=",".join(KINDS))
    return made


def measure(kind, prepare, operations):
    """Operation -> (seconds a request, CPU seconds a request, others' p50, p99, p99.9 and longest in ms)."""
    options = {"appendonly": "yes", "appendfsync": "everysec"}
    if kind != "sexton":
        options["auto-aof-rewrite-percentage"] = "0"
    figures = {}
    with Server(kind, options) as server:
        connection = server.connect(timeout_s=300)
        for key in SMALL_KEYS:
            connection.cmd("SET", key, b"v")
        prepare(connection)
        for name, requests in operations.items():
            visitor = Visitor(server, SMALL_KEYS, rate=500)
            cpu_ns, begun = process_tasks_cpu_ns(server.pid), time.monotonic()
            for words in requests:
                connection.cmd(*words)
            took_s, cpu_s = time.monotonic() - begun, (process_tasks_cpu_ns(server.pid) - cpu_ns) / 1e9
            time.sleep(max(0.0, WATCHED_MIN_S - took_s))
            figures[name] = (took_s / len(requests), cpu_s / len(requests), *answer_ms(visitor.leave()))
    return figures


def run(bench, args, prepare, operations):
    """All rounds of a bench, and its table. `operations`: name -> requests, in the order in which they run; `prepare` gets a connection."""
    columns = ("round", "server", "operation", "s", "cpu_s", "p50_ms", "p99_ms", "p999_ms", "longest_ms")
    report, kinds, all_of = Report(bench, columns), args.servers.split(","), {}
    for number in range(args.rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            for name, figures in measure(kind, prepare, operations).items():
                all_of.setdefault((name, kind), []).append(figures)
                report.add(dict(zip(columns, (number, kind, name, *figures))))
    width = max(len(name) for name in operations)
    print(f"{'operation':{width}} {'server':7} {'ms':>9} {'CPU ms':>9} {'p50':>7} {'p99':>7} {'p99.9':>8} {'longest':>8}")
    for (name, kind), rounds in all_of.items():
        took_s, cpu_s, *others_ms = (statistics.median(column) for column in zip(*rounds))
        missed = "  missed" if kind == "sexton" and others_ms[2] > WANTED_MS else ""
        print(f"{name:{width}} {kind:7} {took_s * 1000:9.3f} {cpu_s * 1000:9.3f} " + " ".join(f"{ms:7.2f}" for ms in others_ms) + missed)
    print(f"wanted: others' p99.9 at most {WANTED_MS} ms; all runs in {report.path}")
