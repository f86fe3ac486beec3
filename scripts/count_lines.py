#!/usr/bin/env python3
"""Counts the Rust lines of each crate: product code, comments, tests. Blank lines are not counted.

    scripts/count_lines.py [--commit COMMIT] [--json]

Tests are files below tests/ or examples/, files named tests.rs or *_tests.rs, crates that contain nothing else, and items
below #[cfg(test)] or #[cfg(loom)]. With --commit it counts the files of that commit instead of the working tree.
"""

import argparse
import json
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Crates that hold tests only.
TEST_CRATES = ("fuzz", "tests")
#: An item that is compiled for tests only begins behind this.
TEST_ATTRIBUTE = re.compile(r"#\[cfg\((all\()?(test|loom)\b")


def is_test_file(path):
    """Whether a file contains only tests."""
    parts = Path(path).parts
    name = parts[-1]
    folders = parts[1:-1]
    return (
        parts[0] in TEST_CRATES
        or "tests" in folders
        or "examples" in folders
        or name.endswith("_tests.rs")
        or name == "tests.rs"
    )


def depth_change(line):
    """The change of bracket depth in a line of code, ignoring strings and characters."""
    bare = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', "", line.split("//")[0])
    return sum(bare.count(c) for c in "{([") - sum(bare.count(c) for c in "})]")


def kinds(text, is_test):
    """The non-blank lines of a file, each with its kind: code, comment or test."""
    # Depth of brackets inside an item for tests; None outside of one.
    depth = None
    for line in text.splitlines():
        line = line.strip()
        if not line:
            continue
        if is_test:
            yield line, "test"
        elif depth is None and not TEST_ATTRIBUTE.match(line):
            yield line, "comment" if line.startswith("//") else "code"
        else:
            yield line, "test"
            if line.startswith(("#", "//")):
                depth = depth or 0
                continue
            depth = (depth or 0) + depth_change(line)
            if depth <= 0 and line.endswith(("}", ";", ",")):
                depth = None


def count(text, is_test):
    """Lines of (code, comments, tests) of a file."""
    found = Counter(kind for _, kind in kinds(text, is_test))
    return found["code"], found["comment"], found["test"]


def files(commit):
    """(path, text) of each Rust file."""
    if commit is None:
        names = subprocess.check_output(["git", "ls-files", "*.rs"], cwd=ROOT, text=True).split()
        for name in names:
            if (ROOT / name).exists():
                yield name, (ROOT / name).read_text()
        return
    listing = ["git", "ls-tree", "-r", "--name-only", commit]
    for name in subprocess.check_output(listing, cwd=ROOT, text=True).split():
        if name.endswith(".rs"):
            yield name, subprocess.check_output(["git", "show", f"{commit}:{name}"], cwd=ROOT, text=True)


def by_crate(commit):
    """{crate: [files, code, comments, tests]}, a row of all at the end."""
    rows = defaultdict(lambda: [0, 0, 0, 0])
    for path, text in files(commit):
        counted = count(text, is_test_file(path))
        for row in (rows[path.split("/")[0]], rows["~all"]):
            row[0] += 1
            for at, lines in enumerate(counted):
                row[at + 1] += lines
    return {name.strip("~"): rows[name] for name in sorted(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="count the files of this commit")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    rows = by_crate(args.commit)
    if args.json:
        names = ("files", "code", "comments", "tests")
        print(json.dumps({crate: dict(zip(names, row)) for crate, row in rows.items()}, indent=2))
        return
    print(f"{'crate':<12}{'files':>7}{'code':>9}{'comments':>10}{'tests':>9}")
    for crate, (number, code, comments, tests) in rows.items():
        print(f"{crate:<12}{number:>7}{code:>9}{comments:>10}{tests:>9}")


if __name__ == "__main__":
    main()
