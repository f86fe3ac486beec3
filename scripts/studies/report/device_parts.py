"""The study of devices: what its paper left as future work."""

from studies import chart
from studies.report.page import NAMES, ratio, spread, whole, whole_text

#: What stands in a plot of rows of this stack.
EMULATED = {"block": "block devices EMULATED (timing model)", "profile": "devices EMULATED in process", "directory": ""}


def plot_note(rows, found):
    notes = dict.fromkeys(EMULATED.get(row["stack"], "EMULATED") for row in found if row.get("emulated") != "no")
    return "; ".join([*filter(None, notes), *(["SMALL RUN"] if "SMALL RUN" in rows.note() else [])])


def missing(page, rows, part, title):
    """A section without rows says why, where the plan had some."""
    reasons = dict.fromkeys(row["status"] for row in rows.absent_where(part=part))
    if reasons:
        page.text(f"## {title}", "", *(f"Not measured: {reason}" for reason in reasons))


def commands_section(page, rows):
    """Other commands than SET."""
    title = "Future work 1: other commands"
    found = rows.where(part="commands")
    if not found:
        return missing(page, rows, "commands", title)
    lines, groups = [], {}
    columns = ("device", "stack", "value_bytes", "command", "server")
    for values in dict.fromkeys(tuple(row[c] for c in columns) for row in found):
        key = dict(zip(columns, values)) | {"part": "commands"}
        off = rows.middle("synced_rps", **key, mode="none")
        for mode in rows.values("mode", **key):
            on, latency = (rows.middle(c, **key, mode=mode) for c in ("synced_rps", "p99_us"))
            slower = ratio(off, on)
            lines.append(
                [key["device"], key["stack"], int(key["value_bytes"]), key["command"].upper(), NAMES[key["server"]], mode]
                + [whole(on[0]), f"{slower[0]:.2f}" if slower else "-", whole(latency[0]) if latency else "-"]
            )
            if mode != "none" and slower:
                groups.setdefault(key["command"].upper(), {})[f"{NAMES[key['server']]}, {mode}"] = slower
    page.text(f"## {title}", "", "Keys or requests a second until synced; MSET counts its ten keys. GET writes nothing.")
    if groups:
        names = list(dict.fromkeys(name for group in groups.values() for name in group))
        svg = chart.bars(
            "Slow-down against persistence off, by command", groups, names, "times slower", plot_note(rows, found), level=1
        )
        page.chart("commands", svg, "slow-down of other commands on the disk")
    page.table(["device", "stack", "bytes", "command", "server", "mode", "a second", "x", "p99, us"], lines)


def rewrite_section(page, rows):
    """The AOF rewrite taken apart."""
    title = "Future work 2: the AOF rewrite taken apart"
    found = [row for row in rows.where(part="rewrite") if isinstance(row.get("rps_during"), float)]
    if not found:
        return missing(page, rows, "rewrite", title)
    lines, curves = [], {}
    for device, stack, server, size in dict.fromkeys(
        (row["device"], row["stack"], row["server"], row["value_bytes"]) for row in found
    ):
        key = {"part": "rewrite", "device": device, "stack": stack, "server": server, "value_bytes": size}

        def text(column, scale=1.0, key=key, digits=0):
            middle = rows.middle(column, **key)
            return f"{middle[0] / scale:,.{digits}f}" if middle else "-"

        made = [row for row in found if all(row[name] == value for name, value in key.items())]
        kept = [row["rps_during"] / row["rps_before"] for row in made if isinstance(row["rps_before"], float) and row["rps_before"]]
        lines.append(
            [device, stack, NAMES[server], int(size), text("rps_before"), text("rps_during")]
            + [f"{spread(kept)[0]:.2f}" if kept else "-", text("rps_after"), text("during_s", digits=2)]
            + [text("p999_us"), text("max_us"), text("peak_rss_mb")]
            + [text("logged_bytes", 1e6), text("written_bytes", 1e6)]
        )
        timeline = [float(count) for count in str(made[0].get("timeline") or "").split(";") if count]
        if timeline and len(curves) < 6:
            # Half seconds are calm enough to be seen.
            steps = [sum(timeline[at : at + 5]) * 2 for at in range(0, len(timeline) - 4, 5)]
            curves[f"{NAMES[server]}, {size:.0f} B"] = [(at / 2, rate, rate, rate) for at, rate in enumerate(steps)]
    page.text(
        f"## {title}",
        "",
        "BGREWRITEAOF once, when half of the keys are there. Sexton's log needs no rewrite: "
        "what stands here for it is the export that the same command makes. `kept` is the rate during it by the rate before; "
        "memory counts what a forked child has for itself; `written` is all that the process sent towards devices, its "
        "children's included, tables too.",
    )
    if curves:
        svg = chart.lines(
            "Replies a second while the log is rewritten", curves, "seconds", "SET/s", plot_note(rows, found)
        )
        page.chart("rewrite", svg, "throughput over time, first repetition; the rewrite begins when half of the keys are there")
    page.table(
        ["device", "stack", "server", "bytes", "SET/s before", "during", "kept", "after", "rewrite, s"]
        + ["p99.9, us", "max, us", "peak memory, MB", "log, MB", "written, MB"],
        lines,
    )


def route_section(page, rows):
    """Placement by value size."""
    title = "Future work 3: placement by value size (aof-route)"
    found = rows.where(part="route")
    if not found:
        return missing(page, rows, "route", title)
    lines, groups = [], {}
    for size, device in dict.fromkeys((row["value_bytes"], row["device"]) for row in sorted(found, key=lambda r: r["value_bytes"])):
        key = {"part": "route", "value_bytes": size, "device": device}
        rate, latency, age = (rows.middle(c, **key) for c in ("synced_rps", "p999_us", "unsynced_age_ms"))
        lines.append(
            [int(size), device, rows.where(**key)[0]["stack"], whole_text(rate)]
            + [whole(value[0]) if value else "-" for value in (latency, age)]
        )
        groups.setdefault(f"{size:.0f} B", {})[device] = rate
    page.text(
        f"## {title}",
        "",
        "Sexton, everysec, tables elsewhere: the log on the disk, on NVMe, and on both: short records on NVMe, those of "
        "512 bytes and more on the disk.",
    )
    svg = chart.bars(
        "The log by value size on two devices", groups, rows.values("device", part="route"), "SET/s", plot_note(rows, found)
    )
    page.chart("route", svg, "throughput with the log on one device, or on two by value size")
    page.table(["bytes", "log on", "stack", "SET/s until synced", "p99.9, us", "unsynced, ms"], lines)


def pmem_section(page, rows):
    """Persistent memory as a block device, and through its library."""
    title = "Future work 4: persistent memory, a block device or through its library"
    found = [*rows.where(part="grid", device="pmem"), *rows.where(part="pmem")]
    if not found:
        return missing(page, rows, "pmem", title)
    lines, groups = [], {}
    for part, size, pipeline, server, mode in dict.fromkeys(
        (row["part"], row["value_bytes"], row["pipeline"], row["server"], row["mode"]) for row in found
    ):
        key = {"part": part, "device": "pmem", "value_bytes": size, "pipeline": pipeline, "server": server}
        on, off, cpu = (
            rows.middle(c, **key, mode=m) for c, m in (("synced_rps", mode), ("synced_rps", "none"), ("cpu_us", mode))
        )
        kept = ratio(on, off)
        lines.append(
            [int(size), int(pipeline), NAMES[server], mode, whole(on[0]), f"{kept[0]:.2f}" if kept else "-"]
            + [f"{cpu[0]:.2f}" if cpu else "-"]
        )
        if mode != "none" and kept:
            groups.setdefault(f"{size:.0f} B, -P {pipeline:.0f}", {})[f"{NAMES[server]}, {mode}"] = kept
    page.text(
        f"## {title}",
        "",
        "The same memory: RDB and AOF on ext4 on a loop device in tmpfs, wbl through libpmem without both. "
        "`kept` is the share of the rate without persistence.",
    )
    if groups:
        names = list(dict.fromkeys(name for group in groups.values() for name in group))
        svg = chart.bars("Share of the rate without persistence", groups, names, "kept", plot_note(rows, found), level=1)
        page.chart("pmem", svg, "what is left of the throughput, by way to use persistent memory")
    page.table(["bytes", "-P", "server", "mode", "SET/s", "kept", "CPU us a SET"], sorted(lines, key=lambda line: line[:2]))
