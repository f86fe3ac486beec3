"""Reads the results of a study, for the report."""

import collections
import csv
import json
import statistics

from studies.cells import OK
from studies.plan import off_modes


class Rows:
    """The lines of cells.csv, with numbers as numbers."""

    def __init__(self, directory, name="cells.csv"):
        self.directory = directory
        self.rows, self.absent = [], []
        facts = directory / "machine.json"
        self.machine = json.loads(facts.read_text()) if facts.exists() else {}
        if not (directory / name).exists():
            return
        with open(directory / name, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                # A build may look like a number.
                row = {column: value if column == "build" else number(value) for column, value in row.items()}
                (self.rows if row.get("status", OK) == OK else self.absent).append(row)

    def where(self, **wanted):
        """Rows with these values; a tuple means one of them."""
        return [row for row in self.rows if fits(row, wanted)]

    def absent_where(self, **wanted):
        """Cells with these values that could not be measured, or were not run."""
        return [row for row in self.absent if fits(row, wanted)]

    def values(self, column, **wanted):
        """The distinct values of a column, in the order of the file."""
        return list(dict.fromkeys(row[column] for row in self.where(**wanted)))

    def middle(self, column, **wanted):
        """(median, lowest, highest) of a column; None without rows."""
        found = [row[column] for row in self.where(**wanted) if isinstance(row.get(column), float)]
        return (statistics.median(found), min(found), max(found)) if found else None

    def off(self, column, mode, **key):
        """Like `middle`, but for the baseline of a mode."""
        found = (self.middle(column, **key, mode=off) for off in off_modes(key["server"], mode, key["value_bytes"]))
        return next((off for off in found if off), None)

    def builds(self):
        """The number of rows per build, largest first."""
        return collections.Counter(row["build"] for row in self.rows if row.get("build")).most_common()

    def note(self):
        """The note for a figure of these rows."""
        kinds = set()
        for row in self.rows:
            if row.get("emulated") == "yes":
                stack = row.get("stack") or "profile"
                kinds.add(
                    {"block": "block devices EMULATED (timing model)", "profile": "devices EMULATED in process"}.get(
                        stack, "EMULATED"
                    )
                )
            if "small run" in str(row.get("note", "")):
                kinds.add("SMALL RUN: says nothing but that it works")
        return "; ".join(sorted(kinds))

    def absences(self):
        """Reason -> number of cells that could not be measured for it."""
        reasons = {}
        for row in self.absent:
            reasons[row["status"]] = reasons.get(row["status"], 0) + 1
        return reasons


def fits(row, wanted):
    return all(
        row.get(name) in value if isinstance(value, tuple) else row.get(name) == value for name, value in wanted.items()
    )


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return text
