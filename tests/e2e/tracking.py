"""python3 -m tracking [--quick] [--server sexton]: client-side caching (CLIENT TRACKING), compared with redis-server 7.0.15, and under stress.

Sequences of reads and writes by tracking clients in every mode run on both servers; all output of each client,
including invalidations, must be equal byte by byte. Then caching clients read while writers write: a cached value must
not be older than a write that was answered before the client last received data from the server, and in the end every cache
agrees with the server.
"""

import argparse
import random
import select
import threading
import time

from harness.resp import encode, to_bytes
from harness.server import Server
from harness.steps import Steps

#: Its name, protocol, the options of CLIENT TRACKING, and which connection hears in its place.
TRACKERS = [
    ("plain", 3, ("ON",), None),
    ("noloop", 3, ("ON", "NOLOOP"), None),
    ("optin", 3, ("ON", "OPTIN"), None),
    ("optout", 3, ("ON", "OPTOUT"), None),
    ("bcast prefixes", 3, ("ON", "BCAST", "PREFIX", "k1", "PREFIX", "l", "NOLOOP"), None),
    ("bcast", 3, ("ON", "BCAST"), None),
    ("resp2", 2, ("ON",), "listener"),
    ("redirected", 3, ("ON",), "resp3"),
    ("redirected bcast", 2, ("ON", "BCAST", "PREFIX", "k"), "listener"),
    ("off", 3, ("OFF",), None),
]

#: What other options a tracker may change to, and back.
CHANGES = {
    "plain": [("OFF",), ("ON",), ("ON", "NOLOOP"), ("ON", "OPTIN")],
    "bcast": [("OFF",), ("ON", "BCAST"), ("ON", "BCAST", "NOLOOP")],
    "off": [("OFF",), ("ON", "OPTOUT"), ("ON", "BCAST", "PREFIX", "s"), ("ON", "NOLOOP")],
}


class Side:
    """A server with all trackers and the clients that receive their redirected messages."""

    def __init__(self, server):
        self.receivers = {"listener": server.connect(), "resp3": server.connect()}
        self.receivers["resp3"].node("HELLO", 3)
        ids = {name: receiver.cmd("CLIENT", "ID") for name, receiver in self.receivers.items()}
        self.receivers["listener"].node("SUBSCRIBE", "elsewhere")
        self.trackers = {}
        for name, protocol, options, receiver in TRACKERS:
            connection = self.trackers[name] = server.connect()
            if protocol == 3:
                connection.node("HELLO", 3)
            redirect = ("REDIRECT", ids[receiver]) if receiver else ()
            assert connection.cmd("CLIENT", "TRACKING", *options, *redirect) == b"OK"

    def run(self, name, requests):
        """Sends requests at once; returns the output of each connection up to a mark of its own."""
        got = {}
        connection = self.trackers[name]
        mark = [b"CLIENT", b"ID"]
        connection.send_raw(b"".join(map(encode, [*requests, mark])))
        answers = len(requests) + 1
        got[name] = []
        while answers:
            node = connection.read_node()
            answers -= node.kind != ord(">")
            if answers:
                got[name].append(node.raw)
        for other, connection in self.trackers.items():
            got.setdefault(other, [])
            connection.send_raw(encode(mark))
            while (node := connection.read_node()).kind == ord(">"):
                got[other].append(node.raw)
        for other, connection in self.receivers.items():
            got[other] = []
            connection.send_raw(encode([b"PING", b"mark"]))
            while b"mark" not in (node := connection.read_node()).raw:
                got[other].append(node.raw)
        return got

    def close(self):
        for connection in [*self.receivers.values(), *self.trackers.values()]:
            connection.close()


def random_command(rng):
    key, number = lambda: b"k%d" % rng.randrange(1, 13), lambda: b"%d" % rng.randrange(5)  # noqa: E731
    hash_, list_, set_ = (lambda letter=letter: b"%c%d" % (letter, rng.randrange(1, 4)) for letter in b"hls")
    return rng.choice([
        lambda: [b"GET", key()], lambda: [b"GET", key()], lambda: [b"MGET", key(), key(), key()], lambda: [b"STRLEN", key()],
        lambda: [b"EXISTS", key(), key()], lambda: [b"TTL", key()], lambda: [b"TYPE", key()], lambda: [b"TOUCH", key(), key()],
        lambda: [b"GETRANGE", key(), b"0", b"-1"], lambda: [b"DUMP", key()], lambda: [b"OBJECT", b"ENCODING", key()],
        lambda: [b"WATCH", key()], lambda: [b"UNWATCH"], lambda: [b"HGET", hash_(), b"f"], lambda: [b"HGETALL", key()],
        lambda: [b"LRANGE", list_(), b"0", b"-1"], lambda: [b"LLEN", list_()], lambda: [b"SCARD", set_()],
        lambda: [b"SINTERCARD", b"2", set_(), set_()], lambda: [b"SISMEMBER", set_(), number()], lambda: [b"SORT_RO", list_()],
        lambda: [b"GET"], lambda: [b"LLEN", key()], lambda: [b"DBSIZE"],
        lambda: [b"SET", key(), number()], lambda: [b"SET", key(), number()], lambda: [b"SET", key(), number(), rng.choice([b"NX", b"XX"])],
        lambda: [b"SET", key(), number(), b"GET"], lambda: [b"GETSET", key(), number()], lambda: [b"GETDEL", key()],
        lambda: [b"GETEX", key(), rng.choice([b"PERSIST", b"EX"]), b"1000"][: rng.choice([3, 4])],
        lambda: [b"MSET", key(), b"1", key(), b"2"], lambda: [b"MSETNX", key(), b"1", key(), b"2"], lambda: [b"INCR", key()],
        lambda: [b"APPEND", key(), b"x"], lambda: [b"SETRANGE", key(), b"1", rng.choice([b"", b"y"])], lambda: [b"DEL", key(), key()],
        lambda: [b"UNLINK", key()], lambda: [b"EXPIRE", key(), b"1000"], lambda: [b"PEXPIREAT", key(), b"1"], lambda: [b"EXPIRE", key(), b"-1"],
        lambda: [b"PERSIST", key()], lambda: [b"RENAME", key(), key()], lambda: [b"RENAMENX", key(), key()],
        lambda: [b"COPY", key(), key(), b"REPLACE"], lambda: [b"COPY", key(), key(), b"DB", b"1", b"REPLACE"], lambda: [b"MOVE", key(), b"1"],
        lambda: [b"HSET", hash_(), b"f", number()], lambda: [b"HDEL", hash_(), b"f"], lambda: [b"HINCRBY", hash_(), b"f", b"1"],
        lambda: [b"RPUSH", list_(), number()], lambda: [b"LPOP", list_()], lambda: [b"LMOVE", list_(), list_(), b"LEFT", b"RIGHT"],
        lambda: [b"LTRIM", list_(), b"1", b"-1"], lambda: [b"LSET", list_(), b"0", number()], lambda: [b"LREM", list_(), b"0", number()],
        lambda: [b"SADD", set_(), number()], lambda: [b"SREM", set_(), number()], lambda: [b"SMOVE", set_(), set_(), number()],
        lambda: [b"SINTERSTORE", set_(), set_(), set_()], lambda: [b"SUNIONSTORE", set_(), set_(), set_()],
        lambda: [b"SORT", list_(), b"STORE", list_()], lambda: [b"SORT", list_()],
        lambda: [b"EVAL", b"return redis.call('get', KEYS[1])", b"1", key()],
        lambda: [b"EVAL", b"redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[2])", b"2", key(), key(), number()],
        lambda: [b"EVAL_RO", b"return 1", b"1", key()], lambda: [b"EVAL", b"redis.call('incr', KEYS[1]) return redis.call('mget', KEYS[1], KEYS[2])", b"2", key(), key()],
        lambda: [b"SELECT", number()[:1]], lambda: [b"SELECT", b"0"], lambda: [b"CLIENT", b"CACHING", rng.choice([b"YES", b"NO"])],
        lambda: [b"CLIENT", b"TRACKINGINFO"][:1] + [rng.choice([b"GETNAME", b"ID"])],
        lambda: [rng.choice([b"FLUSHDB", b"FLUSHALL", b"SWAPDB", b"DBSIZE"])], lambda: [b"SWAPDB", b"0", b"1"],
    ])()


def random_step(rng):
    """The client of the step, and its requests, which are sent at once."""
    name = rng.choice(TRACKERS)[0]
    if name in CHANGES and rng.random() < 0.05:
        return name, [[b"CLIENT", b"TRACKING", b"OFF"], [b"CLIENT", b"TRACKING", *map(to_bytes, rng.choice(CHANGES[name]))]]
    kind = rng.random()
    commands = [random_command(rng) for _ in range(rng.choice([1, 1, 1, 2, 3, 5]))]
    # CLIENT ID tells numbers that are not the same on both servers.
    commands = [command for command in commands if command != [b"CLIENT", b"ID"]] or [[b"PING"]]
    if kind >= 0.2:
        # A helper thread may run it, which ends a batch, and with it the message of one that hears of all keys: alone it
        # makes no difference.
        helped = [command for command in commands if command[0] in (b"DBSIZE", b"EVAL", b"EVAL_RO")]
        commands = helped[:1] or commands
    if name == "optin" and rng.random() < 0.5:
        commands = [[b"CLIENT", b"CACHING", b"YES"], *commands]
    if kind < 0.2:
        commands = [[b"MULTI"], *[command for command in commands if command[0] != b"WATCH"], [b"EXEC"]]
    return name, commands


def differential(steps, ours, theirs, count):
    sides = [Side(server) for server in (ours, theirs)]
    rng, told, history = random.Random(7), 0, []
    for at in range(count):
        name, requests = random_step(rng)
        history.append((name, requests))
        mine, redis = (side.run(name, requests) for side in sides)
        if mine != redis:
            differing = {who: (mine[who], redis[who]) for who in mine if mine[who] != redis[who]}
            steps.check("pushes in every mode", False, f"step {at}: {history[-4:]}: {differing}")
            break
        told += sum(b"invalidate" in raw for raws in mine.values() for raw in raws)
    else:
        steps.check("pushes in every mode", told > count / 4, f"{count} steps, {told} messages")
    for side in sides:
        for connection in side.trackers.values():
            connection.cmd("UNWATCH")
    figures = [{k: v for k, v in server.info().items() if k.startswith("tracking_")} for server in (ours, theirs)]
    steps.equal("INFO", *figures)
    shown = [[sorted(word for word in line.split() if word.startswith("flags=")) for line in side.trackers["off"].cmd("CLIENT", "LIST").decode().splitlines()]
             for side in sides]
    # The order is that of numbers here, and Redis' own there.
    steps.equal("CLIENT LIST", *map(sorted, shown))
    for side in sides:
        side.close()


class Versions:
    """Keys with increasing numbers as values, and the ones that were acknowledged to their writers."""

    def __init__(self, keys):
        self.keys = [b"key:%d" % number for number in range(keys)]
        self.answered = dict.fromkeys(self.keys, 0)
        self.left = 0
        self.lock = threading.Lock()
        self.complaints = []

    def take(self, count=1):
        """True while there is something to do."""
        with self.lock:
            self.left -= count
            return self.left >= 0

    def note(self, key, value):
        with self.lock:
            self.answered[key] = max(self.answered[key], value)

    def complain(self, text):
        self.complaints.append(text)


class Cache:
    """A client that caches the values it reads, and drops them on invalidation."""

    def __init__(self, server, versions, mode, seed):
        self.connection = server.connect()
        self.connection.node("HELLO", 3)
        self.receiver = self.connection
        self.mode, self.versions, self.rng = mode, versions, random.Random(seed)
        self.values, self.seen = {}, dict.fromkeys(versions.keys, 0)
        self.hits = self.told = 0
        options = {"plain": ("ON",), "optin": ("ON", "OPTIN"), "bcast": ("ON", "BCAST", "PREFIX", "key:"), "noloop": ("ON", "NOLOOP")}
        assert self.connection.cmd("CLIENT", "TRACKING", *options[mode]) == b"OK"

    def hear(self, node):
        """Handles a push; false for a reply."""
        if node.kind != ord(">"):
            return False
        self.told += 1
        _, keys = node.python()
        for key in self.values.copy() if keys is None else keys:
            self.values.pop(key, None)
        return True

    def answer(self):
        while self.hear(node := self.connection.read_node()):
            pass
        return node.python()

    def hear_what_is_there(self):
        while self.connection.has_bytes() or select.select([self.connection.sock], [], [], 0)[0]:
            self.hear(self.connection.read_node())

    def learn(self, key, value):
        value = int(value or 0)
        if value < self.seen[key]:
            self.versions.complain(f"{self.mode}: {key} was {self.seen[key]} and is {value} now")
        self.seen[key] = self.values[key] = value

    def read(self):
        """One read: from the cache, or one of several requests."""
        key, way = self.rng.choice(self.versions.keys), self.rng.random()
        if way < 0.1:
            # Behind the answer to anything, the cache knows of all that was answered before the request.
            answered = self.versions.answered[key]
            self.connection.send_raw(encode([b"CLIENT", b"ID"]))
            self.answer()
            if self.values.get(key, answered) < answered:
                self.versions.complain(f"{self.mode}: {key} is {self.values[key]} in the cache, {answered} was answered")
            return
        self.hear_what_is_there()
        if key in self.values and way < 0.9:
            self.hits += 1
            if self.values[key] < self.seen[key]:
                self.versions.complain(f"{self.mode}: {key} is older in the cache than was seen")
            return
        if self.mode == "optin":
            self.connection.send_raw(encode([b"CLIENT", b"CACHING", b"YES"]) + encode([b"GET", key]))
            self.answer()
            self.learn(key, self.answer())
        elif way < 0.5:
            keys = self.rng.sample(self.versions.keys, 8)
            self.connection.send_raw(b"".join(encode([b"GET", key]) for key in keys))
            for key in keys:
                self.learn(key, self.answer())
        elif way < 0.7:
            keys = self.rng.sample(self.versions.keys, 4)
            self.connection.send_raw(encode([b"MGET", *keys]))
            # They are of one instant, and what is told meanwhile is told behind them.
            for key, value in zip(keys, self.answer()):
                self.learn(key, value)
        elif way < 0.8:
            self.connection.send_raw(b"".join(encode(words) for words in ([b"MULTI"], [b"GET", key], [b"EXEC"])))
            self.answer(), self.answer()
            self.learn(key, self.answer()[0])
        elif way < 0.85 and self.mode == "plain":
            # It writes by itself, and hears of that behind the reply.
            self.connection.send_raw(encode([b"INCR", key]))
            self.versions.note(key, self.answer())
        else:
            self.connection.send_raw(encode([b"GET", key]))
            self.learn(key, self.answer())

    def run(self):
        try:
            while self.versions.take():
                self.read()
        except Exception as error:  # noqa: BLE001
            self.versions.complain(f"{self.mode}: {error!r}")


def write(server, versions, seed):
    connection, rng = server.connect(), random.Random(seed)
    try:
        while versions.take():
            key, way = rng.choice(versions.keys), rng.random()
            if way < 0.6:
                versions.note(key, connection.cmd("INCR", key))
            elif way < 0.75:
                keys = rng.sample(versions.keys, 6)
                for key, node in zip(keys, connection.pipeline([("INCR", key) for key in keys])):
                    versions.note(key, node.value)
            elif way < 0.9:
                other = rng.choice(versions.keys)
                replies = connection.pipeline([("MULTI",), ("INCR", key), ("INCR", other), ("EXEC",)])
                versions.note(key, replies[-1].items[0].value)
                versions.note(other, replies[-1].items[1].value)
            else:
                versions.note(key, connection.cmd("EVAL", "return redis.call('incr', KEYS[1])", 1, key))
    except Exception as error:  # noqa: BLE001
        versions.complain(f"writer: {error!r}")
    connection.close()


def staleness(steps, kind, options, count):
    """Ten caching clients concurrent with three writers."""
    with Server(kind, options) as server:
        versions = Versions(60)
        versions.left = count
        modes = ["plain"] * 5 + ["noloop", "noloop", "optin", "bcast", "bcast"]
        caches = [Cache(server, versions, mode, seed) for seed, mode in enumerate(modes)]
        threads = [threading.Thread(target=cache.run) for cache in caches]
        threads += [threading.Thread(target=write, args=(server, versions, seed)) for seed in range(3)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
        name = f"appendfsync {options.get('appendfsync', 'off')}"
        steps.check(f"{name}: nothing stale", not versions.complaints, "; ".join(versions.complaints[:3]) or f"{count} reads and writes in {took:.0f} s")
        asking = server.connect()
        now = {key: int(asking.cmd("GET", key) or 0) for key in versions.keys}
        stale = []
        for cache in caches:
            cache.connection.send_raw(encode([b"CLIENT", b"ID"]))
            cache.answer()
            stale += [(cache.mode, key, value, now[key]) for key, value in cache.values.items() if value != now[key]]
        held, hits, told = (sum(figures) for figures in zip(*((len(cache.values), cache.hits, cache.told) for cache in caches)))
        steps.check(f"{name}: in the end every cache holds what the server holds", not stale and held > 50,
                    f"{held} values, {hits} hits, {told} messages" if not stale else f"{len(stale)} of {held}: {stale[:3]}")
        steps.check(f"{name}: caches were of use", hits > count / 20 and told > count / 50, f"{hits} hits, {told} messages")
        for cache in caches:
            cache.connection.close()
        deadline = time.monotonic() + 10
        while server.info()["tracking_clients"] != "0" and time.monotonic() < deadline:
            pass
        steps.equal(f"{name}: nobody tracks who has left", server.info()["tracking_clients"], "0")
        asking.close()


def bounded(steps, server):
    """The tracking table keeps its limit, and a client that loses its entry is notified."""
    cache, control = server.connect(), server.connect()
    control.cmd("FLUSHALL")
    cache.node("HELLO", 3)
    cache.cmd("CLIENT", "TRACKING", "ON")
    control.cmd("CONFIG", "SET", "tracking-table-max-keys", 100)
    told = set()
    for number in range(1000):
        cache.send_raw(encode([b"GET", b"t%d" % number]))
        while (node := cache.read_node()).kind == ord(">"):
            told.update(node.python()[1])
    control.cmd("PING")
    figures = server.info()
    steps.check("tracking-table-max-keys", int(figures["tracking_total_keys"]) <= 101 and len(told) >= 899,
                f"{figures['tracking_total_keys']} keys, {len(told)} given up")
    control.cmd("CONFIG", "SET", "tracking-table-max-keys", 1000000)
    cache.close()
    control.close()


def long_values(steps, server):
    """What a client has read of a long value on a helper thread it has read: a change that comes later is told, once."""
    cache, writer = server.connect(), server.connect()
    cache.node("HELLO", 3)
    writer.cmd("SET", "long", b"x" * 3_000_000)
    writer.pipeline([("XADD", "entries", f"{number}-1", "f", "y" * 1000) for number in range(1, 2001)])
    cache.cmd("CLIENT", "TRACKING", "ON")
    for words, change in ((("GET", "long"), ("APPEND", "long", "y")), (("GETRANGE", "long", 9, -9), ("SETRANGE", "long", 70_000, "y")),
                          (("BITCOUNT", "long"), ("APPEND", "long", "y")), (("BITPOS", "long", 0, 100), ("APPEND", "long", "z")),
                          (("XRANGE", "entries", "-", "+"), ("XADD", "entries", "*", "f", "v"))):
        for _ in range(3):
            cache.send_raw(encode([to_bytes(word) for word in words]))
            pushes, node = [], cache.read_node()
            while node.kind == ord(">"):
                pushes.append(node.python()[1])
                node = cache.read_node()
            writer.cmd(*change)
            cache.send_raw(encode([b"CLIENT", b"ID"]))
            while (node := cache.read_node()).kind == ord(">"):
                pushes.append(node.python()[1])
            steps.equal(f"a change behind {words[0]} of a long value is told", pushes, [[to_bytes(words[1])]])
    cache.close()
    writer.close()


def evicted(steps, kind):
    """The eviction of a key by maxmemory is reported."""
    with Server(kind, {"maxmemory": "16mb", "maxmemory-policy": "allkeys-lru", "appendonly": "no"}) as server:
        cache, writer = server.connect(), server.connect()
        cache.node("HELLO", 3)
        cache.cmd("CLIENT", "TRACKING", "ON")
        writer.pipeline([("SET", f"e{i}", "x" * 100) for i in range(1000)])
        cache.pipeline([("GET", f"e{i}") for i in range(1000)])
        told = 0
        for start in range(0, 100_000, 500):
            writer.pipeline([("SET", f"f{start + i}", "y" * 200) for i in range(500)])
            if int(server.info()["evicted_keys"]) > 20_000:
                break
        # Nothing more is evicted between the look at the keys and the last push.
        writer.cmd("CONFIG", "SET", "maxmemory", 0)
        left = sum(node.value for node in writer.pipeline([("EXISTS", f"e{i}") for i in range(1000)]))
        cache.send_raw(encode([b"CLIENT", b"ID"]))
        while (node := cache.read_node()).kind == ord(">"):
            told += len(node.python()[1])
        steps.check("evicted keys are told", told == 1000 - left and told > 0, f"{told} told, {left} of 1000 left")
        cache.close()
        writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    args = parser.parse_args()
    steps = Steps("caches of clients")
    with Server(args.server, {"appendonly": "no"}) as ours, Server("redis", {"appendonly": "no"}) as theirs:
        differential(steps, ours, theirs, 1500 if args.quick else 20_000)
        bounded(steps, ours)
        long_values(steps, ours)
        steps.check("the server lives", ours.alive())
    count = 15_000 if args.quick else 100_000
    staleness(steps, args.server, {"appendonly": "no"}, count)
    for policy in ("always", "everysec"):
        staleness(steps, args.server, {"appendonly": "yes", "appendfsync": policy}, count)
    evicted(steps, args.server)
    steps.finish()


if __name__ == "__main__":
    main()
