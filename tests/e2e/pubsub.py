"""python3 -m pubsub [--server sexton]: channels, patterns and key-space events, compared with redis-server 7.0.15.

Both servers run common scripts with a publisher and listeners under RESP2 and RESP3; the output of each
listener must be equal byte by byte, including key-space events of random commands.
"""

import argparse
import random
import time

from harness.resp import encode, to_bytes
from harness.server import Server
from harness.steps import Steps

#: What one connection sends and what comes back; the replies must be equal.
SCRIPT = [
    ("PUBSUB", "CHANNELS"), ("PUBSUB", "NUMSUB", "a", "b"), ("PUBSUB", "NUMPAT"), ("PUBSUB", "NOSUCH"),
    ("PUBSUB", "CHANNELS", "a", "b"), ("PUBSUB", "NUMPAT", "x"), ("PUBSUB", "SHARDCHANNELS"),
    ("PUBSUB", "SHARDNUMSUB", "a"), ("PUBLISH", "a", "1"), ("SPUBLISH", "a", "1"), ("PUBLISH", "a"),
    ("UNSUBSCRIBE",), ("PUNSUBSCRIBE", "x"), ("SUNSUBSCRIBE",), ("SUBSCRIBE",),
    ("SUBSCRIBE", "a"), ("SUBSCRIBE", "a"), ("PSUBSCRIBE", "a*"), ("SSUBSCRIBE", "s"),
    ("PING",), ("PING", "x"), ("GET", "k"), ("CLIENT", "LIST"), ("NOSUCH",), ("MULTI",), ("PUBLISH", "zz", "1"),
    ("UNSUBSCRIBE", "a"), ("UNSUBSCRIBE", "a"), ("UNSUBSCRIBE",), ("PUNSUBSCRIBE",), ("GET", "k"), ("SUNSUBSCRIBE", "s"),
    ("GET", "k"), ("PING",), ("MULTI",), ("SUBSCRIBE", "m"), ("PUBLISH", "other", "1"), ("EXEC",), ("PING",), ("RESET",), ("PING",),
    ("SUBSCRIBE", "a"), ("QUIT",),
]


def received(server, resp3, script):
    """All bytes that one connection gets for a script sent at once, up to the closing by QUIT."""
    connection = server.connect()
    if resp3:
        connection.node("HELLO", 3)
    connection.send_raw(b"".join(encode([to_bytes(w) for w in words]) for words in script))
    data = b""
    while chunk := connection.sock.recv(1 << 16):
        data += chunk
    connection.close()
    return data


class Side:
    """A server with a publisher and three listeners."""

    def __init__(self, server):
        self.publisher = server.connect()
        self.listeners = [server.connect() for _ in range(3)]
        self.listeners[1].node("HELLO", 3)

    def subscribe(self, at, *words):
        self.listeners[at].send_raw(encode([to_bytes(w) for w in words]))
        return [self.listeners[at].read_node().raw for _ in words[1:]]

    def messages(self, at):
        """The output of a listener up to a PING of its own, which follows all of it."""
        listener = self.listeners[at]
        # The publisher's replies were read, so its messages are on their way; the mark is one of them.
        self.publisher.cmd("PUBLISH", "mark", "end")
        got = []
        while True:
            raw = listener.read_node().raw
            if b"\r\nend\r\n" in raw:
                return got
            got.append(raw)

    def close(self):
        for connection in [self.publisher, *self.listeners]:
            connection.close()


def channels(steps, ours, theirs):
    sides = [Side(server) for server in (ours, theirs)]
    confirmed = [[side.subscribe(0, "SUBSCRIBE", "mark", "a", "b"), side.subscribe(1, "PSUBSCRIBE", "mark", "a*", "*"),
                  side.subscribe(2, "SUBSCRIBE", "mark", "a"), side.subscribe(2, "PSUBSCRIBE", "[ab]")] for side in sides]
    steps.equal("confirmations", *confirmed)
    for side in sides:
        side.counts = side.publisher.pipeline(
            [("PUBLISH", "a", f"m{i}") for i in range(50)] + [("PUBLISH", "nobody", "x"), ("PUBLISH", "b", "\r\n$3"), ("PUBLISH", "abc", "")]
            + [("PUBSUB", "NUMSUB", "a", "b", "c"), ("PUBSUB", "NUMPAT"), ("PUBSUB", "CHANNELS", "[ab]")])
    # The order of CHANNELS follows a hash table in Redis.
    steps.equal("receivers are counted", *[[node.canonical() for node in side.counts] for side in sides])
    for at, name in enumerate(["channels, RESP2", "patterns, RESP3", "both"]):
        got = [side.messages(at) for side in sides]
        # Which of several patterns comes first follows a hash table too.
        steps.equal(f"messages: {name}", *[sorted(messages) for messages in got])
        steps.check(f"there are some: {name}", len(got[0]) > 50)
    own = [side.publisher.cmd("CLIENT", "LIST", "TYPE", "pubsub").decode() for side in sides]
    fields = [sorted(word for word in text.split() if word.startswith(("flags=", "sub=", "psub="))) for text in own]
    steps.equal("CLIENT LIST TYPE pubsub", *fields)
    stats = [{k: v for k, v in server.info().items() if k.startswith("pubsub")} for server in (ours, theirs)]
    steps.equal("INFO", *stats)
    killed = [side.publisher.cmd("CLIENT", "KILL", "TYPE", "pubsub") for side in sides]
    steps.equal("CLIENT KILL TYPE pubsub", *killed)
    for side in sides:
        side.close()
    for server in (ours, theirs):
        asking, deadline = server.connect(), time.monotonic() + 10
        while asking.cmd("PUBSUB", "NUMPAT") and time.monotonic() < deadline:
            pass
        steps.equal(f"{server.kind.split('/')[-1]}: nothing is left of the closed ones",
                    (asking.cmd("PUBSUB", "NUMPAT"), asking.cmd("PUBSUB", "CHANNELS")), (0, []))
        asking.close()


def event_commands(rng, payload):
    key = lambda: rng.choice([b"k1", b"k2", b"k3", b"k4"])  # noqa: E731
    return rng.choice([
        lambda: [b"SET", key(), b"%d" % rng.randrange(100)],
        lambda: [b"SET", key(), b"v", b"EXAT", b"4102444700"],
        lambda: [b"SET", key(), b"v", rng.choice([b"NX", b"XX"])],
        lambda: [b"SET", key(), b"v", b"GET"],
        lambda: [b"SET", key(), b"v", b"KEEPTTL"],
        lambda: [b"SETNX", key(), b"v"],
        lambda: [b"GETSET", key(), b"7"],
        lambda: [b"GETDEL", key()],
        lambda: [b"GETEX", key(), b"EXAT", b"4102444900"],
        lambda: [b"GETEX", key(), b"PERSIST"],
        lambda: [b"GETEX", key(), b"PXAT", b"1"],
        lambda: [b"GET", key()],
        lambda: [b"MGET", key(), key()],
        lambda: [b"MSET", key(), b"1", key(), b"2"],
        lambda: [b"MSETNX", key(), b"1", key(), b"2"],
        lambda: [b"APPEND", key(), b"1"],
        lambda: [b"SETRANGE", key(), b"1", b"x"],
        lambda: [b"SETRANGE", key(), b"1", b""],
        lambda: [b"INCR", key()],
        lambda: [b"DECRBY", key(), b"3"],
        lambda: [b"INCRBYFLOAT", key(), b"1.5"],
        lambda: [b"DEL", key(), key()],
        lambda: [b"UNLINK", key()],
        lambda: [b"EXPIREAT", key(), b"4102444800"],
        lambda: [b"EXPIRE", key(), b"-1"],
        lambda: [b"PEXPIREAT", key(), b"4102444800000", rng.choice([b"NX", b"XX", b"GT", b"LT"])],
        lambda: [b"PERSIST", key()],
        lambda: [b"RENAME", key(), key()],
        lambda: [b"RENAMENX", key(), key()],
        lambda: [b"COPY", key(), key()],
        lambda: [b"COPY", key(), key(), b"DB", b"1", b"REPLACE"],
        lambda: [b"MOVE", key(), b"1"],
        lambda: [b"RESTORE", key(), b"0", payload, b"REPLACE"],
        lambda: [b"RESTORE", key(), b"1", payload, b"REPLACE", b"ABSTTL"],
        lambda: [b"TOUCH", key()],
        lambda: [b"EXPIRETIME", key()],
        lambda: [b"EXISTS", key()],
        lambda: [b"TTL", b"k9"],
        lambda: [b"SETEX", b"k8", b"100", b"v"],
        lambda: [b"PSETEX", b"k8", b"100000", b"v"],
        lambda: [b"EXPIRE", b"k8", b"200"],
        lambda: [b"STRLEN", key()],
        lambda: [b"TYPE", key()],
        lambda: [b"SORT", key(), b"STORE", key()],
        lambda: [b"RPUSH", b"l1", b"3", b"1"],
        lambda: [b"SORT", b"l1", b"STORE", key()],
        lambda: [b"SADD", b"s1", b"a", b"b"],
        lambda: [b"SUNIONSTORE", key(), b"s1"],
        lambda: [b"SINTERSTORE", key(), b"s1", rng.choice([b"s1", b"none"])],
        lambda: [b"ZADD", b"z1", b"1", b"a"],
        lambda: [b"ZUNIONSTORE", key(), b"1", b"z1"],
        lambda: [b"ZRANGESTORE", key(), b"z1", b"0", b"-1"],
        lambda: [b"GEOADD", b"g1", b"1", b"1", b"m"],
        lambda: [b"GEOSEARCHSTORE", key(), b"g1", b"FROMLONLAT", b"1", b"1", b"BYRADIUS", b"1", b"km"],
        lambda: [b"GEORADIUS", b"g1", b"1", b"1", b"1", b"km", b"STORE", key()],
        lambda: [b"BITOP", b"NOT", key(), key()],
        lambda: [b"OBJECT", b"ENCODING", key()],
        lambda: [b"XADD", b"x1", b"1-%d" % rng.randrange(1, 9), b"f", b"v"],
        lambda: [b"XACK", rng.choice([b"x1", b"x2"]), b"g", b"1-1"],
        lambda: [b"XCLAIM", rng.choice([b"x1", b"x2"]), b"g", b"c", b"0", b"1-1"],
        lambda: [b"FLUSHDB"],
    ])()


def events(steps, ours, theirs, commands=3000):
    sides = [Side(server) for server in (ours, theirs)]
    payloads = []
    for side in sides:
        side.publisher.cmd("FLUSHALL")
        side.publisher.cmd("SET", "x", "hello")
        payloads.append(side.publisher.cmd("DUMP", "x"))
        side.subscribe(0, "PSUBSCRIBE", "__key*", "mark")
    for letters in ("KEA", "KEAnm", "Kg", "E$x", "Em", "Kn", "gx", "K", ""):
        rng = random.Random(letters)
        script = []
        for _ in range(commands // 10 if len(letters) < 3 else commands):
            words = event_commands(rng, payloads[1])
            in_multi = rng.random() < 0.05
            script += [[b"MULTI"], words, event_commands(rng, payloads[1]), [b"EXEC"]] if in_multi else [words]
        for side in sides:
            side.publisher.cmd("FLUSHALL")
            side.publisher.cmd("CONFIG", "SET", "notify-keyspace-events", letters)
            side.replies = [node.raw for node in side.publisher.pipeline(script)]
            side.got = side.messages(0)
            side.shown = side.publisher.cmd("CONFIG", "GET", "notify-keyspace-events")
        same = sides[0].got == sides[1].got
        at = next((i for i, (a, b) in enumerate(zip(sides[0].got, sides[1].got)) if a != b), -1)
        steps.check(f"events {letters!r}", same, f"{len(sides[0].got)} messages" if same else
                    f"{len(sides[0].got)} and {len(sides[1].got)} of redis; first difference at {at}: {sides[0].got[max(at - 2, 0):at + 2]} {sides[1].got[max(at - 2, 0):at + 2]}")
        steps.equal(f"CONFIG GET {letters!r}", sides[0].shown, sides[1].shown)
        replies_differ = [(w, a, b) for w, a, b in zip(script, sides[0].replies, sides[1].replies) if a != b]
        steps.check(f"replies under {letters!r}", not replies_differ, str(replies_differ[:2]) if replies_differ else "")
    for side in sides:
        side.publisher.cmd("CONFIG", "SET", "notify-keyspace-events", "Ex")
        side.publisher.cmd("SET", "short", "v", "PX", 30)
        side.event = side.listeners[0].read_node().raw
    steps.equal("a key that expires by itself", sides[0].event, sides[1].event)
    for side in sides:
        side.publisher.cmd("CONFIG", "SET", "notify-keyspace-events", "")
        side.close()


def greedy_publisher(steps, server):
    """A listener that does not read is disconnected at its limit; others receive everything."""
    side = Side(server)
    side.publisher.cmd("CONFIG", "SET", "client-output-buffer-limit", "pubsub 4mb 0 0")
    side.subscribe(0, "SUBSCRIBE", "bulk")
    side.subscribe(1, "SUBSCRIBE", "bulk", "mark")
    message, sent = b"x" * 10_000, 0
    while side.publisher.cmd("PUBLISH", "bulk", message) == 2 and sent < 10_000:
        sent += 1
        side.listeners[1].read_node()
    steps.check("a listener that does not read is closed", sent < 10_000, f"after {sent} messages of 10 KB")
    side.listeners[1].read_node()
    steps.equal("the other one goes on", side.publisher.cmd("PUBLISH", "bulk", "still here"), 1)
    steps.check("and gets it", b"still here" in side.listeners[1].read_node().raw)
    side.close()


def always(steps, kind):
    """Under appendfsync always messages about writes come when these are durable; all of them come."""
    with Server(kind, {"appendfsync": "always", "notify-keyspace-events": "Es"}) as server:
        side = Side(server)
        side.publisher.cmd("CONFIG", "SET", "notify-keyspace-events", "E$")
        side.subscribe(0, "PSUBSCRIBE", "__key*", "mark")
        side.publisher.pipeline([("SET", f"k{i}", "v") for i in range(2000)])
        got = side.messages(0)
        wanted = [b"*4\r\n$8\r\npmessage\r\n$6\r\n__key*\r\n$18\r\n__keyevent@0__:set\r\n$%d\r\nk%d\r\n" % (len(f"k{i}"), i) for i in range(2000)]
        steps.check("appendfsync always: every event, in order", got == wanted, f"{len(got)} of 2000")
        side.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    args = parser.parse_args()
    steps = Steps("publish and subscribe")
    with Server(args.server) as ours, Server("redis", {"appendonly": "no"}) as theirs:
        for resp3 in (False, True):
            script = [words for words in SCRIPT if not resp3 or words[0] != "CLIENT"]
            got, expected = (received(server, resp3, script) for server in (ours, theirs))
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
            steps.check(f"one connection, RESP{3 if resp3 else 2}", got == expected,
                        "" if got == expected else f"got {got[max(0, at - 60):at + 60]!r}, redis {expected[max(0, at - 60):at + 60]!r}")
        channels(steps, ours, theirs)
        events(steps, ours, theirs)
        greedy_publisher(steps, ours)
        steps.check("the server lives", ours.alive())
    always(steps, args.server)
    steps.finish()


if __name__ == "__main__":
    main()
