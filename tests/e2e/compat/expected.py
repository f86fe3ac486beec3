"""The expected result of each test: the file `expected.tsv`, and the meaning of its words.

A row is: mode, unit, verdict, test, remark. The rows are the tests that redis-server 7.0.15 itself passes in that mode. The
verdict is `pass`, or one of the reasons below.
"""

import re
from pathlib import Path

FILE = Path(__file__).resolve().parent / "expected.tsv"

#: (mode, unit, whether continuous integration runs it). "external": against a server that we start; "own": the suite
#: starts the servers, with its own configuration.
UNITS = [
    ("external", "unit/protocol", True),
    ("external", "unit/keyspace", True),
    ("external", "unit/scan", True),
    ("external", "unit/info-command", True),
    ("external", "unit/type/string", True),
    ("external", "unit/type/incr", True),
    ("external", "unit/type/hash", True),
    ("external", "unit/type/list", True),
    ("external", "unit/type/list-2", False),
    ("external", "unit/type/list-3", False),
    ("external", "unit/type/set", True),
    ("external", "unit/type/zset", True),
    ("external", "unit/geo", False),
    ("external", "unit/bitops", True),
    ("external", "unit/bitfield", True),
    ("external", "unit/hyperloglog", True),
    ("external", "unit/type/stream", True),
    ("external", "unit/type/stream-cgroups", True),
    ("external", "unit/sort", True),
    ("external", "unit/expire", True),
    ("external", "unit/other", True),
    ("external", "unit/multi", True),
    ("external", "unit/quit", True),
    ("external", "unit/pubsub", True),
    ("external", "unit/slowlog", True),
    ("external", "unit/pause", True),
    ("external", "unit/lazyfree", True),
    ("external", "unit/violations", True),
    ("external", "unit/replybufsize", False),
    ("external", "unit/introspection", True),
    ("external", "unit/introspection-2", True),
    ("external", "unit/latency-monitor", True),
    ("external", "unit/scripting", True),
    ("external", "unit/functions", True),
    ("external", "unit/dump", False),
    ("external", "unit/querybuf", True),
    ("external", "unit/tracking", True),
    ("external", "integration/redis-cli", False),
    ("own", "unit/auth", True),
    ("own", "unit/acl", True),
    ("own", "unit/acl-v2", True),
    ("own", "unit/info", True),
    ("own", "unit/limits", True),
    ("own", "unit/tls", True),
    ("own", "unit/client-eviction", False),
    ("own", "unit/obuf-limits", False),
    ("own", "unit/maxmemory", False),
    ("own", "unit/networking", True),
    ("own", "unit/shutdown", True),
    ("own", "unit/oom-score-adj", True),
    ("own", "unit/memefficiency", False),
    ("own", "unit/pubsubshard", True),
    ("own", "unit/wait", False),
    ("own", "unit/tracking", False),
    ("own", "unit/type/list", False),
    ("own", "unit/introspection", False),
    ("own", "unit/other", False),
    ("own", "unit/multi", False),
    ("own", "unit/scripting", False),
    ("own", "unit/functions", False),
    ("own", "unit/dump", False),
    ("own", "unit/aofrw", False),
    ("own", "integration/convert-zipmap-hash-on-load", True),
    ("own", "integration/convert-ziplist-hash-on-load", True),
    ("own", "integration/convert-ziplist-zset-on-load", True),
    ("own", "integration/corrupt-dump", True),
    ("own", "integration/corrupt-dump-fuzzer", False),
    ("own", "integration/dismiss-mem", False),
    ("own", "integration/block-repl", False),
    ("own", "integration/aof", False),
    ("own", "integration/aof-multi-part", False),
    ("own", "integration/rdb", False),
    ("own", "integration/logging", True),
    ("own", "integration/shutdown", True),
    ("own", "integration/redis-cli", False),
    ("own", "integration/redis-benchmark", False),
]

#: Reasons that end when something is built: verdict -> what the test waits for.
WAITS = {
    "list": "lists",
    "set": "sets",
    "hash": "hashes",
    "zset": "sorted sets",
    "stream": "streams",
    "bitmap": "bit operations on strings",
    "hyperloglog": "HyperLogLogs",
    "geo": "positions (GEOADD and its relatives)",
    "replication": "replication (SYNC, REPLICAOF; the suite reads what is propagated as a replica)",
    "acl": "users with rights (ACL SETUSER)",
    "migrate": "MIGRATE",
    "module": "modules",
    "cluster": "cluster commands",
    "block": "a block of tests whose set-up needs what is not built",
}

#: Reasons that stay: the test looks into redis-server's inside, or asks for what we do otherwise on purpose.
STAYS = {
    "inside": "looks into redis-server's inside",
    "differs": "we answer otherwise on purpose (differences.md)",
    "known": "fails, and should not",
}

#: What a failed test saw -> the reason, for a first guess.
COMMANDS = [
    ("list", r"[LR](PUSHX?|POP|LEN|RANGE|INDEX|INSERT|SET|REM|TRIM|POS|MPOP|MOVE|POPLPUSH)|B[LR]M?(POP|MOVE|POPLPUSH)"),
    ("set", r"S(ADD|REM|CARD|M?ISMEMBER|MEMBERS|POP|RANDMEMBER|INTER|UNION|DIFF|MOVE|SCAN)(STORE|CARD)?"),
    ("geo", r"GEO\w+"),
    ("bitmap", r"SETBIT|GETBIT|BIT\w+"),
    ("hyperloglog", r"PF\w+"),
    ("hash", r"H(?!ELLO)\w+"),
    ("zset", r"B?Z\w+"),
    ("stream", r"X\w+"),
    ("replication", r"P?SYNC|REPLICAOF|SLAVEOF|FAILOVER|WAIT"),
    ("acl", r"ACL|SETUSER"),
    ("migrate", r"MIGRATE"),
    ("module", r"MODULE"),
]


def guess(seen):
    """The reason suggested by the output of a failed test, or None."""
    found = re.search(r"(?:n (?:sub)?command|ERR Command) '([^']+)'", seen)
    if found:
        for reason, pattern in COMMANDS:
            if re.fullmatch(pattern, found[1].upper()):
                return reason
    if re.search(r"cannot be a replica|min-replicas|replication is not built", seen):
        return "replication"
    if "no blocked clients" in seen:
        return "list"
    return None


class Expected:
    """The rows by (mode, unit): {test: (verdict, remark)} in the suite's order."""

    def __init__(self, units=None):
        self.units = units or {}

    @classmethod
    def read(cls):
        expected = cls()
        for line in FILE.read_text().splitlines():
            if line.startswith("#"):
                continue
            mode, unit, verdict, test, *remark = line.split("\t")
            if verdict != "pass" and verdict not in WAITS and verdict not in STAYS:
                raise SystemExit(f"{FILE.name}: verdict '{verdict}' of '{test}' is unknown")
            if (verdict in STAYS) and not (remark and remark[0]):
                raise SystemExit(f"{FILE.name}: '{test}' stands as '{verdict}' without a remark that says why")
            expected.units.setdefault((mode, unit), {})[test] = (verdict, remark[0] if remark else "")
        return expected

    def write(self):
        lines = ["# mode\tunit\tverdict\ttest\tremark (made by `make compat ARGS=--accept`; verdicts: expected.py)"]
        for mode, unit, _ in UNITS:
            for test, (verdict, remark) in self.units.get((mode, unit), {}).items():
                lines.append("\t".join([mode, unit, verdict, test] + ([remark] if remark else [])))
        FILE.write_text("\n".join(lines) + "\n")
