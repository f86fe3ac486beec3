"""The states of a key when a command accesses it, and how they are created.

States of one family share a life of the server: `warm` ones need no restart, `cold` ones a clean restart (all keys
are on the device then, and filters say maybe to every key), `frozen` ones a memtable that waits for its flush.
"""

from .contexts import Answered, Send, plain
from .hints import IGNORED, Key

#: Moment, in ms behind the start of the setup, at which keys that shall be expired come due.
EXPIRES_AFTER_MS = {"warm": 1, "cold": 1500}


class State:
    """`there`: keys are written; `due`: they expire; `deleted`: they are deleted behind a restart."""

    def __init__(self, family, there=True, due=False, deleted=False, prelude=None):
        self.family, self.there, self.due, self.deleted = family, there, due, deleted
        self.prelude = prelude or (lambda cell: [])


def blind_sets(cell):
    """Overwrites of cold keys, whose old versions have not been read yet."""
    return [Send("b", [plain(b"SET", Key(n), b"overwritten %d" % n) for n in range(3)]), Answered("b")]


def loads(cell):
    """Another client requests the keys at that moment."""
    return [Send("b", [([b"MGET", Key(0), Key(1)], IGNORED), ([b"GET", Key(2)], IGNORED)])]


STATES = {
    "absent": State("warm", there=False),
    "memory": State("warm"),
    "expired": State("warm", due=True),
    "cold": State("cold"),
    "maybe": State("cold", there=False),
    "cold-expired": State("cold", due=True),
    "buried": State("cold", deleted=True),
    "loading": State("cold", prelude=loads),
    "unresolved": State("cold", prelude=blind_sets),
    "frozen": State("frozen"),
}
