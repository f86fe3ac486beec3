"""The study of devices: its grid. The further parts are in device_parts."""

import statistics

from studies import chart
from studies.report.beside import figure_text, loss_reading
from studies.report.device_parts import commands_section, pmem_section, rewrite_section, route_section
from studies.report.page import NAMES, Page, ratio, whole, whole_text
from studies.report.wanted import wanted
from studies.rows import Rows

#: The paper's slow-down against persistence off, by device and value size, as far as it tells figures.
PAPER = {
    "hdd": {8: 1.0, 64: 1.0, 128: 1.1, 256: 1.1, 4096: 3.5},
    "nvme": {8: 1.0, 64: 1.0, 128: 1.0},
    "nvram": {8: 1.0, 64: 1.0, 128: 1.0},
}
MODES = ("none-copied", "everysec", "always", "rdb", "rdb-aof", "wbl")
STACKS = ["directory", "block", "profile"]


def stacks_of(rows, device):
    """Stacks of a device in the CSV, in the order of preference."""
    return sorted(rows.values("stack", part="grid", device=device), key=STACKS.index)


def series_of(found):
    """(server, placement) pairs of some rows."""
    pairs = {(row["server"], row["placement"]) for row in found}
    return sorted(pairs, key=lambda pair: (list(NAMES).index(pair[0]), pair[1] == "other"))


def label(server, placement):
    return NAMES[server] + (", tables elsewhere" if placement == "other" else "")


def what_it_is(device, stack):
    if stack == "block" and device in ("nvram", "pmem"):
        return "a loop device in memory, EMULATED"
    return {
        "directory": "a real device",
        "block": "block device with a timing model, EMULATED",
        "profile": "EMULATED in process, Sexton only",
    }[stack]


def plot_note(rows, *kinds):
    """What stands in a plot: what is emulated, and that a run was small."""
    notes = [kind for kind in dict.fromkeys(kinds) if "EMULATED" in kind]
    return "; ".join([*notes, *(["SMALL RUN"] if "SMALL RUN" in rows.note() else [])])


def devices(source, target):
    rows = Rows(source)
    page = Page(target, "devices", "The price of durability per device")
    page.machine(rows)
    page.text(
        "A cell is a server on an empty directory that takes SETs of values that do not compress, from 50 connections, "
        "over a wide key range; the clock stops when the last byte is synced. `x` is the rate without persistence "
        "on the same stack by the rate of the cell: 1 is no loss. Every point is a median, bars and brackets reach from "
        "the lowest to the highest repetition."
    )
    wanted(page, rows)
    paper_section(page, rows)
    throughput_charts(page, rows)
    # A device that was never measured has its section, too.
    for device in dict.fromkeys(row["device"] for row in [*rows.where(part="grid"), *rows.absent_where(part="grid")]):
        for stack in stacks_of(rows, device) or [None]:
            device_section(page, rows, device, stack)
    stall_table(page, rows)
    commands_section(page, rows)
    rewrite_section(page, rows)
    route_section(page, rows)
    pmem_section(page, rows)
    page.absences(rows)
    page.write()
    return rows


def slow_down(rows, mode, **key):
    """(median, low, high) of persistence off by a mode; None where one of both is missing."""
    return ratio(rows.off("synced_rps", mode, **key), rows.middle("synced_rps", **key, mode=mode))


def paper_section(page, rows):
    """The paper's slow-downs beside redis-server's, as a check of the rig, and Sexton's."""
    lines = []
    for device, figures in PAPER.items():
        for stack in stacks_of(rows, device)[:1]:
            for size, published in figures.items():
                key = {"part": "grid", "device": device, "stack": stack, "value_bytes": size, "placement": "same"}
                theirs, ours = (slow_down(rows, "everysec", **key, server=server) for server in ("redis", "sexton"))
                if not theirs and not ours:
                    continue
                rig = f"rig: {loss_reading(published, theirs and theirs[0])}" if theirs else "rig: not measured"
                beside = ""
                if theirs and ours:
                    words = "more" if ours[0] > theirs[0] * 1.05 else "less" if ours[0] < theirs[0] / 1.05 else "as much"
                    beside = f"; Sexton loses {words}{' as' if words == 'as much' else ' than'} redis-server"
                lines.append(
                    [f"{device}, {size} B", f"{published:.1f}"]
                    + [text for x in (theirs, ours) for text in ratio_cells(x, published)]
                    + [rig + beside]
                )
    if lines:
        page.text(
            "## Beside the paper",
            "",
            "Slow-down under `everysec` (x). The paper's redis-server 3.2 ran on real devices; ours on the stack of this "
            "report, where server, client and emulation share the cores.",
        )
        page.table(["device", "paper", NAMES["redis"], "by paper", NAMES["sexton"], "by paper", "read as"], lines)


def ratio_cells(x, published):
    return [figure_text(x), f"{x[0] / published:.2f}"] if x else ["-", "-"]


def lines_by_size(title, curves, unit, note, **more):
    """A chart over the value sizes that its curves have."""
    sizes = sorted({point[0] for line in curves.values() for point in line})
    return chart.lines(title, curves, "value size, bytes", unit, note, log_x=True, x_ticks=sizes, **more)


def throughput_charts(page, rows):
    """The paper's figure, for each server: throughput by value size, a line for each device and one without
    persistence."""
    for server in NAMES:
        curves, kinds = {}, []
        for device in rows.values("device", part="grid", server=server):
            stack = stacks_of(rows, device)[0]
            key = {"part": "grid", "device": device, "stack": stack, "server": server, "placement": "same"}
            for mode, name in (("everysec", device), ("none", "off")):
                sizes = sorted(rows.values("value_bytes", **key, mode=mode))
                points = [(size, *rows.middle("synced_rps", **key, mode=mode, value_bytes=size)) for size in sizes]
                if len(points) > 1 and (mode != "none" or "off" not in curves):
                    curves[name if mode != "none" else "off"] = points
                    kinds.append(what_it_is(device, stack))
        if len(curves) > 1:
            title = f"{NAMES[server]}, everysec: SET/s until synced"
            svg = lines_by_size(title, curves, "SET/s", plot_note(rows, *kinds))
            page.chart(f"throughput-{server}", svg, f"{NAMES[server]}: throughput by value size, as the paper draws it")


def device_section(page, rows, device, stack):
    if stack is None:
        reasons = dict.fromkeys(row["status"] for row in rows.absent_where(part="grid", device=device))
        page.text(f"## {device}: not measured", "", *(f"- {reason}" for reason in reasons))
        return
    base = {"part": "grid", "device": device, "stack": stack}
    kind = what_it_is(device, stack)
    page.text(f"## {device}: {kind}", "", achieved_line(rows.where(**base)))
    modes = {row["mode"] for row in [*rows.where(**base), *rows.absent_where(part="grid", device=device)]}
    for mode in [m for m in MODES if m in modes]:
        mode_section(page, rows, base, mode, kind)


def mode_section(page, rows, base, mode, kind):
    """One chart and one table."""
    device = base["device"]
    curves, lines = {}, []
    absent = rows.absent_where(part="grid", device=device, mode=mode)
    for server, placement in series_of([*rows.where(**base, mode=mode), *absent]):
        key = {**base, "server": server, "placement": placement}
        sizes = {row["value_bytes"] for row in absent if (row["server"], row["placement"]) == (server, placement)}
        points = []
        for size in sorted(sizes | set(rows.values("value_bytes", **key, mode=mode))):
            lines.append([label(server, placement), int(size), *cells_of(rows, key, mode, size)])
            slower = slow_down(rows, mode, **key, value_bytes=size)
            if slower:
                points.append((size, *slower))
        if points:
            curves[label(server, placement)] = points
    if curves and mode == "everysec" and device in PAPER:
        curves["paper, a real device"] = [(size, x, x, x) for size, x in PAPER[device].items()]
    page.text(f"### {device}, {mode}")
    if curves:
        title = f"{device}, {mode}: how many times slower than without persistence"
        svg = lines_by_size(title, curves, "times slower", plot_note(rows, kind), level=1)
        page.chart(
            f"{device}-{base['stack']}-{mode}",
            svg,
            f"{device} ({kind}), {mode}: slow-down against persistence off on the same stack",
        )
    page.table(
        ["server", "bytes", "runs", "SET/s until synced", "off", "x", "bound, SET/s", "time by bound", "p99.9, us"]
        + ["client stalls, ms", "worker stalls, ms", "unsynced, ms"],
        lines,
    )


def cells_of(rows, key, mode, size):
    """A line of a table, from `runs` on; a cell that is missing has its reason."""
    found = rows.where(**key, mode=mode, value_bytes=size)
    if not found:
        wanted_row = {**{name: key[name] for name in ("device", "server", "placement")}, "mode": mode, "value_bytes": size}
        reason = rows.absent_where(part="grid", **wanted_row)[0]["status"]
        return [0, reason, *["-"] * 8]

    def middle(column, **more):
        return rows.middle(column, **key, value_bytes=size, **{"mode": mode, **more})

    on, bound = middle("synced_rps"), middle("bound_rps")
    off = rows.off("synced_rps", mode, **key, value_bytes=size)
    slower = ratio(off, on)
    return [
        len(found),
        whole_text(on),
        whole(off[0]) if off else "-",
        f"{slower[0]:.2f}" if slower else "-",
        whole(bound[0]) if bound else "-",
        f"{bound[0] / on[0]:.2f}" if bound else "-",
        shown(middle("p999_us")),
        shown(middle("client_stall_ms")),
        shown(middle("worker_stall_ms")),
        unsynced(found),
    ]


def shown(found):
    return whole(found[0]) if found else "-"


def unsynced(found):
    """The largest age of unsynced data, which N14 asks for; Redis does not tell it."""
    ages = [row["unsynced_age_ms"] for row in found if isinstance(row.get("unsynced_age_ms"), float)]
    invalid = sum("INVALID" in str(row.get("note", "")) for row in found)
    return (whole(max(ages)) if ages else "-") + (f", {invalid} of {len(found)} INVALID" if invalid else "")


def achieved_line(sample):
    def text(column):
        values = [row[column] for row in sample if isinstance(row.get(column), float)]
        return f"{statistics.median(values):,.0f}" if values else "-"

    generators = ", ".join(sorted({str(row.get("generator", "")).split(":")[0] for row in sample} - {""}))
    return (
        f"Sync of 4 KiB: asked for {text('requested_sync_us')} us, got {text('achieved_sync_us')} us. Writing: asked for "
        f"{text('requested_write_mb_s')} MB/s, got {text('achieved_write_mb_s')} MB/s. `bound` is what the writing that was "
        f"asked for allows for the bytes of the log{'; generator: ' + generators if generators else ''}."
    )


def stall_table(page, rows):
    """The runs with the longest stalls."""
    lines = []
    for row in rows.where(part="grid"):
        if row["mode"] == "none" or not isinstance(row.get("client_stall_ms"), float) or not row["client_stall_ms"]:
            continue
        names = [f"{who}_{what}" for who in ("client", "worker") for what in ("stalls", "stall_ms", "longest_stall_ms")]
        head = [row["device"], row["stack"], label(row["server"], row["placement"]), row["mode"], int(row["value_bytes"])]
        lines.append((row["client_stall_ms"], [*head, *(optional(row, n) for n in [*names, "server_stall_ms"])]))
    if lines:
        lines.sort(key=lambda line: -line[0])
        page.text(
            "## Stalls",
            "",
            "The thirty runs with the longest. Clients: times of more than 20 ms without any reply. Worker: the "
            "serving thread asleep on a device for 10 ms or more, sampled every 5 ms. Server: Sexton's own count of "
            "writers that waited.",
        )
        page.table(
            ["device", "stack", "server", "mode", "bytes", "client stalls", "ms", "longest"]
            + ["worker stalls", "ms", "longest", "server, ms"],
            [line for _, line in lines[:30]],
        )


def optional(row, column):
    return whole(row[column]) if isinstance(row.get(column), float) else "-"
