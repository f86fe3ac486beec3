"""Plays a cell's script on both servers and reports the failures."""

import time

from differential import allowed
from harness.resp import Connection, encode

from . import hints
from .conditions import CONDITIONS
from .contexts import RESP3_ONLY, Answered, Leave, Send

#: Seconds within which a server answers, and after which a look that may be the machine's fault ends.
FIRST_LOOK_S, SECOND_LOOK_S = 1.0, 15.0
#: Seconds given to what is not expected to come.
NOTHING_S = 0.05
TOLERANCE_S, TOLERANCE_MS = 3, 3000
TOKEN = b"end-of-cell"
CLOSED = "closed"


class Hang(Exception):
    """No reply within the second waiting period."""


class Wire:
    """A connection that counts its requests and replies."""

    def __init__(self, port):
        self.connection = Connection(port, timeout_s=SECOND_LOOK_S)
        self.sent, self.heard, self.closed = 0, [], False
        self.tags = []

    def send(self, requests, tags):
        self.sent += len(requests)
        self.tags += tags
        try:
            self.connection.send_raw(b"".join(encode(request) for request in requests))
        except OSError:
            self.closed = True

    def hear(self, limit_s):
        """Reads one more reply; None if none arrives in time or the connection is closed."""
        if self.closed:
            return None
        self.connection.sock.settimeout(limit_s)
        try:
            node = self.connection.read_node()
        except TimeoutError:
            return None
        except OSError:
            self.closed = True
            return None
        self.heard.append(node)
        return node

    def hear_all(self, limit_s):
        """Reads as many replies as requests were sent; False if they do not arrive."""
        while len(self.heard) < self.sent:
            if self.hear(limit_s) is None:
                return self.closed
        return True

    def hear_token(self, limit_s):
        """Reads everything up to the token; False if it does not arrive."""
        while True:
            node = self.hear(limit_s)
            if node is None:
                return self.closed
            if node.value == TOKEN and node.kind == ord("$"):
                self.heard = self.heard[:-2]  # the token and RESET's reply
                return True

    def begin(self):
        self.sent, self.heard, self.tags = 0, [], []


class Side:
    """One server and its connections."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.wires, self.control = {}, None

    def wire(self, name):
        if name not in self.wires or self.wires[name].closed:
            self.wires[name] = Wire(self.server.port)
        return self.wires[name]

    def controller(self):
        if self.control is None:
            self.control = Connection(self.server.port, timeout_s=SECOND_LOOK_S)
        return self.control

    def close(self):
        for wire in self.wires.values():
            wire.connection.close()
        if self.control:
            self.control.close()
        self.wires, self.control = {}, None

    def drop(self, name):
        if name in self.wires:
            self.wires.pop(name).connection.close()

    def wait_until_gone(self):
        """Waits until the server has no clients except the open connections: others would show up in PUBSUB CHANNELS."""
        control, begun = self.controller(), time.monotonic()
        while len(control.cmd("CLIENT", "LIST").splitlines()) > len(self.wires) + 1:
            if time.monotonic() - begun > FIRST_LOOK_S:
                return  # said at the end of the life
            time.sleep(0.002)


def same(tag, ours, theirs):
    if ours.raw == theirs.raw or tag == hints.IGNORED:
        return True
    if tag == hints.EXACT:
        return False
    if tag == hints.UNORDERED:
        return ours.canonical() == theirs.canonical()
    if tag == hints.TIME:
        both = isinstance(ours.value, int) and isinstance(theirs.value, int) and min(ours.value, theirs.value) >= 0
        return both and abs(ours.value - theirs.value) <= (TOLERANCE_MS if theirs.value > 10**7 else TOLERANCE_S)
    # Loose: the same error, or no error on both sides.
    return not ours.is_error() and not theirs.is_error()


class Player:
    """Runs cells one after the other on `ours` and `theirs`."""

    def __init__(self, ours, theirs, reference_commands):
        self.ours, self.theirs = ours, theirs
        self.reference_commands = reference_commands
        self.slow_s = 0.0

    def sides(self, only):
        return [side for side in (self.theirs, self.ours) if only is None or side.name == only]

    def play(self, cell):
        """Returns the failures, as a list of sentences."""
        self.slow_s = 0.0
        self.cell = cell
        names = {"a", "b"}
        for side in (self.theirs, self.ours):
            for name in names:
                side.wire(name).begin()
        hello = [[b"SELECT", b"%d" % cell.databases[0]]] + ([[b"HELLO", b"3"]] if cell.resp == 3 else [])
        for side in (self.theirs, self.ours):
            for name in names:
                side.wire(name).send(hello, [hints.IGNORED] * len(hello))
        for side in (self.theirs, self.ours):
            for name in names:
                if not side.wire(name).hear_all(SECOND_LOOK_S):
                    raise Hang(f"{side.name}: SELECT is not answered")
                side.wire(name).begin()
        wrong = []
        for action in cell.script():
            if isinstance(action, Send):
                requests = [cell.words(words) for words, _ in action.requests]
                for side in self.sides(action.side):
                    side.wire(action.connection).send(requests, [tag for _, tag in action.requests])
            elif isinstance(action, Answered):
                self.answered(action)
            elif isinstance(action, Leave):
                wrong += self.leave(action)
        return wrong + self.end(names)

    def waited(self, begun):
        self.slow_s = max(self.slow_s, time.monotonic() - begun)

    def answered(self, action):
        """A missing reply of the reference is not our fault; a request that asks for silence may get it."""
        silent = self.cell.case.command == "CLIENT|REPLY" and action.side == "ours"
        for side in self.sides(action.side):
            wire = side.wire(action.connection)
            if side is self.theirs:
                silent = not self.is_heard(side, wire)
            elif silent or hints.may_wait(self.cell.case):
                wire.hear_all(NOTHING_S)
            else:
                begun = time.monotonic()
                if not wire.hear_all(SECOND_LOOK_S):
                    raise Hang(f"{wire.sent} requests, {len(wire.heard)} replies after {SECOND_LOOK_S:.0f} s")
                self.waited(begun)

    def is_heard(self, side, wire):
        """Whether all replies arrive. On a busy machine a moment without a reply may only mean a lack of CPU time: a later
        request on another connection is answered after it."""
        if wire.hear_all(NOTHING_S):
            return True
        if self.cell.case.tag == hints.STREAM:
            return False  # it would see what is asked
        for _ in range(2):
            side.controller().node("PING")
        return wire.hear_all(NOTHING_S)

    def leave(self, action):
        ids = self.ours.wire(action.connection)
        ids = next((node.value for node in ids.heard if isinstance(node.value, int)), None)
        for side in (self.theirs, self.ours):
            side.drop(action.connection)
        begun = time.monotonic()
        control = self.ours.controller()
        while control.cmd("CLIENT", "LIST", "ID", ids):
            if time.monotonic() - begun > SECOND_LOOK_S:
                return [f"a client that has left is still in CLIENT LIST after {SECOND_LOOK_S:.0f} s"]
            time.sleep(0.002)
        self.waited(begun)
        return []

    def end(self, names):
        """Sends RESET and a token on each connection; compares the replies before it."""
        closing = [[b"RESET"], [b"ECHO", TOKEN]]
        for side in (self.theirs, self.ours):
            for name in names & side.wires.keys():
                side.wires[name].send(closing, [])
        waits = hints.may_wait(self.cell.case)
        wrong = []
        for name in sorted(names & self.ours.wires.keys()):
            theirs, ours = self.theirs.wires[name], self.ours.wires[name]
            both_wait = not theirs.hear_token(NOTHING_S if waits else SECOND_LOOK_S)
            begun = time.monotonic()
            answered = ours.hear_token(NOTHING_S if waits or both_wait else SECOND_LOOK_S)
            if not answered and not waits and not both_wait:
                raise Hang(f"{ours.sent} requests, {len(ours.heard)} replies after {SECOND_LOOK_S:.0f} s")
            if not answered or both_wait:
                for side in (self.ours, self.theirs):
                    side.drop(name)
                    side.wait_until_gone()
                continue
            if not waits:
                self.waited(begun)
            wrong += self.compare(name, ours, theirs)
            if self.cell.case.command in hints.OUTLIVES_RESET:
                self.ours.drop(name)
                self.theirs.drop(name)
        return wrong

    def is_compared(self, cell):
        """Whether the reference has the command and supports the cell's context."""
        known = cell.case.command.lower() in self.reference_commands
        reads = cell.context != "snapshot" or cell.reads_keys()
        return known and reads and CONDITIONS[cell.condition].compared

    def compare(self, name, ours, theirs):
        if not self.is_compared(self.cell):
            return []
        if ours.closed != theirs.closed:
            return [f"connection {name}: {'closed' if ours.closed else 'open'}, the reference's is not"]
        mine, others = ours.heard, theirs.heard
        if self.cell.context in RESP3_ONLY:
            # A push is told from a reply: where it stands between replies and other pushes is not promised. Replies
            # stay in order, as their tags do.
            def pushes_last(node):
                return (True, node.raw) if node.kind == ord(">") else (False, b"")

            mine, others = sorted(mine, key=pushes_last), sorted(others, key=pushes_last)
        if self.cell.case.tag == hints.STREAM:
            return []
        ours_tags, their_tags = ours.tags, theirs.tags
        if len(mine) == len(ours_tags) and len(others) == len(their_tags):
            if len(mine) != len(others):
                # Requests to one side only.
                mine = [(node, tag) for node, tag in zip(mine, ours_tags) if tag != hints.IGNORED]
                others = [node for node, tag in zip(others, their_tags) if tag != hints.IGNORED]
                ours_tags, mine = [tag for _, tag in mine], [node for node, _ in mine]
            if len(mine) != len(others):
                return [f"connection {name}: {len(mine)} replies, the reference has {len(others)}"]
            return self.compare_pairs(name, mine, others, ours_tags)
        if len(mine) != len(others):
            mine_raw, others_raw = (b"".join(node.raw for node in nodes) for nodes in (mine, others))
            if allowed.is_allowed(self.cell.case.command, others_raw, mine_raw):
                return []
            return [f"connection {name}: {short(mine)}, the reference: {short(others)}"]
        # A request with several replies: which belongs to which is not known, so the loosest rule holds for all, and
        # as many replies may differ as there are requests whose replies are not compared.
        loose = any(tag in (hints.LOOSE, hints.IGNORED) for tag in ours_tags)
        wrong = self.compare_pairs(name, mine, others, [hints.LOOSE if loose else hints.UNORDERED] * len(mine))
        return wrong if len(wrong) > ours_tags.count(hints.IGNORED) else []

    def compare_pairs(self, name, mine, others, tags):
        queued, wrong = [], []
        for ours, theirs, tag in zip(mine, others, tags):
            if theirs.raw == b"+QUEUED\r\n":
                queued.append(tag)
            if ours.raw == theirs.raw:
                continue
            if theirs.items is not None and ours.items is not None and len(theirs.items) == len(ours.items) == len(queued) \
                    and tag == hints.EXACT:
                wrong += self.compare_pairs(name, ours.items, theirs.items, queued)
                continue
            if same(tag, ours, theirs) or allowed.is_allowed(self.cell.case.command, theirs.raw, ours.raw):
                continue
            if self.cell.context == "snapshot" and ours.raw.startswith(b"-SNAPSHOT"):
                continue
            wrong.append(f"connection {name}: {short([ours])}, the reference: {short([theirs])}")
        return wrong


def short(nodes, limit=160):
    text = b" ".join(node.raw for node in nodes)
    return f"{len(nodes)} replies {text[:limit]!r}{'...' if len(text) > limit else ''}" if len(nodes) != 1 else f"{text[:limit]!r}"
