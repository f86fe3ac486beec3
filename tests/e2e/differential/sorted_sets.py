"""Random commands of sorted sets."""

from .lists import TIMEOUTS
from .step import LENGTH, SHAPE, UNORDERED, Step

MEMBERS = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"17", b"-3", b"", b"\x00\xff", b"long" * 17]
SCORES = [b"0", b"1", b"2", b"3", b"-1", b"1.5", b"0.1", b"0.2", b"0.3", b"-0", b"inf", b"-inf", b"1e17", b"3e-7", b"4611686018427387904",
          b"4611686018427389952", b"0x10", b"5.", b".5", b"1e308", b"123456789.123456789", b"17179869184.000001", b"1e-320"]
NO_SCORES = [b"nan", b"", b"abc", b" 1", b"1 ", b"1e400", b"1e-400", b"1\x00", b"--1"]
BOUNDS = [b"-inf", b"+inf", b"0", b"1", b"2", b"3", b"(0", b"(1", b"(2", b"1.5", b"(inf", b"-1", b"1e400"]
NO_BOUNDS = [b"", b"(", b"abc", b"(abc", b"nan", b" 1", b"1 ", b"1\x00x", b"((1", b"[1"]
NAMES = [b"-", b"+", b"[a", b"(a", b"[c", b"(c", b"[e", b"(g", b"[", b"(", b"[17", b"[\x00\xff", b"[zz"]
NO_NAMES = [b"", b"a", b"+x", b"-a", b"+\x00a", b"{", b"inf"]

#: `zset-max-listpack-entries` of the runs.
COMPACT_MAX = 6


class SortedSets:
    """Makes the arguments."""

    def __init__(self, grammar):
        self.g = grammar

    def key(self):
        return self.g.key_of("sorted set")

    def keys(self):
        """Some commands accept plain sets, too."""
        g = self.g
        return [g.key_of("set") if g.chance(25) else self.key() for _ in range(g.rng.choice([1, 2, 2, 3]))]

    def member(self):
        return self.g.rng.choice(MEMBERS[:7] if self.g.chance(80) else MEMBERS)

    def members(self):
        return [self.member() for _ in range(self.g.rng.choice([1, 1, 2, 3, 12]))]

    def score(self):
        g = self.g
        if g.chance(3):
            return g.rng.choice(NO_SCORES)
        return b"%d" % g.rng.randint(-3, 5) if g.chance(50) else g.rng.choice(SCORES)

    def pairs(self, count):
        return [word for _ in range(count) for word in (self.score(), self.member())]

    def zadd(self):
        g = self.g
        if g.chance(2):
            # Across the threshold of the encoding.
            count, spread = g.rng.choice([100, 127, 128, 129, 200]), g.rng.choice([1, 7, 1000])
            words = [word for number in range(count) for word in (b"%d" % (number % spread), b"m%d" % number)]
            return [Step([b"ZADD", self.key(), *words])]
        options = [g.word(g.rng.choice(["NX", "XX", "GT", "LT", "CH", "INCR"])) for _ in range(g.rng.choice([0, 0, 0, 1, 1, 2, 3]))]
        words = [b"ZADD", self.key(), *options, *self.pairs(g.rng.choice([1, 1, 2, 3, 12]))]
        return [Step(words[:-1] if g.chance(2) else words)]

    def zincrby(self):
        return [Step([b"ZINCRBY", self.key(), self.score(), self.member()])]

    def index(self):
        g = self.g
        return b"%d" % g.rng.randint(-8, 8) if g.chance(90) else g.index()

    def bound(self):
        return self.g.rng.choice(BOUNDS if self.g.chance(93) else NO_BOUNDS)

    def name(self):
        return self.g.rng.choice(NAMES if self.g.chance(93) else NO_NAMES)

    def limit(self):
        g = self.g
        return [g.word("LIMIT"), g.rng.choice([b"0", b"0", b"1", b"2", b"-1", b"abc", b"9223372036854775807"]),
                g.rng.choice([b"1", b"2", b"-1", b"0", b"-5", b"5", b"9223372036854775807", b""])]

    def within(self, kind):
        if kind == "rank":
            return [self.index(), self.index()]
        return [self.bound(), self.bound()] if kind == "score" else [self.name(), self.name()]

    def lex_source(self):
        """Redis' walk over names of different scores depends on chance where the sorted set has no compact encoding: one that has it, or
        one of a single score. The key is its own: the other clients' commands come in between."""
        g = self.g
        key = b"small sorted set %d" % g.rng.randrange(10**6)
        count = g.rng.choice([1, 5, 6, 12, 40])
        scores = [b"0", b"0", b"0", b"0", b"1"] if count <= COMPACT_MAX else [g.rng.choice([b"0", b"7"])]
        names = MEMBERS[:-1] if count < 40 else [b"%c%d" % (97 + number % 8, number * 7 % 40) for number in range(60)]
        words = [word for _ in range(count) for word in (g.rng.choice(scores), g.rng.choice(names))]
        return key, [Step([b"DEL", key]), Step([b"ZADD", key, *words])]

    def zrange(self):
        g, before = self.g, []
        kind = g.rng.choice(["rank", "score", "name"])
        key = self.key()
        if kind == "name":
            key, before = self.lex_source()
        stores = g.chance(25)
        words = [b"ZRANGESTORE", self.key(), key] if stores else [b"ZRANGE", key]
        options = [[g.word({"score": "BYSCORE", "name": "BYLEX"}[kind])]] if kind != "rank" else []
        if g.chance(40):
            options.append([g.word("REV")])
        if g.chance(40 if kind != "rank" else 5):
            options.append(self.limit())
        if g.chance(50 if not stores and kind != "name" else 3):
            options.append([g.word("WITHSCORES")])
        if g.chance(2):
            options.append([g.word(g.rng.choice(["REV", "BYSCORE", "BYLEX", "LIMIT"]))])
        g.rng.shuffle(options)
        return [*before, Step([*words, *self.within(kind), *(word for option in options for word in option)])]

    def old_range(self):
        g, before, key = self.g, [], self.key()
        name = g.rng.choice([b"ZREVRANGE", b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE", b"ZRANGEBYLEX", b"ZREVRANGEBYLEX"])
        kind = "rank" if name == b"ZREVRANGE" else "score" if name.endswith(b"SCORE") else "name"
        if kind == "name":
            key, before = self.lex_source()
        words = [name, key, *self.within(kind)]
        if g.chance(50 if kind != "name" else 3):
            words.append(g.word("WITHSCORES"))
        if g.chance(40 if kind != "rank" else 3):
            words += self.limit()
        return [*before, Step(words)]

    def remove_range(self):
        g, before, key = self.g, [], self.key()
        name = g.rng.choice([b"ZREMRANGEBYRANK", b"ZREMRANGEBYSCORE", b"ZREMRANGEBYLEX"])
        kind = {b"K": "rank", b"E": "score", b"X": "name"}[name[-1:]]
        if kind == "name":
            key, before = self.lex_source()
        return [*before, Step([name, key, *self.within(kind)])]

    def zlexcount(self):
        key, before = self.lex_source()
        return [*before, Step([b"ZLEXCOUNT", key, self.name(), self.name()])]

    def count(self):
        return self.g.rng.choice([b"0", b"1", b"2", b"5", b"1000", b"-1", b"abc", b"", b"9223372036854775807", b"9223372036854775808"])

    def zpop(self):
        words = [self.g.rng.choice([b"ZPOPMIN", b"ZPOPMAX"]), self.key()]
        if self.g.chance(50):
            words.append(self.count())
        if self.g.chance(2):
            words.append(b"more")
        return [Step(words)]

    def numbered(self, keys):
        g = self.g
        return b"%d" % len(keys) if g.chance(92) else g.rng.choice([b"0", b"-1", b"abc", b"9", b"9223372036854775807"])

    def mpop(self, name):
        g = self.g
        keys = [self.key() for _ in range(g.rng.randint(1, 3))]
        words = [name, self.numbered(keys), *keys, g.word(g.rng.choice(["MIN", "MAX"]))]
        if g.chance(40):
            words += [g.word("COUNT"), self.count()]
        return words

    def blocking(self):
        """Both servers wait a moment if there is nothing to pop."""
        g = self.g
        timeout = g.rng.choice(TIMEOUTS[:2] if g.chance(80) else TIMEOUTS)
        if g.chance(33):
            words = self.mpop(b"BZMPOP")
            return [Step([words[0], timeout, *words[1:]])]
        return [Step([g.rng.choice([b"BZPOPMIN", b"BZPOPMAX"]), *[self.key() for _ in range(g.rng.randint(1, 3))], timeout])]

    def zrandmember(self):
        g = self.g
        words = [b"ZRANDMEMBER", self.key()]
        if g.chance(30):
            return [Step(words, SHAPE)]
        words.append(g.rng.choice([b"0", b"1", b"2", b"5", b"-1", b"-3", b"-40", b"9223372036854775807", b"-9223372036854775808",
                                   b"4611686018427387904", b"abc", b"", b"1.5"]))
        if g.chance(60):
            words.append(g.word("WITHSCORES"))
        if g.chance(4):
            words.append(b"more")
        return [Step(words, LENGTH)]

    def algebra(self):
        g, keys = self.g, self.keys()
        name, stores = g.rng.choice([b"ZUNION", b"ZINTER", b"ZDIFF"]), g.chance(45)
        words = [name + b"STORE", self.key()] if stores else [name]
        words += [self.numbered(keys), *keys]
        if g.chance(40 if name != b"ZDIFF" else 3):
            weights = [g.rng.choice([b"1", b"2", b"0.5", b"-1", b"0", b"inf", self.score()]) for _ in keys]
            words += [g.word("WEIGHTS"), *(weights[:-1] if g.chance(3) else weights)]
        if g.chance(40 if name != b"ZDIFF" else 3):
            words += [g.word("AGGREGATE"), g.word(g.rng.choice(["SUM", "MIN", "MAX"]))]
        if g.chance(60 if not stores else 3):
            words.append(g.word("WITHSCORES"))
        return [Step(words)]

    def zintercard(self):
        g, keys = self.g, self.keys()
        words = [b"ZINTERCARD", self.numbered(keys), *keys]
        if g.chance(50):
            words += [g.word("LIMIT"), g.rng.choice([b"0", b"1", b"2", b"-1", b"abc"])]
        return [Step(words[:-1] if g.chance(4) else words)]

    def zscan(self):
        g = self.g
        if g.chance(20) or g.in_multi[g.conn]:
            return [Step([b"ZSCAN", self.key(), *g.rng.choice([[b"abc"], [b"0", b"COUNT", b"0"], [b"0", b"NOPE", b"1"]])], UNORDERED)]
        words = []
        if g.chance(40):
            words += [g.word("MATCH"), g.rng.choice([b"*", b"m1*", b"?", b"none"])]
        if g.chance(40):
            words += [g.word("COUNT"), g.rng.choice([b"1", b"30", b"1000"])]
        return [Step([b"ZSCAN", self.key(), b"0", *words], kind="scan")]

    def three_scores(self):
        """The order in which three scores are added affects the last digit."""
        g, keys = self.g, [b"sum of %d" % number for number in range(3)]
        steps = [Step([b"DEL", *keys])]
        for key in keys:
            steps.append(Step([b"ZADD", key, *self.pairs(g.rng.choice([1, 2, 4]))]))
        return [*steps, Step([g.rng.choice([b"ZUNION", b"ZINTER"]), b"3", *keys, b"WITHSCORES"]), Step([b"DEL", *keys])]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    z = SortedSets(grammar)
    return [
        ("ZADD", 8, z.zadd),
        ("ZINCRBY", 2, z.zincrby),
        ("ZREM", 2, lambda: [Step([b"ZREM", z.key(), *z.members()])]),
        ("ZCARD", 1, lambda: [Step([b"ZCARD", z.key()])]),
        ("ZSCORE", 2, lambda: [Step([b"ZSCORE", z.key(), z.member()])]),
        ("ZMSCORE", 1, lambda: [Step([b"ZMSCORE", z.key(), *z.members()])]),
        ("ZRANK", 1, lambda: [Step([b"ZRANK", z.key(), z.member()])]),
        ("ZREVRANK", 1, lambda: [Step([b"ZREVRANK", z.key(), z.member()])]),
        ("ZCOUNT", 1.5, lambda: [Step([b"ZCOUNT", z.key(), z.bound(), z.bound()])]),
        ("ZLEXCOUNT", 0.7, z.zlexcount),
        ("ZRANGE", 5, z.zrange),
        ("ZREVRANGE", 3, z.old_range),
        ("ZREMRANGEBYRANK", 2, z.remove_range),
        ("ZPOPMIN", 2, z.zpop),
        ("ZMPOP", 1, lambda: [Step(z.mpop(b"ZMPOP"))]),
        ("BZPOPMIN", 1, z.blocking),
        ("ZRANDMEMBER", 1, z.zrandmember),
        ("ZUNION", 4, z.algebra),
        ("ZUNION", 0.5, z.three_scores),
        ("ZINTERCARD", 1, z.zintercard),
        ("ZSCAN", 1, z.zscan),
    ]
