"""Random commands of lists."""

from .step import Step

ELEMENTS = [b"a", b"b", b"c", b"d", b"e", b"17", b"-3", b"", b"\x00\xff", b"long" * 70]
TIMEOUTS = [b"0.001", b"0.01", b"-1", b"abc", b"", b"1e400", b"nan", b" 1", b"99999999999999999999", b"-0.5"]


class Lists:
    """Makes the arguments."""

    def __init__(self, grammar):
        self.g = grammar

    def key(self):
        return self.g.key_of("list")

    def element(self):
        g = self.g
        return g.rng.choice(ELEMENTS[:5] if g.chance(80) else ELEMENTS) if g.chance(90) else g.value()

    def elements(self):
        return [self.element() for _ in range(self.g.rng.choice([1, 1, 2, 3, 10]))]

    def index(self):
        g = self.g
        return b"%d" % g.rng.randint(-6, 6) if g.chance(85) else g.index()

    def side(self):
        return self.g.word(self.g.rng.choice(["LEFT", "RIGHT"]))

    def count(self):
        g = self.g
        return g.rng.choice([b"0", b"1", b"2", b"5", b"-1", b"abc", b"", b"9223372036854775807", b"9223372036854775808"])

    def push(self):
        name = self.g.rng.choice([b"LPUSH", b"RPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX"])
        if self.g.chance(1):
            return [Step([name, self.key(), *[b"%d" % number for number in range(300)]])]
        return [Step([name, self.key(), *self.elements()])]

    def pop(self):
        words = [self.g.rng.choice([b"LPOP", b"RPOP"]), self.key()]
        if self.g.chance(35):
            words.append(self.count())
        if self.g.chance(2):
            words.append(b"more")
        return [Step(words)]

    def lpos(self):
        g = self.g
        words = [b"LPOS", self.key(), self.element()]
        for _ in range(g.rng.choice([0, 1, 1, 2, 3])):
            words.append(g.word(g.rng.choice(["RANK", "COUNT", "MAXLEN"])))
            words.append(g.rng.choice([b"1", b"2", b"-1", b"-2", b"0", b"3", b"abc", b"-9223372036854775808", b"9223372036854775807"]))
        return [Step(words[:-1] if g.chance(4) else words)]

    def lmove(self):
        return [Step([b"LMOVE", self.key(), self.key(), self.side(), self.side()])]

    def several(self, name):
        g = self.g
        keys = [self.key() for _ in range(g.rng.randint(1, 3))]
        number = b"%d" % len(keys) if g.chance(92) else g.rng.choice([b"0", b"-1", b"abc", b"9", b"9223372036854775807"])
        words = [name, number, *keys, self.side()]
        if g.chance(40):
            words += [g.word("COUNT"), self.count()]
        return words

    def lmpop(self):
        return [Step(self.several(b"LMPOP"))]

    def blocking(self):
        """Both servers wait a moment if there is nothing to pop."""
        g = self.g
        timeout = g.rng.choice(TIMEOUTS[:2] if g.chance(80) else TIMEOUTS)
        kind = g.rng.choice(["BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP"])
        if kind == "BLMOVE":
            return [Step([b"BLMOVE", self.key(), self.key(), self.side(), self.side(), timeout])]
        if kind == "BRPOPLPUSH":
            return [Step([b"BRPOPLPUSH", self.key(), self.key(), timeout])]
        if kind == "BLMPOP":
            words = self.several(b"BLMPOP")
            return [Step([words[0], timeout, *words[1:]])]
        return [Step([kind.encode(), *[self.key() for _ in range(g.rng.randint(1, 3))], timeout])]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    lists = Lists(grammar)
    pick = grammar.rng.choice
    return [
        ("LPUSH", 6, lists.push),
        ("LPOP", 3, lists.pop),
        ("LLEN", 1, lambda: [Step([b"LLEN", lists.key()])]),
        ("LINDEX", 2, lambda: [Step([b"LINDEX", lists.key(), lists.index()])]),
        ("LRANGE", 4, lambda: [Step([b"LRANGE", lists.key(), lists.index(), lists.index()])]),
        ("LSET", 2, lambda: [Step([b"LSET", lists.key(), lists.index(), lists.element()])]),
        ("LINSERT", 2, lambda: [Step([b"LINSERT", lists.key(), pick([b"BEFORE", b"after", b"bad"]), lists.element(), lists.element()])]),
        ("LREM", 2, lambda: [Step([b"LREM", lists.key(), lists.index(), lists.element()])]),
        ("LTRIM", 1, lambda: [Step([b"LTRIM", lists.key(), lists.index(), lists.index()])]),
        ("LPOS", 2, lists.lpos),
        ("LMOVE", 2, lists.lmove),
        ("RPOPLPUSH", 1, lambda: [Step([b"RPOPLPUSH", lists.key(), lists.key()])]),
        ("LMPOP", 1, lists.lmpop),
        ("BLPOP", 1, lists.blocking),
    ]
