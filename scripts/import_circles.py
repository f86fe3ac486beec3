#!/usr/bin/env python3
"""Prints the cycles of each crate's import graph: sets of files that use each other, directly or indirectly.

    scripts/import_circles.py [--commit COMMIT] [--check] [--edges] [--test]

A file uses another one if its product code names an item of it, in a `use` or by a path that begins with crate, self or
super. A name re-exported by a mod.rs or lib.rs counts as a use of the file that defines it; the re-export itself is no use.
--check: fails if the largest cycle of a crate exceeds its bound below. Lower the bound when you make the cycle smaller.
"""

import argparse
import re
import sys
from collections import defaultdict

from count_lines import TEST_CRATES, files, is_test_file, kinds

#: Files of the largest circle of each crate. May only fall.
LARGEST = {"config": 2, "engine": 3, "persistence": 3, "server": 3}

#: Names before which a path begins.
BEGINNINGS = ("crate", "self", "super")
USE = re.compile(r"^(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+")


def leaves(tree, before=()):
    """(path, local name) of each item that a `use` names: `a::{b, c as d}` are a::b as b, a::c as d."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, name = tree.partition(" as ")
        path = before + tuple(part.strip() for part in path.split("::") if part.strip())
        if path and path[-1] == "self" and len(path) > 1:
            path = path[:-1]
        yield path, name.strip() or path[-1]
        return
    before += tuple(part.strip() for part in head.split("::") if part.strip())
    depth, start = 0, 0
    inner = rest[: rest.rindex("}")]
    for at, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if inner[start:at].strip():
                yield from leaves(inner[start:at], before)
            start = at + 1


class Crate:
    """The product files of a crate as modules: {path of names: file}."""

    def __init__(self, texts):
        self.code = {}
        self.modules = {}
        for path, text in texts.items():
            lines = [line for line, kind in kinds(text, False) if kind == "code"]
            self.code[path] = re.sub(r"//.*", "", "\n".join(lines))
            names = path.split("/src/", 1)[1].removesuffix(".rs").split("/")
            self.modules[tuple(names[:-1] if names[-1] in ("mod", "lib") else names)] = path
        self.module_of = {path: module for module, path in self.modules.items()}
        # {module: {name: where it comes from}} of what is handed on, and of what a file has in scope.
        self.scope = defaultdict(dict)
        for module, path in self.modules.items():
            for _, tree in USE.findall(self.code[path]):
                for found, name in leaves(tree):
                    if absolute := self.absolute(module, found):
                        self.scope[module][name] = absolute

    def absolute(self, module, path):
        """A path from the crate's root; None for other crates and for plain names."""
        if path[0] == "crate":
            return path[1:]
        if path[0] in ("self", "super"):
            here = module
            while path and path[0] in ("self", "super"):
                here = here[:-1] if path[0] == "super" else here
                path = path[1:]
            return here + path
        # A child that is named without `self`.
        return module + path if module + path[:1] in self.modules else None

    def file_of(self, path, seen=()):
        """The file that contains the item."""
        for length in range(len(path), -1, -1):
            if path[:length] not in self.modules:
                continue
            module, rest = path[:length], path[length:]
            origin = self.scope[module].get(rest[0]) if rest else None
            if origin and origin not in seen:
                return self.file_of(origin + rest[1:], (*seen, origin))
            return self.modules[module]
        return None

    def edges(self):
        """{file: files that it uses}."""
        found = defaultdict(set)
        for path, code in self.code.items():
            module, hands_on = self.module_of[path], path.endswith(("/mod.rs", "/lib.rs"))
            used = []
            for public, tree in USE.findall(code):
                for leaf, _ in leaves(tree):
                    absolute = self.absolute(module, leaf)
                    if absolute and not (public and hands_on and absolute[: len(module)] == module):
                        used.append(absolute)
            for text in PATH.findall(USE.sub("", code)):
                used.append(self.absolute(module, tuple(text.split("::"))))
            found[path] = {file for file in map(self.file_of, filter(None, used)) if file and file != path}
        return found


def circles(edges):
    """The strongly connected components of more than one file, largest first (Tarjan)."""
    sys.setrecursionlimit(10_000)
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted((part for part in found if len(part) > 1), key=lambda part: (-len(part), part))


def crates(commit):
    """{crate: its product files with their text}."""
    found = defaultdict(dict)
    for path, text in files(commit):
        crate = path.split("/")[0]
        # A program is a crate of its own, which nothing uses.
        is_program = path.endswith("/src/main.rs") or "/src/bin/" in path
        if path.startswith(f"{crate}/src/") and crate not in TEST_CRATES and not is_test_file(path) and not is_program:
            found[crate][path] = text
    return found


def test():
    """Tests the search on a crate whose cycles are known."""
    texts = {
        "x/src/lib.rs": "mod a;\nmod b;\nmod c;\npub use a::A;\npub use c::C;",
        "x/src/a.rs": "use crate::b::{self, B};",
        "x/src/b.rs": "fn b() { crate::A::new() }\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}",
        "x/src/c/mod.rs": "mod d;\nmod e;\npub use d::{D, Other as C};\nuse super::A;",
        "x/src/c/d.rs": "use super::e;",
        "x/src/c/e.rs": "use super::{\n    D as Renamed,\n};",
    }
    found = circles(Crate(texts).edges())
    assert found == [["x/src/a.rs", "x/src/b.rs"], ["x/src/c/d.rs", "x/src/c/e.rs"]], found
    more = texts | {"x/src/b.rs": "use crate::C;\nuse crate::a;", "x/src/c/d.rs": "use crate::a::A;\nuse super::e;"}
    found = circles(Crate(more).edges())
    assert found == [["x/src/a.rs", "x/src/b.rs", "x/src/c/d.rs", "x/src/c/e.rs"]], found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="read the files of this commit")
    parser.add_argument("--check", action="store_true", help="compare with the bounds")
    parser.add_argument("--edges", action="store_true", help="also print the uses within each cycle")
    parser.add_argument("--test", action="store_true", help="only run the self-test")
    args = parser.parse_args()
    if args.test:
        return test()
    wrong = []
    for crate, texts in sorted(crates(args.commit).items()):
        edges = Crate(texts).edges()
        found = circles(edges)
        largest = len(found[0]) if found else 0
        print(f"{crate}: {len(texts)} files, {len(found)} circles, the largest of {largest}")
        for circle in found:
            print(f"  {len(circle)}: " + " ".join(path.removeprefix(f"{crate}/src/") for path in circle))
            for path in circle if args.edges else ():
                print(f"      {path} -> " + " ".join(sorted(edges[path] & set(circle))))
        bound = LARGEST.get(crate, 0)
        if largest < bound:
            print(f"  smaller than its bound: LARGEST may say {largest}")
        if largest > bound:
            wrong.append(f"{crate}: the largest circle has {largest} files, at most {bound} are allowed")
    if args.check and wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
