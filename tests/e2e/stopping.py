"""python3 -m stopping [--rounds N] [--seed N]: a server is told to end while clients keep it busy with things that take long.

In each round some of the tasks below run at once: loads, whole collections made anew, scripts without end, waiting clients, saves,
rewrites, replies that nobody reads. Then the server is told to end, by a signal or by SHUTDOWN. It must be gone within seconds, start
again at once, and have every write that it has acknowledged.
"""

import argparse
import contextlib
import random
import threading
import time

from harness.resp import ReplyError, encode_all
from harness.server import Server
from harness.steps import Steps

END_MAX_S = 10
#: Elements of the collections that the tasks work on.
ELEMENTS = 100_000
BUSY_MS = 300
ENDLESS = "while true do end"
LIBRARY = "#!lua name=l\nredis.register_function('endless', function(keys) redis.call('set', keys[1], 1) while true do end end)"

#: Requests that a client sends again and again, without waiting.
REPEATED = {
    "writes": [("SET", f"k{number}", "v" * 50) for number in range(200)],
    "transactions": [("MULTI",), *[("SET", f"m{number}", "x") for number in range(2000)], ("EXEC",)],
    "collections made anew": [("ZUNIONSTORE", "made", 1, "zset"), ("SUNIONSTORE", "made", "set"), ("COPY", "zset", "made", "REPLACE"),
                              ("SORT", "list", "STORE", "made"), ("SORT", "list", "BY", "other_*", "STORE", "made")],
    "long strings": [("COPY", "long", "copy", "REPLACE"), ("BITOP", "NOT", "not", "long"), ("SETRANGE", "long", 1000, "x"), ("APPEND", "long", "y")],
    "names": [("RENAME", "list", "renamed"), ("RENAME", "renamed", "list"), ("MOVE", "set", 1), ("SWAPDB", 2, 3)],
    "walks": [("SCAN", 0, "COUNT", 100_000), ("ZRANGE", "zset", 0, -1), ("KEYS", "*"), ("DEBUG", "DIGEST"), ("DUMP", "zset")],
    "settings": [("CONFIG", "SET", "maxmemory", "100mb"), ("CONFIG", "SET", "maxmemory", 0), ("CONFIG", "REWRITE")],
    "libraries": [("FUNCTION", "LOAD", "REPLACE", LIBRARY), ("FUNCTION", "FLUSH")],
    "short scripts": [("EVAL", "local x = 0 for i = 1, 300000 do x = x + i end return redis.call('incr', KEYS[1])", 1, "short")],
    "messages": [("PUBLISH", "channel", "x" * 1000)] * 50,
    "fed lists": [("LPUSH", "fed", *range(100)), ("XADD", "stream", "MAXLEN", 100, "*", "a", "b")],
    "rewrites": [("BGREWRITEAOF",), ("BGSAVE",)],
}
#: Requests that a client sends once, each on connections of its own, and the number of these.
WAITING = {
    "an endless script": (("EVAL", ENDLESS, 1, "e1"), 2),
    "an endless script that writes": (("EVAL", f"redis.call('set', KEYS[1], 1) {ENDLESS}", 1, "e2"), 2),
    "an endless script on all keys": (("EVAL", ENDLESS, 0), 1),
    "an endless function": (("FCALL", "endless", 1, "e3"), 1),
    "BLPOP": (("BLPOP", "never", "fed", 0), 30),
    "XREAD": (("XREAD", "BLOCK", 0, "STREAMS", "stream", "$"), 30),
    "WAIT": (("WAIT", 1, 0), 2),
    "DEBUG SLEEP": (("DEBUG", "SLEEP", 30), 1),
    "SAVE": (("SAVE",), 1),
    "MONITOR": (("MONITOR",), 1),
    "SUBSCRIBE": (("SUBSCRIBE", "channel"), 30),
    "an unread list": (("LRANGE", "list", 0, -1), 5),
    "an unread string": (("GET", "long"), 5),
}
WAYS = ["SIGTERM", "SIGTERM with save points", "SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOSAVE"]


def fill(server):
    client = server.connect()
    for start in range(0, ELEMENTS, 1000):
        names = range(start, start + 1000)
        client.pipeline([("ZADD", "zset", *[word for name in names for word in (name, name)]), ("SADD", "set", *names), ("RPUSH", "list", *names)])
    client.pipeline([("SET", "long", "x" * 10_000_000), ("FUNCTION", "LOAD", LIBRARY), ("CONFIG", "SET", "rdb-key-save-delay", 500)])
    client.close()


def quietly(work):
    """A thread for something that ends with its connection."""

    def run():
        with contextlib.suppress(OSError):
            work()

    threading.Thread(target=run, daemon=True).start()


def repeat(server, requests):
    """A client that sends without waiting, and drops the replies."""
    connection, load = server.connect(), encode_all(requests)

    def send():
        while True:
            connection.send_raw(load)

    def receive():
        while connection.sock.recv(1 << 18):
            pass

    quietly(send), quietly(receive)
    return [connection]


def start(server, name):
    if name in REPEATED:
        return repeat(server, REPEATED[name])
    words, clients = WAITING[name]
    connections = [server.connect() for _ in range(clients)]
    for connection in connections:
        connection.send([words])
    return connections


def count(server, acknowledged):
    """Counts a key up, and what has been acknowledged."""
    connection = server.connect(timeout_s=60)

    def work():
        with contextlib.suppress(ReplyError):
            while True:
                acknowledged[0] = connection.cmd("INCR", "count")

    quietly(work)
    return [connection]


def tell(server, way, tasks):
    """Tells it to end; a request that is refused, since scripts never end, is followed by one that is not."""
    if way.startswith("SIGTERM"):
        server.process.terminate()
        return True
    client = server.connect(timeout_s=END_MAX_S)
    client.send([way.split()])
    is_endless = any(name.startswith("an endless") for name in tasks)
    with contextlib.suppress(OSError):
        refusal = client.read_node().raw
        if not (is_endless and refusal.startswith(b"-BUSY")):
            print(f"      {refusal[:100]}")
            return False
        client.send([("SHUTDOWN", "NOSAVE")])
    return True


def round_of(steps, number, rng):
    way = WAYS[number % len(WAYS)]
    tasks = rng.sample([*REPEATED, *WAITING], 7)
    name = f"{number}: {way} beside {', '.join(tasks)}"
    points = "3600 1" if "points" in way else ""
    options = {"enable-debug-command": "yes", "busy-reply-threshold": BUSY_MS, "save": points, "appendfsync": rng.choice(["always", "everysec"])}
    with Server("sexton", options) as server:
        fill(server)
        acknowledged = [0]
        connections = count(server, acknowledged)
        for task in tasks:
            connections += start(server, task)
        time.sleep(rng.choice([0.2, 0.5, 1]))
        begun = time.monotonic()
        is_told = tell(server, way, tasks)
        deadline = begun + END_MAX_S
        while server.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        took = time.monotonic() - begun
        ended = is_told and not server.alive() and server.process.returncode == 0
        steps.check(name, ended, f"{took:.2f} s" if ended else f"{took:.1f} s, {server.log_tail(4)}")
        server.kill()
        for connection in connections:
            connection.close()
        server.start()
        kept = int(server.connect().cmd("GET", "count") or 0)
        steps.check(f"{number}: what was acknowledged is there", kept >= acknowledged[0] > 0, f"{acknowledged[0]} and {kept}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    steps = Steps(f"stopping, --seed {options.seed}")
    for number in range(options.rounds):
        round_of(steps, number, random.Random(f"{options.seed} {number}"))
    steps.finish()


if __name__ == "__main__":
    main()
