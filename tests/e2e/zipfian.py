"""python3 -m zipfian [--only hits|beyond] [--seconds 1200] [--quick]: use as a cache.

`hits`: a trace of GETs by Zipf's law (0.99), each miss followed by a SET, against sexton and redis-server under
each eviction policy. The hit ratio is compared with redis-server's under an equal `maxmemory`, and with that of a
redis-server whose `maxmemory` lets it keep an equal number of keys. The first shows the value of a megabyte, the second
whether the policy keeps the right keys. A tenth of the trace is a scan of keys that occur once, as in real caches.

`beyond`: ten times as much data as `maxmemory`, nothing evicted, in a control group of 1.25 times the bound if one
can be created: GETs by Zipf's law concurrent with SETs, for --seconds. The output is the share of GETs served from memory and
the percentiles of latency; afterwards GETs of the hottest keys are timed against a server that holds everything in
memory, in interleaved rounds.
"""

import argparse
import contextlib
import json
import random
import subprocess
import threading

from harness.cgroup import MemoryGroup
from harness.load import RssSampler, pipelined
from harness.server import ROOT, Server, process_tasks_cpu_ns
from harness.steps import Steps

COMMAND_LOAD = ROOT / "target/release/command_load"
MIB = 1 << 20
POLICIES = ("allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl")
#: A policy that draws at random has noise in its hits.
NOISE = 0.005
HOT_KEYS = 1_000


def trace(requests, keys, seed):
    """Key numbers in request order: nine in ten by Zipf's law, the rest a scan of keys that occur
    once."""
    rng = random.Random(seed)
    total, cumulated = 0.0, []
    for rank in range(1, keys + 1):
        total += rank**-0.99
        cumulated.append(total)
    order = list(range(keys))
    rng.shuffle(order)
    asked = [order[rank] for rank in rng.choices(range(keys), cum_weights=cumulated, k=requests)]
    once = iter(range(keys, keys + requests))
    return [next(once) if rng.random() < 0.1 else key for key in asked]


def hit_share(kind, policy, asked, bound, args):
    """Hit ratio of the second half of the trace, and the number of keys kept meanwhile; the first half
    fills the cache."""
    options = {"appendonly": "no", "save": "", "maxmemory": bound, "maxmemory-policy": policy}
    hits = tried = 0
    kept = []
    value = random.Random(1).randbytes(args.value_bytes)
    with Server(kind, options) as server:
        connection = server.connect(timeout_s=120)
        for at in range(0, len(asked), 100):
            names = [b"key:%012d" % number for number in asked[at : at + 100]]
            missing = [request[1] for request, reply in pipelined(connection, ([b"GET", n] for n in names)) if reply.value is None]
            if at >= len(asked) // 2:
                hits += len(names) - len(missing)
                tried += len(names)
                if at % 5_000 == 0:
                    kept.append(connection.cmd("DBSIZE"))
            # A lasting time to live for what `volatile-` policies may evict; longer for smaller numbers.
            sets = ([b"SET", n, value, b"EX", b"%d" % (200_000 - int(n[4:]) % 100_000)] for n in dict.fromkeys(missing))
            refused = [reply.raw for _, reply in pipelined(connection, sets) if reply.is_error()]
            if refused:
                raise SystemExit(f"{kind}, {policy}: {refused[0]}")
    return hits / tried, sum(kept) // len(kept)


def hits(steps, args):
    asked = trace(args.requests, args.keys, args.seed)
    bound = args.maxmemory_mb * MIB
    for policy in args.policy or POLICIES:
        ours, kept = hit_share(args.server, policy, asked, bound, args)
        theirs, theirs_kept = hit_share("redis", policy, asked, bound, args)
        print(f"      {policy}, the same bound: hits {ours:.4f} with {kept:,} keys beside {theirs:.4f} with {theirs_kept:,}", flush=True)
        like, like_kept = hit_share("redis", policy, asked, bound * kept // theirs_kept, args)
        steps.check(f"{policy}: as many hits as redis-server has with as many keys", ours >= like - NOISE,
                    f"{ours:.4f} with {kept:,} beside {like:.4f} with {like_kept:,}")  # fmt: skip


def load(port, command, *, requests, seconds=3600, clients, pipeline, keys, value_bytes, draw):
    """Starts command_load; `json.loads(process.communicate()[0])` has its figures."""
    line = [COMMAND_LOAD, port, command, requests, 0 if seconds < 3600 else requests, seconds, clients, pipeline, keys, value_bytes, draw]
    return subprocess.Popen(
        ["taskset", "-c", "1", *map(str, line)], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )


def figures(process):
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit("command_load failed")
    return json.loads(printed)


def fill(server, args, keys):
    figures(load(server.port, "set", requests=keys, clients=4, pipeline=32, keys=keys, value_bytes=args.value_bytes, draw=0))


def beyond(steps, args):
    bound = args.maxmemory_mb * MIB
    keys = 10 * bound // args.value_bytes
    common = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(MemoryGroup(bound * 5 // 4)) if MemoryGroup.possible() else None
        if not group:
            print("      no control group can be made here", flush=True)
        prefix = (group.prefix() if group else []) + ["taskset", "-c", "0"]
        server = stack.enter_context(Server(args.server, common | {"maxmemory": f"{args.maxmemory_mb}mb"}, prefix=prefix))
        sampler = RssSampler(server)
        sampler.start()
        fill(server, args, keys)
        print(f"      {keys:,} keys of {args.value_bytes} bytes, maxmemory {args.maxmemory_mb} MB", flush=True)
        before = server.info()
        shared = {"keys": keys, "value_bytes": args.value_bytes, "draw": "zipf", "requests": 10**9, "seconds": args.seconds}
        gets = load(server.port, "get", clients=8, pipeline=1, **shared)
        sets = load(server.port, "set", clients=1, pipeline=1, **shared)
        read = {}
        reader = threading.Thread(target=lambda: read.update(figures(gets)))
        reader.start()
        written = figures(sets)
        reader.join()
        after = server.info()
        grown = {name: int(after[name]) - int(before[name]) for name in ("keyspace_hits", "keyspace_misses")}
        cold = int(after["flsm_cold_reads_found"]) - int(before["flsm_cold_reads_found"])
        for what, made in (("GET", read), ("SET", written)):
            print(f"      {what}: {made['requests'] / made['seconds']:,.0f}/s, p50 {made['p50_us']} us, p99 {made['p99_us']} us, "
                  f"p99.9 {made['p999_us']} us, longest {made['max_us'] / 1000:.1f} ms")  # fmt: skip
        steps.equal("every GET finds its key", grown["keyspace_misses"], 0)
        print(f"      GETs and SETs that a device had to answer: {cold:,}; GETs: {read['requests']:,}", flush=True)
        print(f"      answered from memory: {1 - cold / (read['requests'] + written['requests']):.4f}", flush=True)
        peak = sampler.stop()
        steps.check("the server lives", server.alive() and not (group and group.kills()))
        steps.check("resident below 1.25 x the bound", peak < bound * 1.25, f"{peak / bound:.2f}")
        whole = stack.enter_context(Server(args.server, common | {"maxmemory": "4gb"}, prefix=["taskset", "-c", "0"]))
        fill(whole, args, keys)
        shares = []
        for number in range(args.rounds + 1):
            cost = {}
            for one in (server, whole) if number % 2 else (whole, server):
                at = process_tasks_cpu_ns(one.pid)
                figures(load(one.port, "get", requests=500_000, clients=50, pipeline=16, keys=keys, value_bytes=args.value_bytes,
                             draw=f"hot:{HOT_KEYS}"))  # fmt: skip
                cost[one] = process_tasks_cpu_ns(one.pid) - at
            # The first round brings the keys into memory.
            if number:
                shares.append(cost[server] / cost[whole])
        shares.sort()
        median = shares[len(shares) // 2]
        steps.check("CPU of a hot GET beside a server with all in memory, at most 1.05", median <= 1.05,
                    f"median {median:.3f}, {shares[0]:.3f} to {shares[-1]:.3f}, {len(shares)} rounds")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--only", choices=["hits", "beyond"])
    parser.add_argument("--quick", action="store_true", help="a smoke run of the module")
    parser.add_argument("--seconds", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--policy", action="append", choices=POLICIES, help="only these policies")
    parser.add_argument("--requests", type=int, default=1_500_000)
    parser.add_argument("--keys", type=int, default=600_000)
    parser.add_argument("--value-bytes", type=int, default=500)
    parser.add_argument("--maxmemory-mb", type=int, default=64)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.rounds, args.requests = min(args.seconds, 10), 1, 200_000
    steps = Steps("zipfian")
    if args.only != "beyond":
        hits(steps, args)
    if args.only != "hits":
        beyond(steps, args)
    steps.finish()


if __name__ == "__main__":
    main()
