"""Intended differences, each with the id under which docs/differences.md explains it.

A row is (id, command, pattern of the reference's reply, pattern of our reply); patterns are regular
expressions over the raw bytes. An id that is missing from the page makes the run fail: a difference
is either documented or it is a bug.
"""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/differences.md"

ALLOWED = [
    ("SCAN cursor", "SCAN", rb"^\*2", rb"^-ERR SCAN cursor expired"),
    ("RESTORE over an expired key", "RESTORE", rb"^\*1\r\n", rb"^(\*-1|_)\r\n$"),
    ("RESTORE over an expired key", "RESTORE-ASKING", rb"^\*1\r\n", rb"^(\*-1|_)\r\n$"),
    ("appendonly and appendfsync", "CONFIG|SET", rb"^\+OK", rb"^-ERR appendonly and appendfsync cannot be changed"),
    ("appendonly and appendfsync", "CONFIG|SET", rb"^\+OK", rb"^-ERR CONFIG SET failed .*'appendfsync'\) - there is no append only file"),
    ("SSUBSCRIBE inside MULTI", "SSUBSCRIBE", rb"isn't allowed for a DENY BLOCKING client", rb"ssubscribe"),
    ("SCRIPT DEBUG", "SCRIPT|DEBUG", rb"OK|ERR", rb"(^|\n)-ERR SCRIPT DEBUG is not supported"),
]


def unexplained():
    """Ids used here that the page does not name."""
    text = PAGE.read_text() if PAGE.exists() else ""
    return sorted({row[0] for row in ALLOWED if not re.search(rf"\b{re.escape(row[0])}\b", text)})


def is_allowed(command, theirs, ours):
    """The id that covers this pair of raw replies, or None."""
    for name, row_command, their_pattern, our_pattern in ALLOWED:
        if row_command in ("*", command) and re.search(their_pattern, theirs, re.S) and re.search(our_pattern, ours, re.S):
            return name
    return None
