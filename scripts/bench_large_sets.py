"""make large-sets: commands that need little of large collections, or go through them, and how long others wait meanwhile, beside
redis-server 7.0 and valkey-server 9.1.

    .venv/bin/python scripts/bench_large_sets.py [--members 1000000] [--rounds 3] [--servers sexton,redis,valkey]

bench_beside.py says what is measured. Two sets and a sorted set have so many members, of which the sets share half; a list, and a sorted set
of random positions have as many elements. Small sets have 10 members, those of 1,000 share 500. One string has 64 MB.
"""

import random

from bench_beside import parser, run

#: Elements of a command of the load.
A_COMMAND = 1000
#: How often what is short is asked.
TIMES = 300


def member(number):
    return b"member:%d" % number


def fill(connection, count):
    """Loads the collections."""
    rng = random.Random(7)
    for start in range(0, count, A_COMMAND):
        numbers = range(start, min(start + A_COMMAND, count))
        scored = [word for number in numbers for word in (b"%d" % number, member(number))]
        places = [(b"%.6f" % rng.uniform(-180, 180), b"%.6f" % rng.uniform(-85, 85), member(number)) for number in numbers]
        connection.cmd("SADD", "large", *[member(number) for number in numbers])
        connection.cmd("SADD", "other", *[member(number + count // 2) for number in numbers])
        connection.cmd("ZADD", "scored", *scored)
        connection.cmd("RPUSH", "list", *[member(number) for number in numbers])
        connection.cmd("GEOADD", "places", *[word for place in places for word in place])
    connection.cmd("SET", "bits", rng.randbytes(64 << 20))
    connection.cmd("SADD", "small", *[member(number) for number in range(0, count, count // 10)])
    connection.cmd("SADD", "one", *[member(number) for number in range(1000)])
    connection.cmd("SADD", "two", *[member(number + 500) for number in range(1000)])


def operations():
    """Name -> requests."""
    often = {
        "SINTER small large": ["SINTER", "small", "large"],
        "SDIFF small large": ["SDIFF", "small", "large"],
        "SINTERSTORE small large": ["SINTERSTORE", "made", "small", "large"],
        "ZINTER small scored": ["ZINTER", 2, "small", "scored"],
        "SINTERCARD LIMIT 10": ["SINTERCARD", 2, "large", "other", "LIMIT", 10],
        "SINTER of two of 1,000": ["SINTER", "one", "two"],
        "GEOSEARCH 50 km": ["GEOSEARCH", "places", "FROMLONLAT", 10, 10, "BYRADIUS", 50, "km", "ASC"],
        "SORT BY nosort LIMIT": ["SORT", "list", "BY", "nosort", "LIMIT", 500, 10],
    }
    seldom = {
        "SINTERCARD large other": ["SINTERCARD", 2, "large", "other"],
        "the same in a script": ["EVAL", "return redis.call('SINTERCARD',2,KEYS[1],KEYS[2])", 2, "large", "other"],
        "SINTERSTORE large other": ["SINTERSTORE", "made", "large", "other"],
        "ZRANGESTORE of all": ["ZRANGESTORE", "made", "scored", 0, -1],
        "COPY large": ["COPY", "large", "made", "REPLACE"],
        "SORT STORE of all": ["SORT", "list", "ALPHA", "STORE", "made"],
        "GEOSEARCHSTORE of all": ["GEOSEARCHSTORE", "made", "places", "FROMLONLAT", 0, 0, "BYRADIUS", 30000, "km"],
        "BITOP of 64 MB": ["BITOP", "NOT", "made", "bits"],
    }
    return {**{name: [words] * TIMES for name, words in often.items()}, **{name: [words] * 3 for name, words in seldom.items()}}


def main():
    options = parser(__doc__)
    options.add_argument("--members", type=int, default=1_000_000)
    args = options.parse_args()
    run("large-sets", args, lambda connection: fill(connection, args.members), operations())


if __name__ == "__main__":
    main()
