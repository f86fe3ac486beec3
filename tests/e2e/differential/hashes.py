"""Random commands of hashes."""

from .step import LENGTH, SHAPE, UNORDERED, Step

FIELDS = [b"f0", b"f1", b"f2", b"f3", b"f4", b"f5", b"f6", b"17", b"", b"\x00\xff", b"long" * 17]


class Hashes:
    """Makes the arguments. Redis keeps the order of fields only in small hashes: `small` checks it."""

    def __init__(self, grammar):
        self.g = grammar

    def key(self):
        return self.g.key_of("hash")

    def field(self):
        return self.g.rng.choice(FIELDS[:7] if self.g.chance(80) else FIELDS)

    def value(self):
        g = self.g
        return g.value() if g.chance(20) else b"%d" % g.rng.randint(-99, 99)

    def pairs(self, most):
        words = []
        for _ in range(self.g.rng.randint(1, most)):
            words += [self.field(), self.value()]
        return words[:-1] if self.g.chance(3) else words

    def fields(self):
        return [self.field() for _ in range(self.g.rng.choice([1, 1, 2, 3, 12]))]

    def hset(self):
        g = self.g
        if g.chance(1.5):
            # Across the threshold of the encoding.
            count = g.rng.choice([509, 512, 513, 600])
            words = [word for number in range(count) for word in (b"f%d" % number, b"%d" % number)]
            return [Step([b"HSET", self.key(), *words])]
        return [Step([b"HSET", self.key(), *self.pairs(g.rng.choice([1, 3, 20]))])]

    def hrandfield(self):
        g = self.g
        words = [b"HRANDFIELD", self.key()]
        if g.chance(30):
            return [Step(words, SHAPE)]
        words.append(g.rng.choice([b"0", b"1", b"2", b"5", b"100", b"-1", b"-3", b"-40", b"9223372036854775807",
                                   b"-9223372036854775808", b"4611686018427387904", b"abc", b"", b"1.5"]))
        if g.chance(60):
            words.append(g.word("WITHVALUES"))
        if g.chance(4):
            words.append(b"more")
        return [Step(words, LENGTH)]

    def hscan(self):
        g = self.g
        bad = [[b"abc"], [b"0", b"COUNT", b"0"], [b"0", b"COUNT", b"x"], [b"0", b"MATCH"], [b"0", b"NOPE", b"1"],
               [b"0", b"TYPE", b"hash"], [b"18446744073709551616"]]
        if g.chance(25) or g.in_multi[g.conn]:
            return [Step([b"HSCAN", self.key(), *g.rng.choice(bad)], UNORDERED)]
        words = []
        if g.chance(50):
            words += [g.word("MATCH"), g.rng.choice([b"*", b"f*", b"f?", b"*1*", b"none", b""])]
        if g.chance(40):
            words += [g.word("COUNT"), g.rng.choice([b"1", b"30", b"1000", b"9223372036854775807"])]
        return [Step([b"HSCAN", self.key(), b"0", *words], kind="scan")]

    def small(self):
        """A hash that is certainly small: its order is visible."""
        g = self.g
        key, few = b"small hash", FIELDS[:5]
        steps = [Step([b"DEL", key])]
        for _ in range(g.rng.randint(1, 5)):
            words = [word for _ in range(g.rng.choice([1, 2, 10])) for word in (g.rng.choice(few), g.value()[:64])]
            steps.append(Step([b"HSET", key, *words]))
            steps.append(Step([b"HDEL", key, *(g.rng.choice(few) for _ in range(g.rng.choice([1, 1, 10])))]))
        look = g.rng.choice([[b"HGETALL", key], [b"HKEYS", key], [b"HVALS", key], [b"HSCAN", key, b"12"],
                             [b"HSCAN", key, b"0", b"MATCH", b"f[0-2]", b"COUNT", b"1"], [b"HRANDFIELD", key, b"100", b"WITHVALUES"]])
        return [*steps, Step(look), Step([b"DEL", key])]

    def hincrby(self):
        return [Step([b"HINCRBY", self.key(), self.field(), self.g.integer()])]

    def hincrbyfloat(self):
        return [Step([b"HINCRBYFLOAT", self.key(), self.field(), self.g.floating()])]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    h = Hashes(grammar)
    return [
        ("HSET", 6, h.hset),
        ("HMSET", 1.5, lambda: [Step([b"HMSET", h.key(), *h.pairs(4)])]),
        ("HSETNX", 1.5, lambda: [Step([b"HSETNX", h.key(), h.field(), h.value()])]),
        ("HGET", 2, lambda: [Step([b"HGET", h.key(), h.field()])]),
        ("HMGET", 1.5, lambda: [Step([b"HMGET", h.key(), *h.fields()])]),
        ("HGETALL", 1.5, lambda: [Step([b"HGETALL", h.key()], UNORDERED)]),
        ("HKEYS", 1, lambda: [Step([b"HKEYS", h.key()], UNORDERED)]),
        ("HVALS", 1, lambda: [Step([b"HVALS", h.key()], UNORDERED)]),
        ("HLEN", 1, lambda: [Step([b"HLEN", h.key()])]),
        ("HEXISTS", 1, lambda: [Step([b"HEXISTS", h.key(), h.field()])]),
        ("HSTRLEN", 1, lambda: [Step([b"HSTRLEN", h.key(), h.field()])]),
        ("HDEL", 3, lambda: [Step([b"HDEL", h.key(), *h.fields()])]),
        ("HINCRBY", 2, h.hincrby),
        ("HINCRBYFLOAT", 2, h.hincrbyfloat),
        ("HRANDFIELD", 2, h.hrandfield),
        ("HSCAN", 1.5, h.hscan),
        ("HGETALL", 0.7, h.small),
    ]
