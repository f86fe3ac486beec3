"""python3 -m disk_bound [--only PART]: `disk-max-bytes`, the limit on the size of the server's files.

Writes are accepted until the limit is reached, and then refused with its error text, also in transactions and scripts.
Reads, deletes, FLUSHALL and BGREWRITEAOF continue, no acknowledged write is lost, and space released by deletes makes writes
possible again without intervention. The log has one line for each change.
"""

import argparse
import shutil
import time

from crash_loop import persistent_memory
from harness.load import incompressible
from harness.server import Server
from harness.steps import Steps

MIB = 1 << 20
BOUND_MB = 24
VALUE_BYTES = 2000
DISK_FULL = "OOM command not allowed when files take more than 'disk-max-bytes'."
REACHED, OVER = "disk-max-bytes is ", "below disk-max-bytes again"
#: How long space may take to come back: a flush each second, and merges behind it.
CHANGE_S = 60.0
OPTIONS = {"memtable-bytes": "2mb", "disk-max-bytes": f"{BOUND_MB}mb"}


def wait_for(what, timeout_s=CHANGE_S):
    """Waits until `what` returns a true value; returns it, or the last value."""
    deadline = time.monotonic() + timeout_s
    while not (answer := what()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def told(server):
    """How often the log reports that the limit was reached, and that it no longer is."""
    log = server.log_path.read_text(errors="replace")
    return log.count(REACHED), log.count(OVER)


def value_of(number):
    return incompressible(b"%d" % number, VALUE_BYTES)


def fill(client, begin=0, bound_mb=BOUND_MB):
    """SETs until one is refused: returns the accepted numbers, and the refusal."""
    taken, number = [], begin
    while number < begin + 4 * bound_mb * MIB // VALUE_BYTES:
        numbers = range(number, number + 50)
        replies = client.pipeline([[b"SET", b"key:%d" % n, value_of(n)] for n in numbers])
        taken += [n for n, reply in zip(numbers, replies) if not reply.is_error()]
        refused = [reply for reply in replies if reply.is_error()]
        if refused:
            return taken, str(refused[0].value.decode())
        number += 50
    return taken, None


def is_taken(client):
    return not client.node("SET", "probe", "1").is_error()



def file_bytes(server):
    """Bytes of tables according to the file system."""
    return sum(file.stat().st_size for file in (server.directory / "tree").rglob("*") if file.is_file())


def used_bytes(server):
    return int(server.info()["disk_used_bytes"])


def error_of(client, *words):
    node = client.node(*words)
    return node.value.decode() if node.is_error() else node.value


def refusals(steps, client, some):
    """The commands that are refused at the limit, and those that are not; `some` are numbers of existing keys."""
    key = b"key:%d" % some[0]
    for words in (["SET", "a", "1"], ["APPEND", key, "x"], ["INCR", "number"], ["LPUSH", "list", "1"], ["MSET", "a", "1"],
                  ["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"]):  # fmt: skip
        steps.equal(f"{words[0]} {words[1]} is refused", error_of(client, *words), DISK_FULL)
    steps.equal("GET answers", client.cmd("GET", key), value_of(some[0]))
    steps.equal("DEL, EXPIRE and RENAME are taken", [client.cmd("DEL", key), client.cmd("EXPIRE", b"key:%d" % some[1], 1000),
                client.cmd("RENAME", b"key:%d" % some[1], "renamed")], [1, 1, b"OK"])  # fmt: skip
    client.cmd("MULTI")
    steps.equal("SET inside MULTI is refused", error_of(client, "SET", "a", "1"), DISK_FULL)
    steps.equal("and EXEC with it", error_of(client, "EXEC"), "EXECABORT Transaction discarded because of previous errors.")
    client.cmd("MULTI")
    client.cmd("DEL", b"key:%d" % some[2])
    steps.equal("EXEC of DEL is taken", client.cmd("EXEC"), [1])
    sets, deletes = "return redis.call('set', KEYS[1], '1')", "return redis.call('del', KEYS[1])"
    answer = error_of(client, "EVAL", sets, 1, "a")
    steps.check("SET of a script is refused", str(answer).startswith(DISK_FULL), str(answer))
    steps.equal("DEL of a script is taken", client.cmd("EVAL", deletes, 1, b"key:%d" % some[3]), 1)
    # As at `maxmemory`: a script that has written is not stopped in the middle.
    both = "redis.call('del', KEYS[1]); " + sets
    steps.equal("SET of a script behind its DEL is taken", error_of(client, "EVAL", both, 1, "a"), b"OK")
    steps.equal("a script that says it needs room is refused", error_of(client, "EVAL", "#!lua\n" + deletes, 1, "a"), DISK_FULL)
    steps.equal("allow-oom: taken", client.cmd("EVAL", "#!lua flags=allow-oom\n" + sets, 1, "a"), b"OK")


def by_log(steps, name, options, deletes_share):
    """Filled, deleted, filled again, emptied."""
    options, env, place = OPTIONS | options, {}, None
    if options.get("persistence-mode") == "wbl":
        place, env = persistent_memory(options)
    server = Server("sexton", options, env=env)
    try:
        client = server.start().connect(timeout_s=120)
        taken, refusal = fill(client)
        steps.equal(f"{name}: writes are taken until the bound is reached", refusal, DISK_FULL)
        steps.check(f"{name}: INFO says what files take", used_bytes(server) >= BOUND_MB * MIB * 31 // 32, f"{used_bytes(server):,}")
        # Merges have their tables twice for a while.
        steps.check(f"{name}: it is at least what the tables take", wait_for(lambda: used_bytes(server) >= file_bytes(server) * 0.95),
                    f"{used_bytes(server):,} beside {file_bytes(server):,}")  # fmt: skip
        steps.equal(f"{name}: the log says so once", wait_for(lambda: told(server) != (0, 0)) and told(server), (1, 0))
        if not deletes_share:
            refusals(steps, client, taken)
            # A flush of the log may have freed some.
            taken = taken[4:]
        else:
            # Each table has its share of them.
            dead, before = taken[:: int(1 / deletes_share)], told(server)
            # What came between two looks is above the bound, and would have to go first.
            client.cmd("CONFIG", "SET", "disk-max-bytes", used_bytes(server))
            replies = client.pipeline([[b"DEL", b"key:%d" % n] for n in dead])
            steps.equal(f"{name}: DELs are taken", [reply.value for reply in replies], [1] * len(dead))
            steps.check(f"{name}: what they give back makes writes possible", wait_for(lambda: is_taken(client)),
                        f"{used_bytes(server):,} bytes")  # fmt: skip
            steps.equal(f"{name}: the log says so once", (before, told(server)), ((1, 0), (1, 1)))
            taken = sorted(set(taken) - set(dead))
            more, refusal = fill(client, 10**6)
            # The line follows the first refusal.
            wait_for(lambda: told(server) == (2, 1))
            steps.equal(f"{name}: and then it is reached again", (refusal, told(server)), (DISK_FULL, (2, 1)))
            taken += more
        values = client.pipeline([[b"GET", b"key:%d" % n] for n in taken])
        wrong = [n for n, value in zip(taken, values) if value.value != value_of(n)]
        steps.equal(f"{name}: every key has its value", wrong, [])
        client.cmd("FLUSHALL")
        steps.check(f"{name}: FLUSHALL makes writes possible", wait_for(lambda: is_taken(client)), f"{used_bytes(server):,} bytes")
        steps.check(f"{name}: the server lives", server.alive())
        begun, over = told(server)
        steps.equal(f"{name}: as many lines that it is over as that it has begun", begun, over)
    finally:
        server.close()
        if place:
            shutil.rmtree(place, ignore_errors=True)


def everysec(steps):
    by_log(steps, "log", {"appendonly": "yes"}, 0)


def few_deletes(steps):
    by_log(steps, "few deletes", {"appendonly": "yes"}, 0.08)


def one_memtable(steps):
    """The log alone reaches the limit: no memtable is full."""
    by_log(steps, "one memtable", {"appendonly": "yes", "memtable-bytes": "64mb"}, 0.25)


def no_log(steps):
    by_log(steps, "without a log", {"appendonly": "no"}, 0.25)


def write_behind(steps):
    by_log(steps, "write-behind logging", {"persistence-mode": "wbl"}, 0.25)


def settings(steps):
    """CONFIG SET below the used size, and back; a limit set between MULTI and EXEC."""
    with Server("sexton", {"appendonly": "yes", "memtable-bytes": "2mb"}) as server:
        client, other = server.connect(timeout_s=120), server.connect()
        get = lambda: client.cmd("CONFIG", "GET", "disk-max-bytes")[1]  # noqa: E731
        steps.equal("no bound by default", get(), b"0")
        taken, refusal = fill(client, bound_mb=2)
        steps.equal("then nothing is refused", refusal, None)
        client.cmd("MULTI")
        client.cmd("SET", "a", "1")
        other.cmd("CONFIG", "SET", "disk-max-bytes", "1mb")
        steps.equal("the bound holds at once: EXEC is refused", error_of(client, "EXEC"),
                    "EXECABORT Transaction discarded because of: " + DISK_FULL)  # fmt: skip
        steps.equal("CONFIG GET shows bytes", get(), b"1048576")
        steps.equal("and SET is refused", error_of(client, "SET", "a", "1"), DISK_FULL)
        steps.equal("INFO", (server.info()["disk_full"], server.info()["disk_max_bytes"]), ("1", "1048576"))
        steps.equal("BGREWRITEAOF is taken", client.node("BGREWRITEAOF").is_error(), False)
        for wrong in ("-1", "word", "1xb"):
            steps.check(f"CONFIG SET disk-max-bytes {wrong} is refused", client.node("CONFIG", "SET", "disk-max-bytes", wrong).is_error())
        steps.equal("and changes nothing", get(), b"1048576")
        client.cmd("CONFIG", "SET", "disk-max-bytes", "1gb")
        steps.equal("a higher bound holds at once", client.cmd("SET", "a", "1"), b"OK")
        client.cmd("CONFIG", "SET", "disk-max-bytes", "1mb")
        client.cmd("CONFIG", "SET", "disk-max-bytes", "0")
        steps.equal("and none, too", client.cmd("SET", "a", "2"), b"OK")
        steps.equal("the log has each change once", told(server), (2, 2))


def restarts(steps):
    """A store above its limit starts, also after kill -9: replay is never refused."""
    server = Server("sexton", {"appendonly": "yes", "memtable-bytes": "2mb"})
    try:
        client = server.start().connect(timeout_s=120)
        taken, _ = fill(client, bound_mb=4)
        client.cmd("SET", "last", "1")
        client.cmd("WAITAOF", 1, 0, 0)
        server.kill()
        server.options["disk-max-bytes"] = "2mb"
        client = server.start().connect(timeout_s=120)
        steps.equal("above the bound: all is there", client.cmd("DBSIZE"), len(taken) + 1)
        steps.check("writes are refused", wait_for(lambda: not is_taken(client), 5))
        steps.equal("the log says so once", told(server), (1, 0))
        steps.equal("what came last is there", client.cmd("GET", "last"), b"1")
        client.cmd("DEL", "last")
        for n in taken[::2]:
            client.cmd("DEL", b"key:%d" % n)
        client.cmd("WAITAOF", 1, 0, 0)
        server.kill()
        client = server.start().connect(timeout_s=120)
        steps.equal("deletes at the bound outlive kill -9", client.cmd("DBSIZE"), len(taken) - len(taken[::2]))
        client.cmd("FLUSHALL")
        steps.check("FLUSHALL makes writes possible", wait_for(lambda: is_taken(client)), f"{used_bytes(server):,} bytes")
    finally:
        server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the part of this name")
    args = parser.parse_args()
    steps = Steps("a bound of the disk")
    for part in (everysec, few_deletes, one_memtable, no_log, write_behind, settings, restarts):
        if args.only in (None, part.__name__):
            part(steps)
    steps.finish()


if __name__ == "__main__":
    main()
