"""The study of old versions."""

from studies import chart
from studies.report.beside import HEADER, between, figure_text, gain_line
from studies.report.page import Page, whole
from studies.rows import Rows

#: Devices of undo runs in the study's two roles, real ones first.
DISKS, FLASHES = ("hdd", "hdd-7200.7"), ("flash", "slc-nand")
#: At least so many times faster in the paper.
PAPER_FASTER = 3.5
WAYS = {
    "ahead": "a scan that reads ahead",
    "block": "a scan, block by block",
    "single": "single keys at random, as the paper's rollback segment is read",
    "batch": "the same keys as one batch",
}
#: What is known to stand between the published ratio and ours, where it does not come out.
WHY = {
    "ahead": "undo runs are sorted by key: a scan reads them in sequence, which a disk does as fast as this flash",
    "block": "undo runs are sorted by key, and the disk reads the next block without a seek",
    "write": "undo is appended in runs, without a seek between its blocks, which suits a disk",
}


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
    # Real ones first.
    disks, flashes = ([d for name in names for d in groups if d == name] for names in (DISKS, FLASHES))
    if disks and flashes:
        paper_section(page, undo, disks[0], flashes[0], ways)
    note = "disk and flash EMULATED in process" if any(line[1] == "EMULATED" for line in lines_of_table) else ""
    if groups:
        svg = chart.bars("Reading old versions back", groups, ways, "seconds", small(undo, note), log_y=True)
        page.chart("undo", svg, "time to read old versions, by device of the undo runs")
    page.absences(undo)
    held_section(page, source)
    page.write()
    return undo


def paper_section(page, undo, disk, flash, ways):
    """Times faster from flash than from the disk."""

    def faster(column, way):
        over, under = ({"undo_device": device, "reread": way} for device in (disk, flash))
        return between(undo, column, over, under, repetition="run")

    lines = [gain_line(f"read again: {WAYS.get(way, way)}", PAPER_FASTER, faster("reread_s", way), WHY.get(way, "")) for way in ways]
    written = faster("undo_write_s", ways[0])
    if written:
        lines.append(gain_line("undo written", 1.0, written, WHY["write"]))
    page.text("## Beside the paper", "", "Seconds with undo on the disk by seconds with undo on flash; more than 3.5 in the paper.")
    page.table(HEADER, lines)


def small(rows, note):
    """The note of a plot, with a word about small runs."""
    return "; ".join(filter(None, [note, "SMALL RUN" if "SMALL RUN" in rows.note() else ""]))


def held_section(page, source):
    """Writes and reads beside a held snapshot."""
    held = Rows(source, "held.csv")
    title = "## Beside a held snapshot"
    if not held.rows:
        page.text(title, "", *(f"Not measured: {reason}" for reason in held.absences() or ["no rows"]))
        return
    first = held.rows[0]
    page.text(
        title,
        "",
        f"{whole(first['overwrites'])} times {whole(first['keys'])} keys overwritten with a snapshot held and without, then "
        "reads of the newest state; medians, and quotients of pairs: above 1, it costs so much to hold one.",
    )
    columns = ("write_us", "write_cpu_us", "readrandom_us", "readseq_us", "seekrandom_us", "tree_bytes", "undo_bytes")
    lines, groups = [], {}
    for engine in held.values("engine"):
        for column in columns:
            without, with_one = (held.middle(column, engine=engine, held_snapshot=n) for n in (0.0, 1.0))
            over, under = ({"engine": engine, "held_snapshot": n} for n in (1.0, 0.0))
            cost = between(held, column, over, under, repetition="run")
            lines.append(
                [engine, column, len(held.where(**over))]
                + [f"{found[0]:,.2f}" if found else "-" for found in (without, with_one)]
                + [figure_text(cost) if cost else "-"]
            )
            if cost and column != "undo_bytes":
                groups.setdefault(column, {})[engine] = cost
    svg = chart.bars("What a held snapshot costs", groups, held.values("engine"), "times", small(held, ""), level=1)
    page.chart("held", svg, "with a held snapshot by without, by figure")
    page.table(["engine", "figure", "pairs", "without", "with one", "with / without"], lines)
    page.absences(held)
