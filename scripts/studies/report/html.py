"""The Markdown pages of the report as one self-contained HTML page. Knows what the pages use, no more."""

import re
from html import escape

STYLE = """body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}table{border-collapse:collapse;font-size:13px}
td,th{border:1px solid #ccc;padding:2px 8px;text-align:right}td:first-child,th:first-child{text-align:left}svg{max-width:100%}"""


def inline(text):
    """Bold, emphasis, code and links of one line."""
    text = escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"(?<![\w*])\*([^*]+)\*(?![\w*])", r"<em>\1</em>", text)
    # A page of the report is a part of this one.
    text = re.sub(r"\[([^\]]+)\]\((\w+)\.md\)", r'<a href="#\2">\1</a>', text)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)


def body(path):
    """The HTML of one page."""
    out, is_table = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        row = line.startswith("|")
        if is_table and not row:
            out.append("</table>")
        if row and not is_table:
            out.append("<table>")
        cell = "td" if is_table else "th"
        is_table = row
        image = re.fullmatch(r"!\[.*\]\((.+\.svg)\)", line)
        if image:
            out.append((path.parent / image[1]).read_text(encoding="utf-8"))
        elif row:
            if not re.fullmatch(r"[|-]+", line):
                cells = (f"<{cell}>{inline(text.strip())}</{cell}>" for text in line.strip("|").split("|"))
                out.append("<tr>" + "".join(cells) + "</tr>")
        elif line.startswith("# "):
            out.append(f'<h1 id="{path.stem}">{inline(line[2:])}</h1>')
        elif line.startswith("## "):
            out.append(f"<h2>{inline(line[3:])}</h2>")
        elif line.startswith("- "):
            out.append(f"<li>{inline(line[2:])}</li>")
        elif line:
            out.append(f"<p>{inline(line)}</p>")
    return "\n".join(out + ["</table>"] * is_table)


def write(directory, names):
    """report.html of these pages."""
    parts = "\n".join(body(directory / f"{name}.md") for name in names)
    head = f'<!doctype html><meta charset="utf-8"><title>Reports of the studies</title><style>{STYLE}</style>'
    (directory / "report.html").write_text(f"{head}\n{parts}\n", encoding="utf-8")
