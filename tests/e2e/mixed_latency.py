"""python3 -m mixed_latency [--server sexton]: GETs concurrent with SETs that wait for the disk.

Under `appendfsync always`, 50 connections, one request in flight on each: GETs alone, then nine
GETs per SET, in interleaved pairs. A GET may wait for a sync only if it reads a key whose
last write is not durable yet, so its median must stay close to that of GETs alone.
"""

import argparse
import re
import statistics
import subprocess

from harness.load import pipelined
from harness.server import ROOT, Server

KEYS, VALUE_BYTES = 100_000, 64


def run(args, server, write_percent):
    line = ["taskset", "-c", "1", str(ROOT / "target/release/mixed_load"), server.port, args.connections, args.seconds,
            write_percent, KEYS, VALUE_BYTES]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=args.seconds + 60)
    if done.returncode:
        raise SystemExit(f"mixed_load: {done.stderr}")
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", done.stdout)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=9)
    args = parser.parse_args()
    options = {"appendonly": "yes", "appendfsync": "always"}
    with Server(args.server, options, prefix=["taskset", "-c", "0"]) as server:
        connection = server.connect()
        for _, reply in pipelined(connection, ([b"SET", b"key:%012d" % i, b"v" * VALUE_BYTES] for i in range(KEYS))):
            if reply.is_error():
                raise SystemExit(reply.raw)
        connection.close()
        pairs = [(run(args, server, 0), run(args, server, 10)) for _ in range(args.pairs)]
    print(f"{args.server}, appendfsync always, {args.connections} connections, {args.pairs} pairs of {args.seconds} s; medians")
    for title, index in (("GET alone", 0), ("90/10 GET/SET", 1)):
        middle = {name: statistics.median(p[index][name] for p in pairs) for name in pairs[0][index]}
        rate = (middle["gets"] + middle["sets"]) / (args.seconds * 0.9)
        print(f"{title:14} {rate:10,.0f} requests/s   GET p50 {middle['get_p50_us']:6.0f} us  p99 {middle['get_p99_us']:6.0f} us  "
              f"p99.9 {middle['get_p999_us']:6.0f} us   SET p50 {middle['set_p50_us']:6.0f} us")
    ratio = statistics.median(mixed["get_p50_us"] / alone["get_p50_us"] for alone, mixed in pairs)
    print(f"p50 of the GETs, mixed over alone: {ratio:.2f}")


if __name__ == "__main__":
    main()
