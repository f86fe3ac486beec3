"""The study of deletes."""

from studies import chart
from studies.report.beside import HEADER, between, gain_line
from studies.report.page import NAMES, Page, spread, whole
from studies.rows import Rows

#: The paper's gains of operations/s.
FLSM_PAPER = {"fillseq": 1.0, "deleteseq": 1.0, "readrandom": 1.11, "readseq": 1.47}
PAPER_SETTINGS = ("cemetery", "tombstones", "paper: cemetery", "paper: tombstones", "rocksdb")
#: What is known to stand between a published gain and ours, where it does not come out.
WHY = {
    "deleteseq": "a delete of ours goes into the log and the cemetery; with tombstones into the log and the memtable",
    "readrandom": "a read of ours finds keys in the memtables' index or by filters, tombstones or not",
    "readseq": "10,000 steps of a thread take a few ms, and begin behind the deleted prefix: see More deletes",
}


def flsm(source, target):
    rows = Rows(source)
    page = Page(target, "flsm", "Deletes: a cemetery, tombstones, RocksDB")
    page.machine(rows)
    note = "SMALL RUN" if "SMALL RUN" in rows.note() else ""
    paper_section(page, rows, note)
    for order in rows.values("order", part="deletes"):
        deletes_section(page, rows, order, note)
    scan_section(page, rows, note)
    trap_section(page, rows)
    profile_section(page, rows)
    expiry_section(page, rows, note)
    page.absences(rows)
    page.write()
    return rows


def paper_section(page, rows, note):
    """The paper's run and its gains."""
    title = "## The paper's run"
    paper = rows.where(part="paper")
    if not paper:
        page.text(title, "", "Not measured.")
        return
    page.text(
        title,
        "",
        f"4 threads, {int(paper[0]['keys']):,} puts in all, {int(paper[0]['deletes']):,} deletes and 40,000 reads in all. "
        "Ours is a thread's time for an operation with tombstones by that with a cemetery, in the same engine and in pairs of "
        "equal repetitions; the paper's setting is a skip list and no filter.",
    )
    lines, latencies, cpu, groups, times_drawn, beside = [], [], [], {}, {}, []
    for benchmark, published in FLSM_PAPER.items():
        rates = {s: rows.middle("ops_per_s", part="paper", setting=s, benchmark=benchmark) for s in PAPER_SETTINGS}
        times = {s: rows.middle("wall_us_per_op", part="paper", setting=s, benchmark=benchmark) for s in PAPER_SETTINGS}
        tails = {s: rows.middle("p99_us", part="paper", setting=s, benchmark=benchmark) for s in PAPER_SETTINGS}
        lines.append([benchmark] + [f"{m[0]:.3f}" if m else "-" for m in times.values()])
        latencies.append([benchmark] + [f"{m[0]:.1f}" if m else "-" for m in tails.values()])
        work = {s: rows.middle("cpu_us_per_op", part="paper", setting=s, benchmark=benchmark) for s in PAPER_SETTINGS}
        cpu.append([benchmark] + [f"{m[0]:.3f}" if m else "-" for m in work.values()])
        groups[benchmark] = {s: m for s, m in rates.items() if m}
        times_drawn[benchmark] = {s: m for s, m in times.items() if m}
        for prefix, name in (("", "default setting"), ("paper: ", "the paper's setting")):
            wanted = {"part": "paper", "benchmark": benchmark}
            gain = between(
                rows,
                "wall_us_per_op",
                {**wanted, "setting": prefix + "tombstones"},
                {**wanted, "setting": prefix + "cemetery"},
            )
            why = WHY.get(benchmark, "")
            if why and rows.where(part="profile", benchmark=benchmark):
                why += "; see Profile"
            beside.append(gain_line(f"{benchmark}, {name}", published, gain, why))
    page.table(HEADER, beside)
    for name, title, unit, drawn in (
        ("paper", "The paper's run: throughput", "operations/s", groups),
        ("paper-latency", "The paper's run: latency", "us/op", times_drawn),
    ):
        if any(drawn.values()):
            page.chart(name, chart.bars(title, drawn, PAPER_SETTINGS, unit, note, log_y=True), f"{title}, as the paper draws it")
    page.table(["us/op", *PAPER_SETTINGS], lines)
    page.table(["p99, us", *PAPER_SETTINGS], latencies)
    page.table(["CPU us/op, background included", *PAPER_SETTINGS], cpu)


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
    lines = []
    for benchmark in (f"delete{order}", "readrandom", "readseq"):
        for setting in ("cemetery", "tombstones", "rocksdb"):
            key = {"part": "deletes", "order": order, "benchmark": benchmark, "setting": setting}
            for deletes in sorted(rows.values("deletes", **key)):
                columns = ("ops_per_s", "cpu_us_per_op", "p50_us", "p99_us", "p999_us", "space_bytes")
                found = {c: rows.middle(c, **key, deletes=deletes) for c in columns}
                lines.append(
                    [benchmark, setting, whole(deletes), len(rows.where(**key, deletes=deletes))]
                    + [whole(found["ops_per_s"][0]) if found["ops_per_s"] else "-"]
                    + [f"{found[c][0]:.2f}" if found[c] else "-" for c in columns[1:5]]
                    + [whole(found["space_bytes"][0] / 1e6) if found["space_bytes"] else "-"]
                )
    page.table(
        ["", "setting", "deleted", "runs", "operations/s", "CPU us", "p50, us", "p99", "p99.9", "space, MB"], lines
    )


def scan_section(page, rows, note):
    """Series over time: by deletes done, then by looks after the last one."""
    costs, spaces = {}, {}
    for setting in ("cemetery", "tombstones", "rocksdb"):
        # Processes of several repetitions have the same steps; their medians are drawn.
        found = {}
        for row in rows.where(part="scan", setting=setting):
            if row["benchmark"] == "seekrandom":
                found.setdefault(row["step"], []).append(row)
        ordered = [found[step] for step in sorted(found)]
        if ordered:
            costs[setting] = [(i, *spread([r["wall_us_per_op"] for r in made])) for i, made in enumerate(ordered)]
            spaces[setting] = [(i, *spread([r["space_bytes"] / 1e6 for r in made])) for i, made in enumerate(ordered)]
    if not costs:
        return
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

    def at(points, number):
        found = next((point for point in points if point[0] == number), None)
        return f"{found[1]:,.1f}" if found else "-"

    header, lines = ["setting"], []
    for name, unit, series in (("scan", "us", costs), ("space", "MB", spaces)):
        header += [f"{name} before, {unit}", "half deleted", "all deleted", "after"]
        for setting, points in series.items():
            line = next((line for line in lines if line[0] == setting), None)
            if line is None:
                line = [setting]
                lines.append(line)
            line += [at(points, number) for number in (0, 10, 20, points[-1][0])]
    page.table(header, lines)


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


def profile_section(page, rows):
    """Symbols side by side."""
    title = "## Profile"
    found = [row for row in rows.where(part="profile") if row["benchmark"] != "whole"]
    if not found:
        reasons = dict.fromkeys(row["status"] for row in rows.absent_where(part="profile"))
        page.text(title, "", *(f"Not measured: {reason}" for reason in reasons or ["no rows"]))
        return
    page.text(
        title,
        "",
        f"Where the CPU goes, in percent of the samples, background threads included: {int(found[0]['keys']):,} puts, then "
        "half of them deleted in sequence, then reads; 4 threads. The ten hottest symbols of each setting.",
    )
    lines = []
    for benchmark in rows.values("benchmark", part="profile"):
        shares = {}
        for row in found:
            if row["benchmark"] == benchmark:
                shares.setdefault(row["symbol"], {})[row["setting"]] = row["share"]
        for symbol, by in sorted(shares.items(), key=lambda item: -max(item[1].values())):
            lines.append(
                [benchmark, f"`{symbol}`"] + [f"{by[s]:.1f}" if s in by else "-" for s in ("cemetery", "tombstones")]
            )
    page.table(["", "symbol", "cemetery, %", "tombstones, %"], lines)


def expiry_section(page, rows, note):
    """Half of a server's keys expire at one instant."""
    lines, drains, scans, spaces = [], {}, {}, {}
    columns = ("seconds", "cpu_us_per_op", "p50_us", "p99_us", "p999_us", "max_us", "unsynced_age_ms")
    for server in rows.values("setting", part="expiry"):
        key = {"part": "expiry", "setting": server}
        found = {column: rows.middle(column, **key, benchmark="whole") for column in columns}
        if not found["seconds"]:
            continue
        lines.append(
            [NAMES[server], whole(rows.where(**key, benchmark="whole")[0]["deletes"])]
            + [f"{found[column][0]:,.2f}" if found[column] else "-" for column in columns]
        )
        looks = rows.where(**key, benchmark="scan", repetition=1.0)
        looks = looks[:: max(1, len(looks) // 100)]
        for series, column, scale in ((drains, "found", 1), (scans, "wall_us_per_op", 1), (spaces, "space_bytes", 1e6)):
            series[NAMES[server]] = [(row["seconds"], *[row[column] / scale] * 3) for row in looks]
    if not lines:
        return
    page.text(
        "## Bulk expiry through the server",
        "",
        "Half of the keys expire at one instant, while one client reads keys that stay. The curves are the first repetition's.",
    )
    page.table(
        ["server", "keys", "gone after, s", "CPU us a key", "GET p50, us", "p99", "p99.9", "max", "unsynced, ms"],
        lines,
    )
    for name, title, unit, series, log_y in (
        ("expiry", "Keys left after the instant", "DBSIZE", drains, False),
        ("expiry-scan", "SCAN COUNT 100 meanwhile", "us", scans, True),
        ("expiry-space", "Space on the device meanwhile", "MB", spaces, False),
    ):
        if any(series.values()):
            page.chart(name, chart.lines(title, series, "seconds after it", unit, note, log_y=log_y), title)
