"""python3 -m growth [--quick] [--server PATH]: checks that used memory is released.

1,000,000 EXPIREs on 1,000 keys, 1,000,000 WATCHes, 1,000,000 locks acquired and released on one key, 100,000 connections
one after the other and 50,000 FLUSHALLs. A tenth of each runs first, so that pools and tables reach their permanent
size. Then resident memory is measured before and after each load, while idle, after MEMORY PURGE (which returns memory that
the allocator keeps for reuse); both must agree within 5 %. After the FLUSHALLs, SETs must cost the server as much CPU as before,
and the restart must take as long.
"""

import argparse
import socket
import statistics
import time

from harness.resp import encode
from harness.server import Server, process_rss_bytes, process_tasks_cpu_ns
from harness.steps import Steps

KEYS = 1_000

#: Memory may lie by this share above the start, and by what a few pages of a few threads are.
SHARE = 1.05
PAGES_BYTES = 1 << 20


def pipelined(connection, requests, batch=2_000):
    """Sends requests in batches; all replies are read."""
    for at in range(0, len(requests), batch):
        part = requests[at : at + batch]
        connection.send_raw(b"".join(part))
        for _ in part:
            connection.read_node()


def repeat(connection, requests, count, batch=2_000):
    """Repeats the requests, `count` in all."""
    requests = (requests * -(-batch // len(requests)))[:batch] if len(requests) < batch else requests
    done = 0
    while done < count:
        part = requests[: count - done]
        pipelined(connection, part, batch)
        done += len(part)


def expires(server, count):
    connection = server.connect()
    pipelined(connection, [encode([b"SET", b"due:%d" % n, b"v"]) for n in range(KEYS)])
    for at in range(0, count, KEYS):
        # Later, earlier, and the same again.
        seconds = [10_000 + at // KEYS, 10**7 - at // KEYS, 10**6][at // KEYS % 3]
        repeat(connection, [encode([b"EXPIRE", b"due:%d" % n, b"%d" % seconds]) for n in range(KEYS)], KEYS)
    connection.close()


def watches(server, count):
    """A different key for each WATCH, 100,000 at a time."""
    connection = server.connect()
    for at in range(0, count, 100_000):
        part = [encode([b"WATCH", b"watched:%d" % n]) for n in range(at, min(count, at + 100_000))]
        pipelined(connection, part)
        connection.cmd("UNWATCH")
    connection.close()


def locks(server, count):
    """Sets and deletes one key repeatedly; the last locks must not take longer than the first."""
    connection = server.connect()
    pair = [encode([b"SET", b"lock", b"owner", b"NX"]), encode([b"DEL", b"lock"])]
    times = []
    for _ in range(10):
        before = process_tasks_cpu_ns(server.pid)
        repeat(connection, pair, 2 * count // 10)
        times.append(process_tasks_cpu_ns(server.pid) - before)
    connection.close()
    return statistics.median(times[-3:]) / statistics.median(times[:3])


def connections(server, count):
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
            sock.sendall(b"PING\r\n")
            sock.recv(64)


def flushes(server, count):
    connection = server.connect()
    repeat(connection, [encode([b"SET", b"k", b"v"]), encode([b"FLUSHALL"])], 2 * count, batch=200)
    connection.close()


def warm_up(server):
    """Writes several times the size of all memtables: their arenas are kept for reuse."""
    connection = server.connect()
    repeat(connection, [encode([b"SET", b"warm:%d" % n, b"x" * 1_000]) for n in range(KEYS)], 60_000, batch=500)
    connection.close()


def sets_cpu(server, control, count):
    """CPU of the server for one SET, in ns, and as a multiple of what it takes a control at the same time: the least of
    three turns in each of six tables, since what disturbs only adds. Where a table lies decides about a tenth, so each
    begins with a FLUSHALL."""
    requests = [encode([b"SET", b"set:%d" % (n * 7919 % 10_000), b"x" * 20]) for n in range(2_000)]
    least = {}
    for turn in range(18):
        for one in (server, control):
            connection = one.connect()
            if turn % 3 == 0:
                connection.cmd("FLUSHALL")
                repeat(connection, requests, len(requests))
            before = process_tasks_cpu_ns(one.pid)
            repeat(connection, requests, count)
            took = (process_tasks_cpu_ns(one.pid) - before) / count
            least[one] = min(took, least.get(one, took))
            connection.close()
    return least[server], least[server] / least[control]


def resident(server, wanted=None, timeout_s=20.0):
    """Resident memory of the idle, empty server: once it is below `wanted`, or at the timeout."""
    connection = server.connect()
    connection.cmd("FLUSHALL")
    deadline = time.monotonic() + (timeout_s if wanted else 3.0)
    while True:
        time.sleep(1.0)
        connection.cmd("MEMORY", "PURGE")
        held = process_rss_bytes(server.pid)
        if time.monotonic() > deadline or (wanted and held <= wanted):
            connection.close()
            return held


def restart_s(server):
    server.terminate()
    begun = time.monotonic()
    server.start()
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything")
    parser.add_argument("--server", default="sexton", help="sexton, or the path of a binary")
    parser.add_argument("--port", type=int, default=None)
    parser.add_argument("--only", help="one part")
    args = parser.parse_args()
    share = 20 if args.quick else 1
    parts = {
        "EXPIREs on 1,000 keys": (expires, 1_000_000), "WATCHes": (watches, 1_000_000),
        "locks taken and released": (locks, 1_000_000), "connections one after the other": (connections, 100_000),
        "FLUSHALLs": (flushes, 50_000),
    }  # fmt: skip
    steps = Steps("growth")
    # A small memtable, which is full soon.
    options = {"memtable-bytes": "4mb", "appendfsync": "everysec"}
    # The control sees no FLUSHALLs but the few of the measurement.
    with Server(args.server, options, port=args.port) as server, Server(args.server, options) as control:
        warm_up(server)
        for name, (run, count) in parts.items():
            if args.only and args.only not in name:
                continue
            count //= share
            run(server, count // 10)
            if run is flushes:
                restart_before = restart_s(server)
                warm_up(server)
                run(server, count // 100)
            before = resident(server)
            if run is flushes:
                warm_up(control)
                before_ns, before_share = sets_cpu(server, control, 200_000 // share)
            begun = time.monotonic()
            outcome = run(server, count)
            took = time.monotonic() - begun
            most = before * SHARE + PAGES_BYTES
            after = resident(server, most)
            steps.check(
                f"{count:,} {name}: memory is back", after <= most,
                f"{before / 2**20:.1f} -> {after / 2**20:.1f} MiB, {count / took:,.0f}/s",
            )  # fmt: skip
            if run is locks:
                steps.check("the last locks cost what the first did", outcome < 1.5, f"{outcome:.2f} times the CPU")
            if run is flushes:
                after_ns, after_share = sets_cpu(server, control, 200_000 // share)
                restart_after, more = restart_s(server), after_share / before_share
                bound = 1.25 if args.quick else 1.03
                steps.check("a SET costs the CPU that it cost before them", more <= bound,
                            f"{before_ns:,.0f} -> {after_ns:,.0f} ns, {before_share:.3f} -> {after_share:.3f} of a "
                            f"control's, {more:.3f} times, allowed {bound}")  # fmt: skip
                steps.check("the restart takes as long as before them", restart_after <= 1.5 * restart_before + 0.5,
                            f"{restart_before:.2f} -> {restart_after:.2f} s")  # fmt: skip
    steps.finish()


if __name__ == "__main__":
    main()
