"""python3 -m scan_guarantee [--keys 1000000] [--maxmemory-mb 64]

SCAN while other connections write, delete and read cold keys, so that memtables are flushed,
tables compacted and entries evicted during the iteration: every key that existed unchanged from the
first page to the last must be returned.
"""

import argparse
import random
import threading

from harness.load import Timer, incompressible, pipelined, scan_all
from harness.server import Server
from harness.steps import Steps


def stable(index):
    return b"stable:%d" % index


class Churn(threading.Thread):
    """Writes and deletes keys of its own and reads stable ones, until told to stop."""

    def __init__(self, server, number, keys):
        super().__init__(daemon=True)
        self.connection = server.connect(timeout_s=120)
        self.number, self.keys = number, keys
        self.ended = threading.Event()
        self.operations, self.errors = 0, []

    def run(self):
        rng = random.Random(self.number)
        while not self.ended.is_set():
            requests = []
            for _ in range(64):
                key = b"churn:%d:%d" % (self.number, rng.randrange(20_000))
                roll = rng.random()
                if roll < 0.6:
                    requests.append([b"SET", key, incompressible(key, 600)])
                elif roll < 0.8:
                    requests.append([b"DEL", key])
                else:
                    requests.append([b"GET", stable(rng.randrange(self.keys))])
            for request, reply in pipelined(self.connection, requests):
                self.operations += 1
                missing = request[0] == b"GET" and reply.value is None
                if reply.is_error() or missing:
                    self.errors.append((request[:2], reply.raw[:80]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--maxmemory-mb", type=int, default=64)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    steps = Steps(f"SCAN of {args.keys} keys under change")
    options = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory": f"{args.maxmemory_mb}mb"}
    options.update(option.split("=", 1) for option in args.option)
    with Server(args.server, options) as server:
        connection = server.connect(timeout_s=300)
        value = b"v" * 64
        with Timer("load", args.keys):
            bad = sum(r.raw != b"+OK\r\n" for _, r in pipelined(
                connection, ([b"SET", stable(i), value] for i in range(args.keys))))
        steps.equal("load", bad, 0)
        before, moved = flsm(server), work(server)
        churners = [Churn(server, n, args.keys) for n in range(2)]
        for churner in churners:
            churner.start()
        with Timer("SCAN", args.keys):
            returned = [key for key in scan_all(connection, args.count) if key.startswith(b"stable:")]
        for churner in churners:
            churner.ended.set()
            churner.join()
        moved = [after - then for after, then in zip(work(server), moved)]
        steps.check("flush, compaction and eviction went on meanwhile", min(moved) > 0,
                    ", ".join(f"{name} {by}" for name, by in zip(WORK, moved)))
        missing = args.keys - len(set(returned))
        steps.check("every untouched key is returned", missing == 0, f"{missing} missing")
        steps.check("nothing is returned that never was", set(returned) <= {stable(i) for i in range(args.keys)})
        print(f"      {len(returned) - len(set(returned))} keys returned twice (allowed)")
        errors = [e for c in churners for e in c.errors]
        operations = sum(c.operations for c in churners)
        steps.check("the other connections saw no error", not errors and operations > 0, f"{operations} operations {errors[:2]}")
        for field, after in flsm(server).items():
            if after != before.get(field):
                print(f"      {field}: {before.get(field)} -> {after}")
        live = sum(1 for _ in scan_all(connection))
        steps.equal("DBSIZE equals SCAN at rest", connection.cmd("DBSIZE"), live)
    steps.finish()


#: Counters that must move under the SCAN; without, it has shown nothing.
WORK = ("flsm_flushes", "flsm_compactions", "flsm_entries_made_cold", "flsm_cold_reads_found")


def work(server):
    info = server.info()
    return [int(info[name]) for name in WORK]


def flsm(server):
    """Counters that show flush, compaction and eviction at work."""
    words = ("flush", "compact", "evict", "table", "level", "burial", "memtable", "cold")
    return {k: v for k, v in server.info().items() if any(w in k for w in words)}


if __name__ == "__main__":
    main()
