"""COMMAND INFO and COMMAND DOCS of every command both servers have.

Clients and redis-cli build help, completion and cluster routing from these; they are compared
without regard to the order inside sets and maps.
"""


def differing_fields(ours, theirs):
    """Names of the top-level fields of a COMMAND INFO row that differ."""
    names = ["name", "arity", "flags", "first", "last", "step", "acl", "tips", "key-specs", "subcommands"]
    if ours.items is None or theirs.items is None:
        return ["row"]
    if len(ours.items) != len(theirs.items):
        return [f"{len(ours.items)} fields for {len(theirs.items)}"]
    return [
        names[i] if i < len(names) else str(i)
        for i, (a, b) in enumerate(zip(ours.items, theirs.items))
        if a.canonical() != b.canonical()
    ]


def compare_command_table(subject, reference, commands):
    """Prints what differs; returns the number of commands with a difference."""
    ours, theirs = subject.connect(), reference.connect()
    wrong = {}
    for name in commands:
        if "|" in name:
            continue
        a, b = ours.node("COMMAND", "INFO", name), theirs.node("COMMAND", "INFO", name)
        if a.canonical() != b.canonical():
            fields = differing_fields(a.items[0], b.items[0]) if a.items else ["reply"]
            wrong.setdefault(name, []).append("INFO " + ",".join(fields))
        a, b = ours.node("COMMAND", "DOCS", name), theirs.node("COMMAND", "DOCS", name)
        if a.canonical() != b.canonical():
            wrong.setdefault(name, []).append("DOCS")
    for name, what in sorted(wrong.items()):
        print(f"command table differs: {name}: {'; '.join(what)}")
    print(f"command table: {len(commands)} compared, {len(wrong)} differ")
    ours.close()
    theirs.close()
    return len(wrong)
