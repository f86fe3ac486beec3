"""Runs one episode on both servers and finds the first reply that differs."""

import time

from harness.resp import ProtocolError, encode

from . import allowed
from .compare import Skew, TransactionTags
from .grammar import KEYS
from .step import Step


class Mismatch:
    """Where and how the servers disagreed."""

    def __init__(self, index, step, ours, theirs):
        self.index = index
        self.step = step
        self.ours = ours
        self.theirs = theirs

    def signature(self):
        """Two mismatches with the same signature are most likely one bug."""
        return (self.step.name(), self.theirs[:28], self.ours[:28])


class Side:
    """Three connections to one server."""

    def __init__(self, server, resp3):
        self.server = server
        self.resp3 = resp3
        self.connections = []

    def reset(self):
        self.close()
        self.connections = [self.server.connect(timeout_s=20) for _ in range(3)]
        self.connections[0].cmd("FLUSHALL")
        for connection in self.connections:
            if self.resp3:
                connection.cmd("HELLO", "3")

    def close(self):
        for connection in self.connections:
            connection.close()
        self.connections = []

    def run(self, conn, requests):
        """Replies as nodes; a dead connection gives None for the rest."""
        replies = []
        connection = self.connections[conn]
        try:
            connection.send_raw(b"".join(encode(r) for r in requests))
            for _ in requests:
                replies.append(connection.read_node())
        except (OSError, ProtocolError) as error:
            replies += [error] * (len(requests) - len(replies))
        return replies

    def scan_all(self, conn, args):
        """The set of keys or elements a full iteration returns, or the first reply that is no page."""
        seen, cursor = set(), b"0"
        at = 1 if args[0].upper() == b"SCAN" else 2
        for _ in range(10_000):
            reply = self.run(conn, [[*args[:at], cursor, *args[at + 1 :]]])[0]
            if isinstance(reply, Exception) or reply.items is None:
                return reply
            cursor = reply.items[0].value
            seen.update(item.value for item in reply.items[1].items)
            if cursor == b"0":
                return seen
        return RuntimeError("SCAN does not end")


def raw(reply):
    if isinstance(reply, set):
        return repr(sorted(reply)).encode()
    if isinstance(reply, Exception):
        return f"<{type(reply).__name__}: {reply}>".encode()
    return reply.raw


def run(steps, ours, theirs, used):
    """Runs `steps` on both sides. Returns the first Mismatch or None; `used` counts allowed ids."""
    ours.reset()
    theirs.reset()
    skew = Skew()
    tags = [TransactionTags(skew) for _ in range(3)]
    position = 0
    while position < len(steps):
        first = steps[position]
        if first.kind == "wait":
            time.sleep(first.args[0] / 1000)
            position += 1
            continue
        if first.kind == "scan":
            a, b = ours.scan_all(first.conn, first.args), theirs.scan_all(first.conn, first.args)
            if raw(a) != raw(b):
                name = allowed.is_allowed("SCAN", raw(b), raw(a))
                if not name:
                    return Mismatch(position, first, raw(a), raw(b))
                used[name] = used.get(name, 0) + 1
            position += 1
            continue
        end = position
        while (end < len(steps) and steps[end].kind == "cmd" and steps[end].conn == first.conn
               and steps[end].batch == first.batch):
            end += 1
        batch = steps[position:end]
        requests = [step.args for step in batch]
        with skew.sending():
            our_replies = ours.run(first.conn, requests)
            their_replies = theirs.run(first.conn, requests)
        for offset, (step, a, b) in enumerate(zip(batch, our_replies, their_replies)):
            equal = raw(a) == raw(b) if isinstance(a, Exception) or isinstance(b, Exception) \
                else tags[first.conn].same(step, a, b)
            if equal:
                continue
            name = allowed.is_allowed(step.name(), raw(b), raw(a))
            if not name:
                return Mismatch(position + offset, step, raw(a), raw(b))
            used[name] = used.get(name, 0) + 1
        position = end
    return final_state(steps, ours, theirs)


def final_state(steps, ours, theirs):
    """After the last step both must hold equal keys and values in every database used."""
    for connections in (ours, theirs):
        connections.run(0, [[b"RESET"]])
    for database in (0, 1, 2, 15):
        requests = [[b"SELECT", b"%d" % database]]
        for key in KEYS:
            requests += [[b"GET", key], [b"EXISTS", key], [b"DEBUG", b"DIGEST-VALUE", key]]
        requests += [[b"DBSIZE"]]
        a, b = ours.run(0, requests), theirs.run(0, requests)
        for request, x, y in zip(requests, a, b):
            if raw(x) != raw(y):
                return Mismatch(len(steps), Step([b"final-state", b"db%d" % database, *request]), raw(x), raw(y))
    return None


def shrink(steps, fails, limit=150):
    """Delta debugging: removes ever smaller pieces as long as the mismatch stays."""
    size, tries = max(1, len(steps) // 2), 0
    while True:
        position, removed = 0, False
        while position < len(steps) and tries < limit:
            candidate = steps[:position] + steps[position + size :]
            tries += 1
            if candidate and fails(candidate):
                steps, removed = candidate, True
            else:
                position += size
        if tries >= limit or (size == 1 and not removed):
            return steps
        size = max(1, size // 2)
