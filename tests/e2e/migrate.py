"""python3 -m migrate: MIGRATE, compared with redis-server 7.0.15, and from this server to both kinds.

The same requests run on both servers, each beside the same target: replies, what is left and what has arrived must be equal. Then
values of all types, small and in pages, move to redis-server and to a second one of ours: DEBUG DIGEST-VALUE must be equal there, and
nothing comes back at the source after kill -9. A target that accepts connections and never answers keeps back who needs the
key, nobody else, and no shutdown.
"""

import socket
import threading
import time

from harness.resp import Connection
from harness.server import Server
from harness.steps import Steps

HERE = "127.0.0.1"
TYPES = ["string", "long", "list", "set", "zset", "hash", "stream", "small", "expiring"]
DEBUG = {"enable-debug-command": "yes"}


def requests_to(port):
    """Requests, right and wrong."""
    whole = ("MIGRATE", HERE, port, "a", 0, 2000)
    several = ("MIGRATE", HERE, port, "", 0, 2000)
    yield from [whole, several, (*whole, "COPY"), (*whole, "copy", "REPLACE"), (*whole, "REPLACE"), (*whole, "MORE"), whole[:5]]
    yield from [(*several, "KEYS"), (*several, "KEYS", "a", "l", "nokey"), (*several, "KEYS", "a", "a"), (*several, "KEYS", "")]
    yield from [(*several, "COPY", "KEYS", "l", "a"), (*whole, "KEYS", "a"), (*whole, "AUTH"), (*whole, "AUTH2", "user")]
    yield from [(*whole, "AUTH", "password"), (*whole, "AUTH2", "user", "password"), (*several, "AUTH", "KEYS", "KEYS", "a")]
    # Not database -1, which is 0 for redis-server on a new connection.
    for key, db, timeout in [("a", "x", 10), ("a", 0, "x"), ("a", 0, -5), ("a", 99, 1000), ("nokey", 0, 10), ("nokey", "x", 10), ("due", 0, 10)]:
        yield ("MIGRATE", HERE, port, key, db, timeout)
    for host, to in [(HERE, 1), (HERE, "word"), ("no host", port), ("", port)]:
        yield ("MIGRATE", host, to, "a", 0, 500)


def beside_redis(steps, ours, redis, target):
    """The same requests to both servers."""
    differing, count = [], 0
    for request in requests_to(target.port):
        for taken in ((), ("a",)):
            seen = []
            for server in (ours, redis):
                source, at = server.connect(), target.connect()
                at.cmd("FLUSHALL")
                for key in taken:
                    at.cmd("SET", key, "taken")
                source.pipeline([("FLUSHALL",), ("SET", "a", 1, "PX", 500000), ("RPUSH", "l", 1, 2), ("SET", "", "e"), ("SET", "due", 1, "PX", 1)])
                time.sleep(0.005)
                reply = source.node(*request).canonical()
                left = sorted(source.cmd("KEYS", "*"))
                arrived = {key: at.cmd("DUMP", key) for key in sorted(at.cmd("KEYS", "*"))}
                seen.append((reply, left, arrived, at.cmd("TTL", "a") >= 490))
                source.close(), at.close()
            count += 1
            if seen[0] != seen[1]:
                differing.append((request, taken, *seen))
    steps.check("requests beside redis-server", not differing, f"{count} equal" if not differing else str(differing[0]))


def fill(client, size):
    """A key of each of the types, with `size` elements."""
    client.pipeline([("SET", "string", "x" * 100), ("SET", "long", "y" * size * 100), ("SET", "small", 12), ("SET", "expiring", 1, "PX", 10**7)])
    for start in range(0, size, 1000):
        items = [f"element {number}" for number in range(start, min(start + 1000, size))]
        scored = [word for number, item in enumerate(items) for word in ((start + number) * 1.5, item)]
        client.pipeline([("RPUSH", "list", *items), ("SADD", "set", *items), ("ZADD", "zset", *scored)])
        client.pipeline([("HSET", "hash", *[word for item in items for word in (item, 1)])])
        client.pipeline([("XADD", "stream", f"{start + number + 1}-1", "f", item) for number, item in enumerate(items)])


def digests(client):
    return client.cmd("DEBUG", "DIGEST-VALUE", *TYPES)


def all_types(steps, ours, target, size):
    """They are copied, then moved in a transaction, and the source is killed."""
    source, at = ours.connect(), target.connect()
    source.cmd("FLUSHALL"), at.cmd("FLUSHALL")
    fill(source, size)
    before = digests(source)
    name = f"all types of {size} elements to {target.kind}"
    request = ("MIGRATE", HERE, target.port, "", 0, 60000)
    steps.equal(f"{name}: copied", (source.cmd(*request, "COPY", "KEYS", *TYPES), digests(at) == before, digests(source) == before), (b"OK", True, True))
    replies = [node.value for node in source.pipeline([("MULTI",), ("SET", "kept", 1), (*request, "REPLACE", "KEYS", *TYPES), ("DBSIZE",)])]
    steps.equal(f"{name}: moved in a transaction", (replies[-1], source.node("EXEC").python(), digests(at) == before),
                (b"QUEUED", [b"OK", b"OK", 1], True))  # fmt: skip
    steps.check(f"{name}: the expiry", 9 * 10**6 < at.cmd("PTTL", "expiring") <= 10**7)
    ours.kill()
    ours.start()
    steps.equal(f"{name}: after kill -9", ours.connect().cmd("KEYS", "*"), [b"kept"])


def silent_target(steps, ours):
    """It accepts connections and says nothing."""
    listener = socket.create_server((HERE, 0))
    port = listener.getsockname()[1]
    client = ours.connect()
    client.pipeline([("SET", "k", 1), *[("SET", f"other{number}", 1) for number in range(100)]])
    replies = []

    def migrate(timeout_ms):
        replies.append(Connection(ours.port, timeout_s=100).node("MIGRATE", HERE, port, "k", 0, timeout_ms).value)

    waiting = threading.Thread(target=migrate, args=(2500,))
    waiting.start()
    # Held, so that the target is silent and not gone.
    silent = [listener.accept()[0]]
    begun = time.monotonic()
    # Some of the others share a part of the keys with the one that moves.
    served = 0
    for number in range(100):
        other = Connection(ours.port, timeout_s=0.3)
        try:
            served += other.cmd("SET", f"other{number}", 2) == b"OK"
        except TimeoutError:
            pass
        if time.monotonic() > begun + 2:
            break
    steps.check("others are served while a target is silent", served > 50, f"{served}")
    steps.equal("who needs the key waits", (client.cmd("SET", "k", 2), time.monotonic() - begun > 2), (b"OK", True))
    waiting.join()
    steps.equal("the target is given up in time", replies.pop(), b"IOERR error or timeout reading to target instance")
    # Others begin while the server ends.
    moving = [ours.connect() for _ in range(8)]
    for number, connection in enumerate(moving):
        connection.send([("MIGRATE", HERE, port, f"other{number}", 0, 90000)] * 10)
    # Not one for each: those whose keys share a part wait for each other.
    silent.append(listener.accept()[0])
    begun = time.monotonic()
    ours.terminate()
    steps.check("a shutdown does not wait for it", time.monotonic() - begun < 20, f"{time.monotonic() - begun:.1f} s")
    ours.start()
    steps.equal("and the key is where it was", ours.connect().cmd("GET", "k"), b"2")


def main():
    steps = Steps("MIGRATE")
    with Server("sexton", DEBUG | {"appendfsync": "always"}) as ours, Server("redis", DEBUG) as redis, Server("redis", DEBUG) as target, Server("sexton", DEBUG) as second:
        beside_redis(steps, ours, redis, target)
        for size in (5, 20000):
            for to in (target, second):
                all_types(steps, ours, to, size)
        silent_target(steps, ours)
    steps.finish()


if __name__ == "__main__":
    main()
