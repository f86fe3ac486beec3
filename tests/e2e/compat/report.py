"""Writes docs/compatibility.md from the list of expected results."""

from collections import Counter

from harness.server import ROOT

from .expected import STAYS, UNITS, WAITS

FILE = ROOT / "docs/compatibility.md"

HEAD = """# Redis' own tests

The tests of redis-server 7.0.15 (Debian's source package) run against Sexton with `make compat`. Every run compares what each
test did with a checked-in list, `tests/e2e/compat/expected.tsv`; a test that passed there and fails now is *lost*, and
fails the run. Continuous integration runs the quick units. This page is made from the list by
`make compat ARGS=--accept`; `ARGS='--server redis'` shows that redis-server itself passes every test in it.

Two modes: *external* runs a unit against one server that is up already; in *own* the suite starts the servers itself, with
its own configuration, arguments and files. A test that both modes have is counted in both.

The suite is used as it is, with additions (`prelude*.tcl` in `tests/e2e/compat`): a block of tests whose set-up fails, or whose
server refuses to start, does not take the rest of its file along; the tests behind one that failed get a new connection and a new
directory; where a test lays or clears an append only file, the tree beside it goes, as with us that holds data, too; and
redis-check-aof gets the log that the test has laid, which a server that took it over keeps aside.

## By unit

*redis-server* is the number of tests that it passes in this mode; *passed* are ours; *waits* need something that is not built
yet; *inside* look into redis-server's inside; *differs* ask for what we do otherwise on purpose; *open* fail and should not.

"""

OTHERS = """
Not run: `integration/replication*`, `psync*`, `failover`, `unit/pendingquerybuf` and `unit/cluster*` wait as a whole (replication,
cluster); `unit/moduleapi` (modules) and `unit/printver` have nothing for us; `integration/aof-race` ends with an error with
redis-server, too.
"""


def page(expected):
    """The page as text."""
    lines = [HEAD + "| mode | unit | redis-server | passed | waits | inside | differs | open |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    total = Counter()
    for mode, unit, _ in UNITS:
        tests = expected.units.get((mode, unit), {})
        count = Counter("waits" if verdict in WAITS else verdict for verdict, _ in tests.values())
        count["all"] = len(tests)
        total.update(count)
        lines.append(row(mode, f"`{unit}`", count))
    lines += [row("", "in all", total), OTHERS, "## What the failing tests wait for", ""]
    lines.append("In brackets the unit, once for both modes.")
    for reason, what in WAITS.items():
        tests = named(expected, reason)
        if tests:
            lines += ["", f"**{what[0].upper() + what[1:]}**: {len(tests)}", ""]
            lines += [f"- {test} ({unit})" + (f": {remark}" if remark else "") for (unit, test), remark in tests.items()]
    lines += ["", "## What does not apply, and why"]
    for reason, what in STAYS.items():
        tests = named(expected, reason)
        if tests:
            lines += ["", f"**{what[0].upper() + what[1:]}**: {len(tests)}", ""]
            lines += [f"- {test} ({unit}): {remark}" for (unit, test), remark in tests.items()]
    return "\n".join(lines) + "\n"


def row(mode, unit, count):
    figures = [count[name] for name in ("all", "pass", "waits", "inside", "differs", "known")]
    return f"| {mode} | {unit} | " + " | ".join(str(figure) for figure in figures) + " |"


def named(expected, reason):
    """{(unit, test): remark} of the tests with this verdict, each once."""
    tests = {}
    for mode, unit, _ in UNITS:
        for test, (verdict, remark) in expected.units.get((mode, unit), {}).items():
            if verdict == reason:
                tests.setdefault((unit, test), remark)
    return tests
