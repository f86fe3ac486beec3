"""python3 -m larger_than_memory [--keys 2000000] [--maxmemory-mb 256]

More data than `maxmemory`, noeviction: nothing is refused, every key keeps its (incompressible)
value through overwrites, deletes, kill -9 and restart, DBSIZE is exact, and the resident memory
of the process, sampled throughout, stays below 1.25 times the bound.
"""

import argparse
import random
import time

from harness.load import RssSampler, Timer, incompressible, pipelined, send_all
from harness.server import Server
from harness.steps import Steps


def name(index):
    return b"key:%012d" % index


def expected(index, generations, size):
    generation = generations.get(index, 0)
    return None if generation is None else incompressible(b"%d:%d" % (index, generation), size)


def write(steps, title, connection, indexes, generations, size):
    requests = ([b"SET", name(i), expected(i, generations, size)] for i in indexes)
    send_all(steps, title, connection, requests, len(indexes), lambda reply: reply.raw == b"+OK\r\n")


def verify(steps, title, connection, indexes, generations, size):
    wrong = []
    requests = ([b"GET", name(i)] for i in indexes)
    with Timer(title, len(indexes)):
        for i, (_, reply) in zip(indexes, pipelined(connection, requests)):
            if reply.value != expected(i, generations, size):
                wrong.append((i, (reply.raw or b"")[:40]))
    steps.check(title, not wrong, f"{len(wrong)} wrong, first {wrong[:2]}" if wrong else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=1024)
    parser.add_argument("--maxmemory-mb", type=int, default=256, help="0: no bound (to try the script itself)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--directory", help="directory for the data (twice its size is needed)")
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    steps = Steps(f"larger than memory: {args.keys} keys of {args.value_bytes} bytes, maxmemory {args.maxmemory_mb} MB")
    rng = random.Random(args.seed)
    options = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory": f"{args.maxmemory_mb}mb",
               "maxmemory-policy": "noeviction"}
    options.update(option.split("=", 1) for option in args.option)
    bound = args.maxmemory_mb * 2**20 * 1.25 or float("inf")
    generations = {}
    with Server(args.server, options, directory=args.directory) as server:
        sampler = RssSampler(server)
        sampler.start()
        connection = server.connect(timeout_s=300)
        everything = list(range(args.keys))
        write(steps, "load", connection, everything, generations, args.value_bytes)
        steps.equal("DBSIZE after the load", connection.cmd("DBSIZE"), args.keys)
        changed = rng.sample(everything, args.keys // 10)
        for index in changed:
            generations[index] = 1
        write(steps, "overwrite a tenth", connection, changed, generations, args.value_bytes)
        dead = rng.sample(everything, args.keys // 10)
        with Timer("delete a tenth", len(dead)):
            removed = sum(reply.value for _, reply in pipelined(connection, ([b"DEL", name(i)] for i in dead)))
        steps.equal("delete a tenth", removed, len(dead))
        for index in dead:
            generations[index] = None
        steps.equal("DBSIZE after the deletes", connection.cmd("DBSIZE"), args.keys - len(dead))
        rng.shuffle(everything)
        verify(steps, "every key, in random order", connection, everything, generations, args.value_bytes)
        connection.close()
        time.sleep(2.1)  # everysec
        server.kill()
        with Timer("restart after kill -9"):
            server.start(timeout_s=600)
        connection = server.connect(timeout_s=300)
        steps.equal("DBSIZE after the restart", connection.cmd("DBSIZE"), args.keys - len(dead))
        verify(steps, "every key after the restart", connection, sorted(everything), generations, args.value_bytes)
        connection.close()
        peak = sampler.stop()
        steps.check("resident memory below 1.25 times the bound", peak < bound,
                    f"peak {peak / 2**20:.0f} MiB of {bound / 2**20:.0f}, {sampler.samples} samples")
        steps.check("the server lives", server.alive())
    steps.finish()


if __name__ == "__main__":
    main()
