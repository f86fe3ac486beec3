"""A resumable CSV file with one line per cell: measured cells are not measured again. Also tracks the time they may take."""

import csv
import io
import os
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

import bench_common  # noqa: F401 - puts the harness on the path
from harness.resp import ReplyError

#: `status` of a cell that was measured; anything else says why it was not.
OK = "ok"
OUT_OF_TIME = "not run: out of time"
#: Minutes that the studies after this one may take, from `make studies`: the time left is told of all.
AFTER_MIN = "SEXTON_STUDIES_AFTER_MIN"
#: Estimates are corrected by the cells so far, once those were expected to take so long.
TELLING_S = 60
#: What is estimated of a job that says nothing.
UNKNOWN_S = 30


#: What a cell fails with that is a line, not a traceback.
FAILURES = (RuntimeError, ReplyError, OSError, subprocess.SubprocessError, ValueError, KeyError)


class Absent(Exception):
    """Why a cell cannot be measured."""


class Cells:
    """Rows by key. `key` and `values` name the columns; `status`, `build` and `measured_at` follow them.

    A cell that could not be measured keeps its line, and is retried: what was missing may be available now. The
    stack on which it was tried is then irrelevant."""

    def __init__(self, path, key, values, build):
        self.path, self.key, self.build = path, tuple(key), build
        self.columns = [*key, *values, "status", "build", "measured_at"]
        self.rows, self.absent = {}, {}
        #: The file may have other columns, or half a line at its end.
        self.must_rewrite = True
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    self._take(row)

    def _take(self, row):
        """Parses a line of the file. A partial line, left by a killed run, lacks columns; a file without `status` was written by
        a build that recorded only what it had measured."""
        if None in row.values():
            return
        if row.setdefault("status", OK) == OK:
            self.rows[self._key_of(row)] = row
        else:
            self.absent[self._place_of(row)] = row

    def _key_of(self, row):
        return tuple(str(row[name]) for name in self.key)

    def _place_of(self, row):
        return tuple(str(row[name]) for name in self.key if name != "stack")

    def _rewrite(self):
        new = self.path.with_suffix(".new")
        with open(new, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore", restval="")
            writer.writeheader()
            writer.writerows([*self.rows.values(), *self.absent.values()])
        os.replace(new, self.path)
        self.must_rewrite = False

    def measured(self, row):
        """Whether the cell of this key has its line."""
        return self._key_of(row) in self.rows

    def get(self, row):
        """The measured row of this key, its values as text; None without."""
        return self.rows.get(self._key_of(row))

    def add(self, *rows):
        """Writes cells that were measured or could not be measured; in the second case `status` is the reason. The lines are
        written together, and replace earlier lines with their keys."""
        lines = []
        for row in rows:
            row = {**row, "build": self.build, "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            row["status"] = str(row.get("status", OK)).replace("\n", " ")
            key, place = self._key_of(row), self._place_of(row)
            self.must_rewrite |= self.rows.pop(key, None) is not None
            self.must_rewrite |= self.absent.pop(place, None) is not None
            row = {name: "" if value is None else str(value) for name, value in row.items()}
            if row["status"] == OK:
                self.rows[key] = row
            else:
                self.absent[place] = row
            lines.append(row)
        if self.must_rewrite:
            self._rewrite()
            return
        text = io.StringIO(newline="")
        csv.DictWriter(text, self.columns, extrasaction="ignore", restval="").writerows(lines)
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            file.write(text.getvalue())


class Job(NamedTuple):
    """Something to measure: its key, a function that adds its lines and reports them, and its estimated duration."""

    key: dict
    run: Callable[[], str]
    estimate_s: float = UNKNOWN_S


def minutes(seconds):
    """`2 h 05 min`, `7 min`, `40 s`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    whole = round(seconds / 60)
    return f"{whole} min" if whole < 100 else f"{whole // 60} h {whole % 60:02} min"


class Progress:
    """Progress: the finished cells, the time that the rest will take, and whether it fits into the budget.

    `estimates_s` are those of the remaining cells, in order; `budget_s` is the limit for all of them, None for
    no limit."""

    def __init__(self, estimates_s, budget_s=None):
        self.estimates_s = list(estimates_s)
        self.all = len(self.estimates_s)
        self.budget_s, self.begun = budget_s, time.monotonic()
        self.done = 0
        self.expected_s = 0.0
        self.after_s = 60 * float(os.environ.get(AFTER_MIN) or 0)

    def spent_s(self):
        return time.monotonic() - self.begun

    def factor(self):
        """Ratio of measured to estimated time of cells on this machine."""
        return self.spent_s() / self.expected_s if self.expected_s >= TELLING_S else 1.0

    def left_s(self):
        left_s = sum(self.estimates_s[self.done :]) * self.factor()
        return left_s if self.budget_s is None else min(left_s, max(0.0, self.budget_s - self.spent_s()))

    def fits(self):
        """Whether the next cell fits into the budget by its estimate. The first one always does."""
        if self.budget_s is None or self.done == 0 < self.budget_s:
            return True
        return self.spent_s() + self.estimates_s[self.done] * self.factor() <= self.budget_s

    def step(self, text):
        """Records that one cell is finished."""
        self.expected_s += self.estimates_s[self.done]
        self.done += 1
        left = f"{minutes(self.left_s())} left"
        if self.after_s:
            left += f", {minutes(self.left_s() + self.after_s)} with the studies after it"
        print(f"[{self.done}/{self.all}, {left}] {text}", flush=True)

    def summary(self):
        return f"took {minutes(self.spent_s())}, estimated {minutes(self.expected_s)}"


def add_arguments(parser, default_minutes):
    """Adds the options common to all studies."""
    parser.add_argument(
        "--minutes",
        type=float,
        default=default_minutes,
        help="what the run may take: cells that no longer fit are marked, the next run goes on there "
        f"(default {default_minutes}; --full and --quick take as long as they take)",
    )
    parser.add_argument("--plan", action="store_true", help="say what would be measured, and how long it takes")


def budget_s(args):
    return None if args.full or args.quick else args.minutes * 60


def tell_plan(jobs, cells, budget):
    """Prints the planned work and its estimated time; returns the jobs that have no line yet."""
    todo = [job for job in jobs if not cells.measured(job.key)]
    parts = {}
    for job in todo:
        part = job.key.get("part", cells.path.stem)
        count, seconds = parts.get(part, (0, 0.0))
        parts[part] = count + 1, seconds + job.estimate_s
    for part, (count, seconds) in parts.items():
        print(f"  {part}: {count} cells, about {minutes(seconds)}")
    total_s = sum(job.estimate_s for job in todo)
    limit = "" if budget is None else f", at most {minutes(budget)} (--minutes)"
    print(
        f"plan: {len(todo)} cells to measure, {len(jobs) - len(todo)} measured already; about {minutes(total_s)} by "
        f"estimate{limit}; over at about {time.strftime('%H:%M', time.localtime(time.time() + min(total_s, budget or total_s)))}",
        flush=True,
    )
    return todo


def measure(cells, jobs, budget=None):
    """Measures what has no line yet and returns the exit code. A failure is recorded as a line and does not end the run; jobs
    beyond the budget of seconds are marked; Ctrl-C ends the run and keeps the results so far."""
    todo = tell_plan(jobs, cells, budget)
    progress = Progress([job.estimate_s for job in todo], budget)
    try:
        for number, job in enumerate(todo):
            if not progress.fits():
                out_of_time(cells, [job.key for job in todo[number:]])
                break
            name = " ".join(str(value) for value in list(job.key.values())[:3])
            try:
                progress.step(job.run())
            except Absent as reason:
                cells.add({**job.key, "status": str(reason)})
                progress.step(f"{name}: not measured: {reason}")
            except FAILURES as error:
                cells.add({**job.key, "status": failed(error)})
                progress.step(f"{name}: {failed(error)}")
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", flush=True)
        return 1
    print(f"{len(cells.rows)} lines: {cells.path}; {progress.summary()}", flush=True)
    return 0 if cells.rows else 1


def failed(error):
    """One line for a failure."""
    kind = "" if isinstance(error, RuntimeError | OSError | ReplyError) else f"{type(error).__name__}: "
    return f"failed: {kind}{' '.join(str(error).split())}"[:300]


def out_of_time(cells, keys):
    """Marks the cells that are left."""
    cells.add(*({**key, "status": OUT_OF_TIME} for key in keys))
    print(f"the time is over: {len(keys)} cells are left for the next run, or --full", flush=True)
