"""The study of write-behind memtables."""

from studies import chart
from studies.report.page import Page, ratio, whole
from studies.rows import Rows

#: The thesis' gains over RocksDB, in percent.
THESIS = {"a": 2.82, "b": -2.45, "c": 2.28, "d": 0.86, "f": 3.34, "g": 13.83, "h": 9.97}
WORKLOADS = "abcdfgh"


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
            "process; the tables lie on another, NVMe-like device. Runs that sync each write go by time, not by count.",
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
        gains = [
            [letter.upper()]
            + [gain_text(rows, letter, against) for against in ("everysec, pmem", "always, pmem")]
            + [f"{THESIS[letter]:+.2f} %"]
            for letter in WORKLOADS
        ]
        page.text("Gain of wbl over our own log mode, beside the thesis' gain over RocksDB:")
        page.table(["workload", "over everysec on pmem", "over always on pmem", "thesis"], gains)
    alike = rows.where(part="rocksdb")
    if alike:
        page.text(
            "## Beside RocksDB",
            "",
            "db_bench has no YCSB: these are its nearest benchmarks (uniform keys), with equal flags for all, log unsynced.",
        )
        lines_of_table = []
        for setting in rows.values("setting", part="rocksdb"):
            found = [rows.middle("ops_per_s", part="rocksdb", setting=setting, workload=letter) for letter in "abcg"]
            lines_of_table.append([setting] + [whole(f[0]) if f else "-" for f in found])
        page.table(["operations/s", "read 50 write 50", "read 95 write 5", "read", "insert"], lines_of_table)
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
    page.absences(rows)
    page.write()
    return rows


def gain_text(rows, letter, against):
    ours, theirs = (rows.middle("ops_per_s", part="ycsb", setting=s, workload=letter) for s in ("wbl", against))
    gain = ratio(ours, theirs)
    return f"{(gain[0] - 1) * 100:+.1f} %" if gain else "-"
