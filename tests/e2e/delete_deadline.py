"""python3 -m delete_deadline: after delete-persist-seconds no file holds a deleted key or its value.

Keys are written and flushed to tables, some with an expiry, some in another database; then they are
deleted by DEL, by FLUSHDB, or deleted and written anew. Every file below the data directory is searched
before the deletes, to check that the test can fail (the first of them may be buried before the last is
sent), and again after the limit: once on an idle server, once on a busy one, and once across
kill -9.
"""

import argparse
import time
from pathlib import Path

from harness.server import Server
from harness.steps import Steps

KEYS = 20_000
LIMIT_S = 6


def holders(directory, what):
    """Files below the directory that hold the bytes."""
    found = []
    for path in Path(directory).rglob("*"):
        try:
            if path.is_file() and what in path.read_bytes():
                found.append(path.name)
        except FileNotFoundError:
            pass  # removed while the search was on its way
    return found


def fill(connection):
    for db, kind, extra in [(0, "plain", ()), (0, "timed", ("EX", "864000")), (0, "again", ()),
                            (0, "kept", ()), (3, "flushed", ())]:
        connection.cmd("SELECT", db)
        for start in range(0, KEYS, 500):
            connection.pipeline([
                ("SET", f"{kind}:{n:06}", f"secret-of-{kind}-{n:06}" + "x" * 40, *extra)
                for n in range(start, start + 500)
            ])
    connection.cmd("SELECT", 0)


def delete(connection):
    for kind in ("plain", "timed", "again"):
        for start in range(0, KEYS, 500):
            connection.pipeline([("DEL", f"{kind}:{n:06}") for n in range(start, start + 500)])
    for start in range(0, KEYS, 500):
        connection.pipeline([("SET", f"again:{n:06}", "new") for n in range(start, start + 500)])
    connection.cmd("SELECT", 3)
    connection.cmd("FLUSHDB")
    connection.cmd("SELECT", 0)


def rest(connection, busy):
    """Waits for the limit, plus a second for the clock's steps."""
    until = time.monotonic() + LIMIT_S + 1
    number = 0
    while time.monotonic() < until:
        if busy:
            connection.pipeline([("SET", f"other:{number + n}", "y" * 100) for n in range(200)])
            number += 200
        time.sleep(0.01 if busy else 0.1)


# Beginnings that every key and value of a kind has: tables cut off what neighbours share.
SECRETS = ["plain:0", "secret-of-plain-0", "timed:0", "secret-of-timed-0", "secret-of-again-0",
           "flushed:0", "secret-of-flushed-0"]


def settle(directory):
    """The secrets that some file holds, once all do or 5 seconds have passed: the log is written within two."""
    until = time.monotonic() + 5
    while True:
        there = [secret for secret in SECRETS if holders(directory, secret.encode())]
        if there == SECRETS or time.monotonic() > until:
            return there
        time.sleep(0.1)


def run(steps, server_kind, name, busy, kill):
    options = {"appendfsync": "everysec", "delete-persist-seconds": LIMIT_S, "memtable-bytes": "1mb",
               "compression-bottom": "none"}
    with Server(server_kind, options) as server:
        connection = server.connect()
        fill(connection)
        there = settle(server.directory)
        steps.equal(f"{name}: before the deletes a search finds them", there, SECRETS)
        delete(connection)
        if kill:
            time.sleep(2.1)  # everysec: at the latest after two seconds a delete survives
            server.kill()
            server.start()
            connection = server.connect()
        rest(connection, busy)
        for secret in SECRETS:
            found = holders(server.directory, secret.encode())
            # Closed graves do not survive a crash: see engine/DESIGN.md, "The delete deadline".
            if not (kill and "again" in secret):
                steps.equal(f"{name}: {secret}... is in no file", found, [])
        steps.check(f"{name}: what was kept is there", holders(server.directory, b"secret-of-kept-000123"))
        steps.equal(f"{name}: and readable", connection.cmd("GET", "again:000007"), b"new")
        steps.equal(f"{name}: graves", server.info()["flsm_graves"], "0")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="sexton", help="sexton, or the path of a server")
    kind = parser.parse_args().server
    steps = Steps("delete deadline")
    run(steps, kind, "idle", busy=False, kill=False)
    run(steps, kind, "busy", busy=True, kill=False)
    run(steps, kind, "after kill -9", busy=False, kill=True)
    return steps.finish()


if __name__ == "__main__":
    raise SystemExit(main())
