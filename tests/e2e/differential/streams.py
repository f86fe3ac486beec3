"""Random commands of streams. IDs are small numbers, so that both servers make up the same ones."""

from .step import SHAPE, Step

FIELDS = [b"f", b"g", b"field", b"", b"17"]
BAD_IDS = [b"-", b"+", b"$", b">", b"abc", b"", b"1-", b"-1", b"1-1-1", b"(3", b"0-0", b"18446744073709551615",
           b"18446744073709551615-18446744073709551615", b"18446744073709551616", b"05-01", b" 5", b"5-*", b"0-*"]
GROUPS = [b"g0", b"g1"]
CONSUMERS = [b"alice", b"bob", b"carol"]


class Streams:
    """Makes the arguments."""

    def __init__(self, grammar):
        self.g = grammar
        self.next_ms = 1

    def key(self):
        return self.g.key_of("stream")

    def group(self):
        return self.g.rng.choice(GROUPS) if self.g.chance(95) else b"none"

    def consumer(self):
        return self.g.rng.choice(CONSUMERS)

    def id(self):
        g = self.g
        if g.chance(5):
            return g.rng.choice(BAD_IDS)
        ms = g.rng.randint(0, max(3, self.next_ms + 2)) if g.chance(60) else max(0, self.next_ms - g.rng.randint(0, 6))
        return b"%d" % ms if g.chance(40) else b"%d-%d" % (ms, g.rng.choice([0, 0, 0, 1, 2, 3]))

    def ids(self):
        return [self.id() for _ in range(self.g.rng.choice([1, 1, 2, 5]))]

    def new_id(self):
        g = self.g
        if g.chance(4):
            return g.rng.choice(BAD_IDS)
        if g.chance(70):
            self.next_ms += g.rng.choice([0, 1, 1, 1, 2])
        return g.rng.choice([b"%d-*" % self.next_ms, b"%d-*" % self.next_ms, b"%d-%d" % (self.next_ms, g.rng.randint(0, 4)),
                             b"%d" % self.next_ms])

    def trim(self):
        g = self.g
        words = [g.word("MAXLEN")] if g.chance(60) else [g.word("MINID")]
        rough = g.chance(50)
        if rough or g.chance(30):
            words.append(b"~" if rough else b"=")
        if words[0].upper().startswith(b"MAXLEN"):
            words.append(g.rng.choice([b"0", b"1", b"3", b"10", b"50", b"120", b"-1", b"abc"] if g.chance(30) else [b"5", b"40", b"100"]))
        else:
            words.append(self.id())
        if g.chance(25 if rough else 3):
            words += [g.word("LIMIT"), g.rng.choice([b"0", b"1", b"10", b"100", b"150", b"-1", b"x"])]
        return words

    def pairs(self):
        g = self.g
        words = []
        for _ in range(g.rng.choice([1, 1, 1, 2, 3])):
            words += [g.rng.choice(FIELDS[:2] if g.chance(80) else FIELDS), g.value() if g.chance(30) else b"%d" % g.rng.randint(-9, 9999)]
        return words[:-1] if g.chance(2) else words

    def xadd(self):
        g = self.g
        if g.chance(3) and not g.in_multi[g.conn]:
            key, first = self.key(), self.next_ms + 1
            self.next_ms += 130
            return [Step([b"XADD", key, b"%d" % number, b"f", b"%d" % number]) for number in range(first, first + 130)]
        words = [b"XADD", self.key()]
        if g.chance(8):
            words.append(g.word("NOMKSTREAM"))
        if g.chance(15):
            words += self.trim()
        return [Step([*words, self.new_id(), *self.pairs()])]

    def xtrim(self):
        words = self.trim() + (self.trim() if self.g.chance(4) else [])
        return [Step([b"XTRIM", self.key(), *words])]

    def bound(self):
        g = self.g
        roll = g.rng.random()
        if roll < 0.4:
            return g.rng.choice([b"-", b"+"])
        return (b"(" if roll < 0.5 else b"") + self.id()

    def count(self):
        g = self.g
        return [g.word("COUNT"), g.rng.choice([b"1", b"2", b"3", b"10", b"0", b"-1", b"abc"])]

    def xrange(self):
        g = self.g
        name = g.rng.choice([b"XRANGE", b"XREVRANGE"])
        bounds = [b"-", b"+"] if g.chance(40) else [self.bound(), self.bound()]
        return [Step([name, self.key(), *(bounds if name == b"XRANGE" else bounds[::-1]), *(self.count() if g.chance(40) else [])])]

    def xread(self):
        g = self.g
        keys = [self.key() for _ in range(g.rng.choice([1, 1, 2, 3]))]
        words = [b"XREAD"]
        if g.chance(40):
            words += self.count()
        if g.chance(15):
            words += [g.word("BLOCK"), g.rng.choice([b"1", b"5", b"-1", b"abc", b"1.5"])]
        ids = [b"$" if g.chance(10) else self.id() for _ in keys]
        return [Step([*words, g.word("STREAMS"), *keys, *(ids[:-1] if g.chance(3) else ids)])]

    def xreadgroup(self):
        g = self.g
        keys = [self.key() for _ in range(g.rng.choice([1, 1, 1, 2]))]
        words = [b"XREADGROUP", g.word("GROUP"), self.group(), self.consumer()]
        if g.chance(60):
            words += self.count()
        if g.chance(10):
            words += [g.word("BLOCK"), g.rng.choice([b"1", b"5", b"-1"])]
        if g.chance(15):
            words.append(g.word("NOACK"))
        ids = [b">" if g.chance(75) else self.id() for _ in keys]
        return [Step([*words, g.word("STREAMS"), *keys, *ids])]

    def xgroup(self):
        g = self.g
        kind = g.rng.choice(["CREATE", "CREATE", "CREATE", "SETID", "DESTROY", "CREATECONSUMER", "DELCONSUMER", "HELP", "nope"])
        words = [b"XGROUP", g.word(kind)]
        if kind == "HELP":
            return [Step(words)]
        words += [self.key(), self.group()]
        if kind in ("CREATE", "SETID"):
            words.append(g.rng.choice([b"$", b"0", b"0", self.id()]))
            if kind == "CREATE" and g.chance(50):
                words.append(g.word("MKSTREAM"))
            if g.chance(20):
                words += [g.word("ENTRIESREAD"), g.rng.choice([b"0", b"1", b"5", b"-1", b"-2", b"abc"])]
        elif kind != "DESTROY":
            words.append(self.consumer())
        return [Step(words[:-1] if g.chance(2) else words)]

    def xpending(self):
        g = self.g
        words = [b"XPENDING", self.key(), self.group()]
        if g.chance(40):
            return [Step(words)]
        if g.chance(20):
            words += [g.word("IDLE"), g.rng.choice([b"0", b"100000000", b"abc"])]
        words += [self.bound(), self.bound(), g.rng.choice([b"0", b"1", b"10", b"-1", b"abc"])]
        if g.chance(40):
            words.append(self.consumer())
        return [Step(words, SHAPE)]

    def xclaim(self):
        g = self.g
        words = [b"XCLAIM", self.key(), self.group(), self.consumer(), g.rng.choice([b"0", b"0", b"0", b"100000000", b"-1", b"abc"]), *self.ids()]
        for _ in range(g.rng.choice([0, 0, 1, 2, 3])):
            words += g.rng.choice([[g.word("FORCE")], [g.word("JUSTID")], [g.word("RETRYCOUNT"), g.rng.choice([b"7", b"-1", b"x"])],
                                   [g.word("IDLE"), b"100"], [g.word("TIME"), b"1000"], [g.word("LASTID"), self.id()]])
        return [Step(words)]

    def xautoclaim(self):
        g = self.g
        words = [b"XAUTOCLAIM", self.key(), self.group(), self.consumer(), g.rng.choice([b"0", b"0", b"0", b"100000000", b"abc"]), self.bound()]
        if g.chance(50):
            words += self.count()
        if g.chance(30):
            words.append(g.word("JUSTID"))
        return [Step(words)]

    def xinfo(self):
        g = self.g
        kind = g.rng.choice(["STREAM", "STREAM", "GROUPS", "GROUPS", "CONSUMERS", "FULL", "HELP", "nope"])
        if kind == "HELP":
            return [Step([b"XINFO", b"HELP"])]
        words = [b"XINFO", g.word("STREAM" if kind == "FULL" else kind), self.key()]
        if kind == "CONSUMERS":
            words.append(self.group())
        if kind == "FULL":
            words += [g.word("FULL"), *(self.count() if g.chance(50) else [])]
        return [Step(words, SHAPE if kind in ("CONSUMERS", "FULL") else "exact")]

    def xsetid(self):
        g = self.g
        words = [b"XSETID", self.key(), self.id()]
        if g.chance(40):
            words += [g.word("ENTRIESADDED"), g.rng.choice([b"0", b"10", b"1000", b"-1"])]
        if g.chance(40):
            words += [g.word("MAXDELETEDID"), self.id()]
        return [Step(words)]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    streams = Streams(grammar)
    return [
        ("XADD", 9, streams.xadd),
        ("XTRIM", 2, streams.xtrim),
        ("XDEL", 2, lambda: [Step([b"XDEL", streams.key(), *streams.ids()])]),
        ("XSETID", 0.3, streams.xsetid),
        ("XLEN", 1, lambda: [Step([b"XLEN", streams.key()])]),
        ("XRANGE", 4, streams.xrange),
        ("XREAD", 3, streams.xread),
        ("XREADGROUP", 5, streams.xreadgroup),
        ("XGROUP", 3, streams.xgroup),
        ("XACK", 1.5, lambda: [Step([b"XACK", streams.key(), streams.group(), *streams.ids()])]),
        ("XPENDING", 2, streams.xpending),
        ("XCLAIM", 2, streams.xclaim),
        ("XAUTOCLAIM", 1.5, streams.xautoclaim),
        ("XINFO", 3, streams.xinfo),
    ]
