"""python3 -m smoke_python [--server sexton]: every command built, through redis-py, RESP2 and RESP3."""

import argparse
import time
import warnings

import redis

from harness.server import Server
from harness.steps import Steps


def expect_error(steps, name, text, call):
    try:
        steps.check(name, False, f"answered {call()!r}")
    except redis.RedisError as error:
        steps.check(name, text in str(error), str(error))


def strings(s, r):
    s.equal("SET", r.set("s", "hello"), True)
    s.equal("GET", r.get("s"), b"hello")
    s.equal("SET NX on a key that is there", r.set("s", "x", nx=True), None)
    s.equal("SET GET", r.set("s", "hello", get=True), b"hello")
    s.equal("SETNX", bool(r.setnx("s2", "v")), True)
    s.equal("SETEX", r.setex("se", 100, "v"), True)
    s.equal("PSETEX", r.psetex("pse", 100_000, "v"), True)
    s.equal("GETSET", r.getset("s2", "w"), b"v")
    s.equal("GETDEL", r.getdel("s2"), b"w")
    s.equal("GETEX", r.getex("se", px=200_000), b"v")
    s.check("GETEX set the time", 100 < r.ttl("se") <= 200)
    s.equal("APPEND", r.append("s", " world"), 11)
    s.equal("STRLEN", r.strlen("s"), 11)
    s.equal("GETRANGE", r.getrange("s", -5, -1), b"world")
    s.equal("SUBSTR", r.substr("s", 0, 4), b"hello")
    s.equal("SETRANGE", r.setrange("s", 6, "redis"), 11)
    s.equal("MSET", r.mset({"m1": "1", "m2": "2"}), True)
    s.equal("MGET", r.mget("m1", "m2", "no"), [b"1", b"2", None])
    s.equal("MSETNX", bool(r.msetnx({"m1": "9", "m3": "3"})), False)
    s.equal("INCR", r.incr("n"), 1)
    s.equal("INCRBY", r.incrby("n", 9), 10)
    s.equal("DECR", r.decr("n"), 9)
    s.equal("DECRBY", r.decrby("n", 4), 5)
    s.equal("INCRBYFLOAT", r.incrbyfloat("f", "3.5"), 3.5)
    r.mset({"l1": "ohmytext", "l2": "mynewtext"})
    s.equal("LCS", r.lcs("l1", "l2"), b"mytext")
    s.equal("LCS LEN", r.lcs("l1", "l2", len=True), 6)
    expect_error(s, "INCR of a text", "not an integer", lambda: r.incr("s"))


def keys(s, r, have):
    r.flushdb()
    r.mset({"a": "1", "b": "2", "c": "3"})
    s.equal("EXISTS", r.exists("a", "b", "no", "a"), 3)
    s.equal("TOUCH", r.touch("a", "no"), 1)
    s.equal("TYPE", r.type("a"), b"string")
    s.equal("KEYS", sorted(r.keys("*")), [b"a", b"b", b"c"])
    s.equal("SCAN", sorted(r.scan_iter(count=1)), [b"a", b"b", b"c"])
    s.equal("DBSIZE", r.dbsize(), 3)
    s.check("RANDOMKEY", r.randomkey() in (b"a", b"b", b"c"))
    s.equal("RENAME", r.rename("a", "a2"), True)
    s.equal("RENAMENX", bool(r.renamenx("a2", "b")), False)
    s.equal("COPY", bool(r.copy("b", "b2")), True)
    s.equal("MOVE", bool(r.move("b2", 1)), True)
    s.equal("DEL", r.delete("a2", "no"), 1)
    s.equal("UNLINK", r.unlink("b", "c"), 2)
    s.equal("OBJECT ENCODING", (r.set("o", "12"), r.object("encoding", "o"))[1], b"int")
    s.check("OBJECT IDLETIME", r.object("idletime", "o") >= 0)
    s.check("OBJECT REFCOUNT", r.object("refcount", "o") >= 1)
    if "memory" in have:
        s.check("MEMORY USAGE", r.memory_usage("o") > 0)
    if "restore" in have:
        payload = r.dump("o")
        s.equal("RESTORE of DUMP", (r.restore("o2", 0, payload), r.get("o2"))[1], b"12")


def expiry(s, r):
    r.flushdb()
    now = int(time.time())
    r.set("e", "v")
    s.equal("EXPIRE", bool(r.expire("e", 100)), True)
    s.equal("EXPIRE NX", bool(r.expire("e", 50, nx=True)), False)
    s.check("TTL", 98 <= r.ttl("e") <= 100)
    s.equal("PEXPIRE", bool(r.pexpire("e", 50_000)), True)
    s.check("PTTL", 48_000 <= r.pttl("e") <= 50_000)
    s.equal("EXPIREAT", bool(r.expireat("e", now + 500)), True)
    s.equal("EXPIRETIME", r.expiretime("e"), now + 500)
    s.equal("PEXPIREAT", bool(r.pexpireat("e", (now + 500) * 1000 + 7)), True)
    s.equal("PEXPIRETIME", r.pexpiretime("e"), (now + 500) * 1000 + 7)
    s.equal("PERSIST", bool(r.persist("e")), True)
    s.equal("TTL without expiry", r.ttl("e"), -1)
    r.set("soon", "v", px=30)
    time.sleep(0.06)
    s.equal("an expired key is gone", r.get("soon"), None)


def transactions(s, r):
    r.flushdb()
    pipe = r.pipeline(transaction=True)
    s.equal("MULTI/EXEC", pipe.set("t", "1").incr("t").get("t").execute(), [True, 2, b"2"])
    pipe = r.pipeline()
    pipe.watch("t")
    r.set("t", "changed")
    pipe.multi()
    pipe.set("t", "lost")
    try:
        pipe.execute()
        s.check("WATCH", False, "EXEC ran")
    except redis.WatchError:
        s.check("WATCH", True)
    pipe = r.pipeline()
    pipe.watch("t")
    pipe.unwatch()
    pipe.reset()
    s.equal("UNWATCH leaves the key", r.get("t"), b"changed")
    with r.client() as one:
        one.execute_command("MULTI")
        one.execute_command("SET", "t", "no")
        s.equal("DISCARD", bool(one.execute_command("DISCARD")), True)
    s.equal("DISCARD keeps the value", r.get("t"), b"changed")


def connection_and_server(s, r, port, protocol):
    s.equal("PING", r.ping(), True)
    s.equal("ECHO", r.echo("hi"), b"hi")
    one = redis.Redis(port=port, protocol=protocol, client_name="smoke", single_connection_client=True)
    s.equal("CLIENT GETNAME", one.client_getname(), "smoke" if isinstance(one.client_getname(), str) else b"smoke")
    s.check("CLIENT ID", one.client_id() > 0)
    s.check("CLIENT INFO", one.client_info()["name"] in ("smoke", b"smoke"))
    s.check("CLIENT LIST", any(c["name"] == "smoke" for c in one.client_list()))
    s.equal("SELECT", bool(one.execute_command("SELECT", 3)), True)
    one.set("in3", "v")
    s.equal("SWAPDB", bool(r.swapdb(3, 4)), True)
    s.equal("the other database", one.get("in3"), None)
    s.equal("FLUSHDB", r.flushdb(), True)
    s.equal("FLUSHALL", r.flushall(), True)
    s.check("HELLO", bool(one.execute_command("HELLO", protocol)))
    s.equal("RESET", one.execute_command("RESET") in ("RESET", b"RESET"), True)
    s.check("TIME", abs(r.time()[0] - time.time()) < 5)
    s.check("INFO", r.info()["redis_version"].startswith("7."))
    s.check("INFO section", "connected_clients" in r.info("clients"))
    s.check("CONFIG GET", "maxmemory" in r.config_get("maxmem*"))
    s.equal("CONFIG SET", r.config_set("maxmemory-policy", "noeviction"), True)
    s.equal("CONFIG RESETSTAT", r.config_resetstat(), True)
    s.check("COMMAND", "get" in r.command())
    s.check("COMMAND COUNT", r.command_count() > 50)
    s.equal("COMMAND GETKEYS", len(r.command_getkeys("MSET", "a", 1, "b", 2)), 2)
    expect_error(s, "unknown command", "unknown command", lambda: r.execute_command("NOSUCH"))
    one.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="sexton")
    args = parser.parse_args()
    # redis-py marks SETEX and GETSET as deprecated; clients still send them.
    warnings.simplefilter("ignore", DeprecationWarning)
    steps = Steps("smoke, redis-py " + redis.__version__)
    with Server(args.server) as server:
        have = {n.decode() for n in redis.Redis(port=server.port).command_list()}
        steps.check("COMMAND LIST", "get" in have)
        for protocol in (2, 3):
            print(f"-- RESP{protocol}")
            client = redis.Redis(port=server.port, protocol=protocol)
            for part in (strings, expiry, transactions):
                guarded(steps, part, steps, client)
            guarded(steps, keys, steps, client, have)
            guarded(steps, connection_and_server, steps, client, server.port, protocol)
            client.close()
        steps.check("the server lives", server.alive())
    steps.finish()


def guarded(steps, part, *args):
    """An exception (a missing command) fails its group, not the rest."""
    try:
        part(*args)
    except (redis.RedisError, KeyError, TypeError, ValueError) as error:
        steps.check(f"{part.__name__}: all commands answered", False, repr(error))


if __name__ == "__main__":
    main()
