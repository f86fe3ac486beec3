"""Random commands of sets."""

from .step import LENGTH, SHAPE, UNORDERED, Step

NUMBERS = [b"%d" % number for number in range(-4, 9)] + [b"40000", b"-40000", b"3000000000", b"9223372036854775807"]
WORDS = [b"a", b"b", b"c", b"d", b"", b"\x00\xff", b"01", b"-0", b"long" * 30]


class Sets:
    """Makes the arguments. The order of members is unspecified."""

    def __init__(self, grammar):
        self.g = grammar

    def key(self):
        return self.g.key_of("set")

    def keys(self):
        return [self.key() for _ in range(self.g.rng.choice([1, 2, 2, 3]))]

    def member(self):
        return self.g.rng.choice(NUMBERS if self.g.chance(70) else WORDS)

    def members(self):
        return [self.member() for _ in range(self.g.rng.choice([1, 1, 2, 4, 12]))]

    def sadd(self):
        g = self.g
        if g.chance(2):
            first = g.rng.choice([0, 100, 32000])
            count = g.rng.choice([300, 511, 512, 513, 600])
            return [Step([b"SADD", self.key(), *[b"%d" % (first + number) for number in range(count)]])]
        return [Step([b"SADD", self.key(), *self.members()])]

    def count(self):
        return self.g.rng.choice([b"0", b"1", b"2", b"5", b"1000", b"-1", b"-7", b"abc", b"", b"9223372036854775807",
                                  b"-9223372036854775808"])

    def srandmember(self):
        words = [b"SRANDMEMBER", self.key()]
        if self.g.chance(70):
            words.append(self.count())
        if self.g.chance(3):
            words.append(b"more")
        return [Step(words, LENGTH if len(words) > 2 else SHAPE)]

    def spop(self):
        """The removed members are random, unless it is all or none."""
        g, key = self.g, self.key()
        roll = g.rng.random()
        if roll < 0.4:
            return [Step([b"SPOP", key, b"100000"], UNORDERED)]
        if roll < 0.6:
            return [Step([b"SPOP", key, g.rng.choice([b"0", b"-1", b"abc", b"", b"9223372036854775808"])])]
        return [Step([b"SPOP", key, b"1"], LENGTH), Step([b"DEL", key])] if roll < 0.8 else \
            [Step([b"SPOP", key], SHAPE), Step([b"DEL", key])]

    def algebra(self):
        g = self.g
        name = g.rng.choice([b"SINTER", b"SUNION", b"SDIFF"])
        if g.chance(45):
            return [Step([name + b"STORE", self.key(), *self.keys()])]
        return [Step([name, *self.keys()], UNORDERED)]

    def sintercard(self):
        g, keys = self.g, self.keys()
        number = b"%d" % len(keys) if g.chance(88) else g.rng.choice([b"0", b"-1", b"abc", b"9", b"9223372036854775807"])
        words = [b"SINTERCARD", number, *keys]
        if g.chance(50):
            words += [g.word("LIMIT"), g.rng.choice([b"0", b"1", b"2", b"-1", b"abc"])]
        return [Step(words[:-1] if g.chance(4) else words)]

    def sscan(self):
        g = self.g
        if g.chance(20) or g.in_multi[g.conn]:
            return [Step([b"SSCAN", self.key(), *g.rng.choice([[b"abc"], [b"0", b"COUNT", b"0"], [b"0", b"NOPE", b"1"]])], UNORDERED)]
        words = []
        if g.chance(40):
            words += [g.word("MATCH"), g.rng.choice([b"*", b"1*", b"?", b"none"])]
        if g.chance(40):
            words += [g.word("COUNT"), g.rng.choice([b"1", b"30", b"1000"])]
        return [Step([b"SSCAN", self.key(), b"0", *words], kind="scan")]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    sets = Sets(grammar)
    return [
        ("SADD", 6, sets.sadd),
        ("SREM", 3, lambda: [Step([b"SREM", sets.key(), *sets.members()])]),
        ("SISMEMBER", 1, lambda: [Step([b"SISMEMBER", sets.key(), sets.member()])]),
        ("SMISMEMBER", 1, lambda: [Step([b"SMISMEMBER", sets.key(), *sets.members()])]),
        ("SCARD", 1, lambda: [Step([b"SCARD", sets.key()])]),
        ("SMEMBERS", 2, lambda: [Step([b"SMEMBERS", sets.key()], UNORDERED)]),
        ("SMOVE", 3, lambda: [Step([b"SMOVE", sets.key(), sets.key(), sets.member()])]),
        ("SPOP", 1.5, sets.spop),
        ("SRANDMEMBER", 1, sets.srandmember),
        ("SINTER", 5, sets.algebra),
        ("SINTERCARD", 1, sets.sintercard),
        ("SSCAN", 1, sets.sscan),
    ]
