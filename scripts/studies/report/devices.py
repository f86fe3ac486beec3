"""The study of devices."""

import statistics

from studies import chart
from studies.report.page import NAMES, Page, ratio, whole
from studies.report.wanted import wanted
from studies.rows import Rows

#: The paper's slow-down on its HDD, by value size.
PAPER_HDD = {8: 1.0, 64: 1.0, 128: 1.1, 256: 1.1, 4096: 3.5}


def best_stack(rows, device):
    """Stacks of a device in the CSV, in the order of preference."""
    found = rows.values("stack", part="grid", device=device)
    return sorted(found, key=["directory", "block", "profile"].index)


def series_of(rows, part, device, stack, mode):
    """(server, placement) pairs that have rows."""
    pairs = {(row["server"], row["placement"]) for row in rows.where(part=part, device=device, stack=stack, mode=mode)}
    return sorted(pairs, key=lambda pair: (["sexton", "redis", "valkey"].index(pair[0]), pair[1] == "other"))


def label(server, placement):
    return NAMES[server] + (", tables elsewhere" if placement == "other" else "")


def devices(source, target):
    rows = Rows(source)
    page = Page(target, "devices", "The price of durability per device")
    page.machine(rows)
    page.text(
        "A cell is a server on an empty directory that takes SETs of values that do not compress, from 50 connections, "
        "over a wide key range; the clock stops when the last byte is synced. `x` is the rate without persistence "
        "on the same stack by the rate of the cell: 1 is no loss. Every point is a median, bars reach from the lowest to "
        "the highest repetition."
    )
    for device in rows.values("device", part="grid"):
        for stack in best_stack(rows, device):
            device_section(page, rows, device, stack)
    wanted(page, rows)
    stall_table(page, rows)
    commands_table(page, rows)
    rewrite_table(page, rows)
    pmem_table(page, rows)
    page.absences(rows)
    page.write()
    return rows


def device_section(page, rows, device, stack):
    base = {"part": "grid", "device": device, "stack": stack}
    sample = rows.where(**base)
    if not sample:
        return
    emulated = (
        "a real device"
        if stack == "directory"
        else {"block": "block device with a timing model, EMULATED", "profile": "EMULATED in process, Sexton only"}[
            stack
        ]
    )
    if stack == "block" and device in ("nvram", "pmem"):
        emulated = "a loop device in memory, a stand-in"
    page.text(f"## {device}: {emulated}", "", achieved_line(sample))
    for mode in [m for m in ("everysec", "always", "rdb", "rdb-aof", "wbl") if rows.where(**base, mode=m)]:
        curves, lines_of_table = {}, []
        for server, placement in series_of(rows, "grid", device, stack, mode):
            points = []
            key = {**base, "server": server, "placement": placement}
            for size in sorted(rows.values("value_bytes", **key, mode=mode)):
                on, off = (rows.middle("synced_rps", **key, mode=m, value_bytes=size) for m in (mode, "none"))
                slower = ratio(off, on)
                bound, p999 = (rows.middle(c, **key, mode=mode, value_bytes=size) for c in ("bound_rps", "p999_us"))
                generators = {row["generator"].split(":")[0] for row in rows.where(**key, mode=mode, value_bytes=size)}
                lines_of_table.append(
                    [
                        label(server, placement),
                        int(size),
                        whole(on[0]),
                        whole(off[0]) if off else "-",
                        f"{slower[0]:.2f}" if slower else "-",
                        whole(bound[0]) if bound else "-",
                        whole(p999[0]) if p999 else "-",
                        ", ".join(sorted(generators)),
                    ]
                )
                if slower:
                    points.append((size, *slower))
            if points:
                curves[label(server, placement)] = points
        if curves and device == "hdd" and mode == "everysec":
            curves["paper, a real HDD"] = [(size, x, x, x) for size, x in PAPER_HDD.items()]
        note = "" if stack == "directory" else emulated
        if "SMALL RUN" in rows.note():
            note = f"{note}; SMALL RUN" if note else "SMALL RUN"
        if curves:
            sizes = sorted({point[0] for line in curves.values() for point in line})
            svg = chart.lines(
                f"{device}, {mode}: how many times slower than without persistence",
                curves,
                "value size, bytes",
                "times slower",
                note,
                log_x=True,
                x_ticks=sizes,
                level=1,
            )
            page.chart(
                f"{device}-{stack}-{mode}",
                svg,
                f"{device} ({emulated}), {mode}: slow-down against persistence off on the same stack",
            )
        page.table(
            ["server", "value, bytes", "SET/s until synced", "off", "x", "bandwidth bound", "p99.9, us", "generator"],
            lines_of_table,
        )


def achieved_line(sample):
    def text(column):
        values = [row[column] for row in sample if isinstance(row.get(column), float)]
        return f"{statistics.median(values):,.0f}" if values else "-"

    return (
        f"Sync of 4 KiB: asked for {text('requested_sync_us')} us, got {text('achieved_sync_us')} us. Writing: asked for "
        f"{text('requested_write_mb_s')} MB/s, got {text('achieved_write_mb_s')} MB/s."
    )


def stall_table(page, rows):
    lines_of_table = []
    for row in rows.where(part="grid"):
        if row["mode"] == "none" or not isinstance(row.get("client_stall_ms"), float) or not row["client_stall_ms"]:
            continue
        lines_of_table.append(
            [
                row["device"],
                row["stack"],
                label(row["server"], row["placement"]),
                row["mode"],
                int(row["value_bytes"]),
                whole(row["client_stalls"]),
                whole(row["client_stall_ms"]),
                whole(row["client_longest_stall_ms"]),
                whole(row["worker_stalls"]),
                whole(row["worker_stall_ms"]),
                whole(row["worker_longest_stall_ms"]),
                whole(row["server_stall_ms"]) if isinstance(row.get("server_stall_ms"), float) else "-",
                whole(row["unsynced_age_ms"]) if isinstance(row.get("unsynced_age_ms"), float) else "-",
            ]
        )
    if lines_of_table:
        lines_of_table.sort(key=lambda line: -float(line[6].replace(",", "")))
        page.text(
            "## Stalls",
            "",
            "The thirty runs with the longest. Clients: times of more than 20 ms without any reply. Worker: the "
            "serving thread asleep on a device for 10 ms or more, sampled every 5 ms. Server: Sexton's own count of "
            "writers that waited.",
        )
        page.table(
            [
                "device",
                "stack",
                "server",
                "mode",
                "bytes",
                "client stalls",
                "ms",
                "longest",
                "worker stalls",
                "ms",
                "longest",
                "server, ms",
                "oldest unsynced, ms",
            ],
            lines_of_table[:30],
        )


def commands_table(page, rows):
    lines_of_table = []
    for device, stack, mode, size, command in dict.fromkeys(
        (r["device"], r["stack"], r["mode"], r["value_bytes"], r["command"]) for r in rows.where(part="commands")
    ):
        cells = [device, stack, mode, int(size), command.upper()]
        for server in NAMES:
            found = rows.middle(
                "synced_rps",
                part="commands",
                device=device,
                stack=stack,
                mode=mode,
                value_bytes=size,
                command=command,
                server=server,
            )
            cells.append(whole(found[0]) if found else "-")
        lines_of_table.append(cells)
    if lines_of_table:
        page.text("## Other commands", "", "Keys or requests a second until synced; MSET counts its ten keys.")
        page.table(["device", "stack", "mode", "bytes", "command", *(NAMES[s] for s in NAMES)], lines_of_table)


def rewrite_table(page, rows):
    lines_of_table = []
    for row in rows.where(part="rewrite"):
        if isinstance(row.get("rps_during"), float):
            before, during = row["rps_before"], row["rps_during"]
            kept = f"{during / before:.2f}" if isinstance(before, float) and before else "-"
            lines_of_table.append(
                [
                    row["device"],
                    row["stack"],
                    NAMES[row["server"]],
                    int(row["value_bytes"]),
                    whole(before) if kept != "-" else "-",
                    whole(during),
                    kept,
                    whole(row["rps_after"]) if isinstance(row["rps_after"], float) else "-",
                    f"{row['during_s']:.2f}",
                    f"{row['p999_us']:,.0f}",
                    whole(row["peak_rss_mb"]),
                    whole(row["logged_bytes"] / 1e6),
                ]
            )
    if lines_of_table:
        page.text(
            "## The AOF rewrite taken apart",
            "",
            "BGREWRITEAOF once, when half of the keys are there. Sexton's log needs no rewrite: "
            "what stands here for it is the export that the same command makes. Memory counts what a forked child has "
            "for itself.",
        )
        page.table(
            [
                "device",
                "stack",
                "server",
                "bytes",
                "SET/s before",
                "during",
                "kept",
                "after",
                "rewrite, s",
                "p99.9, us",
                "peak memory, MB",
                "log, MB",
            ],
            lines_of_table,
        )


def pmem_table(page, rows):
    lines_of_table = []
    for size, pipeline, server, mode in dict.fromkeys(
        (r["value_bytes"], r["pipeline"], r["server"], r["mode"]) for r in rows.where(part="pmem")
    ):
        key = {"part": "pmem", "value_bytes": size, "pipeline": pipeline, "server": server}
        on, off = (rows.middle("synced_rps", **key, mode=m) for m in (mode, "none"))
        kept = ratio(on, off)
        lines_of_table.append(
            [int(size), int(pipeline), NAMES[server], mode, whole(on[0]), f"{kept[0]:.2f}" if kept else "-"]
        )
    if lines_of_table:
        page.text(
            "## Persistent memory: a block device, or through its library",
            "",
            "The same memory: RDB and AOF on ext4 on a loop device in tmpfs, wbl through libpmem. "
            "`kept` is the share of the rate without persistence.",
        )
        page.table(["bytes", "-P", "server", "mode", "SET/s", "kept"], lines_of_table)
