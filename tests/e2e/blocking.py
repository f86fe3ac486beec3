"""Clients that wait for lists, sorted sets and streams: order, undoing, transactions, scripts, timeouts, kill -9.

python3 -m blocking [--against redis]: `--against` runs these expectations against redis-server, which must meet them too.
"""

import argparse
import threading
import time

from harness.resp import encode, to_bytes
from harness.server import Server
from harness.steps import Steps

OPTIONS = {"appendonly": "yes", "appendfsync": "always", "enable-debug-command": "yes"}


class Waiting:
    """A client that has sent a command and may wait."""

    def __init__(self, server, *words, resp3=False):
        self.connection = server.connect(timeout_s=20)
        if resp3:
            self.connection.cmd("HELLO", "3")
        self.id = self.connection.cmd("CLIENT", "ID")
        self.connection.send_raw(encode([to_bytes(word) for word in words]))

    def reply(self):
        return self.connection.read_node().raw

    def close(self):
        self.connection.close()


def blocked(other):
    info = other.cmd("INFO", "clients").decode()
    return int(next(line for line in info.splitlines() if line.startswith("blocked_clients:")).split(":")[1])


def until_blocked(other, count):
    end = time.monotonic() + 10
    while blocked(other) != count:
        if time.monotonic() > end:
            raise RuntimeError(f"{blocked(other)} blocked clients, not {count}")
        time.sleep(0.005)


def array(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


NOTHING = b"*-1\r\n"


def order(steps, server, other):
    """The client that waited first is served first, whatever else it waits for."""
    first = Waiting(server, "BLPOP", "a", "q", "0")
    until_blocked(other, 1)
    second = Waiting(server, "BRPOP", "q", "0")
    until_blocked(other, 2)
    third = Waiting(server, "BLMPOP", "0", "2", "z", "q", "LEFT", "COUNT", "2")
    until_blocked(other, 3)
    length = other.cmd("RPUSH", "q", "1", "2", "3", "4", "5")
    got = [waiting.reply() for waiting in (first, second, third)]
    wanted = [array(b"q", b"1"), array(b"q", b"5"), b"*2\r\n$1\r\nq\r\n" + array(b"2", b"3")]
    steps.check("who came first is served first", got == wanted and length == 5, got)
    steps.check("what is left is what nobody took", other.cmd("LRANGE", "q", "0", "-1") == [b"4"])
    steps.check("nobody waits any more", blocked(other) == 0)
    other.cmd("DEL", "q")


def sorted_sets(steps, server, other):
    low = Waiting(server, "BZPOPMIN", "z", "0", resp3=True)
    until_blocked(other, 1)
    high = Waiting(server, "BZPOPMAX", "y", "z", "0")
    until_blocked(other, 2)
    other.cmd("ZADD", "z", "1.5", "a", "2", "b", "3", "c")
    steps.check("lowest score, RESP3", low.reply() == b"*3\r\n$1\r\nz\r\n$1\r\na\r\n,1.5\r\n")
    steps.check("highest score", high.reply() == array(b"z", b"c", b"3"))
    several = Waiting(server, "BZMPOP", "0", "1", "w", "MAX", "COUNT", "5")
    until_blocked(other, 1)
    other.cmd("ZADD", "w", "1", "a", "2", "b")
    steps.check("several members", several.reply().startswith(b"*2\r\n$1\r\nw\r\n*2\r\n*2\r\n$1\r\nb"))
    other.cmd("DEL", "z", "w")
    for words in (["ZINCRBY", "z", "1", "a"], ["ZUNIONSTORE", "z", "1", "keep"], ["ZRANGESTORE", "z", "keep", "0", "-1"],
                  ["GEOADD", "z", "0", "0", "a"], ["RENAME", "keep", "z"]):
        other.cmd("ZADD", "keep", "1", "a")
        waiting = Waiting(server, "BZPOPMIN", "z", "0")
        until_blocked(other, 1)
        other.cmd(*words)
        steps.check(f"{words[0]} serves", waiting.reply().startswith(b"*3\r\n$1\r\nz\r\n$1\r\na\r\n") and other.cmd("EXISTS", "z") == 0)
        other.cmd("DEL", "keep")


def streams(steps, server, other):
    """All readers receive an entry, but only one consumer of a group; deleting a group or stream ends the wait."""
    entry = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n%s\r\n" + array(b"f", b"v")
    readers = [Waiting(server, "XREAD", "BLOCK", "0", "STREAMS", "s", "$") for _ in range(2)]
    until_blocked(other, 2)
    other.cmd("XADD", "s", "1-1", "f", "v")
    steps.check("all readers hear of an entry", [reader.reply() for reader in readers] == [entry % b"1-1"] * 2)
    other.cmd("XGROUP", "CREATE", "s", "g", "$")
    group = ["XREADGROUP", "GROUP", "g", "one", "BLOCK", "0", "STREAMS", "s", ">"]
    first = Waiting(server, *group)
    until_blocked(other, 1)
    second = Waiting(server, *group)
    until_blocked(other, 2)
    other.cmd("XADD", "s", "1-2", "f", "v")
    steps.check("who came first of a group gets it", first.reply() == entry % b"1-2" and blocked(other) == 1)
    other.cmd("XADD", "s", "1-3", "f", "v")
    steps.check("and the next one the next", second.reply() == entry % b"1-3")
    steps.check("both are pending", other.cmd("XPENDING", "s", "g")[0] == 2)
    waiting = Waiting(server, *group)
    until_blocked(other, 1)
    other.cmd("XGROUP", "DESTROY", "s", "g")
    error = waiting.reply()
    steps.check("a group that goes ends the wait", error.startswith(b"-NOGROUP"), error)
    for words in (["DEL", "s"], ["SET", "s", "x"], ["RENAME", "s", "elsewhere"], ["PEXPIRE", "s", "1"]):
        other.cmd("DEL", "s", "elsewhere")
        other.cmd("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        waiting = Waiting(server, *group)
        until_blocked(other, 1)
        other.cmd(*words)
        error = waiting.reply()
        steps.check(f"{words[0]} of a stream ends the wait", error.startswith((b"-UNBLOCKED", b"-WRONGTYPE")), error)
    other.cmd("DEL", "s", "elsewhere")
    in_vain = Waiting(server, "XREAD", "BLOCK", "20", "STREAMS", "s", "0")
    steps.check("a reader's time passes", in_vain.reply() == NOTHING)


def transactions(steps, server, other):
    """Waiters see only the final state of a transaction."""
    waiting = Waiting(server, "BLPOP", "q", "0")
    until_blocked(other, 1)
    for words in (["MULTI"], ["LPUSH", "q", "gone"], ["DEL", "q"], ["LPUSH", "q", "a"], ["LPUSH", "q", "b"], ["LLEN", "q"]):
        other.cmd(*words)
    replies = other.cmd("EXEC")
    steps.check("a transaction sees its own list", replies == [1, 1, 1, 2, 2], replies)
    steps.check("the waiter has what it has left", waiting.reply() == array(b"q", b"b"))
    steps.check("and no more", other.cmd("LRANGE", "q", "0", "-1") == [b"a"])
    other.cmd("DEL", "q")
    other.cmd("MULTI")
    other.cmd("BLPOP", "q", "0")
    other.cmd("BZPOPMIN", "q", "0")
    steps.check("nothing waits in a transaction", other.cmd("EXEC") == [None, None])
    error = Waiting(server, "EVAL", "return redis.call('blpop', KEYS[1], 0)", "1", "q").reply()
    steps.check("nor in a script, where they are refused", b"not allowed from script" in error, error)
    waiting = Waiting(server, "BRPOP", "q", "0")
    until_blocked(other, 1)
    other.cmd("EVAL", "redis.call('rpush', KEYS[1], 1, 2); return redis.call('llen', KEYS[1])", "1", "q")
    steps.check("a script serves at its end", waiting.reply() == array(b"q", b"2"))
    other.cmd("DEL", "q")


def arrivals(steps, server, other):
    """Keys that are created by commands other than pushes."""
    other.cmd("RPUSH", "src", "1", "2")
    for words in (["RENAME", "src", "q"], ["COPY", "keep", "q"], ["SORT", "keep", "STORE", "q"], ["RESTORE", "q", "0", None]):
        other.cmd("DEL", "keep")
        other.cmd("RPUSH", "keep", "1", "2")
        dump = other.cmd("DUMP", "keep")
        waiting = Waiting(server, "BLPOP", "q", "0")
        until_blocked(other, 1)
        other.cmd(*[dump if word is None else word for word in words])
        steps.check(f"{words[0]} serves", waiting.reply() == array(b"q", b"1"))
        other.cmd("DEL", "q", "src", "keep")
    other.cmd("SELECT", "9")
    other.cmd("RPUSH", "q", "there")
    other.cmd("SELECT", "0")
    waiting = Waiting(server, "BLPOP", "q", "0")
    until_blocked(other, 1)
    other.cmd("SWAPDB", "0", "9")
    steps.check("SWAPDB serves", waiting.reply() == array(b"q", b"there"))
    waiting = Waiting(server, "BLPOP", "q", "0")
    until_blocked(other, 1)
    other.cmd("SET", "q", "string")
    other.cmd("DEL", "q")
    steps.check("a key of another type leaves it waiting", blocked(other) == 1)
    other.cmd("RPUSH", "q", "x")
    steps.check("until a list comes", waiting.reply() == array(b"q", b"x"))


def moves(steps, server, other):
    """BLMOVE wakes and moves by itself; the element it moves serves further waiters."""
    last = Waiting(server, "BLPOP", "end", "0")
    until_blocked(other, 1)
    mover = Waiting(server, "BLMOVE", "begin", "end", "LEFT", "RIGHT", "0")
    until_blocked(other, 2)
    flags = [line for line in other.cmd("CLIENT", "LIST").decode().splitlines() if f"id={mover.id} " in line]
    steps.check("CLIENT LIST shows that it waits", " flags=b " in flags[0], flags[0])
    other.cmd("RPUSH", "begin", "x", "y")
    steps.check("BLMOVE moves", mover.reply() == b"$1\r\nx\r\n")
    steps.check("and serves who waits at its end", last.reply() == array(b"end", b"x"))
    steps.check("one element alone", other.cmd("LRANGE", "begin", "0", "-1") == [b"y"] and other.cmd("EXISTS", "end") == 0)
    other.cmd("DEL", "begin")
    other.cmd("SET", "end", "no list")
    refused = Waiting(server, "BRPOPLPUSH", "begin", "end", "0")
    until_blocked(other, 1)
    following = [Waiting(server, *words) for words in (["BLMOVE", "begin", "other", "LEFT", "LEFT", "0"], ["BLPOP", "begin", "0"])]
    until_blocked(other, 3)
    other.cmd("RPUSH", "begin", "x", "y")
    replies = [waiting.reply() for waiting in (refused, *following)]
    steps.check("what one cannot take is for the next", replies[0].startswith(b"-WRONGTYPE") and
                sorted(replies[1:]) in ([b"$1\r\nx\r\n", array(b"begin", b"y")], [b"$1\r\ny\r\n", array(b"begin", b"x")]), replies)
    other.cmd("DEL", "end", "other")
    old = Waiting(server, "BRPOPLPUSH", "begin", "end", "0.05")
    steps.check("BRPOPLPUSH in vain", old.reply() == NOTHING)


def endings(steps, server, other):
    begun = time.monotonic()
    waiting = Waiting(server, "BLPOP", "q", "0.2")
    steps.check("the time passes", waiting.reply() == NOTHING and 0.15 < time.monotonic() - begun < 5)
    for how, wanted in (([], NOTHING), (["ERROR"], b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")):
        waiting = Waiting(server, "BLPOP", "q", "0")
        until_blocked(other, 1)
        answer = other.cmd("CLIENT", "UNBLOCK", str(waiting.id), *how)
        steps.check(f"CLIENT UNBLOCK {' '.join(how)}", answer == 1 and waiting.reply() == wanted)
    steps.check("who does not wait is not unblocked", other.cmd("CLIENT", "UNBLOCK", str(waiting.id)) == 0)
    waiting = Waiting(server, "BLPOP", "q", "0")
    until_blocked(other, 1)
    waiting.close()
    until_blocked(other, 0)
    other.cmd("RPUSH", "q", "kept")
    steps.check("a client that has left takes nothing", other.cmd("LRANGE", "q", "0", "-1") == [b"kept"])
    other.cmd("DEL", "q")
    pipelined = Waiting(server, "BLPOP", "q", "0")
    until_blocked(other, 1)
    pipelined.connection.send_raw(encode([b"ECHO", b"behind"]))
    other.cmd("RPUSH", "q", "1")
    replies = [pipelined.reply(), pipelined.reply()]
    steps.check("requests behind it wait with it", replies == [array(b"q", b"1"), b"$6\r\nbehind\r\n"], replies)
    for words, text in (
        (["BLPOP", "q", "abc"], "timeout is not a float or out of range"),
        (["BLPOP", "q", "-1"], "timeout is negative"),
        (["BLMPOP", "0", "0", "q", "LEFT"], "numkeys should be greater than 0"),
        (["BLMPOP", "0", "1", "q", "LEFT", "COUNT", "0"], "count should be greater than 0"),
        (["BLMPOP", "0", "1", "q", "MIDDLE"], "syntax error"),
    ):
        seen = Waiting(server, *words).reply()
        steps.check(f"{' '.join(words)}: {text}", seen == b"-ERR " + text.encode() + b"\r\n", seen)


def crowd(steps, server, other, clients=8, pushes=20_000):
    """Under full concurrency no element is lost or delivered twice."""
    got, lock = [], threading.Lock()

    def work():
        connection, mine = server.connect(timeout_s=60), []
        while True:
            _, element = connection.cmd("BLPOP", "crowd", "other", "0")
            if element == b"end":
                break
            mine.append(element)
        with lock:
            got.extend(mine)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for number in range(pushes):
        other.cmd("RPUSH", "crowd" if number % 3 else "other", str(number))
    for _ in threads:
        other.cmd("RPUSH", "crowd", "end")
    for thread in threads:
        thread.join(60)
    right = sorted(map(int, got)) == list(range(pushes))
    steps.check(f"{pushes} elements, each to one of {clients}", right, f"{len(got)} came, {len(set(got))} different")


def killed(steps, server):
    """After kill -9, delivered elements stay removed, and elements pushed without a waiter are present."""
    other = server.connect()
    waiting = Waiting(server, "BLPOP", "k", "0")
    until_blocked(other, 1)
    other.cmd("RPUSH", "k", "1", "2")
    answer = waiting.reply()
    server.kill()
    server.start()
    rest = server.connect().cmd("LRANGE", "k", "0", "-1")
    steps.check("kill -9: taken stays taken", answer == array(b"k", b"1") and rest == [b"2"], (answer, rest))


def main():
    parser = argparse.ArgumentParser(prog="blocking", description=__doc__)
    parser.add_argument("--against", default="sexton")
    arguments = parser.parse_args()
    steps = Steps("commands that wait")
    with Server(arguments.against, OPTIONS) as server:
        other = server.connect(timeout_s=30)
        for part in (order, sorted_sets, streams, transactions, moves, arrivals, endings, crowd):
            part(steps, server, other)
        killed(steps, server)
    steps.finish()


if __name__ == "__main__":
    main()
