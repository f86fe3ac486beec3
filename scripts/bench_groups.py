"""make bench-groups: consumer-group requests, compared with redis-server 7.0, with 0, 10,000 and 100,000 pending entries.

One connection, one group, entries of one short field, everysec. The servers are run in turn; each figure is the median of the
rounds: requests/s, CPU us per request over all threads of the server, and bytes of `used_memory` used by the pending entries.
"""

import argparse
import statistics
import time

import bench_common  # noqa: F401  finds the harness
from harness.resp import encode, to_bytes
from harness.server import Server, process_tasks_cpu_ns

READERS = 10
#: Entries that a read for a group takes while the pending ones are made.
BLOCK = 1000
#: As a step that has no divisor in common with a count of entries, so that each comes once.
STEP = 7919


def request(*words):
    return encode([to_bytes(word) for word in words])


def used_memory(connection):
    info = connection.cmd("INFO", "memory").decode()
    return int(next(line for line in info.splitlines() if line.startswith("used_memory:")).split(":")[1])


def send(connection, requests, depth):
    for at in range(0, len(requests), depth):
        batch = requests[at : at + depth]
        connection.send_raw(b"".join(batch))
        for _ in batch:
            node = connection.read_node()
            assert not node.is_error(), node


def measured(server, connection, requests, depth):
    cpu_ns, begun = process_tasks_cpu_ns(server.pid), time.monotonic()
    send(connection, requests, depth)
    took_s = time.monotonic() - begun
    return len(requests) / took_s, (process_tasks_cpu_ns(server.pid) - cpu_ns) / len(requests) / 1000


def one_round(kind, pending, count):
    figures = {}
    with Server(kind, {"appendonly": "yes", "appendfsync": "everysec"}) as server:
        connection = server.connect(timeout_s=300)
        entries = pending + 2 * count
        send(connection, [request("XADD", "s", f"{n}-1", "field", f"value{n}") for n in range(1, entries + 1)], 200)
        connection.cmd("XGROUP", "CREATE", "s", "g", "0")
        before = used_memory(connection)
        for n in range(pending // BLOCK):
            connection.cmd("XREADGROUP", "GROUP", "g", f"reader{n % READERS}", "COUNT", BLOCK, "STREAMS", "s", ">")
        figures["bytes"] = used_memory(connection) - before
        read = request("XREADGROUP", "GROUP", "g", "another", "COUNT", 1, "STREAMS", "s", ">")
        for depth in (1, 16):
            figures[f"XREADGROUP -P {depth}"] = measured(server, connection, [read] * count, depth)
        there = pending or count
        ids = [f"{1 + n * STEP % there}-1" for n in range(min(count, there // 2))]
        claims = [request("XCLAIM", "s", "g", "claimer", 0, own) for own in ids]
        figures["XCLAIM -P 16"] = measured(server, connection, claims, 16)
        figures["XACK -P 16"] = measured(server, connection, [request("XACK", "s", "g", own) for own in ids], 16)
        connection.close()
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20_000, help="requests per row")
    parser.add_argument("--pending", default="0,10000,100000", help=f"multiples of {BLOCK}")
    parser.add_argument("--servers", default="sexton,redis", help="sexton, redis, valkey, or a path")
    args = parser.parse_args()
    kinds = args.servers.split(",")
    for pending in map(int, args.pending.split(",")):
        rounds = {kind: [] for kind in kinds}
        for _ in range(args.rounds):
            for kind in kinds:
                rounds[kind].append(one_round(kind, pending, args.requests))
        print(f"\n{pending} pending".ljust(21) + "".join(f"{kind[-24:]:>26}" for kind in kinds), flush=True)
        for row in rounds[kinds[0]][0]:
            cells = []
            for kind in kinds:
                own = [figures[row] for figures in rounds[kind]]
                if row == "bytes":
                    cells.append(f"{statistics.median(own):.0f}")
                    continue
                rate, cpu_us = (statistics.median(column) for column in zip(*own))
                cells.append(f"{rate:.0f}/s {cpu_us:6.1f} us")
            print(row.ljust(20) + "".join(f"{cell:>26}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
