"""make large-values: one client on values of 100 MB, and how long others wait meanwhile, beside redis-server 7.0 and valkey-server 9.1.

    .venv/bin/python scripts/bench_large_values.py [--mb 100] [--rounds 3] [--servers sexton,redis,valkey]

bench_beside.py says what is measured. The content of the values is random; most of what a SET or a GET takes is the client's own time.
"""

import os

from bench_beside import parser, run


def operations(content):
    """Name -> requests on the values k0 to k3, which the first makes."""
    values = [b"k%d" % number for number in range(4)]
    places = range(400)
    return {
        "SET": [[b"SET", key, content] for key in values],
        "SET again": [[b"SET", key, content] for key in values],
        "GET": [[b"GET", key] for key in values],
        "APPEND": [[b"APPEND", values[place % 4], b"0123456789"] for place in places],
        "SETRANGE": [[b"SETRANGE", values[place % 4], place * len(content) // 400, b"abc"] for place in places],
        "SETBIT": [[b"SETBIT", values[place % 4], place * len(content) // 50, place % 2] for place in places],
        "GETRANGE": [[b"GETRANGE", values[place % 4], place * 1000, place * 1000 + 999] for place in places],
        "BITCOUNT": [[b"BITCOUNT", key] for key in values],
        "COPY": [[b"COPY", key, b"copy", b"REPLACE"] for key in values],
        "RENAME": [[b"RENAME", b"copy", b"renamed"], [b"RENAME", b"renamed", b"copy"]] * 2,
        "DEL": [[b"DEL", key] for key in values],
    }


def main():
    options = parser(__doc__)
    options.add_argument("--mb", type=int, default=100)
    args = options.parse_args()
    run("large-values", args, lambda _: None, operations(os.urandom(1 << 20) * args.mb))


if __name__ == "__main__":
    main()
