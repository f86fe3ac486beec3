"""The study of old versions."""

from studies import chart
from studies.report.page import Page, ratio, whole
from studies.rows import Rows


def mvcc(source, target):
    page = Page(target, "mvcc", "Old versions on a disk and on flash")
    undo = Rows(source, "undo.csv")
    page.machine(undo)
    page.text(
        "## Reading old versions back",
        "",
        f"A inserts {whole(undo.rows[0]['keys'])} records of {whole(undo.rows[0]['value_bytes'])} bytes and holds a "
        "snapshot, B, C and D overwrite all of them, A reads its own data again; medians, in seconds. The newest data "
        "lie on the emulated disk, in the rows of the machine's own device on that. The paper's ratio is more than 3.5."
        if undo.rows
        else "No rows.",
    )
    ways = undo.values("reread")
    lines_of_table, groups = [], {}
    for device in undo.values("undo_device"):
        found = {way: undo.middle("reread_s", undo_device=device, reread=way) for way in ways}
        write, runs = undo.middle("undo_write_s", undo_device=device), len(undo.values("run", undo_device=device))
        emulated = undo.where(undo_device=device)[0]["undo_emulated"]
        lines_of_table.append(
            [device, "EMULATED" if emulated not in ("no", "") else "real", runs, f"{write[0]:.3f}" if write else "-"]
            + [f"{f[0]:.3f} ({f[1]:.3f}-{f[2]:.3f})" if f else "-" for f in found.values()]
        )
        groups[device] = {way: f for way, f in found.items() if f}
    page.table(["undo runs on", "", "runs", "undo written, s", *(f"read again: {way}" for way in ways)], lines_of_table)
    disks, flashes = ([d for d in groups if word in d] for word in ("hdd", "nand"))
    if disks and flashes:
        ratios = {way: ratio(groups[disks[0]].get(way), groups[flashes[0]].get(way)) for way in ways}
        page.table(
            ["disk by flash", *ways],
            [["times faster"] + [f"{r[0]:.2f} ({r[1]:.2f}-{r[2]:.2f})" if r else "-" for r in ratios.values()]],
        )
    note = "disk and flash EMULATED in process" if any(line[1] == "EMULATED" for line in lines_of_table) else ""
    page.chart(
        "undo",
        chart.bars("Reading old versions back", groups, ways, "seconds", note, log_y=True),
        "time to read old versions, by device of the undo runs",
    )
    held_section(page, source)
    page.write()
    return undo


def held_section(page, source):
    """Writes and reads beside a held snapshot."""
    if not (source / "held.csv").exists():
        return
    held = Rows(source, "held.csv")
    columns = [
        c
        for c in ("write_us", "readrandom_us", "readseq_us", "seekrandom_us", "tree_bytes", "undo_bytes")
        if held.rows and c in held.rows[0]
    ]
    lines_of_table = []
    for engine, snapshot in dict.fromkeys((row["engine"], row["held_snapshot"]) for row in held.rows):
        found = [held.middle(c, engine=engine, held_snapshot=snapshot) for c in columns]
        lines_of_table.append([engine, snapshot] + [f"{f[0]:,.2f}" if f else "-" for f in found])
    if lines_of_table:
        page.text(
            "## Beside a held snapshot",
            "",
            "Overwrites of twenty times the keys with a snapshot held and without, then reads of the newest state.",
        )
        page.table(["engine", "snapshot held", *columns], lines_of_table)
