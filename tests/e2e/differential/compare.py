"""Equality of replies: byte for byte, unless the command's nature forbids it."""

import contextlib
import time

from .grammar import FAR_MS, FAR_SECONDS
from .step import EXACT, LENGTH, MAP_KEYS, MILLIS, SECONDS, SHAPE, SUPERSET, UNORDERED

#: The servers handle a request a moment apart; this much may always show in a remaining life.
TOLERANCE_MS = 500


class Skew:
    """The maximum delay between the two servers' handling of a request: the longest pair of sends so far."""

    def __init__(self):
        self.most_ms = TOLERANCE_MS

    @contextlib.contextmanager
    def sending(self):
        """Measures the sending of requests to one server and then to the other."""
        begun = time.monotonic()
        yield
        self.most_ms = max(self.most_ms, (time.monotonic() - begun) * 1000)


def same(tag, ours, theirs, skew_ms=TOLERANCE_MS):
    """True when the two replies (nodes) agree under the rule `tag`; remaining lives may be `skew_ms` apart."""
    if ours.raw == theirs.raw:
        return True
    if tag == EXACT or ours.kind != theirs.kind or ours.is_error():
        return False
    if tag == UNORDERED:
        return ours.canonical() == theirs.canonical()
    if tag in (SECONDS, MILLIS):
        if not isinstance(ours.value, int) or not isinstance(theirs.value, int):
            return False
        if ours.value < 0 or theirs.value < 0:
            return False
        if theirs.value in FAR_SECONDS or theirs.value in FAR_MS:
            return False  # an absolute time comes back exactly
        return abs(ours.value - theirs.value) <= (1 + skew_ms // 1000 if tag == SECONDS else skew_ms)
    if tag == MAP_KEYS:
        mine, others = ours.items or [], theirs.items or []
        return [n.raw for n in mine[::2]] == [n.raw for n in others[::2]]
    if tag == SUPERSET:
        return {n.raw for n in theirs.items or []} <= {n.raw for n in ours.items or []}
    if tag == LENGTH:
        # What is drawn at random: as many elements, each of the same kind.
        return [n.kind for n in ours.items or []] == [n.kind for n in theirs.items or []]
    if tag == SHAPE:
        if (ours.items is None) != (theirs.items is None):
            return False
        return (ours.value is None) == (theirs.value is None)
    raise ValueError(tag)


class TransactionTags:
    """Remembers the rules of queued commands, to compare the elements of EXEC's reply."""

    def __init__(self, skew):
        self.queued = []
        self.skew = skew

    def same(self, step, ours, theirs):
        name = step.args[0].upper()
        if name == b"EXEC":
            tags, self.queued = self.queued, []
            if ours.raw == theirs.raw:
                return True
            mine, others = ours.items, theirs.items
            if mine is None or others is None or len(mine) != len(others) or len(mine) != len(tags):
                return False
            return all(same(tag, a, b, self.skew.most_ms) for tag, a, b in zip(tags, mine, others))
        if name in (b"MULTI", b"DISCARD", b"RESET"):
            if theirs.raw.startswith(b"+"):
                self.queued = []
        if theirs.raw == b"+QUEUED\r\n":
            self.queued.append(step.tag)
        return same(step.tag, ours, theirs, self.skew.most_ms)
