"""make bench-memory: bytes of resident memory per key, compared with redis-server 7.0 and valkey-server 9.1.

Fixed buffers are part of the first million keys, so the figure is the slope above it:
(RSS at N - RSS at 1 M) / (N - 1 M), N = 10 M for values of 8 and 64 bytes, 3 M for 1024. Keys have 16
bytes, values are random, persistence and the memory bound are off. RSS is read once it is stable
(flush and compaction done).

Then, as a cache: the number of keys kept under `maxmemory-policy allkeys-lru` at three bounds, compared with redis-server;
Sexton runs with its log, as in normal use.
"""

import argparse
import time

from bench_common import Report, load_keys
from harness.server import Server, process_rss_bytes

#: value bytes -> (keys at the end, wanted bytes per key at most)
CASES = {8: (10_000_000, 58), 64: (10_000_000, 114), 1024: (3_000_000, 1338)}
FIRST = 1_000_000
#: maxmemory in MB
BOUNDS = (100, 256, 1024)
#: keys that are written, by about as many as redis-server keeps, and its bytes of memory a key beside the value
KEPT_WRITTEN = 2.5
KEPT_BESIDE_BYTES = 110
#: of what redis-server keeps
KEPT_SHARE = 0.9
SHARE_AT_1024 = 0.85


def quiet_rss(server, limit_s=60):
    """RSS once three readings 0.5 s apart differ by less than 0.5 %."""
    readings, deadline = [], time.monotonic() + limit_s
    while time.monotonic() < deadline:
        readings.append(process_rss_bytes(server.pid))
        if len(readings) >= 3 and max(readings[-3:]) - min(readings[-3:]) < 0.005 * readings[-1]:
            break
        time.sleep(0.5)
    return readings[-1]


def bytes_per_key(kind, value_bytes, first, last, extra):
    made = {"appendonly": "no", "maxmemory": "0"}
    if kind == "sexton":
        made.update(option.split("=", 1) for option in extra)
    with Server(kind, made) as server:
        load_keys(server.port, 0, first, value_bytes, random_values=True)
        low = quiet_rss(server)
        load_keys(server.port, first, last, value_bytes, random_values=True)
        high = quiet_rss(server)
        connection = server.connect(timeout_s=300)
        assert connection.cmd("DBSIZE") == last, "not all keys are there"
        connection.close()
    return low, high, (high - low) / (last - first)


def keys_kept(kind, bound_mb, value_bytes, keys, extra):
    """Number of `keys` that are kept, and the resident memory with them."""
    made = {"maxmemory": f"{bound_mb}mb", "maxmemory-policy": "allkeys-lru", "appendonly": "yes" if kind == "sexton" else "no"}
    if kind == "sexton":
        made.update(option.split("=", 1) for option in extra)
    with Server(kind, made) as server:
        load_keys(server.port, 0, keys, value_bytes, random_values=True)
        rss = quiet_rss(server)
        connection = server.connect(timeout_s=300)
        kept = connection.cmd("DBSIZE")
        connection.close()
    return kept, rss


def compare_kept(args, report):
    kinds = [kind for kind in args.servers.split(",") if kind in ("sexton", "redis")]
    for value_bytes in (int(size) for size in args.kept_values.split(",")):
        for bound in BOUNDS:
            bound = bound // 10 if args.quick else bound
            keys = int(KEPT_WRITTEN * (bound << 20) / (value_bytes + KEPT_BESIDE_BYTES))
            kept = {}
            for kind in kinds:
                kept[kind], rss = keys_kept(kind, bound, value_bytes, keys, args.option)
                report.add({"value_bytes": value_bytes, "server": kind, "bound_mb": bound, "keys_last": keys,
                            "keys_kept": kept[kind], "rss_last": rss})
                print(f"{bound:5} MB  {value_bytes:5} bytes  {kind:8} {kept[kind]:9} keys kept, resident {rss / (bound << 20):.2f} of the bound",
                      flush=True)
            if len(kept) == 2:
                share = kept["sexton"] / kept["redis"]
                met = "met" if share >= KEPT_SHARE else "NOT met"
                print(f"{bound:5} MB  {value_bytes:5} bytes  share of redis {share:.2f}, wanted >= {KEPT_SHARE}: {met}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="sexton,redis,valkey")
    parser.add_argument("--values", default="8,64,1024", help="value sizes in bytes")
    parser.add_argument("--kept-only", action="store_true", help="only what is kept under allkeys-lru")
    parser.add_argument("--kept-values", default="64,1024", help="their value sizes in bytes")
    parser.add_argument("--quick", action="store_true", help="a tenth of the keys")
    parser.add_argument("--option", action="append", default=[], help="directive for sexton, name=value")
    args = parser.parse_args()
    report = Report("bench-memory", ["value_bytes", "server", "keys_first", "keys_last", "rss_first", "rss_last", "bytes_per_key", "bound_mb",
                                      "keys_kept"])
    for size in (int(v) for v in ([] if args.kept_only else args.values.split(","))):
        last, wanted = CASES[size]
        first = FIRST
        if args.quick:
            first, last = first // 10, last // 10
        figures = {}
        for kind in args.servers.split(","):
            low, high, each = bytes_per_key(kind, size, first, last, args.option)
            figures[kind] = each
            report.add({"value_bytes": size, "server": kind, "keys_first": first, "keys_last": last, "rss_first": low,
                        "rss_last": high, "bytes_per_key": round(each, 1)})
            print(f"{size:5} bytes  {kind:8} {each:8.1f} bytes per key (payload {16 + size})", flush=True)
        if "sexton" in figures and "valkey" in figures:
            share = figures["sexton"] / figures["valkey"]
            limit = min(1.0, SHARE_AT_1024) if size == 1024 else 1.0
            met = share <= limit and figures["sexton"] <= wanted
            print(f"{size:5} bytes  share of valkey {share:.2f}, wanted <= {limit} and at most {wanted} bytes: {'met' if met else 'NOT met'}")
    compare_kept(args, report)
    print(f"every figure: {report.path}")


if __name__ == "__main__":
    main()
