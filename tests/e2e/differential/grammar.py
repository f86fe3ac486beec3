"""Random commands: a weighted grammar with valid, edge-case and invalid arguments.

There are few keys, so that commands interact; times are far away or already past, so that the two servers
agree although they run slightly apart. A key that must really expire is set with a lifetime of a
few ms and followed by a `wait` step before any other command can read it.
"""

import random

from . import bits, hashes, hyperloglogs, lists, positions, sets, sorted_sets, sorting, streams
from .step import EXACT, LENGTH, MAP_KEYS, MILLIS, SECONDS, SHAPE, SUPERSET, UNORDERED, Step

#: Keys that commands of one family mostly use, by family; strings may lie under them, too.
FAMILY_KEYS = {
    "hash": [b"h0", b"h1", b"{t}h"],
    "hyperloglog": [b"p0", b"p1", b"{t}p"],
    "list": [b"l0", b"l1", b"{t}l"],
    "set": [b"s0", b"s1", b"{t}s"],
    "stream": [b"x0", b"x1", b"{t}x"],
    "sorted set": [b"z0", b"z1", b"{t}z"],
}
STRING_KEYS = [b"k0", b"k1", b"k2", b"k3", b"k4", b"{t}a", b"{t}b", b"", b"a key", b"\x00\xff\r\n$3", b"k*?[x]\\"]
KEYS = STRING_KEYS + [key for keys in FAMILY_KEYS.values() for key in keys]

INTEGERS = [b"0", b"1", b"-1", b"7", b"10", b"255", b"9999", b"10000", b"-9223372036854775808",
            b"9223372036854775807", b"9223372036854775806", b"4294967296"]
NOT_INTEGERS = [b"", b" ", b"abc", b"+1", b"01", b"-0", b"1 ", b" 1", b"1.0", b"0x10", b"1e3",
                b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999", b"\x001"]
FLOATS = [b"0", b"1.5", b"-2.25", b"3.0e2", b"0.1", b"1e-7", b"1e17", b"123456789.123456789", b".5",
          b"5.", b"-0", b"0.30000000000000004", b"1e308", b"3", b"1e-320", b"1e21", b"17179869184.000001"]
NOT_FLOATS = [b"", b"abc", b" 1", b"1 ", b"inf", b"-inf", b"+inf", b"nan", b"1e5000", b"--1", b"1.2.3", b"0x1p"]

# Absolute times: one past, some far in the future; they must come back exactly.
FAR_SECONDS = [4102444800, 4102444801, 7258118400]
FAR_MS = [s * 1000 + 123 for s in FAR_SECONDS]
PAST_SECONDS = [1, 1000000000]
BAD_TIMES = [b"0", b"-1", b"abc", b"", b"1.5", b"9223372036854775807", b"-9223372036854775808",
             b"9223372036854775", b"9223372036854776", b"99999999999999999999", b"-5000000000000"]


class Grammar:
    """Generates the steps of one episode. `available` are the commands of the server under test;
    others are not generated. `dump` is a DUMP payload of the reference server."""

    def __init__(self, seed, resp3, available, dump=b""):
        self.rng = random.Random(seed)
        self.resp3 = resp3
        self.available = available
        self.dump = dump
        self.in_multi = [False] * 3
        self.stays = None
        table = [(name, weight, method) for name, weight, method in self.table() if self.known(name)]
        self.names = [row[0] for row in table]
        self.weights = [row[1] for row in table]
        self.methods = [row[2] for row in table]

    def known(self, name):
        return name.startswith("?") or name.lower() in self.available

    # ---- arguments -------------------------------------------------------------------------

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def key(self):
        if self.stays is not None and self.chance(85):
            return self.stays
        return self.rng.choice(KEYS) if self.chance(30) else self.rng.choice(STRING_KEYS[:5])

    def key_of(self, family):
        """A key of the family, or rarely any other; one that stays, where the batch is on one."""
        if self.stays is not None:
            if self.stays not in FAMILY_KEYS[family]:
                self.stays = self.rng.choice(FAMILY_KEYS[family])
            if self.chance(92):
                return self.stays
        return self.key() if self.chance(6) else self.rng.choice(FAMILY_KEYS[family])

    def keys(self, low=1, high=4):
        return [self.key() for _ in range(self.rng.randint(low, high))]

    def integer(self):
        roll = self.rng.random()
        if roll < 0.6:
            return b"%d" % self.rng.randint(-20, 20)
        return self.rng.choice(INTEGERS) if roll < 0.85 else self.rng.choice(NOT_INTEGERS)

    def floating(self):
        roll = self.rng.random()
        if roll < 0.35:
            return b"%.3f" % self.rng.uniform(-100, 100)
        return self.rng.choice(FLOATS) if roll < 0.85 else self.rng.choice(NOT_FLOATS)

    def value(self):
        roll = self.rng.random()
        if roll < 0.4:
            return self.integer()
        if roll < 0.5:
            return self.floating()
        if roll < 0.6:
            return bytes(self.rng.randrange(256) for _ in range(self.rng.choice([1, 2, 43, 44, 45, 46])))
        if roll < 0.63:
            return self.rng.choice([b"x" * 1000, b"ab" * 9000, b"z" * 70000])
        return bytes(self.rng.choice(b"abcd") for _ in range(self.rng.randint(0, 60)))

    def index(self):
        if self.chance(12):
            return self.rng.choice(NOT_INTEGERS + INTEGERS)
        return b"%d" % self.rng.randint(-60, 60)

    def database(self):
        if self.chance(20):
            return self.rng.choice([b"16", b"-1", b"abc", b"99999999999999999999", b"2147483648", b"1.0"])
        return b"%d" % self.rng.choice([0, 0, 0, 1, 1, 2, 15])

    def relative(self, unit_ms):
        if self.chance(15):
            return self.rng.choice(BAD_TIMES)
        seconds = self.rng.randint(100, 1_000_000)
        if self.chance(10):
            seconds += 10**9
        return b"%d" % (seconds * (1000 // unit_ms))

    def absolute(self, unit_ms):
        roll = self.rng.random()
        if roll < 0.15:
            return self.rng.choice(BAD_TIMES)
        if roll < 0.25:
            return b"%d" % (self.rng.choice(PAST_SECONDS) * (1000 // unit_ms))
        return b"%d" % self.rng.choice(FAR_SECONDS if unit_ms == 1000 else FAR_MS)

    def word(self, text):
        """An option word in random case, sometimes misspelt."""
        if self.chance(2):
            text = text + "x"
        if self.chance(30):
            text = text.lower()
        return text.encode()

    def expiry_option(self, extra=()):
        option = self.rng.choice(["EX", "PX", "EXAT", "PXAT", *extra])
        words = [self.word(option)]
        if option in ("EX", "PX"):
            words.append(self.relative(1000 if option == "EX" else 1))
        elif option in ("EXAT", "PXAT"):
            words.append(self.absolute(1000 if option == "EXAT" else 1))
        if self.chance(3):
            words = words[:1]
        return words

    def pattern(self):
        return self.rng.choice([b"*", b"k*", b"k?", b"k[0-2]", b"k[^0]", b"k[2-0]", b"\\k0", b"k[", b"k\\*?[x]\\\\",
                                b"*a*", b"{t}*", b"", b"nothing", b"k[0-", b"?*?", b"*[ab]", b"K*", b"k\\"])

    # ---- commands --------------------------------------------------------------------------

    def table(self):
        """(command, weight, generator). A leading `?` marks rows that need no single command."""
        c = self.rng.choice
        return [
            ("GET", 8, lambda: [Step([b"GET", self.key()])]),
            ("SET", 9, self.set),
            ("SETNX", 2, lambda: [Step([b"SETNX", self.key(), self.value()])]),
            ("SETEX", 2, lambda: [Step([b"SETEX", self.key(), self.relative(1000), self.value()])]),
            ("PSETEX", 2, lambda: [Step([b"PSETEX", self.key(), self.relative(1), self.value()])]),
            ("GETSET", 2, lambda: [Step([b"GETSET", self.key(), self.value()])]),
            ("GETDEL", 2, lambda: [Step([b"GETDEL", self.key()])]),
            ("GETEX", 4, self.getex),
            ("APPEND", 4, lambda: [Step([b"APPEND", self.key(), self.value()])]),
            ("STRLEN", 2, lambda: [Step([b"STRLEN", self.key()])]),
            ("INCR", 4, lambda: [Step([b"INCR", self.key()])]),
            ("DECR", 2, lambda: [Step([b"DECR", self.key()])]),
            ("INCRBY", 3, lambda: [Step([b"INCRBY", self.key(), self.integer()])]),
            ("DECRBY", 3, lambda: [Step([b"DECRBY", self.key(), self.integer()])]),
            ("INCRBYFLOAT", 4, lambda: [Step([b"INCRBYFLOAT", self.key(), self.floating()])]),
            ("GETRANGE", 3, lambda: [Step([b"GETRANGE", self.key(), self.index(), self.index()])]),
            ("SUBSTR", 1, lambda: [Step([b"SUBSTR", self.key(), self.index(), self.index()])]),
            ("SETRANGE", 3, self.setrange),
            ("MGET", 3, lambda: [Step([b"MGET", *self.keys()])]),
            ("MSET", 3, lambda: [Step([b"MSET", *self.pairs()])]),
            ("MSETNX", 2, lambda: [Step([b"MSETNX", *self.pairs()])]),
            ("LCS", 2, self.lcs),
            ("DEL", 4, lambda: [Step([b"DEL", *self.keys()])]),
            ("UNLINK", 2, lambda: [Step([b"UNLINK", *self.keys()])]),
            ("EXISTS", 3, lambda: [Step([b"EXISTS", *self.keys()])]),
            ("TOUCH", 1, lambda: [Step([b"TOUCH", *self.keys()])]),
            ("TYPE", 2, lambda: [Step([b"TYPE", self.key()])]),
            ("RENAME", 3, lambda: [Step([b"RENAME", self.key(), self.key()])]),
            ("RENAMENX", 2, lambda: [Step([b"RENAMENX", self.key(), self.key()])]),
            ("COPY", 3, self.copy),
            ("MOVE", 2, lambda: [Step([b"MOVE", self.key(), self.database()])]),
            ("RANDOMKEY", 1, self.randomkey),
            ("KEYS", 1, lambda: [Step([b"KEYS", self.pattern()], UNORDERED)]),
            ("SCAN", 2, self.scan),
            ("DBSIZE", 2, self.dbsize),
            ("EXPIRE", 3, lambda: self.expire("EXPIRE", self.relative(1000))),
            ("PEXPIRE", 3, lambda: self.expire("PEXPIRE", self.relative(1))),
            ("EXPIREAT", 3, lambda: self.expire("EXPIREAT", self.absolute(1000))),
            ("PEXPIREAT", 3, lambda: self.expire("PEXPIREAT", self.absolute(1))),
            ("TTL", 3, lambda: [Step([b"TTL", self.key()], SECONDS)]),
            ("PTTL", 3, lambda: [Step([b"PTTL", self.key()], MILLIS)]),
            ("EXPIRETIME", 2, lambda: [Step([b"EXPIRETIME", self.key()], SECONDS)]),
            ("PEXPIRETIME", 2, lambda: [Step([b"PEXPIRETIME", self.key()], MILLIS)]),
            ("PERSIST", 3, lambda: [Step([b"PERSIST", self.key()])]),
            ("?expire-soon", 0.7, self.expire_soon),
            ("DUMP", 1, lambda: [Step([b"DUMP", self.key()], SHAPE)]),
            ("RESTORE", 1, self.restore),
            ("OBJECT", 2, self.object),
            ("MEMORY", 0.5, self.memory_usage),
            ("MULTI", 3, self.multi),
            ("EXEC", 2, lambda: self.end(b"EXEC")),
            ("DISCARD", 0.7, lambda: self.end(b"DISCARD")),
            ("WATCH", 2, lambda: [Step([b"WATCH", *self.keys()])]),
            ("UNWATCH", 0.7, lambda: [Step([b"UNWATCH"])]),
            ("SELECT", 1.5, lambda: [Step([b"SELECT", self.database()])]),
            ("SWAPDB", 0.5, lambda: [Step([b"SWAPDB", self.database(), self.database()])]),
            ("FLUSHDB", 0.4, lambda: [Step([b"FLUSHDB", *c([[], [b"ASYNC"], [b"sync"], [b"bad"]])])]),
            ("FLUSHALL", 0.2, lambda: [Step([b"FLUSHALL", *c([[], [b"ASYNC"], [b"sync"], [b"bad"]])])]),
            ("PING", 1, lambda: [Step([b"PING", *c([[], [self.value()], [b"a", b"b"]])])]),
            ("ECHO", 1, lambda: [Step([b"ECHO", self.value()])]),
            ("TIME", 0.3, lambda: [Step([b"TIME"], SHAPE)]),
            ("AUTH", 0.4, lambda: [Step([b"AUTH", *c([[b"x"], [b"u", b"p"], [b"default", b"x"], [b"a", b"b", b"c"]])])]),
            ("HELLO", 0.5, self.hello),
            ("RESET", 0.3, self.reset),
            ("CLIENT", 1.5, self.client),
            ("COMMAND", 1, self.command),
            ("CONFIG", 0.6, self.config),
            ("?unknown", 0.6, self.unknown),
            *bits.rows(self), *hashes.rows(self), *hyperloglogs.rows(self), *lists.rows(self), *sets.rows(self), *sorted_sets.rows(self),
            *positions.rows(self), *sorting.rows(self), *streams.rows(self),
        ]

    def pairs(self):
        words = []
        for _ in range(self.rng.randint(1, 4)):
            words += [self.key(), self.value()]
        return words[:-1] if self.chance(5) else words

    def set(self):
        words = [b"SET", self.key(), self.value()]
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2, 3])):
            option = self.rng.choice(["NX", "XX", "GET", "KEEPTTL", "time", "time"])
            words += self.expiry_option() if option == "time" else [self.word(option)]
        return [Step(words)]

    def getex(self):
        words = [b"GETEX", self.key()]
        for _ in range(self.rng.choice([0, 1, 1, 1, 2])):
            words += self.expiry_option(["PERSIST"])
        return [Step(words)]

    def setrange(self):
        offset = b"%d" % self.rng.randint(0, 300)
        if self.chance(20):
            offset = self.rng.choice([b"-1", b"536870912", b"9223372036854775807", *NOT_INTEGERS])
        return [Step([b"SETRANGE", self.key(), offset, self.value()])]

    def lcs(self):
        words = [b"LCS", self.key(), self.key()]
        for _ in range(self.rng.choice([0, 1, 2, 3])):
            option = self.rng.choice(["LEN", "IDX", "MINMATCHLEN", "WITHMATCHLEN"])
            words.append(self.word(option))
            if option == "MINMATCHLEN":
                words.append(self.integer())
        # Long operands make LCS quadratic: cut them first.
        return [Step([b"SET", words[1], self.value()[:60]]), Step(words)]

    def copy(self):
        words = [b"COPY", self.key(), self.key()]
        if self.chance(40):
            words += [self.word("DB"), self.database()]
        if self.chance(40):
            words.append(self.word("REPLACE"))
        return [Step(words)]

    def touch_all(self):
        """Makes both servers delete expired keys, which Redis counts until it accesses them."""
        return Step([b"EXISTS", *KEYS])

    def randomkey(self):
        return [self.touch_all(), Step([b"RANDOMKEY"], SHAPE)]

    def dbsize(self):
        return [self.touch_all(), Step([b"DBSIZE"])]

    def scan(self):
        words = []
        if self.chance(50):
            words += [self.word("MATCH"), self.pattern()]
        if self.chance(40):
            words += [self.word("COUNT"), self.rng.choice([b"1", b"3", b"10", b"1000"])]
        if self.chance(30):
            words += [self.word("TYPE"), self.rng.choice([b"string", b"STRING", b"hash", b"nosuch"])]
        bad = [[b"abc"], [b"0", b"COUNT", b"0"], [b"0", b"COUNT", b"x"], [b"0", b"MATCH"],
               [b"0", b"NOPE", b"1"], [b"1.5"], [b"99999999999999999999999"], [b"0", b"COUNT", b"-3"]]
        if self.chance(25) or self.in_multi[self.conn]:
            return [Step([b"SCAN", *self.rng.choice(bad)])]
        return [Step([b"SCAN", b"0", *words], kind="scan")]

    def expire(self, name, time):
        words = [name.encode(), self.key(), time]
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            words.append(self.word(self.rng.choice(["NX", "XX", "GT", "LT"])))
        return [Step(words)]

    def expire_soon(self):
        if self.in_multi[self.conn]:
            return []
        key, life = self.key(), b"%d" % self.rng.randint(1, 20)
        first = self.pick_known([
            [Step([b"SET", key, self.value(), b"PX", life])],
            [Step([b"PSETEX", key, life, self.value()])],
            [Step([b"SET", key, self.value()]), Step([b"PEXPIRE", key, life])],
            [Step([b"SET", key, self.value()]), Step([b"GETEX", key, b"PX", life])],
        ])
        if not first:
            return []
        steps = first + [Step([45], kind="wait")]
        # The first command to meet the dead key differs from case to case.
        meet = self.pick_known([[Step(words)] for words in [
            [b"GET", key], [b"TTL", key], [b"APPEND", key, b"x"], [b"INCR", key], [b"SETNX", key, b"1"],
            [b"RENAME", key, self.key()], [b"RENAMENX", self.key(), key], [b"DEL", key], [b"TYPE", key],
            [b"SET", key, b"v", b"XX"], [b"SET", key, b"v", b"KEEPTTL"], [b"EXPIRE", key, b"500"],
            [b"PERSIST", key], [b"GETDEL", key], [b"COPY", key, self.key()], [b"STRLEN", key],
            [b"MSETNX", key, b"1", self.key(), b"2"], [b"SETRANGE", key, b"2", b"ab"], [b"GETRANGE", key, b"0", b"-1"],
        ]])
        return steps + meet

    def pick_known(self, candidates):
        """One of the lists of steps whose commands the server has, or none of them."""
        known = [steps for steps in candidates if all(self.known(step.name()) for step in steps)]
        return self.rng.choice(known) if known else []

    def restore(self):
        ttl = self.rng.choice([b"0", b"0", b"500000", b"-1", b"abc"])
        words = [b"RESTORE", self.key(), ttl, self.dump if self.chance(80) else self.value()]
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            words += self.rng.choice([[b"REPLACE"], [b"ABSTTL"], [b"IDLETIME", b"5"], [b"FREQ", b"3"], [b"bad"]])
        if b"ABSTTL" in words and ttl == b"500000":
            words[2] = b"%d" % FAR_MS[0]
        return [Step(words)]

    def object(self):
        sub = self.rng.choice([b"ENCODING", b"ENCODING", b"ENCODING", b"IDLETIME", b"REFCOUNT", b"FREQ", b"HELP", b"nope"])
        if sub == b"HELP":
            return [Step([b"OBJECT", b"HELP"])]
        return [Step([b"OBJECT", sub, self.key()], SHAPE if sub in (b"IDLETIME", b"REFCOUNT") else EXACT)]

    def memory_usage(self):
        """Redis measures an expired key until a command accesses it: EXISTS deletes it."""
        key = self.key()
        return [Step([b"EXISTS", key]), Step([b"MEMORY", b"USAGE", key], SHAPE)]

    def multi(self):
        if not self.in_multi[self.conn]:
            self.in_multi[self.conn] = True
        return [Step([b"MULTI"])]

    def end(self, name):
        self.in_multi[self.conn] = False
        return [Step([name])]

    def hello(self):
        version = b"3" if self.resp3 else b"2"
        good = [[version], [], [version, b"SETNAME", b"me"]]
        bad = [[b"4"], [b"1"], [b"abc"], [version, b"AUTH", b"u", b"p"], [version, b"nope"], [version, b"SETNAME", b"a b"]]
        if self.chance(40):
            return [Step([b"HELLO", *self.rng.choice(bad)])]
        return [Step([b"HELLO", *self.rng.choice(good)], MAP_KEYS)]

    def reset(self):
        self.in_multi[self.conn] = False
        return [Step([b"RESET"]), Step([b"HELLO", b"3" if self.resp3 else b"2"], MAP_KEYS)]

    def client(self):
        exact = [[b"GETNAME"], [b"SETNAME", b"name"], [b"SETNAME", b""], [b"SETNAME", b"a b"], [b"SETNAME", b"a\n"],
                 [b"REPLY", b"ON"], [b"REPLY", b"bad"], [b"KILL", b"127.0.0.1:1"], [b"KILL", b"ID", b"abc"], [b"nope"],
                 [b"NO-EVICT", b"on"], [b"NO-EVICT", b"bad"], [b"SETNAME"], [b"GETNAME", b"x"], [b"UNPAUSE"],
                 [b"LIST", b"TYPE", b"bad"], [b"GETREDIR"], [b"PAUSE", b"abc"], [b"UNBLOCK", b"abc"]]
        if self.chance(20):
            return [Step([b"CLIENT", self.rng.choice([b"ID", b"INFO", b"LIST"])], SHAPE)]
        if self.chance(5):
            # A server may have subcommands that Redis 7.0 lacks; their help comes on top.
            return [Step([b"CLIENT", b"HELP"], SUPERSET)]
        return [Step([b"CLIENT", *self.rng.choice(exact)])]

    def command(self):
        names = [b"get", b"SET", b"mset", b"expire", b"copy", b"nosuch", b"multi", b"scan", b"lcs", b"ping"]
        exact = [[b"GETKEYS", b"GET", b"a"], [b"GETKEYS", b"MSET", b"a", b"1", b"b", b"2"], [b"GETKEYS", b"PING"],
                 [b"GETKEYS", b"nosuch", b"a"], [b"GETKEYS"], [b"GETKEYS", b"SET"], [b"nope"], [b"HELP"],
                 [b"GETKEYSANDFLAGS", b"SET", b"k", b"v"], [b"GETKEYSANDFLAGS", b"GET", b"k"], [b"GETKEYS", b"LCS", b"a", b"b"],
                 [b"LIST", b"FILTERBY", b"bad", b"x"]]
        if self.chance(40):
            return [Step([b"COMMAND", self.rng.choice([b"INFO", b"DOCS"]), self.rng.choice(names)], UNORDERED)]
        if self.chance(10):
            return [Step([b"COMMAND", b"COUNT"], SHAPE)]
        return [Step([b"COMMAND", *self.rng.choice(exact)])]

    def config(self):
        return [Step([b"CONFIG", *self.rng.choice([
            [b"GET", b"no-such-*"], [b"SET", b"no-such-option", b"1"], [b"GET", b"maxmemory-policy"], [b"GET"], [b"SET", b"a"],
            [b"GET", b"databases"], [b"SET", b"maxmemory", b"abc"], [b"SET", b"maxmemory-policy", b"bad"], [b"nope"],
            [b"RESETSTAT"], [b"SET", b"hz", b"abc"], [b"GET", b"proto-max-bulk-len"], [b"HELP"],
        ])])]

    def unknown(self):
        return [Step(self.rng.choice([
            [b"NOSUCH"], [b"NOSUCH", b"a", b"b"], [b"nosuch\r\nx", b"y"], [b"n" * 200, b"a" * 300], [b""],
            [b"NOSUCH", *[b"arg"] * 40], [b"GET "], [b"\x00\x01"], [b"client|id"],
        ]))]

    # ---- episodes --------------------------------------------------------------------------

    def mutate(self, step):
        """Occasionally a wrong number of arguments; random case of the name."""
        if step.kind != "cmd":
            return step
        name = step.args[0].upper()
        # SCAN without its wrong option is a page, and the order of a page is nobody's promise.
        stateful = name in (b"SCAN", b"MULTI", b"EXEC", b"DISCARD", b"RESET", b"HELLO", b"SELECT")
        if self.chance(2) and not stateful and step.tag == EXACT:
            # COMMAND alone lists everything, what a server lacks included. SPOP without its wrong count draws at random.
            droppable = len(step.args) > (2 if name == b"COMMAND" else 1) and name != b"SPOP"
            # These have one word more since Redis 7.2 than the reference knows (docs/differences.md).
            if droppable and (name in (b"ZRANK", b"ZREVRANK") or self.chance(60)):
                step.args = step.args[:-1]
            else:
                step.args = step.args + [self.key()]
        if self.chance(20):
            step.args = [step.args[0].lower(), *step.args[1:]]
        return step

    def episode(self, commands, pipelined):
        """About `commands` steps over three connections."""
        steps, batch = [], 0
        self.conn = 0
        while len(steps) < commands:
            batch += 1
            self.conn = self.rng.choice([0, 0, 0, 1, 1, 2])
            methods, weights = self.methods, self.weights
            self.stays = None
            if pipelined and self.chance(40):
                # Related commands on one key, one behind the other: such share a transaction.
                at = self.rng.randrange(len(methods))
                methods, weights = (row[max(at - 6, 0) : at + 7] for row in (methods, weights))
                self.stays = self.rng.choice(STRING_KEYS[:5])
            for _ in range(self.rng.choice([1, 2, 5, 16, 40]) if pipelined else self.rng.randint(1, 6)):
                roll = self.rng.random()
                if self.in_multi[self.conn] and roll < 0.15:
                    made = self.end(b"EXEC" if roll < 0.13 else b"DISCARD")
                else:
                    made = self.rng.choices(methods, weights)[0]()
                # An argument dropped from a key that is about to expire would let it live on, one dropped behind a random
                # choice would let its outcome stay.
                mutable = not any(step.kind == "wait" or len(made) > 1 and step.tag in (LENGTH, SHAPE) for step in made)
                for step in made:
                    step = self.mutate(step) if mutable else step
                    step.conn = self.conn
                    step.batch = batch if pipelined else len(steps) + 1_000_000
                    steps.append(step)
        return steps
