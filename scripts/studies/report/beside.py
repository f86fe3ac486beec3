"""Our figures beside a paper's: the ratio, and a line of reading that follows from both."""

from studies.report.page import ratio

#: Figures that differ by less are called equal.
EQUAL = 0.1

HEADER = ["figure", "paper", "ours", "ours / paper", "read as"]


def figure_text(found):
    """Median with its extremes, where there is more than one run."""
    middle, low, high = found
    return f"{middle:.2f}" if low == high else f"{middle:.2f} ({low:.2f}-{high:.2f})"


def gain_line(what, paper, ours, why=""):
    """A line for a gain: above 1 is better. `ours` is (median, low, high) or None; `why` is said where it does not come
    out."""
    if ours is None:
        return [what, f"{paper:.2f}", "not measured", "-", "-"]
    middle, low, high = ours
    if middle >= paper * (1 - EQUAL):
        reading = "comes out" if middle <= paper * (1 + EQUAL) else "comes out, larger"
    elif paper <= 1 + EQUAL and low <= 1 <= high:
        reading = "no difference beyond the spread, as there"
    elif middle > 1 + EQUAL / 2:
        reading = "same direction, smaller"
    elif low <= 1 <= high or abs(middle - 1) <= EQUAL:
        reading = "no difference here"
    else:
        reading = "does not come out: the other way round"
    if why and not reading.startswith("comes out") and "as there" not in reading:
        reading += f"; {why}"
    return [what, f"{paper:.2f}", figure_text(ours), f"{middle / paper:.2f}", reading]


def loss_reading(paper, ours):
    """Words for a slow-down factor beside the paper's."""
    if ours is None:
        return "-"
    if ours > paper * (1 + EQUAL):
        return "loses more than there"
    return "as there" if ours >= paper * (1 - EQUAL) else "loses less than there"


def between(rows, column, over, under, repetition="repetition"):
    """(median, low, high) of a column's quotient for two sets of wanted values; pairs of equal repetitions where both
    have them."""
    if rows.where(**over) and rows.where(**under):
        first, second = (
            {row.get(repetition): row[column] for row in rows.where(**wanted) if isinstance(row.get(column), float)}
            for wanted in (over, under)
        )
        pairs = sorted(first[n] / second[n] for n in first if n in second and second[n])
        if pairs:
            half = len(pairs) // 2
            middle = pairs[half] if len(pairs) % 2 else (pairs[half - 1] + pairs[half]) / 2
            return middle, pairs[0], pairs[-1]
    return ratio(rows.middle(column, **over), rows.middle(column, **under))
