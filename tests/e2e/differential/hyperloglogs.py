"""Random commands of HyperLogLogs, whose bytes are those of Redis."""

from .step import Step


class HyperLogLogs:
    """Makes the arguments."""

    def __init__(self, grammar):
        self.g = grammar

    def key(self):
        return self.g.key_of("hyperloglog")

    def keys(self, most):
        return [self.key() for _ in range(self.g.rng.randint(1, most))]

    def pfadd(self):
        g = self.g
        count = g.rng.choice([0, 1, 1, 2, 10, 100] if g.chance(97) else [1500, 3000])
        elements = [g.value() if g.chance(5) else b"%d" % g.rng.randrange(20000) for _ in range(count)]
        return [Step([b"PFADD", self.key(), *elements])]

    def pfdebug(self):
        sub = self.g.rng.choice(["GETREG", "DECODE", "DECODE", "ENCODING", "ENCODING", "TODENSE", "nope"])
        return [Step([b"PFDEBUG", self.g.word(sub), self.key()])]

    def damage(self):
        """Bytes that a client writes over the beginning, the cardinality or the registers."""
        g = self.g
        offset = g.rng.choice([0, 4, 5, 8, 15, 16, 17, 18, 40])
        junk = bytes(g.rng.randrange(256) for _ in range(g.rng.choice([1, 2, 5])))
        return [Step([b"SETRANGE", self.key(), b"%d" % offset, junk])]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    logs = HyperLogLogs(grammar)
    return [
        ("PFADD", 4, logs.pfadd),
        ("PFCOUNT", 3, lambda: [Step([b"PFCOUNT", *logs.keys(3)])]),
        ("PFMERGE", 2, lambda: [Step([b"PFMERGE", *logs.keys(4)])]),
        ("PFDEBUG", 1.5, logs.pfdebug),
        ("PFSELFTEST", 0.01, lambda: [Step([b"PFSELFTEST"])]),
        ("GET", 2, lambda: [Step([b"GET", logs.key()])]),
        ("SETRANGE", 0.3, logs.damage),
        ("DEL", 0.3, lambda: [Step([b"DEL", logs.key()])]),
    ]
