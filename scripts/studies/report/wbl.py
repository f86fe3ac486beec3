"""The study of write-behind memtables."""

from studies import chart
from studies.report.beside import HEADER, between, gain_line
from studies.report.page import Page, whole
from studies.rows import Rows

#: The thesis' gains over RocksDB, in percent.
THESIS = {"a": 2.82, "b": -2.45, "c": 2.28, "d": 0.86, "f": 3.34, "g": 13.83, "h": 9.97}
WORKLOADS = "abcdfgh"
#: What is known to stand between a published gain and ours, where it does not come out.
WHY = {
    "b": "reads nearly alone: the way of the writes hardly shows",
    "c": "reads alone: both ways read alike, what differs is the spread",
    "d": "reads nearly alone, of the newest records, which both ways have in DRAM",
}


def wbl(source, target):
    rows = Rows(source)
    page = Page(target, "wbl", "Write-behind memtables against a log: YCSB")
    page.machine(rows)
    settings = rows.values("setting", part="ycsb")
    if settings:
        page.text(
            "## YCSB",
            "",
            "1 KB records; operations a second, medians. A log on a device of config/profiles.conf is emulated in "
            "process; the tables lie on another, NVMe-like device. Runs that sync each write to NVMe or HDD go by time, not by count.",
        )
        lines_of_table, groups = [], {}
        for setting in settings:
            cells = [setting]
            for letter in WORKLOADS:
                found = rows.middle("ops_per_s", part="ycsb", setting=setting, workload=letter)
                cells.append(whole(found[0]) if found else "-")
                if found:
                    groups.setdefault(letter.upper(), {})[setting] = found
            lines_of_table.append(cells)
        page.table(["operations/s", *WORKLOADS.upper()], lines_of_table)
        page.chart(
            "ycsb",
            chart.bars(
                "YCSB, operations a second",
                {k: groups[k] for k in sorted(groups)},
                settings,
                "operations/s",
                rows.note(),
                log_y=True,
            ),
            "YCSB by way of durability",
        )
        for column, title in (
            ("p999_us", "p99.9 of all operations, us"),
            ("dram_hit_ratio", "DRAM hit ratio"),
            ("stall_ms", "writers waited, ms"),
            ("unsynced_age_ms", "oldest unsynced byte, ms"),
        ):
            lines_of_table = []
            for setting in settings:
                found = [rows.middle(column, part="ycsb", setting=setting, workload=letter) for letter in WORKLOADS]
                lines_of_table.append(
                    [setting]
                    + [(f"{f[0]:.3f}" if column == "dram_hit_ratio" else whole(f[0])) if f else "-" for f in found]
                )
            page.table([title, *WORKLOADS.upper()], lines_of_table)
        for column, title, unit in (
            ("p999_us", "p99.9 of all operations", "us"),
            ("dram_hit_ratio", "DRAM hit ratio", "share of reads"),
        ):
            tails = {}
            for letter in WORKLOADS:
                for setting in settings:
                    found = rows.middle(column, part="ycsb", setting=setting, workload=letter)
                    if found:
                        tails.setdefault(letter.upper(), {})[setting] = found
            if tails:
                svg = chart.bars(title, tails, settings, unit, rows.note(), log_y=column == "p999_us")
                page.chart(column.split("_")[0], svg, title)
        thesis_section(page, rows)
    alike = rows.where(part="rocksdb")
    if alike:
        page.text(
            "## Beside RocksDB",
            "",
            "The same workloads, over RocksDB's library (db_bench has no YCSB); everything in memory that is not slowed down.",
        )
        lines_of_table = []
        for setting in rows.values("setting", part="rocksdb"):
            found = [rows.middle("ops_per_s", part="rocksdb", setting=setting, workload=letter) for letter in WORKLOADS]
            lines_of_table.append([setting] + [whole(f[0]) if f else "-" for f in found])
        page.table(["operations/s", *WORKLOADS.upper()], lines_of_table)
    redis_section(page, rows)
    recoveries = {
        s: {"start": m} for s in rows.values("setting", part="recovery") if (m := rows.middle("seconds", part="recovery", setting=s))
    }
    for part, title, columns in (
        ("recovery", "Recovery after kill -9", ("records", "seconds", "groups_replayed", "records_kept", "scan_ms")),
        (
            "burst",
            "A burst of ten memtables, tables on the HDD profile",
            ("ops_per_s", "p99_us", "p999_us", "max_us", "stall_ms"),
        ),
    ):
        if rows.where(part=part):
            page.text(f"## {title}")
            page.table(
                ["setting", *columns],
                [
                    [s] + [f"{m[0]:,.2f}" if (m := rows.middle(c, part=part, setting=s)) else "-" for c in columns]
                    for s in rows.values("setting", part=part)
                ],
            )
            if part == "recovery":
                svg = chart.bars("The start after kill -9", recoveries, ["start"], "seconds", rows.note(), log_y=True)
                page.chart("recovery", svg, "time of the start, by way of durability")
    page.absences(rows)
    page.write()
    return rows


def redis_section(page, rows):
    """SET through the server: rates and CPU of the three ways, and wbl by the others inside each round."""
    lines = []
    for workload in rows.values("workload", part="redis"):
        key = {"part": "redis", "workload": workload}
        line = [workload]
        for way in ("none", "shared", "always", "wbl"):
            found = [rows.middle(column, **key, setting=way) for column in ("ops_per_s", "cpu_us_per_op")]
            line.append(f"{whole(found[0][0])}, {found[1][0]:.2f} us" if all(found) else "-")
        for way in ("none", "always"):
            found = between(rows, "ops_per_s", {**key, "setting": "wbl"}, {**key, "setting": way})
            line.append(f"{found[0]:.2f}" if found else "-")
        lines.append(line)
    if lines:
        page.text("## SET through the server", "", "Requests a second and CPU of the server for one; medians, ratios inside a round.")
        header = ["pipeline, value bytes", "no persistence", "the same, values in memory once", "always, same device", "wbl", "wbl by none", "wbl by always"]
        page.table(header, lines)


def thesis_section(page, rows):
    """The thesis' gains over RocksDB beside ours, over RocksDB and over our own log."""
    lines = []
    rocksdb = [s for s in rows.values("setting", part="rocksdb") if s.startswith("rocksdb")]
    for letter in WORKLOADS:
        published = 1 + THESIS[letter] / 100
        for against in rocksdb:
            key = {"part": "rocksdb", "workload": letter}
            if rows.where(**key):
                ours = between(rows, "ops_per_s", {**key, "setting": "wbl"}, {**key, "setting": against})
                lines.append(gain_line(f"{letter.upper()}, over {against}", published, ours))
        for against in ("everysec, pmem", "always, pmem", "everysec", "always"):
            key = {"part": "ycsb", "workload": letter}
            if rows.where(**key, setting=against):
                ours = between(rows, "ops_per_s", {**key, "setting": "wbl"}, {**key, "setting": against})
                lines.append(gain_line(f"{letter.upper()}, over our log: {against}", published, ours, WHY.get(letter, "")))
    if lines:
        page.text(
            "## Beside the thesis",
            "",
            "Operations/s of wbl by those of a log; the thesis measured against RocksDB 6.24, with its log on a disk. Medians of "
            "quotients of equal repetitions, with their extremes.",
        )
        page.table(HEADER, lines)
