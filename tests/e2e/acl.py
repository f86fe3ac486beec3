"""python3 -m acl [--server sexton] [--rules N] [--seed S]: users and their rights, compared with redis-server 7.0.15.

Random rules and commands are sent to both servers; replies must be equal byte by byte. Further tests cover the
connections of users that are changed or deleted, the redaction of secrets, and users in files.
"""

import argparse
import hashlib
import os
import random
import re
import subprocess
import tempfile
from pathlib import Path

from harness.resp import encode, to_bytes
from harness.server import Server, binary_of
from harness.steps import Steps

CATEGORIES = ["keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo",
              "stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction",
              "scripting", "all"]  # fmt: skip
USERS = ["ann", "bob", "cyd", "default"]
WORDS = ["x", "y", "foo", "foo1", "bar:1", "", "news", "a*"]
PATTERNS = ["*", "x", "foo*", "?", "bar:[0-9]", "", "a\\*", "[", "news"]
PASSWORDS = ["p", "secret", "", "two words"]
DIGESTS = [hashlib.sha256(word.encode()).hexdigest() for word in PASSWORDS]


class Grammar:
    """Makes random rules and commands, using the commands that both servers have."""

    def __init__(self, rng, names):
        self.rng, self.names = rng, names

    def pick(self, words):
        return self.rng.choice(words)

    def command_rule(self):
        sign, pick = self.pick("+-"), self.pick
        return pick([
            lambda: f"{sign}@{pick(CATEGORIES)}",
            lambda: f"{sign}{pick(self.names)}",
            lambda: f"{sign}{pick(self.names).upper()}",
            lambda: f"+{pick(['select', 'get', 'object', 'config', 'client'])}|{pick(['0', '1', 'x', 'GET', 'encoding', 'id', ''])}",
            lambda: f"{sign}config|{pick(['get', 'set', 'nosuch', 'get|x'])}",
            lambda: pick(["allcommands", "nocommands", "+@all", "-@all", "+nosuch", "-@nosuch", "+", "-", "+@", "+|x"]),
        ])()  # fmt: skip

    def key_rule(self):
        pick = self.pick
        return pick(["~", "~", "~", "%R~", "%W~", "%RW~", "%wr~", "%", "%R", "%RR~", "%~", "%X~"]) + pick(PATTERNS)

    def rights(self):
        pick = self.pick
        return pick([self.command_rule, self.command_rule, self.command_rule, self.key_rule, self.key_rule,
                     lambda: "&" + pick(PATTERNS), lambda: pick(["allkeys", "resetkeys", "allchannels", "resetchannels", "~*", "&*"])])()  # fmt: skip

    def rule(self):
        pick = self.pick
        return pick([
            self.rights, self.rights, self.rights, self.rights, self.rights,
            lambda: "(" + " ".join(self.rights() for _ in range(self.rng.randrange(4))) + ")",
            lambda: pick(["(", "(+get", "~x)", ")", "()", "(+set ~x (", "(\"+get\" '~foo*')", "(\"+get)"]),
            lambda: pick("><") + pick(PASSWORDS),
            lambda: pick("#!") + pick(DIGESTS + ["abc", DIGESTS[0].upper()]),
            lambda: pick(["on", "on", "ON", "off", "nopass", "resetpass", "reset", "clearselectors", "sanitize-payload",
                          "skip-sanitize-payload", "nosuch", "", "~a b", "& ", "on\x00off"]),
        ])()  # fmt: skip

    def request(self):
        """A command that may be refused to a user."""
        pick, word = self.pick, lambda: self.pick(WORDS)  # noqa: E731
        return pick([
            lambda: ["GET", word()], lambda: ["SET", word(), "v"], lambda: ["SET", word(), "v", "GET"],
            lambda: ["DEL", word(), word()], lambda: ["EXISTS", word(), word()], lambda: ["MGET", word(), word(), word()],
            lambda: ["MSET", word(), "1", word(), "2"], lambda: ["RENAME", word(), word()], lambda: ["COPY", word(), word()],
            lambda: ["TYPE", word()], lambda: ["OBJECT", "FREQ", word()], lambda: ["OBJECT", "HELP"],
            lambda: ["INCR", word()], lambda: ["APPEND", word(), "1"], lambda: ["GETDEL", word()], lambda: ["STRLEN", word()],
            lambda: ["LPUSH", word(), "a"], lambda: ["LRANGE", word(), "0", "-1"], lambda: ["LMOVE", word(), word(), "left", "right"],
            lambda: ["SADD", word(), "a"], lambda: ["SINTERSTORE", word(), word(), word()], lambda: ["SINTERCARD", "2", word(), word()],
            lambda: ["ZADD", word(), "1", "a"], lambda: ["ZUNIONSTORE", word(), "1", word()], lambda: ["ZUNION", "2", word(), word()],
            lambda: ["BITFIELD", word(), "GET", "u4", "0"], lambda: ["BITFIELD", word(), "GET", "u4", "0", "SET", "u4", "0", "1"],
            lambda: ["BITOP", "OR", word(), word(), word()], lambda: ["PFCOUNT", word(), word()], lambda: ["PFMERGE", word(), word()],
            lambda: ["HSET", word(), "f", "v"], lambda: ["HGET", word(), "f"], lambda: ["SELECT", pick("01")],
            lambda: ["PUBLISH", word(), "m"], lambda: ["SPUBLISH", word(), "m"], lambda: ["PUBSUB", "NUMSUB", word()],
            lambda: ["SORT", word(), "BY", pick(["w_*", "nosort"])], lambda: ["SORT", word(), "GET", pick(["#", "w_*"]), "ALPHA"],
            lambda: ["SORT", word(), "ALPHA", "STORE", word()], lambda: ["SORT_RO", word(), "ALPHA"],
            lambda: ["EVAL", f"return redis.call('{pick(['get', 'del', 'type'])}', ARGV[1])", pick("01"), word(), word()],
            lambda: ["EVAL", "return redis.pcall('set', KEYS[1], '1')", "1", word()],
            lambda: ["EVAL", "return redis.pcall('publish', ARGV[1], 'm')", "0", word()],
            lambda: ["EVAL", "return {redis.acl_check_cmd('set', ARGV[1], '1'), tostring(redis.acl_check_cmd('get', ARGV[1]))}", "0", word()],
            lambda: ["CONFIG", "GET", "port-nosuch"], lambda: ["CONFIG", "NOSUCH"], lambda: ["CLIENT", "GETNAME"], lambda: ["PING"], lambda: ["ECHO", "x"],
            lambda: ["DBSIZE"], lambda: ["GET"], lambda: ["NOSUCH"], lambda: ["ACL", "WHOAMI"], lambda: ["EXPIRE", word(), "100"],
            lambda: ["TTL", word()], lambda: ["WATCH", word()], lambda: ["UNWATCH"], lambda: ["SMOVE", word(), word(), "a"],
        ])()  # fmt: skip

    def administration(self):
        pick = self.pick
        user = lambda: pick(USERS[:3] + ["nobody", "a b"])  # noqa: E731
        rules = lambda: [self.rule() for _ in range(self.rng.randrange(1, 6))]  # noqa: E731
        return pick([
            lambda: ["ACL", "SETUSER", user(), *rules()], lambda: ["ACL", "SETUSER", user(), *rules()],
            lambda: ["ACL", "SETUSER", user(), "on", "nopass", *rules()], lambda: ["ACL", "SETUSER", pick(USERS[:3]), "on", "nopass", "+@all", *rules()],
            lambda: ["ACL", "SETUSER", pick(USERS[:3]), "reset", "on", "nopass", "+@all", self.key_rule(), self.key_rule(), "&" + pick(PATTERNS)],
            lambda: ["ACL", "SETUSER", user()], lambda: ["ACL", "GETUSER", user()], lambda: ["ACL", "GETUSER", "default"],
            lambda: ["ACL", "DELUSER", user()] if self.rng.random() < 0.3 else ["ACL", "DELUSER", "nobody", pick(["default", "nobody"])],
            lambda: ["ACL", "LIST"], lambda: ["ACL", "USERS"], lambda: ["ACL", "CAT", pick(["nosuch", "@read"])], lambda: ["ACL", "CAT"],
            lambda: ["ACL", "DRYRUN", user(), *self.request()], lambda: ["ACL", "DRYRUN", pick(USERS[:3]), *self.request()],
            lambda: ["ACL", "DRYRUN", pick(USERS[:3]), *self.request()],
            lambda: ["ACL", "LOG", pick(["3", "-1", "x", "0"])], lambda: ["ACL", "LOG"], lambda: ["ACL", "LOG", "RESET"] if self.rng.random() < 0.2 else ["ACL", "LOG"],
            lambda: ["ACL", "GENPASS", pick(["0", "4097", "x"])], lambda: ["ACL", "SAVE"], lambda: ["ACL", "LOAD"], lambda: ["ACL", "NOSUCH"], lambda: ["ACL"],
            lambda: ["ACL", "LOG", "1", "2"], lambda: ["CLIENT", "KILL", "USER", "nobody"], lambda: ["CONFIG", "SET", "acl-pubsub-default", pick(["allchannels", "resetchannels"])],
            lambda: ["CONFIG", "SET", "acllog-max-len", pick(["2", "128", "10"])],
        ])()  # fmt: skip


#: Commands that redis-server 7.0 does not have.
OURS = re.compile(rb" [+-](?:sexton\.[^ )]*|waitaof|client\|no-touch|client\|setinfo)(?=[ )]|$)")


def sorted_rules(text):
    """Rules with single commands sorted: their order in Redis follows a hash table."""
    text = OURS.sub(b"", text)

    def ordered(match):
        return b" ".join(sorted(match.group(0).split(b" ")))
    return re.sub(rb"[+-][a-z][^ ()@]*(?: [+-][a-z][^ ()@]*)+", ordered, text)


def comparable(words, node):
    """A reply without the parts that differ from run to run: ages, connections, the order of single commands; and without the
    fields that Redis 7.2 added to ACL LOG."""
    name = [word.lower() for word in words[:2]]
    if name == ["acl", "log"] and node.items:
        entries = []
        for entry in node.items:
            fields = {key.value: value for key, value in zip(entry.items[::2], entry.items[1::2])}
            client = fields[b"client-info"].value
            kept = re.findall(rb"(?: (?:name|db|multi|user|cmd)=\S*)", client)
            entries.append([fields[field].raw for field in (b"count", b"reason", b"context", b"object", b"username")] + kept)
        return entries
    if name[0] == "acl" and name[1:] in (["getuser"], ["list"]):
        return repr(flat(node))
    if words == ["ACL", "NOSUCH"] or words[0] == "NOSUCH":
        return node.raw
    return node.raw


def flat(node):
    if node.items is not None:
        return [flat(item) for item in node.items]
    return node.kind, sorted_rules(node.value) if node.value is not None else None


def differing(got, expected):
    """Both replies, from shortly before the first difference on."""
    got, expected = (part if isinstance(part, (bytes, str)) else repr(part) for part in (got, expected))
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
    return got[max(at - 100, 0) : at + 200], expected[max(at - 100, 0) : at + 200]


class Side:
    """A server with an operator and the connections of users."""

    def __init__(self, server):
        self.server, self.admin, self.clients = server, server.connect(), {}

    def client(self, at):
        if at not in self.clients:
            self.clients[at] = self.server.connect()
            if at % 2:
                self.clients[at].node("HELLO", 3)
        return self.clients[at]

    def ask(self, at, requests):
        """The replies of a user's connection up to where the server closes it; the next one is a new one then."""
        replies = []
        try:
            self.client(at).send_raw(b"".join(encode([to_bytes(a) for a in words]) for words in requests))
            for _ in requests:
                replies.append(self.client(at).read_node())
        except OSError:
            self.clients.pop(at).close()
        return replies

    def close(self):
        for connection in [self.admin, *self.clients.values()]:
            connection.close()


def random_rules(steps, ours, theirs, count, seed):
    rng = random.Random(seed)
    known = [set(name.decode() for name in server.connect().cmd("COMMAND", "LIST")) for server in (ours, theirs)]
    grammar = Grammar(rng, sorted(known[0] & known[1]))
    sides, sent, wrong = [Side(ours), Side(theirs)], 0, []
    transactions = refused = allowed = 0
    while sent < count and len(wrong) < 5:
        if rng.random() < 0.5:
            at, batch = None, [grammar.administration() for _ in range(rng.randrange(1, 8))]
        else:
            at = rng.randrange(4)
            batch = [grammar.request() for _ in range(rng.randrange(1, 12))]
            if rng.random() < 0.5:
                batch.insert(0, grammar.pick([["AUTH", grammar.pick(USERS), grammar.pick(PASSWORDS)], ["RESET"]]))
            if rng.random() < 0.3:
                batch = [["MULTI"], *[words for words in batch if words[0] not in ("WATCH", "RESET")], ["EXEC"]]
                transactions += 1
        sent += len(batch)
        if at is None:
            # Who is to be disconnected has to be seen to be: one command at a time, and a word with everybody behind it.
            replies = [side.admin.pipeline(batch) for side in sides]
        else:
            replies = [side.ask(at, batch) for side in sides]
        for nth, words in enumerate(batch):
            pair = [comparable(words, got[nth]) if nth < len(got) else "closed" for got in replies]
            if at is not None and nth < len(replies[1]):
                refused += b"-NOPERM" in replies[1][nth].raw
                allowed += not replies[1][nth].raw.startswith(b"-")
            if pair[0] != pair[1]:
                wrong.append((at, batch[: nth + 1][-3:], *differing(*pair)))
                break
    detail = f"{sent} rules and commands, {refused} refused, {allowed} allowed, {transactions} transactions"
    steps.check("rules and commands at random", not wrong, detail if not wrong else f"{detail}: {wrong}")
    steps.check("users are refused and allowed", refused > count // 50 and allowed > count // 50, detail)
    for side in sides:
        side.close()


def is_closed(connection):
    try:
        connection.node("PING")
        return False
    except OSError:
        return True


def end_of(connection):
    """Everything up to where the server closes the connection."""
    data = b""
    while chunk := connection.sock.recv(1 << 16):
        data += chunk
    return data


def connections(steps, ours, theirs):
    """Connections whose user is changed or deleted."""
    seen = []
    for server in (ours, theirs):
        admin, got = server.connect(), []
        admin.cmd("FLUSHALL")

        def user(name, *hello):
            connection = server.connect()
            if hello:
                connection.node(*hello)
            else:
                connection.cmd("AUTH", name, "p")
            return connection

        admin.cmd("ACL", "SETUSER", "eve", "on", ">p", "+@all", "~*", "&a", "&b*")
        by_hello = user("eve", "HELLO", "3", "AUTH", "eve", "p", "SETNAME", "me")
        got.append(by_hello.cmd("ACL", "WHOAMI"))
        line = admin.cmd("CLIENT", "LIST").decode().splitlines()
        got.append(sorted(re.findall(r"user=\S+", "\n".join(line))))
        listener, pattern, other = user("eve"), user("eve"), user("eve")
        got.append(listener.node("SUBSCRIBE", "a").raw)
        got.append(pattern.node("PSUBSCRIBE", "b*").raw)
        got.append(other.node("PSUBSCRIBE", "b1*").raw)
        admin.cmd("ACL", "SETUSER", "eve", "&c")
        got.append([is_closed(one) for one in (listener, pattern)])
        admin.cmd("ACL", "SETUSER", "eve", "resetchannels", "&a")
        got.append([is_closed(one) for one in (listener, other)])
        got.append(end_of(pattern))
        # Rights change between the queue and EXEC, and inside of a transaction.
        queued = user("eve")
        queued.pipeline([("MULTI",), ("SET", "k", "1"), ("GET", "k")])
        admin.cmd("ACL", "SETUSER", "eve", "-set", "+acl")
        got.append(queued.node("EXEC").raw)
        got.append([n.raw for n in queued.pipeline(
            [("MULTI",), ("ACL", "SETUSER", "eve", "-get"), ("GET", "k"), ("AUTH", "default", "x"), ("GET", "k"), ("EXEC",), ("GET", "k"), ("ACL", "WHOAMI")])])
        got.append([n.raw for n in user("eve").pipeline([("MULTI",), ("GET", "k"), ("EXEC",)])])
        got.append(admin.cmd("CLIENT", "KILL", "USER", "eve"))
        # A user that goes.
        gone = user("eve")
        blocked = user("eve")
        blocked.send_raw(encode([b"BLPOP", b"list", b"0"]))
        while b"flags=b" not in admin.cmd("CLIENT", "LIST"):
            pass
        got.append(admin.cmd("ACL", "DELUSER", "eve"))
        got.append([end_of(gone), end_of(blocked)])
        admin.cmd("ACL", "SETUSER", "eve", "on", "nopass", "+@all", "~*")
        own = user("eve")
        own.send_raw(encode([b"ACL", b"DELUSER", b"eve"]) + encode([b"PING"]))
        got.append(end_of(own))
        # The default user.
        admin.cmd("CONFIG", "SET", "requirepass", "s3cret")
        got.append(admin.cmd("CONFIG", "GET", "requirepass"))
        got.append(server.connect().node("PING").raw)
        stranger = server.connect()
        got.append([n.raw for n in stranger.pipeline(
            [("AUTH", "wrong"), ("AUTH", "default", "wrong"), ("HELLO", "3"), ("AUTH", "s3cret"), ("PING",), ("RESET",), ("PING",), ("AUTH", "a", "b", "c")])])
        got.append(admin.node("PING").raw)
        got.append(admin.cmd("ACL", "LIST"))
        admin.cmd("ACL", "SETUSER", "default", "nopass", "off")
        got.append([n.raw for n in server.connect().pipeline([("PING",), ("AUTH", "x"), ("HELLO",), ("ACL", "WHOAMI"), ("QUIT",)])])
        admin.cmd("ACL", "SETUSER", "default", "on")
        admin.cmd("CONFIG", "SET", "requirepass", "")
        got.append(server.connect().node("AUTH", "x").raw)
        got.append(sorted(line for line in admin.cmd("INFO", "errorstats").decode().split() if "NOPERM" in line or "WRONGPASS" in line or "NOAUTH" in line))
        admin.cmd("ACL", "LOG", "RESET")
        seen.append(got)
        admin.close()
    for nth, (got, expected) in enumerate(zip(*seen)):
        steps.equal(f"connections of users that change, {nth}", got, expected)


def secrets(steps, server):
    """MONITOR, the slow log and the log show no passwords."""
    admin, monitor = server.connect(), server.connect()
    monitor.cmd("MONITOR")
    admin.cmd("CONFIG", "SET", "slowlog-log-slower-than", "0")
    admin.pipeline([
        ("ACL", "SETUSER", "hidden-user", "on", ">Geheim1"), ("AUTH", "hidden-user", "Geheim2"), ("AUTH", "Geheim3"),
        ("HELLO", "3", "SETNAME", "shown", "AUTH", "default", "Geheim4"), ("HELLO", "2"), ("CONFIG", "SET", "requirepass", "Geheim5", "timeout", "0"),
        ("ACL", "GETUSER", "hidden-user"), ("ACL", "DELUSER", "hidden-user"), ("CONFIG", "SET", "requirepass", ""),
        ("MULTI",), ("AUTH", "default", "Geheim6"), ("EXEC",),
    ])  # fmt: skip
    shown = repr(admin.cmd("SLOWLOG", "GET", "50"))
    admin.cmd("ECHO", "the-end")
    watched = ""
    while "the-end" not in watched:
        watched += monitor.read_node().value.decode() + "\n"
    log = server.log_path.read_text(errors="replace")
    for name, text in (("the slow log", shown), ("MONITOR", watched), ("the log", log)):
        steps.check(f"{name} shows no secrets", "Geheim" not in text and "hidden-user" not in text, "" if "Geheim" not in text else text[-2000:])
    steps.check("and what is none", "(redacted)" in shown and "shown" in watched and "(redacted)" in watched and "'timeout'" in shown)
    admin.cmd("CONFIG", "SET", "slowlog-log-slower-than", "10000")


def start(kind, directory, text, *more):
    """Starts a server with this configuration file; None and its output if it does not start."""
    file = Path(directory) / "server.conf"
    file.write_bytes(text)
    server = Server(kind, {}, directory=directory)
    options = ["--port", str(server.port), "--dir", str(directory), "--save", "", "--bind", "127.0.0.1", "--protected-mode", "no", *more]
    server.command_line = lambda: [binary_of(kind), str(file), *options]
    return server


def refusal(kind, directory, text):
    server = start(kind, directory, text)
    # What redis-server says of a bracket that is not closed depends on the last system call that failed, and so on the locale.
    language = {name: value for name, value in os.environ.items() if not name.startswith("LC_")} | {"LANG": "C.UTF-8"}
    done = subprocess.run(server.command_line(), capture_output=True, text=True, timeout=30, cwd=directory, env=language)
    said = done.stdout + done.stderr
    # Without dates, names and versions.
    lines = [re.sub(r"^\d+:\w \d+ \w+ \d+ [\d:.]+ . ", "", line).replace(str(directory), "DIR") for line in said.splitlines()]
    wanted = ("at line", ">>>", "ACL", "user", "rename", "command", "Target", "WARNING", "users.acl", "Configuring", "Spaces")
    lines = [line for line in lines if any(word in line for word in wanted) and "vm.overcommit" not in line and "oO0" not in line and "WARNING Memory" not in line]
    return done.returncode, lines


BAD_FILES = [
    (b"user ann on +nosuch\n", None), (b"user ann on %~x\n", None), (b"port 0\nuser ann on\nuser ann off\n", None),
    (b"user ann (+get\n", None), (b"user 'a b' on\n", None), (b"aclfile users.acl\nuser ann on\n", b""), (b"aclfile nosuch.acl\n", None),
    (b"aclfile users.acl\n", b"user ann on\nbla\nuser ann off\nuser bob +nosuch >x <y %\n\nuser c\td on\nuser eve (+get\n"),
    (b"rename-command NOSUCH x\n", None), (b"rename-command GET SET\n", None), (b"rename-command GET ''\nrename-command GET x\n", None),
    (b"user ann >x <y\n", None), (b"user ann on (~a ~* ~b)\n", None), (b"user ann on #abc\n", None),
]  # fmt: skip


def files(steps, kind):
    """Users and renamed commands in configuration files, and users in files of their own."""
    for nth, (text, users) in enumerate(BAD_FILES):
        seen = []
        for one in (kind, "redis"):
            with tempfile.TemporaryDirectory(prefix="sexton-acl-") as directory:
                if users is not None:
                    (Path(directory) / "users.acl").write_bytes(users)
                seen.append(refusal(one, directory, text))
        steps.equal(f"a bad file, {nth}: {text[:40]!r}", *seen)
        steps.check("it is refused", seen[0][0] == 1 and seen[0][1])
    seen = []
    for one in (kind, "redis"):
        got = []
        with tempfile.TemporaryDirectory(prefix="sexton-acl-") as directory:
            text = b"requirepass old\nuser default on nopass ~* &* +@all\nuser ann on >p ~a* (%R~b +get)\nrename-command SET put\nrename-command FLUSHALL ''\n"
            # A Redis does not start again with a log whose commands are renamed.
            server = start(one, directory, text, "--appendonly", "no" if one == "redis" else "yes")
            server.start()
            admin = server.connect()
            got.append([sorted_rules(line) for line in admin.cmd("ACL", "LIST")])
            got.append([n.raw for n in admin.pipeline([("put", "k", "v"), ("SET", "k", "w"), ("PUT", "k2", "v"), ("FLUSHALL",), ("GET", "k"),
                        ("EVAL", "return redis.call('put', KEYS[1], 'x')", "1", "k3"), ("EVAL", "return redis.pcall('set', KEYS[1], 'x')", "1", "k3"),
                        ("COMMAND", "INFO", "set"), ("COMMAND", "INFO", "put"), ("COMMAND", "COUNT") if False else ("PING",),
                        ("MULTI",), ("put", "k4", "v"), ("put", "k5", "v"), ("EXEC",), ("put", "k6", "v", "PX", "100000"), ("put", "k"), ("INCR", "n")])])
            admin.cmd("ACL", "SETUSER", "bob", "on", "nopass", "+@read", "~*")
            got.append(admin.node("CONFIG", "REWRITE").raw)
            lines = [line for line in (Path(directory) / "server.conf").read_bytes().splitlines() if line.startswith((b"user", b"rename"))]
            got.append(sorted(sorted_rules(line) for line in lines))
            admin.close()
            server.terminate()
            server.start()
            admin = server.connect()
            got.append([sorted_rules(line) for line in admin.cmd("ACL", "LIST")])
            if one != "redis":
                kept = [admin.cmd("GET", f"k{nth}") for nth in ("", 2, 3, 4, 5, 6)]
                steps.equal("renamed commands are executed again", kept, [b"v", b"v", b"x", b"v", b"v", b"v"])
            admin.close()
            server.close()
            # A file of users.
            (Path(directory) / "users.acl").write_bytes(b"user ann on nopass ~* +@all\nuser default on nopass ~* &* +@all\n")
            server = start(one, directory, b"aclfile users.acl\nrename-command SET put\n", "--appendonly", "no")
            server.start()
            admin, ann = server.connect(), server.connect()
            ann.cmd("AUTH", "ann", "x")
            got.append(admin.cmd("ACL", "LIST"))
            admin.cmd("ACL", "SETUSER", "bob", "on", ">x", "+@all", "-@dangerous", "~b*", "&c")
            got.append(admin.node("ACL", "SAVE").raw)
            got.append(sorted(sorted_rules(line) for line in (Path(directory) / "users.acl").read_bytes().splitlines()))
            (Path(directory) / "users.acl").write_bytes(b"user ann on\nuser bob +nosuch\nnonsense\n")
            got.append(admin.node("ACL", "LOAD").raw)
            (Path(directory) / "users.acl").write_bytes(b"user ann on >y ~x\nuser default on nopass -@all +acl +ping\n")
            got.append(admin.node("ACL", "LOAD").raw)
            got.append([sorted_rules(line) for line in admin.cmd("ACL", "LIST")])
            got.append([is_closed(ann), admin.node("GET", "x").raw])
            got.append(admin.node("ACL", "LOAD").raw)
            (Path(directory) / "users.acl").unlink()
            got.append(admin.node("ACL", "LOAD").raw)
            server.close()
        seen.append(got)
    for nth, (got, expected) in enumerate(zip(*seen)):
        steps.equal(f"files, {nth}", got, expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--rules", type=int, default=20_000, help="rules and commands at random")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    steps = Steps("users and their rights")
    with Server(args.server) as ours, Server("redis", {"appendonly": "no"}) as theirs:
        connections(steps, ours, theirs)
        random_rules(steps, ours, theirs, args.rules, args.seed)
        secrets(steps, ours)
        steps.check("the server lives", ours.alive())
    files(steps, args.server)
    steps.finish()


if __name__ == "__main__":
    main()
