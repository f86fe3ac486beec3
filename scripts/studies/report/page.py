"""A page of the report, and what the pages share."""

import statistics
from pathlib import Path

NAMES = {"redis": "redis-server 7.0", "valkey": "valkey-server 9.1", "sexton": "Sexton"}


class Page:
    """A Markdown page and its charts."""

    def __init__(self, directory, name, title):
        self.directory, self.name = directory, name
        self.parts = [f"# {title}\n"]

    def text(self, *lines):
        self.parts.append("\n".join(lines) + "\n")

    def table(self, header, rows):
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self.text(*lines)

    def chart(self, name, svg, caption):
        file = f"{self.name}-{name}.svg"
        (self.directory / file).write_text(svg, encoding="utf-8")
        self.text(f"![{caption}]({file})", "", f"*{caption}*")

    def machine(self, rows):
        facts = rows.machine
        if not facts:
            return
        versions = ", ".join(
            f"{NAMES.get(name, name)} ({version})" if version else name
            for name, version in facts.get("versions", {}).items()
        )
        program, *arguments = facts["command"].split()
        self.text(
            f"{facts['date']}, `{' '.join([Path(program).name, *arguments])}`, build {of_builds(rows.builds(), facts)}. "
            f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}, {facts['system']}"
            f"{'; ' + versions if versions else ''}{'; RocksDB ' + facts['rocksdb'] if facts.get('rocksdb') else ''}."
        )
        note = rows.note()
        if note:
            self.text(f"**{note}.**")

    def absences(self, rows):
        reasons = rows.absences()
        if reasons:
            self.text(
                "## Not measured",
                "",
                *(f"- {count} cells: {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])),
            )

    def write(self):
        (self.directory / f"{self.name}.md").write_text("\n".join(self.parts), encoding="utf-8")


def of_builds(builds, facts):
    """The build of all rows; each with the number of its rows where the runs that a study took had several."""
    if len(builds) > 1:
        return ", ".join(f"{build} ({count} rows)" for build, count in builds)
    return builds[0][0] if builds else facts["build"]


def ratio(over, under):
    """(median, low, high) of a quotient of two (median, low, high)."""
    return (over[0] / under[0], over[1] / under[2], over[2] / under[1]) if over and under and under[1] else None


def whole(value):
    return f"{value:,.0f}"


def whole_text(found):
    """A whole median, with its extremes where there are several runs."""
    middle, low, high = found
    return whole(middle) if low == high else f"{whole(middle)} ({whole(low)}-{whole(high)})"


def spread(values):
    return statistics.median(values), min(values), max(values)
