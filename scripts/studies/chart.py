"""Charts as SVG text: lines with error bars, and grouped bars. Emulated or small measurements are labelled in the plot."""

import math
from html import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 46, 52
#: Distinguishable without colour vision (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def _number(value):
    """A short label."""
    if value == 0:
        return "0"
    size = abs(value)
    if size < 10_000 and value == int(value):
        return f"{value:.0f}"
    for unit, divisor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= divisor:
            return f"{value / divisor:.3g}{unit}"
    return f"{value:.3g}"


class Axis:
    """Maps values to pixels, linearly or by their logarithm."""

    def __init__(self, values, start, end, log=False, ticks=None, from_zero=True):
        values = [v for v in values if v is not None and math.isfinite(v) and (not log or v > 0)]
        self.log, self.start, self.end = log, start, end
        low, high = (min(values), max(values)) if values else (0, 1)
        if log and from_zero:
            # A whole power of ten below, so that the smallest bar is seen.
            low = 10 ** math.floor(math.log10(low) - 1e-9) if values else low
        if not log:
            low, high = (min(0, low) if from_zero else low), high + (high - min(0, low)) * 0.05
        if high <= low:
            high = low + 1 if not log else low * 2
        self.low, self.high = low, high
        self.ticks = ticks if ticks is not None else self._ticks()

    def _ticks(self):
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1, 2, 5) if last - first <= 2 else (1,)
            return [s * 10**e for e in range(first, last + 1) for s in steps if self.low <= s * 10**e <= self.high] or [
                self.low,
                self.high,
            ]
        raw = (self.high - self.low) / 6
        size = 10 ** math.floor(math.log10(raw))
        step = next(size * n for n in (1, 2, 5, 10) if size * n >= raw)
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, int(self.high / step) + 1)]

    def __call__(self, value):
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        at = math.log10(max(value, self.low)) if self.log else value
        return round(self.start + (self.end - self.start) * (at - low) / (high - low), 1)


def _text(x, y, text, anchor="start", size=12, extra=""):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}"{extra}>{escape(str(text))}</text>'


def _frame(title, note, x_label, y_label, y_axis):
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 18, title, size=14, extra=' font-weight="bold"'),
    ]
    if note:
        parts.append(_text(LEFT, 36, note, size=11, extra=' fill="#b00000"'))
    for tick in y_axis.ticks:
        y = y_axis(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(tick), "end", 11))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(_text(16, middle, y_label, "middle", 12, f' transform="rotate(-90 16 {middle})"'))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label, "middle"))
    return parts


def _legend(names):
    parts = []
    for i, name in enumerate(names):
        y = TOP + 10 + 18 * i
        parts.append(
            f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 34}" y1="{y}" y2="{y}" stroke="{COLOURS[i % len(COLOURS)]}" '
            f'stroke-width="2.5" stroke-dasharray="{DASHES[i // len(COLOURS) % len(DASHES)]}"/>'
        )
        parts.append(_text(WIDTH - RIGHT + 40, y + 4, name, size=11))
    return parts


def _error_bar(x, low, high, colour):
    if high - low < 0.5 and low - high < 0.5:
        return ""
    return f'<path d="M{x},{low}V{high}M{x - 3},{low}h6M{x - 3},{high}h6" stroke="{colour}" fill="none"/>'


def lines(title, series, x_label, y_label, note="", log_x=False, log_y=False, x_ticks=None, level=None):
    """`series`: name -> [(x, y, low, high)]. `level` draws a horizontal line, as a comparison."""
    points = [point for line in series.values() for point in line]
    x_axis = Axis([p[0] for p in points], LEFT + 10, WIDTH - RIGHT - 10, log_x, x_ticks, from_zero=not log_x)
    y_axis = Axis([v for p in points for v in p[1:]] + ([level] if level else []), HEIGHT - BOTTOM, TOP, log_y)
    parts = _frame(title, note, x_label, y_label, y_axis)
    for tick in x_axis.ticks:
        parts.append(_text(x_axis(tick), HEIGHT - BOTTOM + 18, _number(tick), "middle", 11))
    if level:
        y = y_axis(level)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#888" stroke-dasharray="4 4"/>')
    for i, line in enumerate(series.values()):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
        path = " ".join(f"{x_axis(x)},{y_axis(y)}" for x, y, *_ in sorted(line))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        for x, y, low, high in line if len(line) <= 30 else ():
            parts.append(f'<circle cx="{x_axis(x)}" cy="{y_axis(y)}" r="2.6" fill="{colour}"/>')
            parts.append(_error_bar(x_axis(x), y_axis(low), y_axis(high), colour))
    return "\n".join([*parts, *_legend(series), "</svg>"]) + "\n"


def bars(title, groups, names, y_label, note="", log_y=False, level=None):
    """`groups`: label -> {name: (y, low, high)}; `names` gives the order of the bars in a group."""
    values = [v for group in groups.values() for made in group.values() for v in made]
    y_axis = Axis(values + ([level] if level else []), HEIGHT - BOTTOM, TOP, log_y)
    parts = _frame(title, note, "", y_label, y_axis)
    width = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    bar = width * 0.8 / max(1, len(names))
    floor = y_axis(y_axis.low if log_y else max(0, y_axis.low))
    for g, (label, group) in enumerate(groups.items()):
        start = LEFT + width * (g + 0.1)
        parts.append(_text(round(start + width * 0.4, 1), HEIGHT - BOTTOM + 18, label, "middle", 11))
        for i, name in enumerate(names):
            if name not in group:
                continue
            y, low, high = group[name]
            top, x = y_axis(y), round(start + bar * i, 1)
            colour = COLOURS[i % len(COLOURS)]
            parts.append(
                f'<rect x="{x}" y="{min(top, floor)}" width="{bar * 0.9:.1f}" height="{abs(floor - top):.1f}" fill="{colour}"/>'
            )
            parts.append(_error_bar(round(x + bar * 0.45, 1), y_axis(low), y_axis(high), "#333"))
    if level:
        y = y_axis(level)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#888" stroke-dasharray="4 4"/>')
    return "\n".join([*parts, *_legend(names), "</svg>"]) + "\n"
