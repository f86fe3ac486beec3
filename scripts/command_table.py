#!/usr/bin/env python3
"""Write the command metadata that the server embeds (server/src/dispatch/table/commands.txt).

The facts (arity, flags, keys, categories, documentation) are the replies of redis-server 7.0.15 to
COMMAND INFO and COMMAND DOCS. Commands that Redis 7.2 added are taken from a Valkey server, which keeps
them under the same licence (BSD-3-Clause). Run it again only to add the commands of another
version:
    command_table.py --redis 127.0.0.1:6379 --valkey 127.0.0.1:6380 > commands.txt

Only the standard library is used.
"""

import argparse
import socket
import sys

# Commands of 7.2 that 7.0.15 does not have, taken from Valkey.
ADDED_BY_7_2 = ["client|setinfo", "client|no-touch", "cluster|myshardid", "waitaof"]

HEADER = """\
# Command metadata, one block a command; written by scripts/command_table.py, do not edit.
# Source: COMMAND INFO and COMMAND DOCS of redis-server 7.0.15 (Copyright (c) 2006-2020, Salvatore
# Sanfilippo, BSD-3-Clause); commands of 7.2 from Valkey (BSD-3-Clause).
#
# @name                 a block starts; subcommands (container|sub) follow their container
# arity N | flags F.. | keys FIRST LAST STEP | acl C.. | tip T (repeated)
# spec FLAGS.. ; begin KIND ARGS.. ; find KIND ARGS.. [; note TEXT]   (repeated)
# summary | since | group | complexity | docflags | deprecated | replaced | history VERSION TEXT
# help LINE of the HELP subcommand, without the first line and HELP itself (repeated)
# arg NAME TYPE [key=N] [token=T] [since=V] [deprecated=V] [flags=F,..]   nested by leading blanks
"""


class Connection:
    """A RESP3 connection, just enough to ask for the command tables."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.stream = self.socket.makefile("rb")
        self.ask("HELLO", "3")

    def ask(self, *words):
        out = [b"*%d\r\n" % len(words)]
        for word in words:
            out.append(b"$%d\r\n%s\r\n" % (len(word), word.encode()))
        self.socket.sendall(b"".join(out))
        return self.read()

    def read(self):
        line = self.stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return None
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"$":
            return self.stream.read(int(rest) + 2)[:-2].decode()
        if kind in b"*~":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        raise SystemExit(f"unexpected reply {line!r}")


def word(text):
    """A field that the format splits at blanks."""
    if not text or any(c.isspace() for c in text):
        raise SystemExit(f"cannot write {text!r} as one word")
    return text


def key_spec(spec):
    parts = [" ".join(spec["flags"])]
    for label, name in (("begin", "begin_search"), ("find", "find_keys")):
        values = [str(v) for v in spec[name]["spec"].values()]
        parts.append(" ".join([label, spec[name]["type"], *values]))
    if "notes" in spec:
        parts.append("note " + spec["notes"])
    return "spec " + " ; ".join(parts)


def arguments(args, depth, lines):
    for arg in args:
        fields = [word(arg["name"]), arg["type"]]
        if "key_spec_index" in arg:
            fields.append(f"key={arg['key_spec_index']}")
        for label, name in (("token", "token"), ("since", "since"), ("deprecated", "deprecated_since")):
            if name in arg:
                # An empty token is Redis' way to say that the quoted empty string is meant.
                fields.append(f"{label}={word(arg[name]) if arg[name] else ''}")
        if "flags" in arg:
            fields.append("flags=" + ",".join(arg["flags"]))
        lines.append(" " * depth + "arg " + " ".join(fields))
        arguments(arg.get("arguments", []), depth + 1, lines)


def help_lines(connection, name):
    """Help of a container, as (subcommand, lines) in Redis' order."""
    parts = []
    for line in (connection.ask(name, "HELP") or [])[1:]:
        if not line.startswith(" "):
            parts.append((line.split()[0].lower(), []))
        parts[-1][1].append(line)
    return [part for part in parts if part[0] != "help"]


def block(info, docs, help_parts):
    name, arity, flags, first, last, step, acl, tips, specs = info[:9]
    lines = [f"@{name}", f"arity {arity}"]
    if flags:
        lines.append("flags " + " ".join(flags))
    lines.append(f"keys {first} {last} {step}")
    lines.append("acl " + " ".join(acl))
    lines += [f"tip {tip}" for tip in tips]
    lines += [key_spec(spec) for spec in specs]
    for label, field in (("summary", "summary"), ("since", "since"), ("group", "group"),
                         ("complexity", "complexity")):
        if field in docs:
            lines.append(f"{label} {docs[field]}")
    if "doc_flags" in docs:
        lines.append("docflags " + " ".join(docs["doc_flags"]))
    for label, field in (("deprecated", "deprecated_since"), ("replaced", "replaced_by")):
        if field in docs:
            lines.append(f"{label} {docs[field]}")
    lines += [f"history {version} {text}" for version, text in docs.get("history", [])]
    arguments(docs.get("arguments", []), 0, lines)
    lines += [f"help {line}" for _, part in help_parts for line in part]
    return "\n".join(lines) + "\n"


def all_help(redis, valkey):
    """Help of every container of `redis`, with the subcommands that 7.2 added."""
    texts = {}
    containers = {info[0] for info in redis.ask("COMMAND") if info[9]} | {"debug"}
    for name in sorted(containers):
        parts = help_lines(redis, name)
        added = {sub.split("|")[1] for sub in ADDED_BY_7_2 if sub.startswith(f"{name}|")}
        parts += [part for part in help_lines(valkey, name) if part[0] in added]
        texts[name] = parts
    return texts


def collect(connection, wanted, texts, blocks):
    docs = connection.ask("COMMAND", "DOCS")
    for info in connection.ask("COMMAND"):
        doc = docs[info[0]]
        entries = [(info, doc)]
        entries += [(sub, doc["subcommands"][sub[0]]) for sub in info[9]]
        for entry, entry_docs in entries:
            if wanted is None or entry[0] in wanted:
                help_parts = texts.get(entry[0], [])
                blocks.setdefault(entry[0], block(entry, entry_docs, help_parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--redis", required=True, help="host:port of redis-server 7.0.15")
    parser.add_argument("--valkey", required=True, help="host:port of a Valkey server")
    options = parser.parse_args()
    blocks = {}
    redis, valkey = Connection(options.redis), Connection(options.valkey)
    texts = all_help(redis, valkey)
    collect(redis, None, texts, blocks)
    collect(valkey, set(ADDED_BY_7_2), texts, blocks)
    # "|" sorts behind every letter: turn it into a blank so that subcommands follow their container.
    ordered = sorted(blocks, key=lambda name: name.replace("|", " "))
    sys.stdout.write(HEADER + "\n" + "\n".join(blocks[name] for name in ordered))


if __name__ == "__main__":
    main()
