"""A cell: one request in one state of its keys, in one context, under one protocol; its requests and its name."""

from . import contexts, hints, states
from .contexts import Send
from .hints import Absent, Channel, Database, Directory, Dump, Extra, Key, OtherDatabase, Pattern
from .names import SHARED

#: Kinds of values that keys have, by the number of the cell.
VALUES = (b"10", b"some text of a few words", b"3.5", b"", b"x" * 300)


class Cell:
    """`mode` and `condition` are the server's; `number` is its place in a life, and names its keys."""

    def __init__(self, case, state, context, condition, mode, resp):
        self.case, self.state, self.context = case, state, context
        self.condition, self.mode, self.resp = condition, mode, resp
        self.number, self.databases, self.dump, self.directory = 0, SHARED, b"", b""
        self.settings = {}

    def name(self):
        return f"{self.case.name()}/{self.state}/{self.context}/{self.condition}/{self.mode}/{self.resp}"

    def key(self, number):
        return b"c%d:k%d" % (self.number, number)

    def keys(self):
        """All keys that the cell and its neighbours may touch."""
        head = b"c%d:" % self.number
        return [self.key(n) for n in range(hints.KEYS)] + [head + b"none", head + b"x0", head + b"x1", head + b"x2"]

    def value(self, number, database):
        return VALUES[(self.number + number) % len(VALUES)] + (b"1" if database != self.databases[0] else b"")

    def has_due_time(self, number):
        return (self.number // 2 + number) % 2 == 0

    def word(self, word):
        """A word of a request with this cell's names filled in."""
        if isinstance(word, bytes):
            return word
        if isinstance(word, str):
            return word.encode()
        if isinstance(word, Key):
            return self.key(word.number)
        if isinstance(word, Extra):
            return b"c%d:x%d" % (self.number, word.number)
        return {
            Absent: b"c%d:none" % self.number, Database: b"%d" % self.databases[0], OtherDatabase: b"%d" % self.databases[1],
            Pattern: b"c%d:*" % self.number, Channel: b"c%d:channel" % self.number, Dump: self.dump, Directory: self.directory,
        }[type(word)]

    def words(self, words):
        return [self.word(word) for word in words]

    def script(self):
        """The actions of the cell: the last preparations for its state, then its context."""
        script = states.STATES[self.state].prelude(self) + contexts.CONTEXTS[self.context](self)
        if self.case.command == "CONFIG|SET":
            script += [contexts.Answered("a"), *self.restore_settings()]
        return script

    def restore_settings(self):
        """Undoes a CONFIG SET of the cell: restores the settings of its life."""
        return [Send("b", [([b"CONFIG", b"SET", name, value], hints.IGNORED) for name, value in settings.items()], side)
                for side, settings in (("ours", self.settings), ("theirs", self.settings | hints.UNBOUND))]

    def reads_keys(self):
        return self.case.has_key() and not self.case.writes()

    def swaps(self):
        return self.context == "multi-swapdb" or self.case.command == "SWAPDB"

    def empties_database(self):
        return self.context in contexts.EMPTYING or self.case.command in hints.EMPTIES_DATABASE

    def empties_all(self):
        return hints.empties_all(self.case)


def quoted(word):
    """Quotes a word for redis-cli."""
    if word and all(33 <= byte < 127 and byte not in b"\"'\\" for byte in word):
        return word.decode()
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word) + '"'
