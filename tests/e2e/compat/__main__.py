"""python3 -m compat [--quick] [--accept] [--server redis] [UNIT...]: Redis' own tests, compared with their expected results.

A unit with a lost test runs a second time: many tests measure time, so a busy machine causes false failures.
"""

import argparse
import re
import time
from concurrent.futures import ThreadPoolExecutor

from harness.steps import Steps

from . import report
from .expected import UNITS, WAITS, Expected, guess
from .suite import fetch, run_unit


def lost_tests(expected, run):
    """Tests that should have passed and did not: {test: its output}."""
    return {
        test: run.tests.get(test, "did not run")
        for test, (verdict, _) in expected.items()
        if verdict == "pass" and run.tests.get(test, "did not run") is not None
    }


def accept(expected, run, baseline):
    """Updates the list of expected results: `baseline` are the tests that redis-server passes."""
    rows = {}
    for test in baseline:
        seen = run.tests.get(test, "did not run")
        verdict, remark = expected.get(test, ("", ""))
        if seen is None:
            rows[test] = ("pass", "")
        elif verdict and verdict != "pass":
            rows[test] = (verdict, remark)
        else:
            reason = guess(seen)
            rows[test] = (reason, "") if reason else ("known", re.sub(r"[^ -~]", "?", seen)[:160])
    return rows


def main():
    parser = argparse.ArgumentParser(prog="compat", description=__doc__)
    parser.add_argument("units", nargs="*", help="unit/multi or own:unit/multi; default all")
    parser.add_argument("--quick", action="store_true", help="only the units of continuous integration")
    parser.add_argument("--server", default="sexton", help="sexton, redis, or a path")
    parser.add_argument("--accept", action="store_true", help="write the results to the list and to docs/compatibility.md")
    parser.add_argument("--baseline", action="store_true", help="with --server redis: add the tests that it passes to the list")
    parser.add_argument("--page", action="store_true", help="only regenerate docs/compatibility.md")
    parser.add_argument("--jobs", type=int, default=1, help="units that run in parallel; many are mostly idle")
    parser.add_argument("--log", help="append the suite's own output to this file")
    arguments = parser.parse_args()
    expected = Expected.read()
    if arguments.page:
        report.FILE.write_text(report.page(expected))
        return
    fetch()
    steps = Steps("Redis' own tests")
    counts = [0, 0, 0]

    def is_wanted(mode, unit, quick):
        return (quick or not arguments.quick) and (not arguments.units or {unit, f"{mode}:{unit}"} & set(arguments.units))

    units = [(mode, unit) for mode, unit, quick in UNITS if is_wanted(mode, unit, quick)]

    def play(key):
        """Runs a unit; returns its run, the lost tests, and its duration."""
        (mode, unit), begun = key, time.monotonic()
        rows = expected.units.setdefault(key, {})
        # The reference is held against every row, ours against those that are to pass.
        asked = {test: ("pass", "") for test in rows} if arguments.server == "redis" else rows
        run = run_unit(unit, mode, arguments.server)
        lost = lost_tests(asked, run)
        if (lost or run.broken) and not arguments.accept and not arguments.baseline:
            again = run_unit(unit, mode, arguments.server)
            lost = {test: seen for test, seen in lost_tests(asked, again).items() if test in lost}
            run.broken = run.broken and again.broken
        return run, lost, time.monotonic() - begun

    pool = ThreadPoolExecutor(arguments.jobs)
    for key, (run, lost, took_s) in zip(units, pool.map(play, units)):
        (mode, unit), rows = key, expected.units[key]
        if arguments.log:
            with open(arguments.log, "a") as log:
                log.write(f"##### {mode} {unit}\n{run.log}\n")
        if arguments.baseline:
            passing = [test for test, seen in run.tests.items() if seen is None]
            expected.units[key] = {test: rows.get(test, ("pass", "")) for test in passing}
        elif arguments.accept:
            expected.units[key] = accept(rows, run, rows)
        passed = sum(seen is None for seen in run.tests.values())
        gained = [test for test, seen in run.tests.items() if seen is None and rows.get(test, ("pass",))[0] != "pass"]
        waiting = sum(verdict in WAITS for verdict, _ in rows.values())
        counts = [a + b for a, b in zip(counts, (passed, len(run.failed()), len(lost)))]
        detail = f"{passed} passed, {len(run.failed())} failed, {len(lost)} lost; {waiting} of {len(rows)} wait; {took_s:.0f} s"
        steps.check(f"{mode} {unit}", not lost and not run.broken, detail)
        for test, seen in lost.items():
            print(f"      lost: {test}: {seen}")
        for test in gained:
            print(f"      gained: {test}: take it into the list with --accept")
        if run.broken:
            print(f"      broken: {run.broken}")
        if arguments.accept or arguments.baseline:
            for test, seen in run.failed().items():
                print(f"      failed: {test}: {seen[:200]}")
            for lost_block in run.lost:
                print(f"      lost block: {lost_block}")
    print(f"tests: {counts[0]} passed, {counts[1]} failed, {counts[2]} lost")
    if arguments.accept or arguments.baseline:
        expected.write()
        report.FILE.write_text(report.page(expected))
    steps.finish()


if __name__ == "__main__":
    main()
