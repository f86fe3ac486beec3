"""SET through the server: memtables in persistent memory, a log on the same device that syncs each write, and no
persistence at all. Servers are pinned, loaded and measured as in bench_redis.py."""

import argparse
import contextlib
import os
import subprocess

from bench_common import median_interval
from bench_redis import Candidate, Row, measure, ratios
from studies.plan import SHARED_BYTES
from studies.sitting import unmount

SIZES = (8, 64, 256, 1024, 4096)
DEPTHS = (16, 1)
CLIENTS = 50
KEYS = 200_000
#: Requests of a run with a pipeline of 16, by the size of the values: about five memtables or more, since a run that
#: happens to have one flush more than another is that much slower. And with one of 1.
REQUESTS = {8: 5_000_000, 64: 4_000_000, 256: 2_000_000, 1024: 700_000, 4096: 200_000}
UNPIPELINED = 150_000
#: Wanted of the rate without persistence, for values up to so many bytes.
WANTED, WANTED_BYTES = 0.9, 1024
#: Ways in the order of a round, which alternates. Without persistence values are copied as with it; "shared" is what the
#: server does there with long ones.
WAYS = ("none", "wbl", "always")


def ways(value_bytes):
    """Those that differ for values of this size."""
    return (*WAYS, "shared") if value_bytes >= SHARED_BYTES else WAYS


@contextlib.contextmanager
def memory_with_huge_pages(directory):
    """A tmpfs with 2 MiB pages, as in a DAX mapping, below `directory`; `directory` itself if it cannot be mounted.
    Yields the path, and whether the pages are huge."""
    point = directory / "huge"
    point.mkdir()
    done = None
    if os.geteuid() == 0:
        line = ["mount", "-t", "tmpfs", "-o", "huge=always", "tmpfs", str(point)]
        done = subprocess.run(line, capture_output=True)
    if done is None or done.returncode:
        point.rmdir()
        yield directory, False
        return
    try:
        yield point, True
    finally:
        unmount(str(point))
        point.rmdir()


class Sets:
    """One size of value: the servers side by side, in rounds."""

    def __init__(self, args, work, pmem):
        self.args, self.work, self.pmem = args, work, pmem

    def options(self, way, value_bytes):
        """Directives of a way. Tables are in memory for all three; data that is durable by itself is on the device."""
        directory = self.pmem / f"{way}-{value_bytes}"
        directory.mkdir()
        declared = self.work / f"device-{way}-{value_bytes}.conf"
        declared.write_text(f"device memory kind pmem path {directory}\n")
        made = {"worker-threads": 1}
        if way in ("none", "shared"):
            return made | {"appendonly": "no", "share-values": "yes" if way == "shared" else "no"}
        made["include"] = declared
        if way == "wbl":
            return made | {"persistence-mode": "wbl", "memtable-device": "memory"}
        return made | {"appendonly": "yes", "appendfsync": "always", "aof-device": "memory"}

    def rows(self, value_bytes):
        """[(row, {way: [result of each round]})] of a size."""
        args = argparse.Namespace(
            realtime=self.args.realtime,
            subject="sexton",
            generator="redis-benchmark",
            value_bytes=value_bytes,
            keys=KEYS,
            option=[],
        )
        servers = {}
        try:
            for way in ways(value_bytes):
                servers[way] = Candidate(
                    args, "sexton", way, self.options(way, value_bytes), self.work / f"data-{way}-{value_bytes}"
                )
            found = []
            for depth in DEPTHS:
                requests = REQUESTS[value_bytes] if depth > 1 else UNPIPELINED
                requests = max(2000, requests // 50) if self.args.quick else requests
                row = Row(f"P{depth} d{value_bytes}", "set", depth, CLIENTS, requests, tuple(servers))
                results = {way: [] for way in servers}
                for way in servers:
                    # Not counted: after it memory and files are those of the runs to come.
                    measure(args, servers[way], row)
                for number in range(self.args.repetitions):
                    for way in list(servers)[:: -1 if number % 2 else 1]:
                        results[way].append(measure(args, servers[way], row))
                found.append((row, results))
            return found
        finally:
            for candidate in servers.values():
                candidate.server.close()


def told(row, value_bytes, results):
    """One line of the grid."""
    by_none = median_interval(ratios(results["wbl"], results["none"], "rps"))
    by_always = median_interval(ratios(results["wbl"], results["always"], "rps"))
    parts = []
    for way in results:
        rps, cpu = (median_interval([r[name] for r in results[way]])[0] for name in ("rps", "cpu_us"))
        parts.append(f"{way} {rps / 1000:.0f} k/s {cpu:.2f} us")
    verdict = ""
    if value_bytes <= WANTED_BYTES:
        verdict = f", wanted {WANTED}: {'met' if by_none[0] >= WANTED else 'reached' if by_none[2] >= WANTED else 'missed'}"
    return (
        f"{row.name}: {'; '.join(parts)}; wbl by none {by_none[0]:.2f} [{by_none[1]:.2f}, {by_none[2]:.2f}]{verdict}; "
        f"by always {by_always[0]:.2f}"
    )
