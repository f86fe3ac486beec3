"""What the server's log says of faults: a line when one begins, a line when it is over."""

import re
import time

#: name -> (what its first line says, what its last one says)
FAULTS = {
    "log": ("The append only log has failed: ", "The append only log works again"),
    "flush": ("Memtables cannot be flushed: ", "Memtables are flushed again"),
    "compaction": ("Tables cannot be compacted: ", "Tables are compacted again"),
    "refusal": ("Writes are refused with MISCONF: ", "Writes are taken again"),
    "stall": ("Writers wait for more than a second: ", "Writers go on"),
}


def counts(text):
    """name -> (lines that begin it, lines that end it)."""
    return {name: (text.count(" # " + begun), text.count(" # " + over)) for name, (begun, over) in FAULTS.items()}


def reasons(text, name):
    """What the lines that begin a fault give as the reason."""
    return re.findall(" # " + re.escape(FAULTS[name][0]) + "(.*)", text)


def settled(read, timeout_s=20.0):
    """Waits until every fault that has begun is over, and answers the counts; `read` gives the log."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = counts(read())
        if all(begun == over for begun, over in found.values()) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
