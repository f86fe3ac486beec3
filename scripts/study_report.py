"""make study-report: writes a report of the results that the studies have so far.

    .venv/bin/python scripts/study_report.py [--from study] [--to docs/reports] [--html]

Reads study/devices, study/flsm, study/wbl and study/mvcc (if present) and writes a Markdown page for
each, charts as SVG files beside it, and README.md with the machine. Nothing is entered by hand: the output depends on the
CSV files only. --html adds report.html, one page with everything in it. Emulated or small measurements are labelled in every chart.
"""

import argparse
import sys
from pathlib import Path

from bench_common import ROOT
from studies.report import html
from studies.report.page import Page
from studies.report.studies import STUDIES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, default=ROOT / "study")
    parser.add_argument("--to", type=Path, default=ROOT / "docs/reports")
    parser.add_argument("--html", action="store_true", help="also write report.html")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    index = Page(args.to, "README", "Reports of the studies")
    index.text(
        "Written by `make study-report` from the CSV files of the runs; [studies.md](../studies.md) says how they "
        "are run and read."
    )
    lines, names = [], [index.name]
    for name, (draw, text) in STUDIES.items():
        directory = args.source / name
        if not directory.is_dir() or not any(directory.glob("*.csv")):
            lines.append(f"- not measured, `make study-{name}`: {text.split('](')[0].strip('[')}")
            continue
        rows = draw(directory, args.to)
        names.append(name)
        note = rows.note()
        reasons = "".join(f"; {count} cells {reason}" for reason, count in rows.absences().items())
        lines.append(f"- {text}; {len(rows.rows)} rows{reasons}{'; ' + note if note else ''}")
    if len(names) == 1:
        print(
            f"nothing is measured below {args.source}: run make study-devices, study-flsm, study-wbl or study-mvcc first",
            file=sys.stderr,
        )
        return 1
    index.text(*lines)
    index.write()
    if args.html:
        html.write(args.to, names)
    print(f"{len(names) - 1} studies: {args.to}/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
