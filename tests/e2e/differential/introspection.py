"""COMMAND INFO and COMMAND DOCS of every command and subcommand both servers have.

Clients and redis-cli build help, completion and cluster routing from these replies. They are compared
without regard to the order inside sets and maps. Commands that only one server has are named but not
compared: they are not built yet, or Redis 7.0 does not have them.
"""

FIELDS = ["name", "arity", "flags", "first", "last", "step", "acl", "tips", "key-specs"]


def info_rows(connection, name):
    """COMMAND INFO of a command and its subcommands: {full name: fields without subcommands}."""
    row = connection.node("COMMAND", "INFO", name).items[0]
    if row.items is None:
        return {name: None}
    rows = {name: row.items[: len(FIELDS)]}
    for sub in row.items[len(FIELDS)].items:
        rows[sub.items[0].value.decode().lower()] = sub.items[: len(FIELDS)]
    return rows


def docs_rows(connection, name):
    """COMMAND DOCS of a command and its subcommands: {full name: {field: canonical value}}."""
    reply = connection.node("COMMAND", "DOCS", name)
    if not reply.items:
        return {name: None}
    rows = {}
    fields = dict(zip((n.value.decode() for n in reply.items[1].items[::2]), reply.items[1].items[1::2]))
    subcommands = fields.pop("subcommands", None)
    rows[name] = {k: v.canonical() for k, v in fields.items()}
    if subcommands is not None:
        for sub, docs in zip(subcommands.items[::2], subcommands.items[1::2]):
            pairs = zip((n.value.decode() for n in docs.items[::2]), docs.items[1::2])
            rows[sub.value.decode().lower()] = {k: v.canonical() for k, v in pairs}
    return rows


def differing_info(ours, theirs):
    if ours is None or theirs is None:
        return [] if ours is theirs else ["row"]
    return [name for name, a, b in zip(FIELDS, ours, theirs) if a.canonical() != b.canonical()]


def differing_docs(ours, theirs):
    if ours is None or theirs is None:
        return [] if ours is theirs else ["row"]
    return [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]


#: Commands that have got something since Redis 7.0, and the fields that say so: hash_fields compares them with Valkey.
NEWER = {"zrank": {"arity", "history", "arguments", "complexity"}, "zrevrank": {"arity", "history", "arguments", "complexity"}}


def compare_command_table(subject, reference, commands):
    """Prints the differences; returns the number of commands and subcommands with a difference."""
    ours, theirs = subject.connect(), reference.connect()
    wrong, compared, only_theirs, only_ours = {}, 0, set(), set()
    for name in (c for c in commands if "|" not in c):
        for what, rows, differing in (("INFO", info_rows, differing_info), ("DOCS", docs_rows, differing_docs)):
            a, b = rows(ours, name), rows(theirs, name)
            only_theirs |= b.keys() - a.keys()
            only_ours |= a.keys() - b.keys()
            for row in a.keys() & b.keys():
                compared += 1
                fields = [name for name in differing(a[row], b[row]) if name not in NEWER.get(row, ())]
                if fields:
                    wrong.setdefault(row, []).append(f"{what} {','.join(fields)}")
    for name, what in sorted(wrong.items()):
        print(f"command table differs: {name}: {'; '.join(what)}")
    if only_theirs:
        print("subcommands not built:", ", ".join(sorted(only_theirs)))
    if only_ours:
        print("subcommands beyond the reference:", ", ".join(sorted(only_ours)))
    print(f"command table: {compared} entries compared, {len(wrong)} differ")
    ours.close()
    theirs.close()
    return len(wrong)
