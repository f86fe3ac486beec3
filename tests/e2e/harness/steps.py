"""Counts named checks and ends a script with the line `N passed, N failed`."""

import sys


class Steps:
    """`check` prints one line per named check; `finish` prints the totals and exits."""

    def __init__(self, title):
        self.title = title
        self.passed = 0
        self.failed = []
        print(f"== {title}", flush=True)

    def check(self, name, ok, detail=""):
        if ok:
            self.passed += 1
            print(f"ok    {name}" + (f"  ({detail})" if detail else ""), flush=True)
        else:
            self.failed.append(name)
            print(f"FAIL  {name}" + (f": {detail}" if detail else ""), flush=True)
        return ok

    def equal(self, name, got, expected):
        return self.check(name, got == expected, "" if got == expected else f"got {got!r}, expected {expected!r}")

    def finish(self):
        print(f"{self.title}: {self.passed} passed, {len(self.failed)} failed", flush=True)
        sys.exit(1 if self.failed else 0)
