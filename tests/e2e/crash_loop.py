"""python3 -m crash_loop --policy always|everysec|wbl [--rounds 100] [--server sexton] [--option name=value]

Repeatedly kills the server (-9) under load, restarts it and compares its data with the acknowledged commands, on one data
directory. Each connection owns its keys and its commands are deterministic, so the valid states of a
connection are prefixes of the commands it sent:

* `always`: a prefix that contains every acknowledged command;
* `everysec`: a prefix that lacks at most the last seconds before the kill (printed; --max-loss-s);
* `wbl`: as `always`, with the memtables in emulated persistent memory (files on tmpfs, which survive the
  process but not the machine). Some restarts switch to a log with `always`, or back.

Transactions of all connections increment one key, `g:seq`; its recovered value G must be the number
of transactions found, and exactly those that were answered with a number <= G must be there: the
connections' prefixes belong to one prefix of the total order. Transactions also move amounts
between shared accounts whose sum stays 0. DBSIZE must equal the number of keys SCAN returns, and keys
whose time came must not return. Some restarts are killed too, in the middle of recovery.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness.resp import Connection, ReplyError, encode
from harness.server import Server

FAR_MS = 4102444800000
ACCOUNTS = 16
# A field that no model has: it is gone within 0.3 s.
SOON = b"soon"
# Share of the restarts that change between wbl and a log.
SWITCH_SHARE = 0.2


class Model:
    """Keys of one connection: key -> (value, expiry in ms or None)."""

    def __init__(self, keys=None):
        self.keys = dict(keys or {})

    def apply(self, op):
        """Applies one operation; returns the keys it touched."""
        kind, key = op[0], op[1]
        if kind == "tx":
            touched = []
            for inner in op[2]:
                touched += self.apply(inner)
            return touched
        if kind in ("throwaway", "throwaway field"):
            return []
        old = self.keys.get(key)
        if kind == "set":
            self.keys[key] = (op[2], None)
        elif kind == "incr":
            self.keys[key] = (b"%d" % (int(old[0]) + 1 if old else 1), old[1] if old else None)
        elif kind == "append":
            self.keys[key] = ((old[0] if old else b"") + op[2], old[1] if old else None)
        elif kind == "del":
            del self.keys[key]
        elif kind == "expireat":
            self.keys[key] = (old[0], op[2])
        elif kind == "persist":
            self.keys[key] = (old[0], None)
        elif kind in ("rpush", "lpush"):
            items = old[0] if old else ()
            self.keys[key] = (items + op[2] if kind == "rpush" else op[2][::-1] + items, old[1] if old else None)
        elif kind == "lpop":
            self.put_or_drop(key, old[0][op[2] :], old[1])
        elif kind == "hset":
            fields = {field[0]: field for field in old[0]} if old else {}
            fields[op[2]] = (op[2], op[3], op[4])
            self.keys[key] = (tuple(sorted(fields.values())), old[1] if old else None)
        elif kind in ("hexpireat", "hpersist"):
            time_ms = op[3] if kind == "hexpireat" else -1
            self.keys[key] = (tuple((f, v, time_ms if f == op[2] else t) for f, v, t in old[0]), old[1])
        elif kind == "hdel":
            self.put_or_drop(key, tuple(field for field in old[0] if field[0] != op[2]), old[1])
        elif kind == "zadd":
            scores = {member: score for score, member in old[0]} if old else {}
            scores.update(op[2])
            ranked = tuple(sorted((score, member) for member, score in scores.items()))
            self.keys[key] = (ranked, old[1] if old else None)
        elif kind == "zrem":
            self.put_or_drop(key, tuple(pair for pair in old[0] if pair[1] != op[2]), old[1])
        elif kind == "zpopmin":
            self.put_or_drop(key, old[0][op[2] :], old[1])
        elif kind == "xadd":
            entries = old[0] if old else ()
            self.keys[key] = (entries + ((op[2], op[3]),), old[1] if old else None)
        elif kind == "xtrim":
            self.keys[key] = (old[0][-op[2] :], old[1])
        elif kind == "xdel":
            self.keys[key] = (tuple(entry for entry in old[0] if entry[0] != op[2]), old[1])
        elif kind == "rename":
            self.keys[op[2]] = self.keys.pop(key)
            return [key, op[2]]
        return [key]


    def put_or_drop(self, key, value, expiry):
        """A collection is deleted with its last element."""
        if value:
            self.keys[key] = (value, expiry)
        else:
            del self.keys[key]


REQUESTS = {
    "set": lambda op: [b"SET", op[1], op[2]],
    "incr": lambda op: [b"INCR", op[1]],
    "append": lambda op: [b"APPEND", op[1], op[2]],
    "del": lambda op: [b"DEL", op[1]],
    "expireat": lambda op: [b"PEXPIREAT", op[1], b"%d" % op[2]],
    "persist": lambda op: [b"PERSIST", op[1]],
    "rpush": lambda op: [b"RPUSH", op[1], *op[2]],
    "lpush": lambda op: [b"LPUSH", op[1], *op[2]],
    "lpop": lambda op: [b"LPOP", op[1], b"%d" % op[2]],
    "hset": lambda op: [b"HSET", op[1], op[2], op[3]] if op[4] < 0 else
        [b"HSETEX", op[1], b"PXAT", b"%d" % op[4], b"FIELDS", b"1", op[2], op[3]],
    "hexpireat": lambda op: [b"HPEXPIREAT", op[1], b"%d" % op[3], b"FIELDS", b"1", op[2]],
    "hpersist": lambda op: [b"HPERSIST", op[1], b"FIELDS", b"1", op[2]],
    "throwaway field": lambda op: [b"HSETEX", op[1], b"PX", b"300", b"FIELDS", b"1", SOON, b"soon gone"],
    "hdel": lambda op: [b"HDEL", op[1], op[2]],
    "zadd": lambda op: [b"ZADD", op[1], *(word for member, score in op[2] for word in (b"%d" % score, member))],
    "zrem": lambda op: [b"ZREM", op[1], op[2]],
    "zpopmin": lambda op: [b"ZPOPMIN", op[1], b"%d" % op[2]],
    "xadd": lambda op: [b"XADD", op[1], b"%d-1" % op[2], b"field", op[3]],
    "xtrim": lambda op: [b"XTRIM", op[1], b"MAXLEN", b"%d" % op[2]],
    "xdel": lambda op: [b"XDEL", op[1], b"%d-1" % op[2]],
    "rename": lambda op: [b"RENAME", op[1], op[2]],
    "throwaway": lambda op: [b"SET", op[1], b"soon gone", b"PX", b"300"],
}


def requests_of(op):
    """The requests of an operation: one, or MULTI ... EXEC."""
    if op[0] != "tx":
        return [REQUESTS[op[0]](op)]
    inner = [REQUESTS[o[0]](o) for o in op[2]]
    return [[b"MULTI"], [b"INCR", b"g:seq"], *inner, *op[3], [b"EXEC"]]


class Writer(threading.Thread):
    """One connection under load. `ops` holds what was sent in order, `acked` how many were
    answered, `ack_times` when, `tx_seq` the answered number of each transaction by its index."""

    def __init__(self, number, port, base, seed):
        super().__init__(daemon=True)
        self.number = number
        self.port = port
        self.base = base
        self.head = Model(base)
        self.rng = random.Random(seed)
        self.ops, self.ack_times, self.tx_seq = [], [], {}
        self.counter = 0
        self.problem = None

    @property
    def acked(self):
        return len(self.ack_times)

    def name_of(self, kind, index):
        return b"c%d:%s:%d" % (self.number, kind, index)

    def collection_op(self, mark):
        """A change of one of a few lists, hashes, sorted sets and streams, most of which lie in pages."""
        rng, number = self.rng, self.rng.randrange(8)
        if number >= 6:
            return self.stream_op(mark)
        if number >= 4:
            return self.sorted_set_op()
        if number < 2:
            key = self.name_of(b"q", number)
            items = self.head.keys.get(key, ((),))[0]
            if items and rng.random() < len(items) / 800:
                return ("lpop", key, rng.choice([1, 3, 40, 400]))
            return (rng.choice(["rpush", "lpush"]), key, tuple(mark + b".%d" % n for n in range(rng.randrange(1, 9))))
        # Fields of one of the hashes expire, which keeps it out of pages.
        key, field = self.name_of(b"h", number), b"field:%d" % rng.randrange(300)
        fields = {field[0] for field in self.head.keys.get(key, ((),))[0]}
        if number == 3:
            if field in fields and rng.random() < 0.5:
                return rng.choice([("hexpireat", key, field, FAR_MS + self.counter), ("hpersist", key, field)])
            if fields and rng.random() < 0.1:
                return ("throwaway field", key)
        if rng.random() < 0.3 and field in fields:
            return ("hdel", key, field)
        return ("hset", key, field, mark, FAR_MS + self.counter if number == 3 and rng.random() < 0.3 else -1)

    def sorted_set_op(self):
        rng = self.rng
        key = self.name_of(b"z", rng.randrange(2))
        ranked = self.head.keys.get(key, ((),))[0]
        roll = rng.random()
        if ranked and roll < len(ranked) / 8000:
            return ("zpopmin", key, rng.choice([1, 3, 40, 400]))
        if ranked and roll < 0.3:
            return ("zrem", key, rng.choice(ranked)[1])
        pairs = {b"member:%d" % rng.randrange(2000): rng.randrange(100_000) for _ in range(rng.choice([1, 1, 8]))}
        return ("zadd", key, tuple(pairs.items()))

    def stream_op(self, mark):
        """The last entry of a stream stays, so that the next ID is known."""
        rng = self.rng
        key = self.name_of(b"x", rng.randrange(2))
        entries = self.head.keys.get(key, ((),))[0]
        roll = rng.random()
        if entries and roll < len(entries) / 8000:
            return ("xtrim", key, rng.randrange(1, len(entries) + 1))
        if len(entries) > 1 and roll < 0.25:
            return ("xdel", key, rng.choice(entries[:-1])[0])
        return ("xadd", key, entries[-1][0] + rng.randrange(1, 3) if entries else 1, mark)

    def simple_op(self):
        rng, roll = self.rng, self.rng.random()
        self.counter += 1
        mark = b"%d-%d" % (self.counter, rng.randrange(1 << 30))
        if rng.random() < 0.25:
            return self.collection_op(mark)
        if roll < 0.25:
            return ("set", self.name_of(b"s", rng.randrange(40)), mark)
        if roll < 0.45:
            size = rng.choice([100, 500, 1000, 4000])
            return ("set", self.name_of(b"b", rng.randrange(400)), mark + rng.randbytes(size))
        if roll < 0.65:
            return ("incr", self.name_of(b"n", rng.randrange(8)))
        if roll < 0.75:
            key = self.name_of(b"a", rng.randrange(8))
            if len(self.head.keys.get(key, (b"",))[0]) > 5000:
                return ("set", key, mark)
            return ("append", key, mark)
        if roll < 0.78:
            return ("throwaway", b"x:%d:%d" % (self.number, self.counter))
        if not self.head.keys:
            return ("set", self.name_of(b"s", 0), mark)
        key = rng.choice(list(self.head.keys)) if rng.random() < 0.2 else self.name_of(b"s", rng.randrange(40))
        if key not in self.head.keys:
            return ("set", key, mark)
        if roll < 0.86:
            return ("del", key)
        if roll < 0.92:
            return ("expireat", key, FAR_MS + self.counter)
        if roll < 0.94 and self.head.keys[key][1]:
            return ("persist", key)
        return ("rename", key, self.name_of(b"r", rng.randrange(30)))

    def next_op(self):
        if self.rng.random() < 0.85:
            op = self.simple_op()
            self.head.apply(op)
            return op
        inner = []
        for _ in range(self.rng.randint(1, 5)):
            op = self.simple_op()
            self.head.apply(op)
            inner.append(op)
        counter = ("incr", self.name_of(b"tx", 0))
        self.head.apply(counter)
        amount = b"%d" % self.rng.randint(1, 1000)
        one, two = self.rng.sample(range(ACCOUNTS), 2)
        shared = [[b"DECRBY", b"bank:%d" % one, amount], [b"INCRBY", b"bank:%d" % two, amount]]
        return ("tx", None, [*inner, counter], shared)

    def run(self):
        try:
            connection = Connection(self.port)
            while True:
                batch = [self.next_op() for _ in range(self.rng.choice([1, 1, 4, 16, 64]))]
                groups = [requests_of(op) for op in batch]
                first = len(self.ops)
                self.ops += batch
                connection.send_raw(b"".join(encode(r) for g in groups for r in g))
                for offset, (op, group) in enumerate(zip(batch, groups)):
                    for _ in group:
                        value = connection.read_node().python()
                        if isinstance(value, ReplyError):
                            self.problem = f"c{self.number}: {op!r:.200} answered {value}"
                            return
                    if op[0] == "tx":
                        self.tx_seq[first + offset] = value[0]
                    self.ack_times.append(time.monotonic())
        except OSError:
            return  # the kill


def value_of(kind, node):
    """A value in the model's form: bytes, the items of a list, scores and members, or IDs and values; a hash is flat."""
    if kind == b"stream" and node.items:
        entries = [(entry.items[0].value, entry.items[1].items[1].value) for entry in node.items]
        return tuple((int(entry_id.partition(b"-")[0]), value) for entry_id, value in entries)
    if kind not in (b"list", b"hash", b"zset", b"stream"):
        return node.value
    if not node.items:
        return None
    items = tuple(item.value for item in node.items)
    if kind == b"zset":
        return tuple((int(score), member) for member, score in zip(items[::2], items[1::2]))
    return items


def read_everything(server):
    """All keys with values and expiry, as {key: (value, expiry or None)}."""
    connection = server.connect()
    names, cursor = set(), b"0"
    while True:
        cursor, page = connection.cmd("SCAN", cursor, "COUNT", 1000)
        names.update(page)
        if cursor == b"0":
            break
    state, names = {}, sorted(names)
    for start in range(0, len(names), 500):
        part = names[start : start + 500]
        types = [node.value for node in connection.pipeline([[b"TYPE", name] for name in part])]
        read = {b"list": lambda n: [b"LRANGE", n, b"0", b"-1"], b"hash": lambda n: [b"HGETALL", n],
                b"zset": lambda n: [b"ZRANGE", n, b"0", b"-1", b"WITHSCORES"],
                b"stream": lambda n: [b"XRANGE", n, b"-", b"+"]}
        reads = [read.get(kind, lambda n: [b"GET", n])(name) for kind, name in zip(types, part)]
        nodes = connection.pipeline([r for n, get in zip(part, reads) for r in (get, [b"PEXPIRETIME", n])])
        for i, name in enumerate(part):
            value, expiry = value_of(types[i], nodes[2 * i]), nodes[2 * i + 1].value
            if types[i] == b"hash" and value is not None:
                names_of, values_of = value[::2], value[1::2]
                times = connection.cmd("HPEXPIRETIME", name, "FIELDS", len(names_of), *names_of)
                fields = sorted(zip(names_of, values_of, times))
                value = tuple(field for field in fields if field[0] != SOON) or None
            if value is not None:
                state[name] = (value, expiry if expiry >= 0 else None)
    connection.close()
    return state


def matching_prefixes(writer, found, lowest):
    """All n >= lowest for which the connection's first n operations give the state `found`."""
    model = Model(writer.base)
    wrong = {k for k in model.keys.keys() | found.keys() if model.keys.get(k) != found.get(k)}
    matches = []
    for n in range(len(writer.ops) + 1):
        if not wrong and n >= lowest:
            matches.append(n)
        if n < len(writer.ops):
            for key in model.apply(writer.ops[n]):
                (wrong.discard if model.keys.get(key) == found.get(key) else wrong.add)(key)
    return matches


def closest(writer, found):
    """For the report: the keys that differ at the prefix with the fewest differences."""
    model, best = Model(writer.base), None
    for n in range(len(writer.ops) + 1):
        if n >= writer.acked - 200:
            wrong = [k for k in model.keys.keys() | found.keys() if model.keys.get(k) != found.get(k)]
            if best is None or len(wrong) <= len(best[1]):
                best = (n, wrong)
        if n < len(writer.ops):
            model.apply(writer.ops[n])
    return f"closest prefix {best[0]} (acked {writer.acked}, sent {len(writer.ops)}), differing {best[1][:5]}"


class Round:
    """One load, kill, restart, check."""

    def __init__(self, args, server, state, rng):
        self.args, self.server, self.state, self.rng = args, server, state, rng
        self.problems = []
        self.lost_s = 0.0

    def own(self, state, number):
        prefix = b"c%d:" % number
        return {k: v for k, v in state.items() if k.startswith(prefix)}

    def load_and_kill(self):
        if self.args.promises_all and self.rng.random() < 0.05:
            connection = self.server.connect()
            connection.cmd("FLUSHALL")
            connection.close()
            self.state = {}
        self.start_writers()
        time.sleep(self.rng.uniform(*self.args.load_s))
        self.killed_at = time.monotonic()
        died_before = not self.server.alive()
        self.server.kill()
        self.join_writers()
        if died_before:
            self.problems.append("the server ended by itself:\n" + self.server.log_tail())

    def start_writers(self):
        self.writers = [
            Writer(i, self.server.port, self.own(self.state, i), self.rng.randrange(1 << 62))
            for i in range(self.args.connections)
        ]
        for writer in self.writers:
            writer.start()

    def join_writers(self):
        for writer in self.writers:
            writer.join(10)
            if writer.problem:
                self.problems.append(writer.problem)

    def change_mode(self):
        """Switches between memtables in persistent memory and a log: the data that one mode left must be found by the other."""
        if self.args.policy == "wbl" and self.rng.random() < SWITCH_SHARE:
            other = {"wbl": "log", "log": "wbl"}
            self.server.options["persistence-mode"] = other[self.server.options["persistence-mode"]]

    def restart(self):
        begun = time.monotonic()
        self.change_mode()
        if self.rng.random() < 0.15:
            killer = threading.Timer(self.rng.uniform(0.002, 0.08), self.server.kill)
            killer.start()
            try:
                self.server.start()
            except (RuntimeError, OSError):
                pass  # killed before it answered, as intended
            killer.join()
            self.server.kill()
            self.change_mode()
        self.server.start()
        self.recovery_s = time.monotonic() - begun

    def check(self):
        found = read_everything(self.server)
        sequence = int(found.get(b"g:seq", (b"0",))[0])
        base_sequence = int(self.state.get(b"g:seq", (b"0",))[0])
        applied = 0
        for writer in self.writers:
            lowest = writer.acked
            if not self.args.promises_all:
                limit = self.killed_at - self.args.max_loss_s
                lowest = sum(1 for t in writer.ack_times if t <= limit)
            mine = self.own(found, writer.number)
            matches = matching_prefixes(writer, mine, lowest)
            if not matches:
                self.problems.append(f"c{writer.number}: no prefix fits; {closest(writer, mine)}")
                continue
            n = matches[-1]
            if n < writer.acked:
                self.lost_s = max(self.lost_s, self.killed_at - writer.ack_times[n])
            applied += sum(1 for op in writer.ops[:n] if op[0] == "tx")
            for index, number in writer.tx_seq.items():
                if (index < n) != (number <= sequence):
                    self.problems.append(
                        f"c{writer.number}: transaction {number} is {'' if index < n else 'not '}there, g:seq is {sequence}"
                    )
                    break
        if not self.problems and applied != sequence - base_sequence:
            self.problems.append(f"{applied} transactions found, g:seq counts {sequence - base_sequence}")
        bank = sum(int(v[0]) for k, v in found.items() if k.startswith(b"bank:"))
        if bank:
            self.problems.append(f"accounts sum to {bank}: a transaction is half there")
        self.check_counts()
        return found

    def check_counts(self):
        """DBSIZE equals SCAN, and short-lived keys are deleted after at most 5 s."""
        connection = self.server.connect()
        deadline = time.monotonic() + 5
        while True:
            names, cursor = set(), b"0"
            while True:
                cursor, page = connection.cmd("SCAN", cursor, "COUNT", 1000)
                names.update(page)
                if cursor == b"0":
                    break
            size = connection.cmd("DBSIZE")
            late = sum(1 for n in names if n.startswith(b"x:"))
            if size == len(names) and not late:
                break
            if time.monotonic() > deadline:
                self.problems.append(f"DBSIZE {size}, SCAN {len(names)} keys, {late} of them should have expired")
                break
            time.sleep(0.05)
        connection.close()


def persistent_memory(options):
    """Options and environment of a server whose memtables lie in emulated persistent memory: its directory."""
    shared = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="sexton-test-pmem-", dir=shared if shared.is_dir() else None))
    declared = place / "device.conf"
    declared.write_text(f"device memory kind pmem path {place}\n")
    options.update({"include": declared, "memtable-device": "memory", "persistence-mode": "wbl"})
    return place, {"PMEM_IS_PMEM_FORCE": "1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=["always", "everysec", "wbl"], required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--max-loss-s", type=float, default=2.5)
    parser.add_argument("--load-s", type=float, nargs=2, help="shortest and longest load before the kill")
    parser.add_argument("--option", action="append", default=[], help="directive for the server, name=value")
    parser.add_argument("--memtable-bytes", default="1mb", help="small, so that flush and compaction are hit too")
    parser.add_argument("--directory", help="keep the data here")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args = parser.parse_args()
    args.promises_all = args.policy != "everysec"
    args.load_s = args.load_s or ((0.2, 1.2) if args.promises_all else (0.3, 3.0))
    options = {"appendonly": "yes", "appendfsync": "always" if args.promises_all else args.policy}
    place, env = persistent_memory(options) if args.policy == "wbl" else (None, None)
    if args.server == "sexton":
        options["memtable-bytes"] = args.memtable_bytes
        options.update({"collection-inline-max": "256", "hash-max-listpack-entries": "20", "zset-max-listpack-entries": "20",
                        "stream-node-max-entries": "20"})
    options.update(option.split("=", 1) for option in args.option)
    print(f"crash loop: {args.server}, {options}, {args.rounds} rounds, seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    server = Server(args.server, options, directory=args.directory, env=env)
    state, bad, acked_total, worst_loss, recoveries = {}, 0, 0, 0.0, []
    server.start()
    if args.policy == "wbl":
        print(f"memtables: {server.info()['wbl_medium']} persistent memory", flush=True)
    for number in range(1, args.rounds + 1):
        this = Round(args, server, state, rng)
        this.load_and_kill()
        this.restart()
        state = this.check()
        acked = sum(w.acked for w in this.writers)
        acked_total += acked
        worst_loss = max(worst_loss, this.lost_s)
        recoveries.append(this.recovery_s)
        if this.problems or number % 10 == 0 or args.rounds <= 10:
            print(f"round {number}: {acked} acknowledged, {len(state)} keys, lost {this.lost_s:.3f} s, "
                  f"restart {this.recovery_s:.2f} s" + ("" if not this.problems else "  FAILED"), flush=True)
        for problem in this.problems[:6]:
            print("   ", problem, flush=True)
        if this.problems:
            bad += 1
            if bad >= 3:
                break
            # What was found is the base of the next round; a half transaction would be found again.
            state = {k: v for k, v in state.items() if not k.startswith(b"bank:")}
            connection = server.connect()
            connection.pipeline([[b"DEL", b"bank:%d" % i] for i in range(ACCOUNTS)])
            connection.close()
    if bad:
        print(f"data kept in {server.directory}" + (f" and {place}" if place else ""))
        server.kill()
    else:
        server.close()
        if place:
            shutil.rmtree(place)
    print(f"crash loop {args.policy}: {number} rounds, {acked_total} operations acknowledged, "
          f"worst loss {worst_loss:.3f} s, longest restart {max(recoveries):.2f} s, {bad} rounds failed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
