"""Contexts of a command: each context turns a cell into a script for a few connections.

A script is a list of actions. Connection `a` is the cell's, `b` a neighbour's. `End` is added by the player.
"""

from . import hints
from .hints import Absent, Key


class Send:
    """Requests in one write: (words, tag) each. `side` limits them to one server."""

    __slots__ = ("connection", "requests", "side")

    def __init__(self, connection, requests, side=None):
        self.connection, self.requests, self.side = connection, requests, side


class Answered:
    """Waits until the connection has received replies to everything it sent, or for a moment if none arrive."""

    __slots__ = ("connection", "side")

    def __init__(self, connection, side=None):
        self.connection, self.side = connection, side


class Leave:
    """The connection's client disconnects without reading; the server must notice soon."""

    __slots__ = ("connection",)

    def __init__(self, connection):
        self.connection = connection


def plain(*words):
    return list(words), hints.tag_of(words[0].decode())


def plain_loose(*words):
    return list(words), hints.LOOSE


K0, K1, N0 = Key(0), Key(1), Absent()
HALF, OTHER, COUNT = hints.Extra(0), hints.Extra(1), hints.Extra(2)
DB, OTHER_DB = hints.Database(), hints.OtherDatabase()


def command(cell):
    return cell.case.words, cell.case.tag


def alone(cell):
    return [Send("a", [command(cell)]), Answered("a")]


def pipelined(cell):
    return [Send("a", [
        plain(b"GET", K0), plain(b"MGET", K0, K1, N0), plain(b"SET", HALF, b"1"), command(cell), plain(b"GET", K1), command(cell),
        plain(b"EXISTS", K0, N0), plain(b"MGET", K1, N0), command(cell), plain(b"STRLEN", K0)])]


def queued(before, after):
    """The command in a transaction between others."""
    return lambda cell: [Send("a", [plain(b"MULTI"), *before, command(cell), *after, plain(b"EXEC")])]


def multi_swapdb(cell):
    swap = plain(b"SWAPDB", DB, OTHER_DB)
    return queued([plain(b"SET", HALF, b"1"), swap], [plain(b"GET", K0), plain(b"SET", OTHER, b"1")])(cell) + [
        Answered("a"), Send("b", [swap]), Answered("b")]


def multi_config(cell):
    return queued([plain(b"CONFIG", b"SET", b"maxmemory", b"300mb"), plain(b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction")],
                  [plain(b"GET", K0)])(cell) + [Answered("a"), *cell.restore_settings()]


def watch(cell):
    return [Send("a", [plain(b"WATCH", K0, K1, N0)]), Answered("a"),
            Send("a", [plain(b"MULTI"), command(cell), plain(b"GET", K0), plain(b"EXEC")])]


def watched(cell):
    """The command runs on another client between WATCH and EXEC: tests whether the transaction is executed."""
    return [Send("a", [plain(b"WATCH", K0, K1, N0)]), Answered("a"),
            Send("b", [command(cell)]), Answered("b"),
            Send("a", [plain(b"MULTI"), plain(b"GET", K0), plain(b"EXEC")])]


def snapshot(cell):
    """In a snapshot session: the reference answers before other clients have changed the keys."""
    change = [plain(b"DEL", K0), plain(b"SET", K1, b"changed"), plain(b"SET", N0, b"new")]
    if not cell.reads_keys():
        return [Send("a", [plain_loose(b"SEXTON.SNAPSHOT", b"OPEN"), (cell.case.words, hints.LOOSE)], "ours"), Answered("a", "ours"),
                Send("b", change), Answered("b"), Send("a", [plain_loose(b"SEXTON.SNAPSHOT", b"CLOSE")], "ours")]
    return [Send("a", [(["SEXTON.SNAPSHOT", "OPEN"], hints.IGNORED)], "ours"), Answered("a", "ours"),
            Send("a", [command(cell)], "theirs"), Answered("a", "theirs"),
            Send("b", change), Answered("b"),
            Send("a", [command(cell)], "ours"), Answered("a", "ours"),
            Send("a", [(["SEXTON.SNAPSHOT", "CLOSE"], hints.IGNORED)], "ours")]


def paused(kind):
    def script(cell):
        return [Send("b", [plain(b"CLIENT", b"PAUSE", b"8", kind)]), Send("a", [command(cell), plain(b"GET", K0)]), Answered("a")]
    return script


def reply_off(cell):
    return [Send("a", [plain(b"CLIENT", b"REPLY", b"OFF"), command(cell), plain(b"GET", K0), plain(b"CLIENT", b"REPLY", b"ON"),
                       plain(b"PING")])]


def reply_skip(cell):
    return [Send("a", [plain(b"CLIENT", b"REPLY", b"SKIP"), command(cell), plain(b"GET", K0)])]


def subscribed(cell):
    return [Send("a", [plain(b"SUBSCRIBE", hints.Channel()), plain(b"PSUBSCRIBE", hints.Pattern())]), Answered("a"),
            Send("a", [command(cell)]), Answered("a"), Send("b", [plain(b"PUBLISH", hints.Channel(), b"message")]), Answered("b"),
            Send("a", [plain(b"PING")])]


def reply_off_subscribed(cell):
    """Pushes are not replies: they are sent under CLIENT REPLY OFF, too."""
    return [Send("a", [plain(b"SUBSCRIBE", hints.Channel())]), Answered("a"),
            Send("a", [plain(b"CLIENT", b"REPLY", b"OFF"), plain(b"PUBLISH", hints.Channel(), b"own"), command(cell),
                       plain(b"CLIENT", b"REPLY", b"ON")]), Answered("a"),
            Send("b", [plain(b"PUBLISH", hints.Channel(), b"message")]), Answered("b"), Send("a", [plain(b"PING")])]


#: It writes a key that it declares, then runs the command, whose keys it does not declare.
SCRIPT = b"""redis.call('set', KEYS[1], '1')
local reply = redis.pcall(unpack(ARGV))
redis.call('incr', KEYS[1])
return reply"""


def script(cell):
    """In a script that begins again: of the key that it writes a device alone can tell that it is not there (`cold`), and
    what it learns of that must outlast that it is taken back for the keys that it did not declare."""
    words, tag = command(cell)
    return [Send("a", [([b"EVAL", SCRIPT, b"1", HALF, *words], tag)]), Answered("a"),
            Send("a", [plain(b"MGET", HALF, K0, K1)]), Answered("a")]


def leaves(cell):
    return [Send("a", [(["CLIENT", "ID"], hints.IGNORED)]), Answered("a"), Send("a", [plain(b"GET", K0), command(cell)]), Leave("a")]


CONTEXTS = {
    "alone": alone,
    "pipelined": pipelined,
    "multi": queued([], []),
    "multi-writes": queued([plain(b"SET", HALF, b"1"), plain(b"GET", K0)], [plain(b"INCR", COUNT), plain(b"SET", OTHER, b"1")]),
    "multi-flushdb": queued([plain(b"SET", HALF, b"1"), plain(b"FLUSHDB")],
                            [plain(b"INCR", COUNT), plain(b"SET", K1, b"again"), plain(b"GET", N0), plain(b"SET", OTHER, b"1")]),
    "multi-swapdb": multi_swapdb,
    "multi-config": multi_config,
    "multi-info": queued([plain(b"GET", K0), plain(b"INFO")], [plain(b"MEMORY", b"STATS")]),
    "multi-walk": queued([plain(b"DBSIZE")], [plain(b"KEYS", hints.Pattern())]),
    "watch": watch,
    "watched": watched,
    "snapshot": snapshot,
    "paused-write": paused(b"WRITE"),
    "paused-all": paused(b"ALL"),
    "script": script,
    "reply-off": reply_off,
    "reply-skip": reply_skip,
    "subscribed": subscribed,
    "reply-off-subscribed": reply_off_subscribed,
    "leaves": leaves,
}
#: Contexts whose effect on the data depends on when the server notices.
DATA_NOT_COMPARED = {"leaves"}
#: Contexts that need pushes to be told from replies.
RESP3_ONLY = {"reply-off-subscribed"}
EMPTYING = {"multi-flushdb"}
