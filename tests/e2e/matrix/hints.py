"""Hints that the command table cannot give: effective arguments, and replies that may differ.

No hint is required for a command to be in the matrix: an argument without a hint gets a word of its type.
"""

#: Keys of one cell that are brought into its state.
KEYS = 3
#: A time far away, in seconds and ms: it must come back exactly.
FAR_S = 4102444800
FAR_MS = FAR_S * 1000 + 123


class Key:
    """The n-th key of the cell."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Key) and self.number == other.number

    __hash__ = object.__hash__


class Placeholder:
    """A word that each cell fills in: two of one kind are equal."""

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = object.__hash__


class Extra:
    """A key of the cell that only its neighbours use."""

    def __init__(self, number):
        self.number = number


class Absent(Placeholder):
    """A key that never existed."""


class Database(Placeholder):
    """The cell's database."""


class OtherDatabase(Placeholder):
    """The database with which the cell's database is exchanged."""


class Pattern(Placeholder):
    """A glob that fits the cell's keys."""


class Channel(Placeholder):
    """A channel of the cell."""


class Dump(Placeholder):
    """The DUMP payload of a string."""


class Directory(Placeholder):
    """A directory that does not exist yet."""


#: By type of argument.
TYPES = {
    "integer": [b"2"],
    "double": [b"1.5"],
    "string": [b"word"],
    "pattern": [Pattern()],
    "unix-time": [b"%d" % FAR_S],
}

#: By name of argument, or "COMMAND name" where the name alone means several things.
NAMES = {
    "seconds": [b"100000"],
    "milliseconds": [b"100000000"],
    "unix-time-milliseconds": [b"%d" % FAR_MS],
    "EXPIRE seconds": [b"100000", b"-1"],
    "PEXPIRE milliseconds": [b"100000000", b"-1"],
    "PEXPIREAT unix-time-milliseconds": [b"%d" % FAR_MS, b"1"],
    # A name that no cell of ACL has made a user of.
    "CLIENT|KILL username": [b"nobody"],
    "RESTORE ttl": [b"0", b"%d" % 100000000],
    # The same, or the key goes while the cell looks at it.
    "RESTORE-ASKING ttl": [b"0", b"%d" % 100000000],
    "value": [b"a value", b"17"],
    "increment": [b"5"],
    "APPEND value": [b"more"],
    "SETRANGE offset": [b"3", b"0"],
    "SETRANGE value": [b"XY", b""],
    "start": [b"0", b"-3"],
    "end": [b"-1"],
    "serialized-value": [Dump()],
    "destination-db": [OtherDatabase()],
    "MOVE db": [OtherDatabase()],
    "SELECT index": [OtherDatabase(), b"0"],
    "index1": [Database()],
    "index2": [OtherDatabase()],
    "cursor": [b"0"],
    "SCAN type": [b"string", b"list"],
    "timeout": [b"20"],
    "CLIENT|PAUSE timeout": [b"5"],
    "WAIT numreplicas": [b"0", b"1"],
    "WAITAOF numlocal": [b"0", b"1"],
    "WAITAOF numreplicas": [b"0", b"1"],
    "WAITAOF timeout": [b"20", b"0"],
    "WAIT timeout": [b"20", b"0"],
    "channel": [Channel()],
    "client-id": [b"987654321"],
    "section": [b"everything", b"keyspace"],
    # Nobody listens there.
    "MIGRATE host": [b"127.0.0.1"],
    "MIGRATE port": [b"1"],
    # Longer than a connection is refused.
    "MIGRATE timeout": [b"20000"],
    "REPLICAOF host": [b"NO"],
    "REPLICAOF port": [b"ONE"],
    "SLAVEOF host": [b"NO"],
    "SLAVEOF port": [b"ONE"],
    "directory": [Directory()],
    "HELLO protover": [b"2", b"3"],
    "command-name": [b"get"],
    "COMMAND|GETKEYS command": [b"GET"],
    "COMMAND|GETKEYSANDFLAGS command": [b"GET"],
    "parameter": [b"maxmemory*"],
    "field": [b"field", b"17"],
    "HINCRBY increment": [b"5", b"9223372036854775807"],
    "HINCRBYFLOAT increment": [b"0.5", b"inf"],
    "HRANDFIELD count": [b"2", b"-2"],
    "numfields": [b"1"],
    "HEXPIRE seconds": [b"100000", b"0"],
    "HPEXPIRE milliseconds": [b"100000000", b"0"],
    "HPEXPIREAT unix-time-milliseconds": [b"%d" % FAR_MS, b"1"],
    "SETBIT value": [b"1", b"0"],
    "BITPOS bit": [b"1", b"0"],
    "BITCOUNT start": [b"0", b"-3"],
    "BITOP operation": [b"XOR", b"NOT"],
    "encoding": [b"u8", b"i16"],
    "PFDEBUG subcommand": [b"ENCODING", b"TODENSE", b"DECODE"],
    "ZADD score": [b"1.5", b"-inf"],
    "ZINCRBY increment": [b"0.5", b"inf"],
    "ZLEXCOUNT min": [b"-", b"[w"],
    "ZLEXCOUNT max": [b"+"],
    "ZRANGEBYLEX min": [b"-", b"[w"],
    "ZRANGEBYLEX max": [b"+"],
    "ZREVRANGEBYLEX min": [b"-", b"[w"],
    "ZREVRANGEBYLEX max": [b"+"],
    "ZREMRANGEBYLEX min": [b"-", b"[w"],
    "ZREMRANGEBYLEX max": [b"+"],
    "ZRANGE start": [b"0", b"-2"],
    "ZRANGE stop": [b"-1"],
    "ZRANGESTORE min": [b"0", b"-2"],
    "ZRANGESTORE max": [b"-1"],
    "ZREVRANGE stop": [b"-1"],
    "ZREMRANGEBYRANK start": [b"0", b"-1"],
    "ZREMRANGEBYRANK stop": [b"-1", b"0"],
    "ZCOUNT min": [b"-inf", b"(1"],
    "ZRANGEBYSCORE min": [b"-inf", b"(1"],
    "ZREVRANGEBYSCORE max": [b"+inf", b"(5"],
    "ZREMRANGEBYSCORE min": [b"-inf", b"(1"],
    "ZCOUNT max": [b"+inf", b"5"],
    "ZRANGEBYSCORE max": [b"+inf", b"5"],
    "ZREVRANGEBYSCORE min": [b"-inf", b"1"],
    "ZREMRANGEBYSCORE max": [b"+inf", b"5"],
    "ZRANDMEMBER count": [b"2", b"-2"],
    "ZUNION numkeys": [b"1", b"2"],
    "ZUNIONSTORE numkeys": [b"1", b"2"],
    "ZINTER numkeys": [b"1", b"2"],
    "ZINTERSTORE numkeys": [b"1", b"2"],
    "ZDIFF numkeys": [b"1", b"2"],
    "ZDIFFSTORE numkeys": [b"1", b"2"],
    "ZINTERCARD numkeys": [b"1", b"2"],
    "ZMPOP numkeys": [b"1", b"2"],
    "BZMPOP numkeys": [b"1", b"2"],
    "BZMPOP timeout": [b"0.001"],
    "ACL|DRYRUN username": [b"default", b"nobody"],
    "BLPOP timeout": [b"0.001"],
    "BRPOP timeout": [b"0.001"],
    "BLMPOP timeout": [b"0.001"],
    "BLMOVE timeout": [b"0.001"],
    "BRPOPLPUSH timeout": [b"0.001"],
    "BZPOPMIN timeout": [b"0.001"],
    "BZPOPMAX timeout": [b"0.001"],
    "GEOSEARCH radius": [b"7000000"],
    "GEOSEARCHSTORE radius": [b"7000000"],
    "GEORADIUS radius": [b"7000000"],
    "GEORADIUS_RO radius": [b"7000000"],
    "GEORADIUSBYMEMBER radius": [b"7000000"],
    "GEORADIUSBYMEMBER_RO radius": [b"7000000"],
    "SORT by-pattern": [b"*", b"nosort"],
    "SORT get-pattern": [b"#", b"*"],
    "SORT_RO by-pattern": [b"*", b"nosort"],
    "SORT_RO get-pattern": [b"#", b"*"],
    "SORT offset": [b"0"],
    "SORT_RO offset": [b"0"],
}

#: Requests of commands whose specification says too little: lists of what follows the name.
REQUESTS = {
    "CONFIG|SET": [
        [b"maxmemory", b"200mb"], [b"maxmemory-policy", b"allkeys-lru"], [b"appendfsync", b"always"], [b"save", b""],
        [b"hz", b"20", b"maxmemory-samples", b"7"], [b"maxmemory", b"word"], [b"no-such-directive", b"1"],
    ],
    "DEBUG": [
        [b"DIGEST"], [b"DIGEST-VALUE", Key(0), Key(1)], [b"OBJECT", Key(0)], [b"SDSLEN", Key(0)], [b"SLEEP", b"0"],
        [b"HTSTATS", b"0"], [b"SET-ACTIVE-EXPIRE", b"0"], [b"RELOAD"],
        [b"PROTOCOL", b"map"], [b"ERROR", b"ERR wanted"], [b"HELP"], [b"nosuch"],
    ],
    # Never an id of the server's clock: each would have its own.
    "XADD": [
        [Key(0), b"7-1", b"field", b"word"], [Key(0), b"NOMKSTREAM", b"7-*", b"17", b"5", b"field", b""],
        [Key(0), b"MAXLEN", b"=", b"1", b"7-1", b"field", b"word"], [Key(0), b"MINID", b"~", b"6", b"LIMIT", b"5", b"9-9", b"f", b"v"],
        [Key(0), b"1-1", b"field", b"word"], [Key(0), b"word", b"field", b"word"], [Key(0), b"7-1", b"field"],
    ],
    "XREAD": [
        [b"STREAMS", Key(0), b"0"], [b"COUNT", b"1", b"STREAMS", Key(0), Key(1), b"0", b"5-0"], [b"BLOCK", b"1", b"STREAMS", Key(0), b"$"],
        [b"STREAMS", Key(0), Key(1), b"0"], [b"BLOCK", b"-1", b"STREAMS", Key(0), b"0"],
    ],
    "XREADGROUP": [
        [b"GROUP", b"g", b"one", b"COUNT", b"1", b"STREAMS", Key(0), b">"], [b"GROUP", b"g", b"one", b"NOACK", b"STREAMS", Key(0), Key(1), b">", b"0"],
        [b"GROUP", b"g", b"one", b"BLOCK", b"1", b"STREAMS", Key(0), b">"], [b"GROUP", b"g", b"STREAMS", Key(0), b">"],
    ],
    "SLOWLOG|GET": [[], [b"1"], [b"-1"]],
    "REPLICAOF": [[b"NO", b"ONE"]],
    "SLAVEOF": [[b"NO", b"ONE"]],
}

#: By group of commands: how a key gets a value of their type.
COLLECTIONS = {
    "hyperloglog": lambda key, value: [b"PFADD", key, value, b"5", b"word"],
    "hash": lambda key, value: [b"HSET", key, b"field", value, b"17", b"5", b"long", b"x" * 70],
    "list": lambda key, value: [b"RPUSH", key, value, b"5", b"word", b"-3"],
    "stream": lambda key, value: [b"XADD", key, b"5-1", b"field", value, b"17", b"5"],
    "set": lambda key, value: [b"SADD", key, value, b"5", b"word"],
    "sorted-set": lambda key, value: [b"ZADD", key, b"1", value, b"5", b"word", b"-inf", b"first"],
    "geo": lambda key, value: [b"GEOADD", key, b"2", b"40", value, b"1.5", b"1.5", b"word", b"-70", b"-20", b"far"],
}
#: Commands that draw what they change: the data behind them is each server's own.
DRAWS = {"SPOP"}


def first_value(case, number, key, value):
    """The request that gives a key of a cell its initial value: the last key is a string in every cell."""
    make = COLLECTIONS.get(case.group)
    return make(key, value) if make and number + 1 < KEYS else [b"SET", key, value]


#: How replies are compared: exactly, unless it stands here.
EXACT, UNORDERED, TIME, LOOSE, STREAM, IGNORED = "exact", "unordered", "time", "loose", "stream", "ignored"
TAGS = {
    UNORDERED: {
        "KEYS", "PUBSUB|CHANNELS", "COMMAND|GETKEYSANDFLAGS", "SUBSCRIBE", "PSUBSCRIBE", "HGETALL", "HKEYS", "HVALS",
        "SMEMBERS", "SUNION", "SINTER", "SDIFF",
    },
    TIME: {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"},
    # An error must be the same error, an answer one of the same kind: what it says is each server's own.
    LOOSE: {
        "INFO", "LOLWUT", "TIME", "LASTSAVE", "ROLE", "RANDOMKEY", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "HRANDFIELD",
        "SRANDMEMBER", "ZRANDMEMBER", "SPOP", "HELLO", "COMMAND", "DUMP", "WAIT", "DBSIZE",
    },
    STREAM: {"MONITOR"},
    # Whether a save is under way is a question of moments; DEBUG shows what is inside.
    IGNORED: {"BGSAVE", "BGREWRITEAOF", "SAVE", "DEBUG"},
}
#: Refused in scripts on purpose (docs/differences.md): they ask all shards.
NOT_IN_SCRIPTS = ("INFO", "MEMORY|STATS", "MIGRATE")
#: What it sets on the reference's connection stays after RESET there: the next EVAL would be debugged. Later cells get a
#: connection of their own.
OUTLIVES_RESET = ("SCRIPT|DEBUG",)
LOOSE_CONTAINERS = ("CLIENT", "MEMORY", "COMMAND", "CONFIG", "LATENCY", "SLOWLOG", "ACL", "OBJECT", "MODULE", "FUNCTION", "SCRIPT")
EXACT_WITHIN = {
    "CLIENT|REPLY", "CLIENT|SETNAME", "CLIENT|GETNAME", "CLIENT|PAUSE", "CLIENT|UNPAUSE", "CLIENT|NO-EVICT", "CLIENT|UNBLOCK",
    "CONFIG|SET", "CONFIG|RESETSTAT", "OBJECT|ENCODING", "SLOWLOG|RESET", "COMMAND|GETKEYS",
}


def tag_of(command):
    for tag, commands in TAGS.items():
        if command in commands:
            return tag
    if command in EXACT_WITHIN:
        return EXACT
    return LOOSE if command.split("|")[0] in LOOSE_CONTAINERS else EXACT


def values(command, name, kind):
    """Values for an argument of this name and type."""
    return NAMES.get(f"{command} {name}") or NAMES.get(name) or TYPES.get(kind) or [b"word"]


def requests(command):
    """All valid requests of a command whose specification is insufficient, or None."""
    return REQUESTS.get(command)


def is_left_out(command, words):
    """Requests that no server survives, or that only wait."""
    if command == "SHUTDOWN":
        return b"ABORT" not in words and b"extra" not in words
    if command in ("SYNC", "PSYNC"):
        return True  # full_copy compares them: what follows is no reply
    if command in ("ZRANK", "ZREVRANK") and len(words) > 3:
        return True  # the reference does not have WITHSCORE; hash_fields compares it with Valkey
    return command == "CLIENT|KILL" and b"TYPE" in words


#: Requests that empty or replace more than the cell's own keys.
EMPTIES_DATABASE = {"FLUSHDB"}


def may_wait(case):
    """Whether the request blocks for ever unless another client wakes it."""
    return case.command in ("WAIT", "WAITAOF") and case.valid and case.words[-1] == b"0"


def walks(case):
    """Whether the request accesses keys without naming them: it is then tried in every state of the keys, too."""
    return case.valid and case.command in ("KEYS", "SCAN", "DBSIZE", "RANDOMKEY", "FLUSHDB", "SWAPDB", "FLUSHALL", "DEBUG", "INFO")


def empties_all(case):
    """Whether the request puts every key into another state."""
    return case.command == "FLUSHALL" and case.valid or b"RELOAD" in case.words


#: The reference has no bound: its keys are in memory, and refusing them is no state of ours.
UNBOUND = {b"maxmemory": b"0", b"maxmemory-policy": b"noeviction"}
