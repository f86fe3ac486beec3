"""python3 -m differential --commands 50000 [--server sexton] [--against redis] [--seed N]

Sends random commands to two servers, one by one and pipelined, under RESP2 and RESP3,
and compares the raw replies. A mismatch is reduced to a short list of commands. The run is
repeatable: the printed seed reproduces the commands.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.server import Server  # noqa: E402

from . import allowed, episode  # noqa: E402
from .grammar import Grammar  # noqa: E402
from .introspection import compare_command_table  # noqa: E402

EPISODE_COMMANDS = 250


def available_commands(server):
    connection = server.connect()
    names = {name.decode().lower() for name in connection.cmd("COMMAND", "LIST")}
    connection.close()
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=50_000)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--against", default="redis")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--max-mismatches", type=int, default=15, help="stop after this many distinct mismatches")
    parser.add_argument("--inline-max", type=int, default=40, help="bytes above which a collection is stored in pages")
    parser.add_argument("--no-introspection", action="store_true", help="leave out COMMAND INFO and DOCS")
    args = parser.parse_args()

    missing = allowed.unexplained()
    if missing:
        raise SystemExit(f"differences without an entry in docs/differences.md: {', '.join(missing)}")
    print(f"differential: {args.server} against {args.against}, seed {args.seed}", flush=True)
    # The reference keeps everything in memory; its persistence has no say in replies.
    # Small collections that Redis has no compact encoding for: they may lie in pages.
    small = {"hash-max-listpack-entries": 6, "set-max-intset-entries": 6, "zset-max-listpack-entries": 6,
             "stream-node-max-entries": 6}
    small["enable-debug-command"] = "yes"
    reference = Server("redis" if args.against == "redis" else args.against, {"appendonly": "no", **small})
    options = dict(small)
    if args.server == "sexton":
        options["collection-inline-max"] = args.inline_max
    with Server(args.server, options) as subject, reference as reference:
        failures = run(args, subject, reference)
    sys.exit(1 if failures else 0)


def run(args, subject, reference):
    ours_have, theirs_have = available_commands(subject), available_commands(reference)
    both = ours_have & theirs_have
    if ours_have - theirs_have:
        print("only in the server under test:", ", ".join(sorted(ours_have - theirs_have)))
    connection = reference.connect()
    connection.cmd("SET", "x", "hello")
    dump = connection.cmd("DUMP", "x")
    connection.close()
    grammar_names = {name.lower() for name in Grammar(0, False, both).names if not name.startswith("?")}
    print(f"{len(both)} commands in both servers, {len(grammar_names)} generated", flush=True)

    found, used, counts = {}, {}, {}
    done, number, begun = 0, 0, time.monotonic()
    while done < args.commands and len(found) < args.max_mismatches:
        seed = args.seed + number
        resp3, pipelined = bool(number & 1), bool(number & 2)
        number += 1
        steps = Grammar(seed, resp3, both, dump).episode(EPISODE_COMMANDS, pipelined)
        ours, theirs = episode.Side(subject, resp3), episode.Side(reference, resp3)
        try:
            mismatch = episode.run(steps, ours, theirs, used)
            for step in steps:
                counts[step.name()] = counts.get(step.name(), 0) + 1
            done += len(steps)
            if mismatch and mismatch.signature() not in found:
                report(args, found, mismatch, steps, seed, resp3, pipelined, ours, theirs)
        except (OSError, RuntimeError) as error:
            # A reset that fails: the server under test is gone or hangs.
            print(f"episode seed {seed}: {type(error).__name__}: {error}")
            found[("connection", str(error))] = 1
        finally:
            ours.close()
            theirs.close()
        if not subject.alive():
            print(f"the server under test died, seed {seed}:\n{subject.log_tail()}", flush=True)
            found[("died", seed)] = 1
            subject.start()
    failures = len(found)
    if not args.no_introspection:
        failures += compare_command_table(subject, reference, sorted(both))
    rate = done / (time.monotonic() - begun)
    print(f"{done} commands in {number} episodes, {rate:.0f}/s; kinds of command: {len(counts)}")
    for name, count in sorted(used.items()):
        print(f"wanted difference {name}: {count} times")
    print(f"differential: {done} commands, {failures} mismatches", flush=True)
    return failures


def report(args, found, mismatch, steps, seed, resp3, pipelined, ours, theirs):
    found[mismatch.signature()] = mismatch
    target = mismatch.signature()

    def fails(candidate):
        again = episode.run(candidate, ours, theirs, {})
        return again is not None and again.signature() == target

    short = episode.shrink(steps[: mismatch.index + 1], fails)
    print(f"\nMISMATCH {len(found)}: seed {seed}, RESP{3 if resp3 else 2}, {'pipelined' if pipelined else 'one by one'}")
    for step in short:
        text = repr(step)
        print(text if len(text) < 300 else text[:300] + "...")
    if mismatch.step.kind == "cmd" and mismatch.step.args[0] == b"final-state":
        print(f"  then {mismatch.step!r}")
    print(f"  {args.against:>8}: {excerpt(mismatch.theirs, mismatch.ours)}")
    print(f"  {args.server:>8}: {excerpt(mismatch.ours, mismatch.theirs)}", flush=True)


def excerpt(reply, other):
    """The part of a long reply around the first byte that differs."""
    first = next((i for i, (a, b) in enumerate(zip(reply, other)) if a != b), min(len(reply), len(other)))
    start = max(0, first - 120) if len(reply) > 400 else 0
    return f"{'...' if start else ''}{reply[start : start + 400]!r}"


if __name__ == "__main__":
    main()
