"""make expiry: keys that fall due, compared with redis-server 7.0 and valkey-server 9.1.

    .venv/bin/python scripts/bench_expiry.py [--quick] [--parts storm,steady,cold] [--servers sexton,redis,valkey] [--first]

Each server runs alone, one after the other; a round has every server once, in alternating order. All have `appendonly yes`
and `appendfsync everysec`. Another process asks GET of living keys 1,500 times a second.

*storm*: KEYS keys of 64 bytes are due at one instant. The drain lasts from that instant until DBSIZE, asked every 5 ms,
counts the living keys alone; lateness is how long after the instant which part of the keys was gone. GETs are counted from
0.5 s before the instant to 2 s after it, and `calm` are those of 2 s before that. Memory and the bytes of the directory are
read before the instant, when the last key is gone, and a minute later.

*steady*: KEYS keys fall due evenly within 10 s. Lateness is that of every hundredth key: when a client that listens
hears of its `expired` event, minus its due time. `INFO` is what the server says of all keys, in whole milliseconds.

*cold* (Sexton only): a fifth of KEYS, of 1,000 bytes, under a `maxmemory` of a third of their size, due at one instant.
Their rate is compared with that of pipelined GETs of such keys.

CPU seconds are those of all threads of the server until the last key is gone. With --first the servers and the clients get
the processor before other programs of the machine while they are measured (as root: the priority of an autogroup of the
scheduler). Real-time priorities would not do: threads that have the same one do not preempt each other, so the background
threads of a server would stop those that answer.
"""

import argparse
import multiprocessing
import os
import random
import re
import statistics
import time
from pathlib import Path

from bench_common import Report, load_keys
from harness.load import pipelined
from harness.resp import encode
from harness.server import Server, process_rss_bytes, process_tasks_cpu_ns
from harness.visitor import Visitor, answer_ms, percentiles

VALUE_BYTES = 64
COLD_VALUE_BYTES = 1000
#: Keys that do not expire, which the visitor asks for.
LIVING = 1000
VISITS_A_SECOND = 1500
POLL_S = 0.005
STEADY_S = 10
#: One key in so many is listened for.
LISTENED = 100
CALM_S, BEFORE_S, AFTER_S = 2.0, 0.5, 2.0
#: The load must be done this long before the first key is due.
REST_S = 1.5
GIVE_UP_S = 120
KINDS = ("sexton", "redis", "valkey")

#: Figure of a part -> (relation, bound), all of Sexton.
WANTED = {
    ("storm", "drain s"): ("<=", 1.5),
    ("storm", "GET p99.9 ms"): ("<=", 1.0),
    ("steady", "late p99 ms"): ("<=", 100.0),
}


def options_of(kind, more=None):
    made = {"appendonly": "yes", "appendfsync": "everysec"}
    if kind in ("redis", "valkey"):
        made["auto-aof-rewrite-percentage"] = "0"
    return {**made, **(more or {})}


def enter_own_session():
    """Goes on in a child with a session of its own, so that the priority of its autogroup is that of the run alone."""
    child = os.fork()
    if child:
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.setsid()


def go_first(args, is_first):
    if args.first:
        Path("/proc/self/autogroup").write_text("-20" if is_first else "0")


def directory_bytes(server):
    """What the files of a server take on the disk, its own log of messages left out."""
    total = 0
    for path in server.directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() and path != server.log_path else 0
        except FileNotFoundError:
            pass  # deleted since
    return total


def held(server, when):
    """Memory and disk, in MB."""
    used = int(server.info()["used_memory"])
    return {f"used MB {when}": used / 1e6, f"resident MB {when}": process_rss_bytes(server.pid) / 1e6,
            f"disk MB {when}": directory_bytes(server) / 1e6}  # fmt: skip


class Part:
    """A server with LIVING keys and COUNT keys with a due time; `due_ms` gets the first due time and a key's number."""

    def __init__(self, args, server, count, value_bytes, due_ms, random_values=False):
        self.args, self.server, self.count = args, server, count
        self.connection = server.connect(timeout_s=300)
        for request, reply in pipelined(self.connection, ([b"SET", b"living:%d" % n, b"x" * VALUE_BYTES] for n in range(LIVING))):
            assert not reply.is_error(), request
        begun = time.time()
        lead_s = 6 + count * (value_bytes + 100) / args.load_bytes_a_second
        self.first_s = int(begun + lead_s)
        first_ms = 1000 * self.first_s
        load_keys(server.port, 0, count, value_bytes, random_values, due_ms=lambda n: due_ms(first_ms, n))
        self.load_s = time.time() - begun
        if time.time() > self.first_s - REST_S - CALM_S - BEFORE_S:
            raise SystemExit(f"{server.kind}: the load took {self.load_s:.1f} s of {lead_s:.1f}: lower --load-bytes-a-second")
        size = self.size()
        if size != LIVING + count:
            raise SystemExit(f"{server.kind}: {size} keys after the load of {count}")
        self.visitor = None

    def size(self):
        return self.connection.cmd("DBSIZE")

    def wait_until(self, at_s):
        time.sleep(max(0.0, at_s - time.time()))

    def visit(self):
        go_first(self.args, True)
        keys = [b"living:%d" % n for n in range(LIVING)]
        self.visitor = Visitor(self.server, keys, VISITS_A_SECOND)

    def cpu_s(self):
        return process_tasks_cpu_ns(self.server.pid) / 1e9

    def drain(self):
        """Waits until the keys are gone: [(seconds since the first was due, keys left)] and the CPU seconds of that time."""
        self.wait_until(self.first_s)
        cpu_s, seen, left = self.cpu_s(), [], None
        while left != 0:
            asked = time.time()
            left = self.size() - LIVING
            seen.append((time.time() - self.first_s, left))
            if seen[-1][0] > GIVE_UP_S:
                raise SystemExit(f"{self.server.kind}: {left} keys are left {GIVE_UP_S} s after the first was due")
            time.sleep(max(0.0, asked + POLL_S - time.time()))
        return seen, self.cpu_s() - cpu_s

    def gets(self, to_s):
        """Figures of the visitor, which leaves."""
        self.wait_until(to_s)
        answers = self.visitor.leave()
        go_first(self.args, False)
        begin_s = self.first_s - BEFORE_S
        p50, p99, p999, longest = answer_ms(answers, begin_s, to_s)
        calm_p50, _, calm_p999, calm_longest = answer_ms(answers, to_s=begin_s)
        return {"GET p50 ms": p50, "GET p99 ms": p99, "GET p99.9 ms": p999, "GET longest ms": longest,
                "calm p50 ms": calm_p50, "calm p99.9 ms": calm_p999, "calm longest ms": calm_longest}  # fmt: skip

    def said(self):
        """What INFO says of lateness: p50, p99 and the longest in ms, where it does."""
        found = re.match(r"p50=(\d+),p99=(\d+),p100=(\d+)", self.server.info().get("expire_lag_percentiles_msec", ""))
        return dict(zip(("INFO p50 ms", "INFO p99 ms", "INFO longest ms"), map(int, found.groups()))) if found else {}


def storm(args, server):
    part = Part(args, server, args.keys, VALUE_BYTES, lambda first_ms, n: first_ms, random_values=True)
    part.wait_until(part.first_s - BEFORE_S - CALM_S - 0.5)
    before = held(server, "before")
    part.visit()
    seen, cpu_s = part.drain()
    figures = {"drain s": seen[-1][0], "CPU s": cpu_s, **part.gets(part.first_s + AFTER_S)}
    at_end = held(server, "gone")
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figures[f"late {name} ms"] = 1000 * next(at_s for at_s, left in seen if left <= part.count * (1 - share))
    figures.update(part.said())
    cpu_s = part.cpu_s()
    time.sleep(args.minute)
    return {**figures, **before, **at_end, **held(server, "later"), "CPU s later": part.cpu_s() - cpu_s}


def listen(server, names, pipe):
    """Keeps the time at which each of these keys is said to have expired, in a process of its own."""
    connection = server.connect(timeout_s=GIVE_UP_S)
    for start in range(0, len(names), 500):
        some = names[start : start + 500]
        connection.send_raw(encode([b"SUBSCRIBE", *(b"__keyspace@0__:" + name for name in some)]))
        for _ in some:
            connection.read_node()
    pipe.send("ready")
    heard, rest = {}, b""
    message = re.compile(rb"__keyspace@0__:key:(\d{12})\r\n\$7\r\nexpired\r\n")
    while len(heard) < len(names):
        data = connection.sock.recv(1 << 16)
        now_s = time.time()
        if not data:
            break
        rest += data
        end = 0
        for found in message.finditer(rest):
            heard[int(found[1])] = now_s
            end = found.end()
        rest = rest[end:]
    pipe.send(heard)


def steady(args, server):
    a_ms = max(1, args.keys // (1000 * STEADY_S))
    count = a_ms * 1000 * STEADY_S
    due_ms = lambda first_ms, n: first_ms + n // a_ms
    part = Part(args, server, count, VALUE_BYTES, due_ms, random_values=True)
    part.connection.cmd("CONFIG", "SET", "notify-keyspace-events", "Kx")
    part.connection.cmd("CONFIG", "RESETSTAT")
    ours, theirs = multiprocessing.Pipe()
    names = [b"key:%012d" % n for n in range(0, count, LISTENED)]
    listener = multiprocessing.Process(target=listen, args=(server, names, theirs), daemon=True)
    listener.start()
    ours.recv()
    part.wait_until(part.first_s - BEFORE_S - CALM_S)
    part.visit()
    seen, cpu_s = part.drain()
    figures = {"drain s": seen[-1][0], "CPU s": cpu_s, **part.gets(part.first_s + STEADY_S)}
    heard = ours.recv()
    listener.join()
    late = [1000 * at_s - due_ms(1000 * part.first_s, n) for n, at_s in heard.items()]
    figures.update(zip(("late p50 ms", "late p99 ms", "late p99.9 ms", "late longest ms"), percentiles(late)))
    figures["most left over"] = max(left - (count - min(count, a_ms * int(1000 * at_s))) for at_s, left in seen if at_s >= 0)
    return {**figures, **part.said()}


def device_reads(info):
    """(operations, bytes) read of all devices."""
    reads = [int(found[1]) for name, value in info.items() if name.endswith("_reads") and (found := re.match(r"operations=(\d+)", value))]
    return sum(reads), sum(int(found) for value in info.values() for found in re.findall(r",read_bytes=(\d+)", value))


def cold(args, server):
    count = args.keys // 5
    part = Part(args, server, count, COLD_VALUE_BYTES, lambda first_ms, n: first_ms, random_values=True)
    numbers, begun, asked = random.Random(1), time.time(), 0
    while time.time() < min(begun + 3, part.first_s - BEFORE_S - CALM_S - 0.5):
        for _, reply in pipelined(part.connection, ([b"GET", b"key:%012d" % numbers.randrange(count)] for _ in range(64)), depth=64):
            asked += 1
            assert len(reply.value) == COLD_VALUE_BYTES
    rate = asked / (time.time() - begun)
    part.wait_until(part.first_s - BEFORE_S - CALM_S)
    part.visit()
    operations, read_bytes = device_reads(server.info())
    seen, cpu_s = part.drain()
    operations_after, read_after = device_reads(server.info())
    drain_s = seen[-1][0]
    figures = {"drain s": drain_s, "CPU s": cpu_s, "keys/s": count / drain_s, "cold GETs/s -P 64": rate,
               "reads a key": (operations_after - operations) / count, "read MB/s": (read_after - read_bytes) / drain_s / 1e6}  # fmt: skip
    return {**figures, **part.gets(part.first_s + AFTER_S), **part.said()}


def cold_bound(args):
    """A third of the values, not below what a process without data needs."""
    return {"maxmemory": max(32 << 20, args.keys // 5 * COLD_VALUE_BYTES // 3), "maxmemory-policy": "noeviction"}


PARTS = {"storm": storm, "steady": steady, "cold": cold}


def run_part(args, name, kinds, report):
    results = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        for kind in kinds if number % 2 == 0 else kinds[::-1]:
            more = cold_bound(args) if name == "cold" else {}
            if kind not in ("redis", "valkey"):
                more["latency-tracking-info-percentiles"] = "50 99 100"
                more.update(option.split("=", 1) for option in args.option)
            with Server(kind, options_of(kind, more)) as server:
                figures = PARTS[name](args, server)
            results[kind].append(figures)
            for figure, value in figures.items():
                report.add({"part": name, "round": number + 1, "server": kind, "figure": figure, "value": round(value, 4)})
    return results


def table(name, results):
    """Medians of the rounds, those of Sexton with their range, and its ratio to each peer within a round."""
    kinds = list(results)
    figures = list(dict.fromkeys(figure for rounds in results.values() for one in rounds for figure in one))
    print(f"\n{name:18}" + "".join(f"{kind[-24:]:>24}" for kind in kinds) + "".join(f"{'by ' + kind:>12}" for kind in kinds[1:]), flush=True)
    for figure in figures:
        cells, ratios = [], []
        for kind in kinds:
            values = [one[figure] for one in results[kind] if figure in one]
            text = f"{statistics.median(values):.3f} [{min(values):.2f}, {max(values):.2f}]" if values else "-"
            cells.append(f"{text:>24}")
        for kind in kinds[1:]:
            pairs = [a[figure] / b[figure] for a, b in zip(results[kinds[0]], results[kind]) if b.get(figure) and figure in a]
            ratios.append(f"{statistics.median(pairs):12.2f}" if pairs else f"{'-':>12}")
        verdict = ""
        if kinds[0] == "sexton" and (name, figure) in WANTED:
            _, bound = WANTED[name, figure]
            reached = statistics.median(one[figure] for one in results["sexton"])
            verdict = f"  wanted {bound:g}: {'met' if reached <= bound else 'missed'}"
        print(f"{figure:18}" + "".join(cells) + "".join(ratios) + verdict, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--servers", default=",".join(KINDS), help="sexton, redis, valkey, or a path of a sexton-server")
    parser.add_argument("--option", action="append", default=[], help="a directive of Sexton, NAME=VALUE")
    parser.add_argument("--first", action="store_true", help="before other programs of the machine")
    parser.add_argument("--minute", type=float, default=60, help="seconds after which memory and disk are read again")
    parser.add_argument("--load-bytes-a-second", type=int, default=6_000_000, help="keys are due when a load at this rate is done")
    parser.add_argument("--quick", action="store_true", help="a smoke run: 100,000 keys, one round")
    args = parser.parse_args()
    if args.quick:
        args.keys, args.rounds, args.minute = min(args.keys, 100_000), 1, min(args.minute, 10)
    if args.first:
        enter_own_session()
    report = Report("expiry", ["part", "round", "server", "figure", "value"])
    print(f"{args.keys:,} keys, {args.rounds} rounds, median [least, most]")
    for name in args.parts.split(","):
        kinds = args.servers.split(",")
        if name == "cold":
            kinds = [kind for kind in kinds if kind not in ("redis", "valkey")]
        if kinds:
            table(name, run_part(args, name, kinds, report))
    print(report.path)


if __name__ == "__main__":
    main()
