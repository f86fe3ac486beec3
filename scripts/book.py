"""The book: what mdBook leaves to others (book.toml, `make book`).

    scripts/book.py               a preprocessor of mdBook: links that lead out of the book
    scripts/book.py supports html answers mdBook that this one works for it
    scripts/book.py check DIR     every link of the HTML below DIR leads somewhere

Pages of docs/ refer to files beside docs/ and to pages that docs/SUMMARY.md does not list, so that they can be followed in the
repository. A Markdown file that a page of the book refers to becomes a page at its end; a link to anything else becomes its text.
"""

import json
import posixpath
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
#: A block of code: no link is made of what it shows.
CODE = re.compile(r"(^ *```.*?^ *``` *$)", re.DOTALL | re.MULTILINE)


def chapters(items):
    """All chapters with a page, in order."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            if item["Chapter"].get("path"):
                yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def place_of(source):
    """Where in the book a file goes that lies at `source`, as docs/ sees it. mdBook makes the page of its directory of a README."""
    place = f"files/{source.removeprefix('../')}" if source.startswith("../") else source
    return re.sub(r"(^|/)README\.md$", r"\1index.md", place)


def with_links(text, source, known, wanted):
    """The text of the file `source` for its place in the book; files that it refers to and `known` has not are added to `wanted`."""
    here = posixpath.dirname(place_of(source))

    def link(found):
        kind, name, target = found.groups()
        url = urlsplit(target)
        if url.scheme or not url.path:
            return found[0]
        to = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), unquote(url.path)))
        to = posixpath.relpath(to, "docs")
        if kind:  # mdBook copies what lies below docs/
            return f"![{name}]({posixpath.relpath(to, here or '.')})"
        if not to.endswith(".md") or not (DOCS / to).is_file():
            return name
        if to not in known:
            known.add(to)
            wanted.append(to)
        anchor = f"#{url.fragment}" if url.fragment else ""
        return f"[{name}]({posixpath.relpath(place_of(to), here or '.')}{anchor})"

    return "".join(part if nth % 2 else LINK.sub(link, part) for nth, part in enumerate(CODE.split(text)))


def preprocess():
    _, book = json.load(sys.stdin)
    items = book["items"] if "items" in book else book["sections"]
    known = {chapter["source_path"] for chapter in chapters(items)}
    wanted = []
    for chapter in chapters(items):
        chapter["content"] = with_links(chapter["content"], chapter["source_path"], known, wanted)
    if wanted:
        items.append({"PartTitle": "Files that the pages refer to"})
    for source in wanted:  # grows meanwhile
        text = (DOCS / source).read_text()
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        items.append({"Chapter": {
            "name": title[1] if title else source, "content": with_links(text, source, known, wanted), "number": None, "sub_items": [],
            "path": place_of(source), "source_path": None, "parent_names": [],
        }})  # fmt: skip
    json.dump(book, sys.stdout)


class Page(HTMLParser):
    """The links of a page, and what in it links may lead to."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := attrs.get(name)))
        self.links.extend(value for name in ("href", "src") if (value := attrs.get(name)))


def check(directory):
    # The page for printing is all of them in one, and the one for errors may be shown anywhere.
    pages = {path: Page(path.read_text()) for path in directory.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")}
    broken = looked_at = 0
    for path, page in sorted(pages.items()):
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            looked_at += 1
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids):
                broken += 1
                print(f"{path.relative_to(directory)}: {link} leads nowhere")
    print(f"{len(pages)} pages, {looked_at} links, {broken} broken")
    return 1 if broken or not pages else 0


def main():
    if sys.argv[1:2] == ["supports"]:
        return 0
    if sys.argv[1:2] == ["check"]:
        return check(Path(sys.argv[2]).resolve())
    return preprocess()


if __name__ == "__main__":
    sys.exit(main())
