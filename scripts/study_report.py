"""make study-report: the report of whatever the studies have measured so far.

    .venv/bin/python scripts/study_report.py [--from study] [--to docs/reports]

Reads study/devices, study/flsm, study/wbl and study/mvcc (those that are there) and writes a Markdown page for
each, charts as SVG files beside it, and README.md with the machine. Nothing is typed in by hand: the same
CSV files give the same report. What was emulated or small says so in every chart.
"""

import argparse
import statistics
import sys
from pathlib import Path

from bench_common import ROOT
from studies import chart
from studies.rows import Rows

NAMES = {"redis": "redis-server 7.0", "valkey": "valkey-server 9.1", "sexton": "Sexton"}
#: The paper's slow-down on its HDD, by value size.
PAPER_HDD = {8: 1.0, 64: 1.0, 128: 1.1, 256: 1.1, 4096: 3.5}
#: The thesis' gains over RocksDB, in percent.
THESIS = {"a": 2.82, "b": -2.45, "c": 2.28, "d": 0.86, "f": 3.34, "g": 13.83, "h": 9.97}
#: The FLSM paper's gains of operations/s.
FLSM_PAPER = {"fillseq": 1.0, "deleteseq": 1.0, "readrandom": 1.11, "readseq": 1.47}
WORKLOADS = "abcdfgh"


class Page:
    """A Markdown page and its charts."""

    def __init__(self, directory, name, title):
        self.directory, self.name = directory, name
        self.parts = [f"# {title}\n"]

    def text(self, *lines):
        self.parts.append("\n".join(lines) + "\n")

    def table(self, header, rows):
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        self.text(*lines)

    def chart(self, name, svg, caption):
        file = f"{self.name}-{name}.svg"
        (self.directory / file).write_text(svg, encoding="utf-8")
        self.text(f"![{caption}]({file})", "", f"*{caption}*")

    def machine(self, rows):
        facts = rows.machine
        if not facts:
            return
        versions = ", ".join(f"{NAMES.get(name, name)} ({version})" if version else name for name, version in facts.get("versions", {}).items())
        self.text(f"{facts['date']}, `{Path(facts['command'].split()[0]).name} {' '.join(facts['command'].split()[1:])}`, build {facts['build']}. "
                  f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}, {facts['system']}"
                  f"{'; ' + versions if versions else ''}{'; RocksDB ' + facts['rocksdb'] if facts.get('rocksdb') else ''}.")
        note = rows.note()
        if note:
            self.text(f"**{note}.**")

    def absences(self, rows):
        reasons = rows.absences()
        if reasons:
            self.text("## Not measured", "", *(f"- {count} cells: {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])))

    def write(self):
        (self.directory / f"{self.name}.md").write_text("\n".join(self.parts), encoding="utf-8")


def ratio(over, under):
    """(median, low, high) of a quotient of two (median, low, high)."""
    return (over[0] / under[0], over[1] / under[2], over[2] / under[1]) if over and under and under[1] else None


def whole(value):
    return f"{value:,.0f}"


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
    page.text("A cell is a server on an empty directory that takes SETs of values that do not compress, from 50 connections, "
              "over a wide key range; the clock stops when the last byte is synced. `x` is the rate without persistence "
              "on the same stack by the rate of the cell: 1 is no loss. Every point is a median, bars reach from the lowest to "
              "the highest repetition.")
    for device in rows.values("device", part="grid"):
        for stack in best_stack(rows, device):
            device_section(page, rows, device, stack)
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
    emulated = "a real device" if stack == "directory" else {"block": "block device with a timing model, EMULATED", "profile": "EMULATED in process, Sexton only"}[stack]
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
                lines_of_table.append([label(server, placement), int(size), whole(on[0]), whole(off[0]) if off else "-",
                                       f"{slower[0]:.2f}" if slower else "-", whole(bound[0]) if bound else "-",
                                       whole(p999[0]) if p999 else "-", ", ".join(sorted(generators))])
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
            svg = chart.lines(f"{device}, {mode}: how many times slower than without persistence", curves, "value size, bytes", "times slower",
                              note, log_x=True, x_ticks=sizes, level=1)
            page.chart(f"{device}-{stack}-{mode}", svg, f"{device} ({emulated}), {mode}: slow-down against persistence off on the same stack")
        page.table(["server", "value, bytes", "SET/s until synced", "off", "x", "bandwidth bound", "p99.9, us", "generator"], lines_of_table)


def achieved_line(sample):
    def text(column):
        values = [row[column] for row in sample if isinstance(row.get(column), float)]
        return f"{statistics.median(values):,.0f}" if values else "-"
    return (f"Sync of 4 KiB: asked for {text('requested_sync_us')} us, got {text('achieved_sync_us')} us. Writing: asked for "
            f"{text('requested_write_mb_s')} MB/s, got {text('achieved_write_mb_s')} MB/s.")


def stall_table(page, rows):
    lines_of_table = []
    for row in rows.where(part="grid"):
        if row["mode"] == "none" or not isinstance(row.get("client_stall_ms"), float) or not row["client_stall_ms"]:
            continue
        lines_of_table.append([row["device"], row["stack"], label(row["server"], row["placement"]), row["mode"], int(row["value_bytes"]),
                               whole(row["client_stalls"]), whole(row["client_stall_ms"]), whole(row["client_longest_stall_ms"]),
                               whole(row["worker_stalls"]), whole(row["worker_stall_ms"]), whole(row["worker_longest_stall_ms"]),
                               whole(row["server_stall_ms"]) if isinstance(row.get("server_stall_ms"), float) else "-",
                               whole(row["unsynced_age_ms"]) if isinstance(row.get("unsynced_age_ms"), float) else "-"])
    if lines_of_table:
        lines_of_table.sort(key=lambda line: -float(line[6].replace(",", "")))
        page.text("## Stalls", "", "The thirty runs with the longest. Clients: times of more than 20 ms without any reply. Worker: the serving thread asleep on a "
                  "device for 10 ms or more, sampled every 5 ms. Server: Sexton's own count of writers that waited.")
        page.table(["device", "stack", "server", "mode", "bytes", "client stalls", "ms", "longest", "worker stalls", "ms", "longest", "server, ms",
                    "oldest unsynced, ms"], lines_of_table[:30])


def commands_table(page, rows):
    lines_of_table = []
    for device, stack, mode, size, command in dict.fromkeys((r["device"], r["stack"], r["mode"], r["value_bytes"], r["command"]) for r in rows.where(part="commands")):
        cells = [device, stack, mode, int(size), command.upper()]
        for server in NAMES:
            found = rows.middle("synced_rps", part="commands", device=device, stack=stack, mode=mode, value_bytes=size, command=command, server=server)
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
            lines_of_table.append([row["device"], row["stack"], NAMES[row["server"]], int(row["value_bytes"]), whole(before) if kept != "-" else "-", whole(during), kept,
                                   whole(row["rps_after"]) if isinstance(row["rps_after"], float) else "-", f"{row['during_s']:.2f}",
                                   f"{row['p999_us']:,.0f}", whole(row["peak_rss_mb"]), whole(row["logged_bytes"] / 1e6)])
    if lines_of_table:
        page.text("## The AOF rewrite taken apart", "", "BGREWRITEAOF once, when half of the keys are there. Sexton's log needs no rewrite: "
                  "what stands here for it is the export that the same command makes. Memory counts what a forked child has for itself.")
        page.table(["device", "stack", "server", "bytes", "SET/s before", "during", "kept", "after", "rewrite, s", "p99.9, us", "peak memory, MB",
                    "log, MB"], lines_of_table)


def pmem_table(page, rows):
    lines_of_table = []
    for size, pipeline, server, mode in dict.fromkeys((r["value_bytes"], r["pipeline"], r["server"], r["mode"]) for r in rows.where(part="pmem")):
        key = {"part": "pmem", "value_bytes": size, "pipeline": pipeline, "server": server}
        on, off = (rows.middle("synced_rps", **key, mode=m) for m in (mode, "none"))
        kept = ratio(on, off)
        lines_of_table.append([int(size), int(pipeline), NAMES[server], mode, whole(on[0]), f"{kept[0]:.2f}" if kept else "-"])
    if lines_of_table:
        page.text("## Persistent memory: a block device, or through its library", "", "The same memory: RDB and AOF on ext4 on a loop device in tmpfs, wbl through libpmem. "
                  "`kept` is the share of the rate without persistence.")
        page.table(["bytes", "-P", "server", "mode", "SET/s", "kept"], lines_of_table)


def flsm(source, target):
    rows = Rows(source)
    page = Page(target, "flsm", "Deletes: a cemetery, tombstones, RocksDB")
    page.machine(rows)
    note = "SMALL RUN" if "SMALL RUN" in rows.note() else ""
    paper = rows.where(part="paper")
    if paper:
        deletes = int(paper[0]["deletes"])
        page.text("## The paper's run", "", f"4 threads, {int(paper[0]['keys']):,} puts in all, {deletes:,} deletes and 40,000 reads in all. `gain` is operations/s of the cemetery by those "
                  "of tombstones in the same engine.")
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
            points = [(n, *rows.middle("wall_us_per_op", **key, deletes=n)) for n in sorted(rows.values("deletes", **key))]
            if points:
                curves[setting] = points
        if curves:
            svg = chart.lines(f"{benchmark} with so many keys deleted {order}", curves, "deleted keys", "us/op", note, log_x=True, log_y=True,
                              x_ticks=sorted({p[0] for c in curves.values() for p in c}))
            page.chart(f"{order}-{benchmark}", svg, f"{benchmark}, deletes {order}: microseconds of an operation by deleted keys")


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
        page.text("## A scan while keys are deleted", "", "A seek and ten steps after each twentieth of the deletes (looks 0 to 20), then five more once the background is done.")
        page.chart("scan", chart.lines("Seek and ten steps, during and after the deletes", costs, "look", "us", note, log_y=True),
                   "cost of a short scan over time")
        page.chart("space", chart.lines("Space on the device", spaces, "look", "MB", note), "space over time")


def spread(values):
    return statistics.median(values), min(values), max(values)


def trap_section(page, rows):
    lines_of_table = []
    for deletes in rows.values("deletes", part="trap"):
        moments = [r["benchmark"] for r in rows.where(part="trap", deletes=deletes, setting="cemetery") if ": " in str(r["benchmark"])]
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
        whole_rows = {c: rows.middle(c, **key, benchmark="whole") for c in ("seconds", "cpu_us_per_op", "p50_us", "p999_us", "max_us")}
        if not whole_rows["seconds"]:
            continue
        lines_of_table.append([NAMES[server], whole(rows.where(**key, benchmark="whole")[0]["deletes"])] + [f"{whole_rows[c][0]:,.2f}" for c in whole_rows])
        looks = rows.where(**key, benchmark="scan", repetition=1.0)
        keep = max(1, len(looks) // 100)
        drains[NAMES[server]] = [(r["seconds"], r["found"], r["found"], r["found"]) for r in looks[::keep]]
    if lines_of_table:
        page.text("## Bulk expiry through the server", "", "Half of the keys expire at one instant, while one client reads keys that stay.")
        page.table(["server", "keys", "gone after, s", "CPU us a key", "GET p50, us", "p99.9, us", "max, us"], lines_of_table)
        page.chart("expiry", chart.lines("Keys left after the instant", drains, "seconds after it", "DBSIZE", note), "keys left over time")


def wbl(source, target):
    rows = Rows(source)
    page = Page(target, "wbl", "Write-behind memtables against a log: YCSB")
    page.machine(rows)
    settings = rows.values("setting", part="ycsb")
    if settings:
        page.text("## YCSB", "", "1 KB records; operations a second, medians. A log on a device of config/profiles.conf is emulated in process; the tables lie on "
                  "another, NVMe-like device. Runs that sync each write go by time, not by count.")
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
        page.chart("ycsb", chart.bars("YCSB, operations a second", {k: groups[k] for k in sorted(groups)}, settings, "operations/s", rows.note(), log_y=True), "YCSB by way of durability")
        for column, title in (("p999_us", "p99.9 of all operations, us"), ("dram_hit_ratio", "DRAM hit ratio"), ("stall_ms", "writers waited, ms"),
                              ("unsynced_age_ms", "oldest unsynced byte, ms")):
            lines_of_table = []
            for setting in settings:
                found = [rows.middle(column, part="ycsb", setting=setting, workload=letter) for letter in WORKLOADS]
                lines_of_table.append([setting] + [(f"{f[0]:.3f}" if column == "dram_hit_ratio" else whole(f[0])) if f else "-" for f in found])
            page.table([title, *WORKLOADS.upper()], lines_of_table)
        gains = [[letter.upper()] + [gain_text(rows, letter, against) for against in ("everysec, pmem", "always, pmem")] + [f"{THESIS[letter]:+.2f} %"]
                 for letter in WORKLOADS]
        page.text("Gain of wbl over our own log mode, beside the thesis' gain over RocksDB:")
        page.table(["workload", "over everysec on pmem", "over always on pmem", "thesis"], gains)
    alike = rows.where(part="rocksdb")
    if alike:
        page.text("## Beside RocksDB", "", "db_bench has no YCSB: these are its nearest benchmarks (uniform keys), with equal flags for all, log unsynced.")
        lines_of_table = []
        for setting in rows.values("setting", part="rocksdb"):
            found = [rows.middle("ops_per_s", part="rocksdb", setting=setting, workload=letter) for letter in "abcg"]
            lines_of_table.append([setting] + [whole(f[0]) if f else "-" for f in found])
        page.table(["operations/s", "read 50 write 50", "read 95 write 5", "read", "insert"], lines_of_table)
    for part, title, columns in (("recovery", "Recovery after kill -9", ("records", "seconds", "groups_replayed")),
                                 ("burst", "A burst of ten memtables, tables on the HDD profile", ("ops_per_s", "p99_us", "p999_us", "max_us", "stall_ms"))):
        if rows.where(part=part):
            page.text(f"## {title}")
            page.table(["setting", *columns], [[s] + [f"{m[0]:,.2f}" if (m := rows.middle(c, part=part, setting=s)) else "-" for c in columns]
                                               for s in rows.values("setting", part=part)])
    page.absences(rows)
    page.write()
    return rows


def gain_text(rows, letter, against):
    ours, theirs = (rows.middle("ops_per_s", part="ycsb", setting=s, workload=letter) for s in ("wbl", against))
    gain = ratio(ours, theirs)
    return f"{(gain[0] - 1) * 100:+.1f} %" if gain else "-"


def mvcc(source, target):
    page = Page(target, "mvcc", "Old versions on a disk and on flash")
    undo = Rows(source, "undo.csv")
    page.machine(undo)
    page.text("## Reading old versions back", "", f"A inserts {whole(undo.rows[0]['keys'])} records of {whole(undo.rows[0]['value_bytes'])} bytes and holds a snapshot, B, C and D "
              "overwrite all of them, A reads its own data again; medians, in seconds. The newest data lie on the disk in every run. "
              "The paper's ratio is more than 3.5." if undo.rows else "No rows.")
    ways = undo.values("reread")
    lines_of_table, groups = [], {}
    for device in undo.values("undo_device"):
        found = {way: undo.middle("reread_s", undo_device=device, reread=way) for way in ways}
        write, runs = undo.middle("undo_write_s", undo_device=device), len(undo.values("run", undo_device=device))
        emulated = undo.where(undo_device=device)[0]["undo_emulated"]
        lines_of_table.append([device, "EMULATED" if emulated not in ("no", "") else "real", runs, f"{write[0]:.3f}" if write else "-"]
                              + [f"{f[0]:.3f} ({f[1]:.3f}-{f[2]:.3f})" if f else "-" for f in found.values()])
        groups[device] = {way: f for way, f in found.items() if f}
    page.table(["undo runs on", "", "runs", "undo written, s", *(f"read again: {way}" for way in ways)], lines_of_table)
    disks, flashes = ([d for d in groups if word in d] for word in ("hdd", "nand"))
    if disks and flashes:
        ratios = {way: ratio(groups[disks[0]].get(way), groups[flashes[0]].get(way)) for way in ways}
        page.table(["disk by flash", *ways], [["times faster"] + [f"{r[0]:.2f} ({r[1]:.2f}-{r[2]:.2f})" if r else "-" for r in ratios.values()]])
    note = "disk and flash EMULATED in process" if any(line[1] == "EMULATED" for line in lines_of_table) else ""
    page.chart("undo", chart.bars("Reading old versions back", groups, ways, "seconds", note, log_y=True), "time to read old versions, by device of the undo runs")
    held_section(page, source)
    page.write()
    return undo


def held_section(page, source):
    """Writes and reads beside a held snapshot."""
    if not (source / "held.csv").exists():
        return
    held = Rows(source, "held.csv")
    columns = [c for c in ("write_us", "readrandom_us", "readseq_us", "seekrandom_us", "tree_bytes", "undo_bytes") if held.rows and c in held.rows[0]]
    lines_of_table = []
    for engine, snapshot in dict.fromkeys((row["engine"], row["held_snapshot"]) for row in held.rows):
        found = [held.middle(c, engine=engine, held_snapshot=snapshot) for c in columns]
        lines_of_table.append([engine, snapshot] + [f"{f[0]:,.2f}" if f else "-" for f in found])
    if lines_of_table:
        page.text("## Beside a held snapshot", "", "Overwrites of twenty times the keys with a snapshot held and without, then reads of the newest state.")
        page.table(["engine", "snapshot held", *columns], lines_of_table)


STUDIES = {
    "devices": (devices, "[Devices](devices.md): what durability costs on each"), "flsm": (flsm, "[Deletes](flsm.md): cemetery, tombstones, RocksDB"),
    "wbl": (wbl, "[Write-behind memtables](wbl.md): YCSB, recovery, bursts"), "mvcc": (mvcc, "[Old versions](mvcc.md): undo on a disk and on flash"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, default=ROOT / "study")
    parser.add_argument("--to", type=Path, default=ROOT / "docs/reports")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    index = Page(args.to, "README", "Reports of the studies")
    index.text("Written by `make study-report` from the CSV files of the runs; [studies.md](../studies.md) says how they are run and read.")
    lines = []
    for name, (draw, text) in STUDIES.items():
        directory = args.source / name
        if not directory.is_dir() or not any(directory.glob("*.csv")):
            continue
        rows = draw(directory, args.to)
        note = rows.note()
        lines.append(f"- {text}; {len(rows.rows)} rows, {len(rows.absent)} not measured{'; ' + note if note else ''}")
    if not lines:
        print(f"nothing is measured below {args.source}: run make study-devices, study-flsm, study-wbl or study-mvcc first", file=sys.stderr)
        return 1
    index.text(*lines)
    index.write()
    print(f"{len(lines)} studies: {args.to}/README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
