"""RESP2/RESP3 codec that keeps the raw bytes of every reply.

The tests compare what a server really sent, so the decoder returns the exact bytes beside
the decoded value. Client libraries hide both the bytes and most protocol mistakes.
"""

import socket


def encode(args):
    """One request as an array of bulk strings; `args` are bytes."""
    out = [b"*%d\r\n" % len(args)]
    for arg in args:
        out.append(b"$%d\r\n%b\r\n" % (len(arg), arg))
    return b"".join(out)


def to_bytes(arg):
    """str, int and bytes arguments as bytes."""
    if isinstance(arg, bytes):
        return arg
    return str(arg).encode()


def encode_all(requests):
    """Requests whose arguments may be str and int, too."""
    return b"".join(encode([to_bytes(arg) for arg in request]) for request in requests)


class ProtocolError(Exception):
    """The server sent bytes that are not RESP."""


class Node:
    """One decoded reply: `kind` is the type byte, `raw` the exact bytes, `items` the elements of
    an aggregate (maps flattened to key, value, key, value), `value` the payload of a scalar."""

    __slots__ = ("kind", "raw", "value", "items")

    def __init__(self, kind, raw, value, items=None):
        self.kind = kind
        self.raw = raw
        self.value = value
        self.items = items

    def is_error(self):
        return self.kind in b"-!"

    def python(self):
        """Plain Python value: bytes, int, list or None; errors as `ReplyError`."""
        if self.items is not None:
            return [item.python() for item in self.items]
        if self.is_error():
            return ReplyError(self.value)
        return self.value

    def canonical(self):
        """The reply with aggregates sorted at every depth: equal for replies that differ only in
        the order of their elements."""
        if self.items is None:
            return (self.kind, self.raw)
        if self.kind == ord("%"):
            pairs = [
                (self.items[i].canonical(), self.items[i + 1].canonical())
                for i in range(0, len(self.items), 2)
            ]
            return (self.kind, tuple(sorted(pairs, key=repr)))
        return (self.kind, tuple(sorted((i.canonical() for i in self.items), key=repr)))


class ReplyError(Exception):
    """An error reply as a value."""

    def __eq__(self, other):
        return isinstance(other, ReplyError) and self.args == other.args

    __hash__ = Exception.__hash__


class Incomplete(Exception):
    """More bytes are needed."""


class Aggregate:
    """An aggregate of which `left` elements are still to come."""

    __slots__ = ("kind", "start", "left", "items")

    def __init__(self, kind, start, left):
        self.kind, self.start, self.left, self.items = kind, start, left, []


def parse_head(buf, pos):
    """What begins at `pos`, without its elements: (a Node, or an Aggregate that has some, and the end). Raises Incomplete."""
    end = buf.find(b"\r\n", pos)
    if end < 0:
        raise Incomplete
    kind = buf[pos]
    line = bytes(buf[pos + 1 : end])
    after = end + 2
    if kind in b"+-:,(#_":
        value = line
        if kind == ord(":"):
            value = int(line)
        elif kind == ord("_"):
            value = None
        return Node(kind, bytes(buf[pos:after]), value), after
    if kind in b"$!=":
        length = int(line)
        if length < 0:
            return Node(kind, bytes(buf[pos:after]), None), after
        stop = after + length + 2
        if len(buf) < stop:
            raise Incomplete
        if buf[stop - 2 : stop] != b"\r\n":
            raise ProtocolError(f"bulk string of {length} bytes does not end in CRLF")
        return Node(kind, bytes(buf[pos:stop]), bytes(buf[after : stop - 2])), stop
    if kind in b"*~>%|":
        count = int(line)
        if count <= 0:
            return Node(kind, bytes(buf[pos:after]), None, [] if count == 0 else None), after
        return Aggregate(kind, pos, 2 * count if kind in b"%|" else count), after
    raise ProtocolError(f"unknown type byte {bytes([kind])!r} in {bytes(buf[pos:pos + 80])!r}")


class Parser:
    """Goes on where it stopped when bytes were missing: a large reply that comes in parts is decoded once."""

    def __init__(self, pos=0):
        self.pos, self.open = pos, []

    def next(self, buf):
        """The next reply, which ends at `pos`. Raises Incomplete: call it again with the same bytes and more."""
        while True:
            node, self.pos = parse_head(buf, self.pos)
            if isinstance(node, Aggregate):
                self.open.append(node)
                continue
            while self.open:
                parent = self.open[-1]
                parent.items.append(node)
                parent.left -= 1
                if parent.left:
                    break
                self.open.pop()
                node = Node(parent.kind, bytes(buf[parent.start : self.pos]), None, parent.items)
            else:
                return node


def parse(buf, pos=0):
    """Decodes the reply at `pos`; returns (Node, end). Raises Incomplete."""
    parser = Parser(pos)
    return parser.next(buf), parser.pos


class Connection:
    """A blocking connection on which requests and replies are counted by the caller."""

    def __init__(self, port, host="127.0.0.1", timeout_s=30.0):
        self.sock = socket.create_connection((host, port), timeout=timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = bytearray()
        self.parser = Parser()

    def close(self):
        self.sock.close()

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, requests):
        """Sends requests (lists of arguments) whose replies are read later."""
        self.send_raw(encode_all(requests))

    def read_node(self):
        """The next reply."""
        while True:
            if self.parser.pos < len(self.buf):
                try:
                    node = self.parser.next(self.buf)
                except Incomplete:
                    pass
                else:
                    if self.parser.pos == len(self.buf):
                        self.buf.clear()
                        self.parser.pos = 0
                    return node
            if self.parser.pos and not self.parser.open:
                del self.buf[: self.parser.pos]
                self.parser.pos = 0
            data = self.sock.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self.buf += data

    def has_bytes(self):
        """Whether bytes were received that no reply has used."""
        return self.parser.pos < len(self.buf)

    def pipeline(self, requests):
        """Sends all requests (lists of arguments), returns their replies as nodes."""
        self.send(requests)
        return [self.read_node() for _ in requests]

    def node(self, *args):
        """Sends one request, returns its reply as a node."""
        return self.pipeline([args])[0]

    def cmd(self, *args):
        """Sends one request, returns its reply as a Python value; an error reply is raised."""
        value = self.node(*args).python()
        if isinstance(value, ReplyError):
            raise value
        return value
