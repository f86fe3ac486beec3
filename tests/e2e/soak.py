"""python3 -m soak [--seconds 1200] [--server PATH]: finds resources that grow.

Applies every command of the server's own COMMAND list to a fixed set of keys repeatedly, while clients connect and disconnect
in every possible way, with FLUSHALLs, swaps, saves, rewrites, snapshots, scans and CONFIG SETs. In rounds: work, then
all clients disconnect, the data is deleted, and the idle server is measured. Leaks of a round accumulate; memory
merely in use does not. The first quarter of the rounds is warm-up; the medians of the second and the last quarter are
compared, with a tolerance for each figure.
"""

import argparse
import hashlib
import random
import socket
import statistics
import struct
import threading
import time
from collections import Counter
from pathlib import Path

from harness.resp import encode, to_bytes
from harness.server import Server, process_rss_bytes
from harness.steps import Steps

KEYS = 1_000

#: Threads of a round; each on connections of its own.
JOBS = ["every_command", "every_command", "due_times", "visitors", "visitors", "admin"]

#: What a round takes beside its work: leaving, deleting, settling.
QUIET_S = 2.5

#: Commands that end the server, change what it is, hold everybody up, or never answer. Those that belong to a connection
#: of their own are run by the visitors.
ELSEWHERE = {
    "shutdown", "debug", "monitor", "subscribe", "psubscribe", "ssubscribe", "quit", "replicaof", "slaveof", "failover",
    "client|pause", "client|kill", "client|reply", "save", "bgsave", "bgrewriteaof", "config|rewrite",
    "flushall", "flushdb", "swapdb", "sexton.checkpoint", "auth", "wait", "waitaof", "multi", "exec", "discard", "watch",
    "select", "reset", "hello", "sync", "psync", "replconf", "backup|start", "backup|seal", "backup|abort", "backup|cleanup", "sexton.snapshot|open", "sexton.snapshot|close",
}  # fmt: skip

#: Requests of a pipeline, and of commands whose replies take the test's own client long to decode.
PIPELINE, PIPELINE_OF = 20, {"command": 2, "command|docs": 2, "command|info": 2}

#: A script and its name; SCRIPT FLUSH runs beside it.
SCRIPT = "return(redis.call('strlen',KEYS[1]))"
SCRIPT_SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()

#: A function library; FUNCTION FLUSH and DELETE run beside it.
LIBRARY = "#!lua name=lib\nredis.register_function{function_name='f',callback=function(keys)return redis.call('strlen',keys[1])end,flags={'no-writes'}}"

#: What FUNCTION DUMP of redis-server 7.0 answers without libraries.
NO_LIBRARIES = b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda"

#: Arguments that bring an answer, as words or as a text of words. {k}: a key, {k2}: another one, {n}: a small number, {s}: a string,
#: {t}: seconds far ahead, {T}: milliseconds, {at}, {AT}: the same as moments, {d}: a DUMP, {fd}: a FUNCTION DUMP.
ARGUMENTS = {
    "append": "{k} {s}", "asking": "", "bitcount": "{k}", "copy": "{k} {k2} REPLACE", "decrby": "num:{i} {n}",
    "decr": "num:{i}", "echo": "{s}", "expire": "{k} {t}", "expireat": "{k} {at}", "getex": "{k} EX {t}",
    "getrange": "{k} 0 {n}", "getset": "{k} {s}", "incr": "num:{i}", "incrby": "num:{i} {n}",
    "incrbyfloat": "num:{i} 1.0", "info": "everything", "keys": "{k}*", "latency|graph": "command",
    "latency|history": "command", "latency|reset": "", "lcs": "{k} {k2}", "lolwut": "", "move": "{k} 1",
    "mset": "{k} {s} {k2} {s}", "msetnx": "{k} {s} {k2} {s}", "pexpire": "{k} {T}", "pexpireat": "{k} {AT}",
    "psetex": "{k} {T} {s}", "setex": "{k} {t} {s}", "publish": "channel:{n} {s}", "spublish": "channel:{n} {s}",
    "rename": "{k} {k2}", "renamenx": "{k} {k2}", "restore": "{k} 0 {d} REPLACE", "restore-asking": "{k} 0 {d} REPLACE",
    "scan": "0 COUNT {n}", "set": "{k} {s} EX {t}", "setnx": "{k} {s}", "setrange": "{k} {n} {s}",
    "sort": "absent:{i}", "sort_ro": "absent:{i}", "substr": "{k} 0 {n}", "unwatch": "", "client|caching": "YES",
    "client|no-evict": "ON", "client|no-touch": "ON", "client|setname": "name:{n}", "client|setinfo": "LIB-NAME lib{n}",
    "client|tracking": "OFF", "client|unblock": "999999999", "client|list": "", "cluster|keyslot": "{k}",
    "command|info": "get set", "command|docs": "get", "command|getkeys": "GET {k}",
    "command|getkeysandflags": "GET {k}", "command|list": "", "config|get": "max*", "config|resetstat": "",
    "config|set": "slowlog-max-len {n}", "function|flush": "", "script|exists": "abc", "script|flush": "",
    "memory|usage": "{k}", "object|encoding": "{k}", "object|freq": "{k}", "object|idletime": "{k}",
    "object|refcount": "{k}", "ping": "{s}", "pubsub|channels": "", "pubsub|numsub": "channel:1",
    "pubsub|shardchannels": "", "pubsub|shardnumsub": "channel:1", "slowlog|get": "{n}", "acl|cat": "string",
    "acl|getuser": "default", "sexton.snapshot|info": "", "unsubscribe": "channel:{n}", "punsubscribe": "c*:{n}",
    "sunsubscribe": "channel:{n}", "latency|histogram": "get",
    "fcall": "f 1 {k}", "fcall_ro": "f 1 {k}", "function|load": ["REPLACE", LIBRARY], "function|delete": "lib",
    "function|restore": "{fd} REPLACE", "acl|dryrun": "default get {k}",
    "eval": "return(redis.call('append',KEYS[1],'{n}')) 1 {k}", "eval_ro": "return(redis.call('get',KEYS[1])) 1 {k}",
    "evalsha": f"{SCRIPT_SHA} 1 {{k}}", "evalsha_ro": f"{SCRIPT_SHA} 1 {{k}}", "script|load": SCRIPT,
}  # fmt: skip

#: The same for collections, whose keys nobody else uses.
ARGUMENTS |= {
    "hset": "hash:{i} f{n} {s}", "hmset": "hash:{i} f{n} {s}", "hsetnx": "hash:{i} f{n} {s}", "hdel": "hash:{i} f{n}",
    "hget": "hash:{i} f{n}", "hmget": "hash:{i} f{n} f1", "hgetall": "hash:{i}", "hkeys": "hash:{i}", "hvals": "hash:{i}",
    "hlen": "hash:{i}", "hexists": "hash:{i} f{n}", "hstrlen": "hash:{i} f{n}", "hincrby": "hash:{i} number {n}",
    "hincrbyfloat": "hash:{i} number 1.0", "hrandfield": "hash:{i} 3", "hscan": "hash:{i} 0",
    "hexpire": "hash:{i} {t} FIELDS 1 f{n}", "hpexpire": "hash:{i} {T} FIELDS 2 f{n} f1", "hexpireat": "hash:{i} 9999999999 FIELDS 1 f{n}",
    "hpexpireat": "hash:{i} {AT} FIELDS 1 f{n}", "httl": "hash:{i} FIELDS 1 f{n}", "hpttl": "hash:{i} FIELDS 1 f{n}",
    "hexpiretime": "hash:{i} FIELDS 1 f{n}", "hpexpiretime": "hash:{i} FIELDS 1 f{n}", "hpersist": "hash:{i} FIELDS 1 f{n}",
    "hgetex": "hash:{i} EX {t} FIELDS 1 f{n}", "hsetex": "hash:{i} PX {T} FIELDS 1 f{n} {s}", "hgetdel": "hash:{i} FIELDS 1 f{n}",
    "lpush": "list:{i} {s}", "rpush": "list:3 {s} {n}", "lpushx": "list:{i} {s}", "rpushx": "list:{i} {s}", "lpop": "list:{i} 2",
    "rpop": "list:{i}", "llen": "list:{i}", "lindex": "list:{i} 0", "lrange": "list:{i} 0 -1", "lpos": "list:{i} {n}",
    "lset": "list:3 0 {s}", "linsert": "list:{i} BEFORE {n} {s}", "lrem": "list:{i} 1 {n}", "ltrim": "list:3 0 {n}",
    "rpoplpush": "list:{i} list:1", "lmove": "list:{i} list:1 LEFT RIGHT", "lmpop": "2 list:{i} list:2 LEFT COUNT 2",
    "blpop": "list:{i} 0.001", "brpop": "list:{i} 0.001", "brpoplpush": "list:{i} list:1 0.001",
    "blmove": "list:{i} list:1 LEFT RIGHT 0.001", "blmpop": "0.001 1 list:{i} LEFT",
    "sadd": "set:{i} {n} {s}", "srem": "set:{i} {n}", "smove": "set:{i} set:1 {n}", "spop": "set:{i} 2", "srandmember": "set:{i} 2",
    "sismember": "set:{i} {n}", "smismember": "set:{i} {n} 1", "scard": "set:{i}", "smembers": "set:{i}", "sscan": "set:{i} 0",
    "sinter": "set:{i} set:1", "sinterstore": "set:2 set:{i} set:1", "sintercard": "2 set:{i} set:1", "sunion": "set:{i} set:1",
    "sunionstore": "set:3 set:{i} set:1", "sdiff": "set:{i} set:1", "sdiffstore": "set:2 set:{i} set:1",
    "zadd": "sorted:{i} {n} {s}", "zincrby": "sorted:{i} 1.5 {n}", "zrem": "sorted:{i} {n}", "zcard": "sorted:{i}",
    "zscore": "sorted:{i} {n}", "zmscore": "sorted:{i} {n} 1", "zcount": "sorted:{i} 0 {n}", "zlexcount": "sorted:{i} - +",
    "zrank": "sorted:{i} {n}", "zrevrank": "sorted:{i} {n}", "zrange": "sorted:{i} 0 -1 WITHSCORES", "zrangestore": "sorted:1 sorted:{i} 0 {n}",
    "zrevrange": "sorted:{i} 0 -1", "zrangebyscore": "sorted:{i} 0 {n}", "zrevrangebyscore": "sorted:{i} {n} 0",
    "zrangebylex": "sorted:{i} - +", "zrevrangebylex": "sorted:{i} + -", "zremrangebyrank": "sorted:{i} 0 0",
    "zremrangebyscore": "sorted:{i} 0 {n}", "zremrangebylex": "sorted:{i} [8 [9", "zpopmin": "sorted:{i}", "zpopmax": "sorted:{i} 2",
    "zmpop": "1 sorted:{i} MIN", "zrandmember": "sorted:{i} 2", "zscan": "sorted:{i} 0", "zunion": "2 sorted:{i} set:1",
    "zinter": "2 sorted:{i} sorted:1", "zdiff": "2 sorted:{i} sorted:1", "zintercard": "2 sorted:{i} sorted:1",
    "zunionstore": "sorted:2 2 sorted:{i} sorted:3", "zinterstore": "sorted:2 2 sorted:{i} sorted:1",
    "zdiffstore": "sorted:2 2 sorted:{i} sorted:1", "bzpopmin": "sorted:{i} 0.001", "bzpopmax": "sorted:{i} 0.001", "bzmpop": "0.001 1 sorted:{i} MAX",
    "xadd": "stream:{i} MAXLEN 50 * f {n}", "xlen": "stream:{i}", "xrange": "stream:{i} - + COUNT 3", "xrevrange": "stream:{i} + - COUNT 3",
    "xdel": "stream:{i} {n}-1", "xtrim": "stream:{i} MAXLEN 10", "xread": "COUNT 2 STREAMS stream:{i} 0", "xgroup|create": "stream:1 g 0 MKSTREAM",
    "xgroup|createconsumer": "stream:1 g c{n}", "xgroup|delconsumer": "stream:1 g c{n}", "xgroup|destroy": "stream:1 other", "xgroup|setid": "stream:1 g 0",
    "xreadgroup": "GROUP g c1 COUNT 2 STREAMS stream:1 >", "xack": "stream:1 g {n}-1", "xpending": "stream:1 g", "xclaim": "stream:1 g c2 0 {n}-1",
    "xautoclaim": "stream:1 g c2 0 0", "xinfo|stream": "stream:1", "xinfo|groups": "stream:1", "xinfo|consumers": "stream:1 g",
    "xsetid": "stream:1 9999999999999-0",
    "bitop": "AND bits:{i} {k} {k2}", "pfadd": "log:1 {n}",
    "geoadd": "places:{i} {n} 40 {n}", "geodist": "places:{i} {n} 1", "geohash": "places:{i} {n}", "geopos": "places:{i} {n}",
    "georadius": "places:{i} 13 40 500 km", "georadius_ro": "places:{i} 13 40 500 km", "georadiusbymember": "none:{i} {n} 500 km",
    "georadiusbymember_ro": "none:{i} {n} 500 km", "geosearch": "places:{i} FROMLONLAT 13 40 BYRADIUS 500 km",
    "geosearchstore": "places:1 places:{i} FROMLONLAT 13 40 BYBOX 900 400 km",
}  # fmt: skip

#: Commands whose every answer may be an error: they want a subcommand, cluster mode is off, the policy is not an LFU one,
#: there is no sample, no snapshot or no HyperLogLog any more.
ERRORS_ONLY = {
    "acl", "acl|load", "acl|save", "backup", "xgroup", "xinfo", "function|kill", "client", "cluster", "command", "config", "function", "latency", "memory", "module", "object", "pubsub", "script", "script|debug", "script|kill",
    "slowlog", "sexton.snapshot", "object|freq", "pfdebug", "client|caching", "readonly", "readwrite", "asking",
    "cluster|countkeysinslot", "cluster|getkeysinslot", "cluster|info", "cluster|keyslot", "cluster|links", "cluster|myid",
    "cluster|myshardid", "cluster|nodes", "cluster|shards", "cluster|slots", "latency|graph", "sexton.snapshot|info",
}  # fmt: skip

#: Figures of INFO that say how much of something there is (not how often something was done), with what may be added.
TABLES = {
    "connected_clients": 1, "blocked_clients": 0, "pubsub_channels": 0, "pubsub_patterns": 0,
    "pubsubshard_channels": 0, "flsm_snapshots": 0, "flsm_pinned_sequences": 0, "flsm_undo_runs": 0,
    "flsm_memtables_frozen": 1, "flsm_dead_runs": 2, "flsm_grave_runs": 2, "flsm_unresolved_overwrites": 0,
    "mem_clients_normal": 1 << 20, "tracking_clients": 0, "clients_in_timeout_table": 0,
}  # fmt: skip


#: What a pipeline begins with whose commands answer with an error if others have been faster: they delete what these want, or
#: leave the group that XGROUP CREATE would make.
MAKE_GROUP = ["XGROUP", "CREATE", "stream:1", "g", "0", "MKSTREAM"]
BEFORE = {
    **dict.fromkeys(
        ["xgroup|createconsumer", "xgroup|delconsumer", "xgroup|destroy", "xgroup|setid", "xreadgroup", "xack", "xpending",
         "xclaim", "xautoclaim", "xinfo|stream", "xinfo|groups", "xinfo|consumers", "xsetid"], [MAKE_GROUP]),
    "xgroup|create": [MAKE_GROUP, ["XGROUP", "DESTROY", "stream:1", "g"]],
    **dict.fromkeys(["fcall", "fcall_ro", "function|delete"], [["FUNCTION", "LOAD", "REPLACE", LIBRARY]]),
    **dict.fromkeys(["evalsha", "evalsha_ro"], [["SCRIPT", "LOAD", SCRIPT]]),
    "lset": [["RPUSH", "list:3", "v"]],
    **dict.fromkeys(["rename", "renamenx"], [["MSET", *[word for n in range(KEYS) for word in (f"key:{n}", "v")]]]),
}  # fmt: skip


class Words:
    """Arguments for a command: from the template of its name, or from the positions of its keys and its arity."""

    def __init__(self, seed, dump):
        self.random = random.Random(seed)
        self.dump = dump

    def key(self):
        return b"key:%d" % self.random.randrange(KEYS)

    def value(self):
        return b"%d" % self.random.randrange(10**6) if self.random.random() < 0.3 else b"v" * self.random.randrange(200)

    def fill(self, word):
        now_s = int(time.time())
        far_s = self.random.randrange(10_000, 1_000_000)
        if word == "{d}":
            return self.dump
        if word == "{fd}":
            return NO_LIBRARIES
        if word == LIBRARY:
            return word.encode()
        if word == "{s}":
            return self.value()
        if word in ("{k}", "{k2}"):
            return self.key()
        texts = {
            "{n}": self.random.randrange(1, 100), "{i}": self.random.randrange(KEYS), "{t}": far_s,
            "{T}": far_s * 1000, "{at}": now_s + far_s, "{AT}": (now_s + far_s) * 1000,
        }  # fmt: skip
        for name, text in texts.items():
            word = word.replace(name, str(text))
        return word.replace("{k}", "key:1").encode()

    def request(self, name, entry):
        words = name.encode().split(b"|")
        if name in ARGUMENTS:
            template = ARGUMENTS[name]
            return words + [self.fill(word) for word in (template.split() if isinstance(template, str) else template)]
        arity, first, last, step = entry[1], entry[3], entry[4], entry[5]
        count = max(abs(arity), first + 1 if first else 0)
        for at in range(len(words), count):
            is_key = first and at >= first and (at <= last or last < 0) and (at - first) % max(step, 1) == 0
            words.append(self.key() if is_key else b"1")
        return words


def table(connection):
    """Every command and subcommand that the server declares: name -> entry of COMMAND."""
    commands = {}
    for entry in connection.cmd("COMMAND"):
        commands[entry[0].decode()] = entry
        for sub in entry[9] if len(entry) > 9 else []:
            commands[sub[0].decode()] = sub
    return commands


class Work:
    """Threads that work until told to stop; records their errors."""

    def __init__(self, server, seed, dump):
        self.server, self.seed, self.dump = server, seed, dump
        self.stop = threading.Event()
        self.failures = []
        self.requests = Counter()
        self.answered = set()
        self.errors = Counter()
        #: What each `every_command` waits for.
        self.sent = {}

    def show_clients(self):
        """Shows the blocked clients, as far as the server still reports them."""
        try:
            connection = self.server.connect(timeout_s=5)
            print(connection.cmd("CLIENT", "LIST").decode(errors="replace"), flush=True)
            connection.close()
        except OSError as failure:
            print(f"CLIENT LIST: {failure!r}", flush=True)

    def run(self, jobs, seconds):
        self.stop.clear()
        threads = [threading.Thread(target=self.guarded, args=(job,), name=job.__name__) for job in jobs]
        for thread in threads:
            thread.start()
        self.stop.wait(seconds)
        self.stop.set()
        deadline = time.monotonic() + 30
        for thread in threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        hanging = [thread.name for thread in threads if thread.is_alive()]
        if hanging:
            self.failures.append(f"no answer within 30 s: {', '.join(hanging)}, which sent {self.sent}"[:500])
            self.show_clients()
            self.server.kill()  # which ends their waiting
            for thread in threads:
                thread.join()

    def guarded(self, job):
        try:
            job()
        except Exception as failure:  # noqa: BLE001 - reported as a failed check
            if self.server.alive():
                self.failures.append(f"{job.__name__}: {failure!r}")
            else:
                self.failures.append(f"the server ended: {self.server.log_tail(5)}")
            self.stop.set()

    def every_command(self):
        """Pipelines of one command each, occasionally inside MULTI, over keys shared with all other commands."""
        self.seed += 1
        words = Words(self.seed, self.dump)
        connection = self.server.connect()
        commands = table(connection)
        names = sorted(set(commands) - ELSEWHERE)
        while not self.stop.is_set():
            words.random.shuffle(names)
            for name in names:
                count = PIPELINE_OF.get(name, PIPELINE)
                requests = [words.request(name, commands[name]) for _ in range(count)]
                first = BEFORE.get(name, [])
                in_multi = words.random.random() < 0.2
                if in_multi:
                    requests = [["MULTI"], *requests, ["EXEC"]]
                self.sent[threading.get_ident()] = (name, in_multi)
                replies = connection.pipeline(first + requests)[len(first) :]
                if in_multi:
                    replies = replies[-1].items or []
                self.requests[name] += len(replies)
                errors = [reply for reply in replies if reply.is_error()]
                if len(errors) < len(replies):
                    self.answered.add(name)
                if errors:
                    self.errors[name] += len(errors)
                if self.stop.is_set():
                    break
        connection.close()

    def due_times(self):
        """Expiry times of a fixed set of keys are changed, removed and read: nothing of the old ones may remain."""
        self.seed += 1
        words = Words(self.seed, self.dump)
        connection = self.server.connect()
        connection.pipeline([["SET", b"due:%d" % n, b"v"] for n in range(KEYS)])
        while not self.stop.is_set():
            at = int(time.time()) + words.random.randrange(10**5, 10**6)
            raw = b"".join(encode([b"EXPIREAT", b"due:%d" % n, b"%d" % (at + n)]) for n in range(KEYS)) * 4
            connection.send_raw(raw)
            for _ in range(4 * KEYS):
                connection.read_node()
            connection.pipeline([["PERSIST", b"due:%d" % n] for n in range(0, KEYS, 7)])
            self.requests["expireat"] += 4 * KEYS
        connection.close()

    def visitors(self):
        """Clients that connect, begin something, and disconnect in every possible way."""
        self.seed += 1
        words = Words(self.seed, self.dump)
        port, lived = self.server.port, []
        long = words.random.randbytes(2_000).hex().encode()
        beginnings = [
            [["PING"]],
            [["SUBSCRIBE", *[b"channel:%d" % n for n in range(50)]]],
            [["PSUBSCRIBE", b"c*:1", b"c*:2", long]],
            [["SSUBSCRIBE", b"channel:1"]],
            [["MULTI"], *[["SET", b"key:%d" % n, long] for n in range(50)]],
            [["WATCH", *[b"key:%d" % n for n in range(100)], long]],
            [["WATCH", b"key:1"], ["MULTI"], ["INCR", b"num:1"], ["EXEC"]],
            [["CLIENT", "SETNAME", b"n" * 100], ["HELLO", "3"], ["CLIENT", "NO-EVICT", "ON"]],
            [["CLIENT", "REPLY", "OFF"], ["SET", b"key:1", long]],
            [["SEXTON.SNAPSHOT", "OPEN"], ["MGET", *[b"key:%d" % n for n in range(100)]]],
            [["SCAN", "0", "COUNT", "10"]],
            [["MONITOR"]],
            [["WAITAOF", "1", "1", "0"]],
            [["WAIT", "1", "0"]],
            [["QUIT"]],
            [["NOSUCH" + str(words.random.random())], ["GET"], ["AUTH", "a", "b"]],
            [["MGET", *[b"key:%d" % n for n in range(KEYS)]]] * 20,
            [["SELECT", "3"], ["SET", b"key:1", long], ["RESET"]],
        ]
        while not self.stop.is_set():
            sock = socket.create_connection(("127.0.0.1", port), timeout=20)
            begun = words.random.choice(beginnings)
            data = b"".join(encode([to_bytes(word) for word in request]) for request in begun)
            if words.random.random() < 0.2:
                data = data[: words.random.randrange(len(data))]
            sock.sendall(data)
            self.requests["visits"] += 1
            if words.random.random() < 0.7:
                sock.settimeout(0.2)
                try:
                    sock.recv(1 << 16)
                except OSError:
                    pass
            way = words.random.randrange(5)
            if way == 0:  # reset
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif way == 1:  # half-open, for a while
                sock.shutdown(socket.SHUT_WR)
                lived.append(sock)
                continue
            elif way == 2:  # stays, and leaves with others
                lived.append(sock)
                if len(lived) > 40:
                    for old in lived:
                        old.close()
                    lived.clear()
                continue
            sock.close()
        for sock in lived:
            sock.close()

    def admin(self):
        """The actions of an operator and of a schedule, repeatedly."""
        self.seed += 1
        rnd = random.Random(self.seed)
        connection = self.server.connect(timeout_s=60)
        toggles = [
            ("appendonly", "no"), ("appendonly", "yes"), ("maxmemory", "200mb"), ("maxmemory", "0"),
            ("maxmemory-policy", "allkeys-lru"), ("maxmemory-policy", "noeviction"),
            ("notify-keyspace-events", "KEA"), ("notify-keyspace-events", ""), ("slowlog-log-slower-than", "0"),
            ("slowlog-log-slower-than", "10000"), ("latency-monitor-threshold", "1"),
            ("latency-monitor-threshold", "0"), ("appendfsync", "always"), ("appendfsync", "everysec"),
        ]  # fmt: skip
        while not self.stop.is_set():
            deeds = [["SWAPDB", "0", "1"], ["SWAPDB", "0", "1"], ["FLUSHDB"], ["BGSAVE"], ["BGREWRITEAOF"], ["SAVE"],
                     ["FLUSHALL"], ["SELECT", "1"], ["FLUSHDB"], ["SELECT", "0"], ["INFO", "everything"],
                     ["CLIENT", "LIST"], ["CLIENT", "KILL", "TYPE", "pubsub"], ["DBSIZE"], ["KEYS", "key:1*"],
                     ["CLIENT", "PAUSE", "5"], ["CLIENT", "UNPAUSE"], ["LATENCY", "RESET"], ["MEMORY", "PURGE"],
                     ["CONFIG", "RESETSTAT"], ["SLOWLOG", "GET"], ["DEBUG", "JMAP"]]  # fmt: skip
            deeds += [["CONFIG", "SET", name, value] for name, value in toggles]
            cursor = b"0"
            for deed in deeds:
                connection.node(*deed)
                cursor = connection.cmd("SCAN", cursor, "COUNT", "100")[0]
                self.requests["deeds"] += 1
                time.sleep(rnd.random() * 0.02)
                if self.stop.is_set():
                    break
            connection.pipeline([["SELECT", "0"], *[["CONFIG", "SET", *pair] for pair in toggles[1:]]])
        connection.pipeline([["CONFIG", "SET", *pair] for pair in toggles])
        connection.close()

    def jobs(self, only):
        names = [only] if only else JOBS
        return [getattr(self, name) for name in names]


def info(connection):
    lines = connection.cmd("INFO", "everything").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def settle(server, timeout_s=8.0):
    """Waits until all clients have left, the data is deleted and no work is in progress; MEMORY PURGE returns memory that the
    allocator keeps for reuse, so that the rest is really in use."""
    connection = server.connect(timeout_s=60)
    connection.pipeline([["FLUSHALL"], ["CONFIG", "RESETSTAT"], ["SLOWLOG", "RESET"], ["BGREWRITEAOF"]])
    deadline = time.monotonic() + timeout_s
    busy = ("rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "flsm_memtables_frozen")
    while time.monotonic() < deadline:
        figures = info(connection)
        if figures["connected_clients"] == "1" and all(figures.get(name, "0") == "0" for name in busy):
            break
        time.sleep(0.05)
    time.sleep(1.2)  # what is freed in the background, once a second
    connection.cmd("MEMORY", "PURGE")
    figures = info(connection)
    connection.close()
    return figures


def descriptors(server):
    """Open descriptors, except those of files in the data directory, which are counted as files; deleted ones count."""
    count = 0
    for link in Path(f"/proc/{server.pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue  # closed since
        count += target.endswith(" (deleted)") or not target.startswith(f"{server.directory}/")
    return count


def measure(server):
    """The figures of a quiet server."""
    figures = settle(server)
    files = [path for path in server.directory.rglob("*") if path.is_file() and path != server.log_path]
    row = {
        "resident": process_rss_bytes(server.pid),
        "used_memory": int(figures["used_memory"]),
        "descriptors": descriptors(server),
        "threads": sum(1 for _ in Path(f"/proc/{server.pid}/task").iterdir()),
        "files": len(files),
        "file bytes": sum(path.stat().st_size for path in files),
        "INFO rows": len(figures),
    }
    row.update({name: int(figures[name]) for name in TABLES if name in figures})
    return row


def tolerance(name, before):
    """The tolerated excess of the last median over the second quarter's."""
    if name in TABLES:
        return TABLES[name]
    return {
        "resident": max(0.05 * before, 3 << 20), "used_memory": max(0.05 * before, 2 << 20), "descriptors": 4,
        "threads": 2, "files": 6, "file bytes": max(0.5 * before, 24 << 20), "INFO rows": 2,
    }[name]  # fmt: skip


def compare(steps, rows):
    quarter = max(1, len(rows) // 4)
    second, last = rows[quarter : 2 * quarter], rows[-quarter:]
    print(f"{'':30} {'1st quarter':>14} {'2nd':>14} {'last':>14} {'allowed':>14}")
    for name in rows[0]:
        first, before, after = (statistics.median(row[name] for row in part) for part in (rows[:quarter], second, last))
        most = before + tolerance(name, before)
        print(f"{name:30} {first:14,.0f} {before:14,.0f} {after:14,.0f} {most:14,.0f}", flush=True)
        steps.check(f"{name} does not grow", after <= most, f"{before:,.0f} -> {after:,.0f}, allowed {most:,.0f}")


def check_commands(steps, work, commands):
    missing = set(commands) - ELSEWHERE - set(work.requests)
    steps.check("every command was run", not missing, ", ".join(sorted(missing)))
    silent = set(work.requests) & set(commands) - work.answered - ERRORS_ONLY
    steps.check("each with arguments that it takes", not silent, ", ".join(sorted(silent)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--round-seconds", type=float, default=None, help="seconds of work per round; default: 20 rounds")
    parser.add_argument("--server", default="sexton", help="sexton, or the path of a binary")
    parser.add_argument("--port", type=int, default=None)
    parser.add_argument("--only", choices=sorted(set(JOBS)), help="only this work")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    steps = Steps(f"soak of {args.seconds:.0f} s")
    round_s = args.round_seconds or max(2.0, args.seconds / 20 - QUIET_S)
    options = {"memtable-bytes": "2mb", "enable-debug-command": "yes", "undo-max-bytes": "64mb"}
    with Server(args.server, options, port=args.port) as server:
        connection = server.connect()
        connection.cmd("SET", "key:dump", "a value")
        dump = connection.cmd("DUMP", "key:dump")
        commands = table(connection)
        connection.close()
        work, rows = Work(server, args.seed, dump), []
        deadline = time.monotonic() + args.seconds
        while time.monotonic() + round_s < deadline or len(rows) < 8:
            work.run(work.jobs(args.only), round_s)
            if work.failures:
                break
            rows.append(measure(server))
            print(f"      round {len(rows)}: " + ", ".join(f"{k} {v:,}" for k, v in list(rows[-1].items())[:7]), flush=True)
        steps.check("no client hung or was cut off", not work.failures, "; ".join(work.failures[:3]))
        if work.failures:
            print(server.log_tail(25))
        if args.only is None:
            check_commands(steps, work, commands)
        if rows and not work.failures:
            compare(steps, rows)
        log = server.log_path.read_text(errors="replace")
        steps.check("no panic", "panicked" not in log, log[max(0, log.find("panicked") - 200) :][:2000] if "panicked" in log else "")
        done = sum(work.requests.values())
        print(f"{done:,} requests of {len(work.requests)} kinds, errors: "
              + ", ".join(f"{name} {count}" for name, count in work.errors.most_common(12)))  # fmt: skip
    steps.finish()


if __name__ == "__main__":
    main()
