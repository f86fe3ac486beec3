"""The study of deletes."""

from studies import chart
from studies.report.page import NAMES, Page, ratio, spread, whole
from studies.rows import Rows

#: The paper's gains of operations/s.
FLSM_PAPER = {"fillseq": 1.0, "deleteseq": 1.0, "readrandom": 1.11, "readseq": 1.47}


def flsm(source, target):
    rows = Rows(source)
    page = Page(target, "flsm", "Deletes: a cemetery, tombstones, RocksDB")
    page.machine(rows)
    note = "SMALL RUN" if "SMALL RUN" in rows.note() else ""
    paper = rows.where(part="paper")
    if paper:
        deletes = int(paper[0]["deletes"])
        page.text(
            "## The paper's run",
            "",
            f"4 threads, {int(paper[0]['keys']):,} puts in all, {deletes:,} deletes and 40,000 reads in all. `gain` is "
            "operations/s of the cemetery by those of tombstones in the same engine.",
        )
        lines_of_table = []
        settings = ("cemetery", "tombstones", "paper: cemetery", "paper: tombstones", "rocksdb")
        for benchmark in FLSM_PAPER:
            cells = [benchmark]
            middles = {s: rows.middle("wall_us_per_op", part="paper", setting=s, benchmark=benchmark) for s in settings}
            cells += [f"{m[0]:.3f}" if m else "-" for m in middles.values()]
            for prefix in ("", "paper: "):
                gain = ratio(middles[prefix + "tombstones"], middles[prefix + "cemetery"])
                cells.append(f"{gain[0]:.2f} ({gain[1]:.2f}-{gain[2]:.2f})" if gain else "-")
            lines_of_table.append([*cells, f"{FLSM_PAPER[benchmark]:.2f}"])
        page.table(["us/op", *settings, "gain", "gain, paper's setting", "gain in the paper"], lines_of_table)
    for order in rows.values("order", part="deletes"):
        deletes_section(page, rows, order, note)
    scan_section(page, rows, note)
    trap_section(page, rows)
    expiry_section(page, rows, note)
    page.absences(rows)
    page.write()
    return rows


def deletes_section(page, rows, order, note):
    page.text(f"## More deletes, {'in sequence' if order == 'seq' else 'at random'}")
    for benchmark in (f"delete{order}", "readrandom", "readseq"):
        curves = {}
        for setting in ("cemetery", "tombstones", "rocksdb"):
            key = {"part": "deletes", "order": order, "benchmark": benchmark, "setting": setting}
            points = [
                (n, *rows.middle("wall_us_per_op", **key, deletes=n)) for n in sorted(rows.values("deletes", **key))
            ]
            if points:
                curves[setting] = points
        if curves:
            svg = chart.lines(
                f"{benchmark} with so many keys deleted {order}",
                curves,
                "deleted keys",
                "us/op",
                note,
                log_x=True,
                log_y=True,
                x_ticks=sorted({p[0] for c in curves.values() for p in c}),
            )
            page.chart(
                f"{order}-{benchmark}",
                svg,
                f"{benchmark}, deletes {order}: microseconds of an operation by deleted keys",
            )


def scan_section(page, rows, note):
    costs, spaces = {}, {}
    for setting in ("cemetery", "tombstones", "rocksdb"):
        # Three processes of one repetition have the same steps; their medians are drawn.
        found = {}
        for row in rows.where(part="scan", setting=setting):
            if row["benchmark"] == "seekrandom":
                found.setdefault(row["step"], []).append(row)
        ordered = [found[step] for step in sorted(found)]
        if ordered:
            costs[setting] = [(i, *spread([r["wall_us_per_op"] for r in made])) for i, made in enumerate(ordered)]
            spaces[setting] = [(i, *spread([r["space_bytes"] / 1e6 for r in made])) for i, made in enumerate(ordered)]
    if costs:
        page.text(
            "## A scan while keys are deleted",
            "",
            "A seek and ten steps after each twentieth of the deletes (looks 0 to 20), then five more once the background is done.",
        )
        page.chart(
            "scan",
            chart.lines("Seek and ten steps, during and after the deletes", costs, "look", "us", note, log_y=True),
            "cost of a short scan over time",
        )
        page.chart("space", chart.lines("Space on the device", spaces, "look", "MB", note), "space over time")


def trap_section(page, rows):
    lines_of_table = []
    for deletes in rows.values("deletes", part="trap"):
        moments = [
            r["benchmark"]
            for r in rows.where(part="trap", deletes=deletes, setting="cemetery")
            if ": " in str(r["benchmark"])
        ]
        for moment in moments:
            key = {"part": "trap", "deletes": deletes, "benchmark": moment}
            ours, theirs = (rows.middle("wall_us_per_op", **key, setting=s) for s in ("cemetery", "rocksdb"))
            lines_of_table.append([whole(deletes), moment, whole(ours[0]), whole(theirs[0]) if theirs else "-"])
    if lines_of_table:
        page.text("## The tombstone trap", "", "A prefix of the keys deleted, no manual compaction; microseconds.")
        page.table(["deleted", "moment", "cemetery", "RocksDB"], lines_of_table)


def expiry_section(page, rows, note):
    lines_of_table, drains = [], {}
    for server in rows.values("setting", part="expiry"):
        key = {"part": "expiry", "setting": server}
        whole_rows = {
            c: rows.middle(c, **key, benchmark="whole")
            for c in ("seconds", "cpu_us_per_op", "p50_us", "p999_us", "max_us")
        }
        if not whole_rows["seconds"]:
            continue
        lines_of_table.append(
            [NAMES[server], whole(rows.where(**key, benchmark="whole")[0]["deletes"])]
            + [f"{whole_rows[c][0]:,.2f}" for c in whole_rows]
        )
        looks = rows.where(**key, benchmark="scan", repetition=1.0)
        keep = max(1, len(looks) // 100)
        drains[NAMES[server]] = [(r["seconds"], r["found"], r["found"], r["found"]) for r in looks[::keep]]
    if lines_of_table:
        page.text(
            "## Bulk expiry through the server",
            "",
            "Half of the keys expire at one instant, while one client reads keys that stay.",
        )
        page.table(
            ["server", "keys", "gone after, s", "CPU us a key", "GET p50, us", "p99.9, us", "max, us"], lines_of_table
        )
        page.chart(
            "expiry",
            chart.lines("Keys left after the instant", drains, "seconds after it", "DBSIZE", note),
            "keys left over time",
        )
