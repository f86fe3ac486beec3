"""A resumable CSV file: one line a cell, cells that were measured are not measured again."""

import csv
import os
import subprocess
import time

import bench_common  # noqa: F401 - puts the harness on the path
from harness.resp import ReplyError

#: `status` of a cell that was measured; anything else says why it was not.
OK = "ok"


class Absent(Exception):
    """Why a cell cannot be had."""


class Cells:
    """Rows by key. `key` and `values` name the columns; `status`, `build` and `measured_at` follow them.

    Rows of cells that could not be had are dropped at the start: whatever was missing may be there now."""

    def __init__(self, path, key, values, build):
        self.path, self.key, self.build = path, tuple(key), build
        self.columns = [*key, *values, "status", "build", "measured_at"]
        self.rows = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with open(path, newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    if row.get("status") == OK:
                        self.rows[self._key_of(row)] = row
        self._rewrite()

    def _key_of(self, row):
        return tuple(str(row[name]) for name in self.key)

    def _rewrite(self):
        new = self.path.with_suffix(".new")
        with open(new, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore", restval="")
            writer.writeheader()
            writer.writerows(self.rows.values())
        os.replace(new, self.path)

    def measured(self, row):
        """Whether the cell of this key has its line."""
        return self._key_of(row) in self.rows

    def get(self, row):
        """The measured row of this key, its values as text; None without."""
        return self.rows.get(self._key_of(row))

    def add(self, row):
        """Writes a measured cell, or one that could not be had: then `status` is its reason."""
        row = {**row, "build": self.build, "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        row.setdefault("status", OK)
        row["status"] = str(row["status"]).replace("\n", " ")
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns, extrasaction="ignore", restval="").writerow(row)
        if row["status"] == OK:
            self.rows[self._key_of(row)] = {name: str(value) for name, value in row.items()}


class Progress:
    """Cells done, and the time the rest will take as far as the last ones tell."""

    def __init__(self, cells, budget_s=None):
        self.left, self.all = cells, cells
        self.budget_s, self.begun = budget_s, time.monotonic()
        self.measured = 0

    def spent_s(self):
        return time.monotonic() - self.begun

    def over(self):
        """True when the budget is spent."""
        return self.budget_s is not None and self.spent_s() > self.budget_s

    def step(self, text, was_measured=True):
        self.left -= 1
        self.measured += was_measured
        eta_s = self.spent_s() / max(1, self.measured) * self.left
        if self.budget_s is not None:
            eta_s = min(eta_s, max(0.0, self.budget_s - self.spent_s()))
        print(f"[{self.all - self.left}/{self.all}, {eta_s / 60:.0f} min left] {text}", flush=True)


def measure(cells, jobs):
    """Measures what has no line yet and answers the exit code. `jobs`: key and a function that adds the lines and
    tells of them. A failure is a line, not the end; Ctrl-C ends the run and keeps what is there."""
    progress = Progress(len(jobs))
    try:
        for key, job in jobs:
            if cells.measured(key):
                progress.step("already measured", was_measured=False)
                continue
            try:
                progress.step(job())
            except Absent as reason:
                cells.add({**key, "status": str(reason)})
                progress.step(f"{key['part']} {key['setting']}: not measured: {reason}", was_measured=False)
            except (RuntimeError, ReplyError, OSError, subprocess.SubprocessError) as error:
                cells.add({**key, "status": f"failed: {error}"[:300]})
                progress.step(f"{key['part']} {key['setting']}: failed: {error}"[:300])
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", flush=True)
        return 1
    print(f"{len(cells.rows)} lines: {cells.path}")
    return 0 if cells.rows else 1
