"""Workloads of bench_redis.py's rows: the arguments for redis-benchmark, and the data that must be loaded before a run."""

import hashlib
import subprocess

from bench_common import ROOT  # noqa: F401  (puts the harness on the path)
from harness.server import redis_tool

KEY, NUMBER = "key:__rand_int__", "__rand_int__"
#: Values of a row with a size of its own are so few that they take this together.
VALUES_BYTES = 400_000_000
#: Collections of so many elements; all together they have at most two million.
COLLECTIONS = {1: 100_000, 20: 100_000, 1000: 2_000}
#: Members of the sorted set that the rows on a large one work on.
LARGE = 100_000

#: Scripts that rows call by EVALSHA, each with one key: the script, and the key, in which the generator puts a random number.
SCRIPTS = {
    "eval-incr": ("return redis.call('INCR', KEYS[1])", "counter:__rand_int__"),
    "eval-get": ("return redis.call('GET', KEYS[1])", KEY),
    "eval-hset": ("for i = 1, 10 do redis.call('HSET', KEYS[1], 'field' .. i, ARGV[1]) end", "hash:__rand_int__"),
}


class Workload:
    """Requests of one kind.

    `words(value)` are those of redis-benchmark; `needs(count, value)` are commands that fill the server, with as many elements as
    the run has requests where that matters; `keys` is the range of random numbers, 0 for that of the run; `strings` says that the
    keys of the run must be there as strings. What a run uses up (`consumed`) is filled in before each. What redis-benchmark cannot send
    is sent by another `generator`.
    """

    def __init__(self, words, needs=None, keys=0, strings=False, consumed=False, value_bytes=0, generator=None):
        self.words, self.needs, self.keys, self.generator = words, needs, keys, generator
        self.strings, self.consumed, self.value_bytes = strings, consumed, value_bytes

    def range(self, keys):
        """How many different numbers the requests draw from."""
        if self.value_bytes:
            return min(keys, max(100, VALUES_BYTES // self.value_bytes))
        return min(keys, self.keys) if self.keys else keys


def named(test, **more):
    """A test that redis-benchmark has."""
    return Workload(lambda value: ["-t", test], **more)


def sent(*words, **more):
    """A command; `VALUE` stands for the value of the run."""
    return Workload(lambda value: [value if word == "VALUE" else word for word in words], **more)


def script(name):
    text, key = SCRIPTS[name]
    return sent("EVALSHA", hashlib.sha1(text.encode()).hexdigest(), "1", key, "VALUE", strings=key == KEY)


def element(number):
    return f"element:{number:012}"


def name(kind, size, number):
    return f"{kind}{size}:{number:012}"


def pushed(key):
    def needs(count, value):
        for start in range(0, count, 100):
            yield ["RPUSH", key] + [value] * min(100, count - start)
    return needs


def members(command, key):
    """As many members as the run has requests, in `key`."""
    def needs(count, value):
        for start in range(0, count, 100):
            words = [command, key]
            for number in range(start, min(start + 100, count)):
                words += [str(number), element(number)] if command == "ZADD" else [element(number)]
            yield words
    return needs


def collections(kind, command, size, pair):
    """All collections of this size; `pair(number, value)` are the words of an element."""
    def needs(_count, value):
        for number in range(COLLECTIONS[size]):
            key = name(kind, size, number)
            for start in range(0, size, 200):
                yield [command, key] + [w for at in range(start, min(start + 200, size)) for w in pair(at, value)]
    return needs


def of_hash(size, *words):
    return sent(*words, needs=collections("hash", "HSET", size, lambda at, value: [element(at), value]), keys=COLLECTIONS[size])


def of_set(size, *words):
    return sent(*words, needs=collections("set", "SADD", size, lambda at, _: [element(at)]), keys=COLLECTIONS[size])


def of_zset(size, *words):
    return sent(*words, needs=collections("zset", "ZADD", size, lambda at, _: [str(at), element(at)]), keys=COLLECTIONS[size])


def of_large(*words):
    return sent(*words, needs=lambda _count, value: members("ZADD", "large")(LARGE, value), keys=LARGE)


STRINGS = {
    "ping": sent("PING"),
    "del": sent("DEL", KEY, strings=True, consumed=True),
    "unlink": sent("UNLINK", KEY, strings=True, consumed=True),
    "getdel": sent("GETDEL", KEY, strings=True, consumed=True),
    "expire": sent("EXPIRE", KEY, "100000", strings=True),
    "ttl": sent("TTL", KEY, strings=True),
    "exists": sent("EXISTS", KEY, strings=True),
    "incr": sent("INCR", "counter:__rand_int__"),
    "append": sent("APPEND", "short:__rand_int__", "12345678"),
    "getset": sent("GETSET", KEY, "VALUE", strings=True),
    "setex": sent("SETEX", KEY, "100000", "VALUE", strings=True),
    "getrange": sent("GETRANGE", KEY, "8", "39", strings=True),
    "mset10": named("mset", strings=True),
    "multi5": Workload(None, strings=True, generator="command_load"),
    "mget10": sent("MGET", *[KEY] * 10, strings=True),
}
SIZES = {f"{test}-{size}": named(test, strings=True, value_bytes=size)
         for size in (8, 1024, 4096, 102_400) for test in ("set", "get")}
TYPES = {
    "lpush": named("lpush"),
    "rpush": named("rpush"),
    "lpop": named("lpop", needs=pushed("mylist"), consumed=True),
    "rpop": named("rpop", needs=pushed("mylist"), consumed=True),
    "sadd": named("sadd"),
    "spop": named("spop", needs=members("SADD", "myset"), consumed=True),
    "hset": named("hset"),
    "zadd": named("zadd"),
    "zpopmin": named("zpopmin", needs=members("ZADD", "myzset"), consumed=True),
    **{f"lrange_{count}": named(f"lrange_{count}") for count in (100, 300, 500, 600)},
    **{f"hget-{n}": of_hash(n, "HGET", f"hash{n}:__rand_int__", element(n // 2)) for n in COLLECTIONS},
    **{f"hset-{n}": of_hash(n, "HSET", f"hash{n}:__rand_int__", element(n // 2), "VALUE") for n in COLLECTIONS},
    "hmget10-20": of_hash(20, "HMGET", "hash20:__rand_int__", *[element(at) for at in range(10)]),
    "hgetall-20": of_hash(20, "HGETALL", "hash20:__rand_int__"),
    **{f"hincrby-{n}": of_hash(n, "HINCRBY", f"hash{n}:__rand_int__", "count", "1") for n in COLLECTIONS},
    **{f"sismember-{n}": of_set(n, "SISMEMBER", f"set{n}:__rand_int__", element(n // 2)) for n in COLLECTIONS},
    "sinter-1000": of_set(1000, "SINTER", "set1000:__rand_int__", "set1000:__rand_int__"),
    "zrange10-20": of_zset(20, "ZRANGE", "zset20:__rand_int__", "0", "9"),
    "zrange10-1000": of_zset(1000, "ZRANGE", "zset1000:__rand_int__", "0", "9"),
    "zrangebyscore-20": of_zset(20, "ZRANGEBYSCORE", "zset20:__rand_int__", "5", "14"),
    "zrangebyscore-1000": of_zset(1000, "ZRANGEBYSCORE", "zset1000:__rand_int__", "500", "509"),
    "zrank-20": of_zset(20, "ZRANK", "zset20:__rand_int__", element(10)),
    "zrank-large": of_large("ZRANK", "large", "element:__rand_int__"),
    "zincrby-20": of_zset(20, "ZINCRBY", "zset20:__rand_int__", "1", element(10)),
    "zincrby-large": of_large("ZINCRBY", "large", "1", "element:__rand_int__"),
}
WORKLOADS = {
    "set": named("set", strings=True), "get": named("get", strings=True), **{name: script(name) for name in SCRIPTS},
    **STRINGS, **SIZES, **TYPES,
}


def fill(port, commands):
    """Sends commands that must all succeed."""
    pipe = subprocess.Popen([redis_tool("redis-cli"), "-p", str(port), "--pipe"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    sent_bytes = []
    held = 0
    for words in commands:
        made = b"".join([b"*%d\r\n" % len(words)] + [b"$%d\r\n%b\r\n" % (len(w), w) for w in map(str.encode, words)])
        sent_bytes.append(made)
        held += len(made)
        if held > 1 << 20:
            pipe.stdin.write(b"".join(sent_bytes))
            sent_bytes, held = [], 0
    printed, _ = pipe.communicate(b"".join(sent_bytes))
    if pipe.returncode or b"errors: 0" not in printed:
        raise RuntimeError(f"filling the server: {printed[-200:]!r}")
