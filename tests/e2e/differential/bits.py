"""Random commands of bits of strings."""

from .step import Step

OFFSETS = [b"-1", b"4294967296", b"4294967295999", b"9223372036854775807", b"#1", b"abc", b"", b"01", b"+1", b"9223372036854775808"]
FORMS = [b"u0", b"u64", b"i65", b"i0", b"u", b"i", b"u-1", b"u08", b"x8", b"", b"U8", b"i8x"]
NUMBERS = [b"0", b"1", b"-1", b"127", b"128", b"255", b"256", b"-128", b"-129", b"65535", b"9223372036854775807",
           b"-9223372036854775808", b"4611686018427387904", b"abc", b"", b"9223372036854775808"]


class Bits:
    """Makes the arguments."""

    def __init__(self, grammar):
        self.g = grammar

    def offset(self):
        g = self.g
        return b"%d" % g.rng.choice([g.rng.randint(0, 40), g.rng.randint(0, 3000)]) if g.chance(92) else g.rng.choice(OFFSETS)

    def setbit(self):
        g = self.g
        bit = g.rng.choice([b"0", b"1"]) if g.chance(94) else g.rng.choice([b"2", b"-1", b"", b"01", b"x"])
        return [Step([b"SETBIT", g.key(), self.offset(), bit])]

    def unit(self):
        return self.g.word(self.g.rng.choice(["BIT", "BYTE"]))

    def bitcount(self):
        g = self.g
        words = [b"BITCOUNT", g.key(), g.index(), g.index(), self.unit()]
        return [Step(words[:g.rng.choice([2, 3, 4, 4, 5, 5, 5])] + ([b"more"] if g.chance(2) else []))]

    def bitpos(self):
        g = self.g
        bit = g.rng.choice([b"0", b"1"]) if g.chance(95) else g.rng.choice([b"2", b"-1", b"", b"x"])
        words = [b"BITPOS", g.key(), bit, g.index(), g.index(), self.unit()]
        return [Step(words[:g.rng.choice([3, 4, 5, 5, 6, 6, 6])] + ([b"more"] if g.chance(2) else []))]

    def bitop(self):
        g = self.g
        name = g.word(g.rng.choice(["AND", "OR", "XOR", "NOT"]))
        keys = g.keys(1, 1) if name.upper() == b"NOT" and g.chance(90) else g.keys(1, 4)
        return [Step([b"BITOP", name, g.key(), *keys])]

    def form(self):
        g = self.g
        if g.chance(3):
            return g.rng.choice(FORMS)
        if g.chance(50):
            return g.rng.choice([b"u1", b"u8", b"i8", b"u5", b"i16", b"u63", b"i64"])
        return b"u%d" % g.rng.randint(1, 63) if g.chance(50) else b"i%d" % g.rng.randint(1, 64)

    def place(self):
        return b"#%d" % self.g.rng.randint(0, 30) if self.g.chance(25) else self.offset()

    def number(self):
        g = self.g
        return g.rng.choice(NUMBERS) if g.chance(50) else b"%d" % g.rng.randint(-300, 300)

    def bitfield(self):
        g = self.g
        words = [b"BITFIELD", g.key()]
        for _ in range(g.rng.choice([0, 1, 1, 2, 3, 6])):
            kind = g.rng.choice(["GET", "SET", "SET", "INCRBY", "INCRBY", "OVERFLOW"])
            words.append(g.word(kind))
            if kind == "OVERFLOW":
                words.append(g.word(g.rng.choice(["WRAP", "SAT", "FAIL"])))
                continue
            words += [self.form(), self.place()]
            if kind != "GET":
                words.append(self.number())
        return [Step(words[:-1] if g.chance(4) else words)]

    def bitfield_ro(self):
        g = self.g
        words = [b"BITFIELD_RO", g.key()]
        for _ in range(g.rng.choice([0, 1, 2, 4])):
            words += [g.word("GET"), self.form(), self.place()]
        if g.chance(10):
            words += [b"SET", b"u8", b"0", b"1"]
        return [Step(words)]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    bits = Bits(grammar)
    return [
        ("SETBIT", 5, bits.setbit),
        ("GETBIT", 2, lambda: [Step([b"GETBIT", grammar.key(), bits.offset()])]),
        ("BITCOUNT", 3, bits.bitcount),
        ("BITPOS", 3, bits.bitpos),
        ("BITOP", 3, bits.bitop),
        ("BITFIELD", 4, bits.bitfield),
        ("BITFIELD_RO", 1, bits.bitfield_ro),
    ]
