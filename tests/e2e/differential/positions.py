"""Random commands of positions (GEOADD and its relatives)."""

from .step import Step

KEYS = [b"geo0", b"geo1", b"{t}geo"]
MEMBERS = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"", b"\x00\xff"]
EDGES = [b"0", b"180", b"-180", b"85.05112878", b"-85.05112878", b"90", b"1e-7", b"-0", b"181", b"-90.5", b"inf", b"nan", b"abc", b"", b" 1"]
DISTANCES = [b"0", b"1", b"100", b"5000", b"20000", b"1e9", b"0.5", b"-1", b"inf", b"abc", b"", b"nan"]


class Positions:
    """Makes the arguments. Few places, some close together and some far apart; rarely with equal distances."""

    def __init__(self, grammar):
        self.g = grammar

    def key(self):
        return self.g.key_of("sorted set") if self.g.chance(8) else self.g.rng.choice(KEYS)

    def member(self):
        return self.g.rng.choice(MEMBERS)

    def place(self):
        g = self.g
        if g.chance(4):
            return [g.rng.choice(EDGES), g.rng.choice(EDGES)]
        around = g.rng.choice([(0, 0, 180, 85), (13, 38, 1, 1), (13, 38, 1, 1), (-179.9, 84, 0.1, 1), (2, -70, 20, 14), (0, 0, 0.01, 0.01)])
        return [b"%.*f" % (g.rng.choice([2, 6, 9]), max(-180, min(180, around[0] + g.rng.uniform(-around[2], around[2])))),
                b"%.*f" % (g.rng.choice([2, 6, 9]), max(-85.05, min(85.05, around[1] + g.rng.uniform(-around[3], around[3]))))]

    def unit(self):
        g = self.g
        return g.word(g.rng.choice(["m", "km", "km", "ft", "mi"]))

    def distance(self):
        g = self.g
        return g.rng.choice(DISTANCES) if g.chance(30) else b"%.3f" % g.rng.choice([g.rng.uniform(0, 2), g.rng.uniform(0, 300), g.rng.uniform(0, 20000)])

    def geoadd(self):
        g = self.g
        options = [g.word(g.rng.choice(["NX", "XX", "CH"])) for _ in range(g.rng.choice([0, 0, 0, 1, 2]))]
        words = [b"GEOADD", self.key(), *options]
        for _ in range(g.rng.choice([1, 1, 3, 8])):
            words += [*self.place(), self.member()]
        return [Step(words[:-1] if g.chance(2) else words)]

    def members(self, name):
        return [Step([name, self.key(), *(self.member() for _ in range(self.g.rng.choice([0, 1, 2, 12])))])]

    def geodist(self):
        words = [b"GEODIST", self.key(), self.member(), self.member()]
        if self.g.chance(60):
            words.append(self.unit())
        return [Step(words + [b"m"] if self.g.chance(2) else words)]

    def options(self, stores):
        g, words, count = self.g, [], False
        for option in ("WITHCOORD", "WITHDIST", "WITHHASH"):
            if g.chance(35 if not stores else 3):
                words.append([g.word(option)])
        if g.chance(40):
            words.append([g.word(g.rng.choice(["ASC", "DESC"]))])
        if g.chance(40):
            words.append([g.word("COUNT"), g.rng.choice([b"1", b"2", b"3", b"100", b"0", b"-1", b"abc"])])
            count = True
        if g.chance(25 if count else 2):
            words.append([g.word("ANY")])
        if g.chance(2):
            words.append([g.word(g.rng.choice(["COUNT", "STORE", "STOREDIST", "BYBOX", "nonsense"]))])
        return words

    def shuffled(self, options):
        self.g.rng.shuffle(options)
        return [word for option in options for word in option]

    def geosearch(self):
        g, stores = self.g, self.g.chance(30)
        words = [b"GEOSEARCHSTORE", self.key(), self.key()] if stores else [b"GEOSEARCH", self.key()]
        options = self.options(stores)
        options.append([g.word("FROMMEMBER"), self.member()] if g.chance(50) else [g.word("FROMLONLAT"), *self.place()])
        options.append([g.word("BYRADIUS"), self.distance(), self.unit()] if g.chance(50)
                       else [g.word("BYBOX"), self.distance(), self.distance(), self.unit()])
        if g.chance(30 if stores else 2):
            options.append([g.word("STOREDIST")])
        if g.chance(4):
            options.pop(g.rng.randrange(len(options)))
        return [Step([*words, *self.shuffled(options)])]

    def georadius(self):
        g = self.g
        name = g.rng.choice([b"GEORADIUS", b"GEORADIUS_RO", b"GEORADIUSBYMEMBER", b"GEORADIUSBYMEMBER_RO"])
        words = [name, self.key(), *([self.member()] if b"MEMBER" in name else self.place()), self.distance(), self.unit()]
        stores = g.chance(30 if not name.endswith(b"_RO") else 3)
        options = self.options(stores)
        for _ in range(g.rng.choice([1, 1, 2]) if stores else 0):
            options.append([g.word(g.rng.choice(["STORE", "STOREDIST"])), self.key()])
        return [Step([*words, *self.shuffled(options)])]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    p = Positions(grammar)
    return [
        ("GEOADD", 3, p.geoadd),
        ("GEOHASH", 0.7, lambda: p.members(b"GEOHASH")),
        ("GEOPOS", 0.7, lambda: p.members(b"GEOPOS")),
        ("GEODIST", 1, p.geodist),
        ("GEOSEARCH", 2, p.geosearch),
        ("GEORADIUS", 2, p.georadius),
        ("ZRANGE", 0.5, lambda: [Step([b"ZRANGE", p.key(), b"0", b"-1", b"WITHSCORES"])]),
    ]
