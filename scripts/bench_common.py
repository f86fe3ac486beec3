"""Shared parts of the comparison runs: loading, CPU accounting, medians with intervals, the report file."""

import csv
import datetime
import random
import resource
import socket
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))

BOOTSTRAP_ROUNDS = 4000


def load_keys(port, first, last, value_bytes, random_values=False, due_ms=None):
    """SETs key:000000000000 style keys (redis-benchmark's names) of [first, last) by pipelines. `due_ms` says when a key
    expires."""
    values = random.Random(1)
    sock = socket.create_connection(("127.0.0.1", port))
    sock.settimeout(300)
    step, sent_ahead, constant = 1000, 0, b"x" * value_bytes
    for start in range(first, last, step):
        stop = min(last, start + step)
        sock.sendall(b"".join(
            b"*%d\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%b\r\n%b"
            % (5 if due_ms else 3, i, value_bytes, values.randbytes(value_bytes) if random_values else constant,
               b"$4\r\nPXAT\r\n$13\r\n%013d\r\n" % due_ms(i) if due_ms else b"")
            for i in range(start, stop)))
        sent_ahead += stop - start
        if sent_ahead >= 8 * step:
            _read_ok(sock, sent_ahead)
            sent_ahead = 0
    _read_ok(sock, sent_ahead)
    sock.close()


def _read_ok(sock, count):
    left = 5 * count
    while left:
        data = sock.recv(min(left, 1 << 18))
        if not data or data.strip(b"+OK\r\n"):
            raise RuntimeError(f"SET was answered {data[:80]!r}")
        left -= len(data)


def median_interval(values):
    """(median, low, high): bootstrap 95 % interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(BOOTSTRAP_ROUNDS))
    return (statistics.median(values), medians[int(0.025 * BOOTSTRAP_ROUNDS)], medians[int(0.975 * BOOTSTRAP_ROUNDS)])


def machine_busy_s():
    """CPU seconds all processes of the machine have used (steal left out)."""
    fields = [int(f) for f in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / 100


def children_cpu_s():
    """CPU seconds of ended child processes: the benchmark clients."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def process_cpu_s(pid):
    """utime + stime of a process, threads that have ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Report:
    """A CSV file below reports/, one line per run."""

    def __init__(self, name, columns):
        directory = ROOT / "reports"
        directory.mkdir(exist_ok=True)
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        self.path = directory / f"{name}-{stamp}.csv"
        self.file = open(self.path, "w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, columns)
        self.writer.writeheader()

    def add(self, row):
        self.writer.writerow(row)
        self.file.flush()
