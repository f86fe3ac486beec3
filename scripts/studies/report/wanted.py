"""What was wanted of the study of devices, beside what came out."""

from studies.plan import SHARED_BYTES
from studies.report.page import NAMES, ratio

#: Shape of the paper on its disk, as a check of the rig: redis-server's slow-down up to and from these sizes.
RIG_SMALL, RIG_SMALL_MOST = 127, 1.1
RIG_LARGE, RIG_LARGE_LEAST = 4096, 3.0
BOUND_MOST, FLASH_MOST, WBL_MOST, WBL_LARGEST = 1.2, 1.25, 1.1, 1024


class Points:
    """Figures held against one bound."""

    def __init__(self, what, bound, at_most=True):
        self.what, self.bound, self.at_most = what, bound, at_most
        self.figures = []

    def add(self, figure, where):
        if figure is not None:
            self.figures.append((figure, where))

    def line(self):
        if not self.figures:
            return [self.what, self.relation(), "-", "no points", "-"]
        met = [figure for figure, _ in self.figures if (figure <= self.bound if self.at_most else figure >= self.bound)]
        worst, where = (max if self.at_most else min)(self.figures)
        verdict = "met" if len(met) == len(self.figures) else "NOT met"
        return [self.what, self.relation(), f"{len(met)} of {len(self.figures)}", verdict, f"{worst:.2f}: {where}"]

    def relation(self):
        return f"{'at most' if self.at_most else 'at least'} {self.bound:g}"


def wanted(page, rows):
    """A table of all bounds; figures are medians."""
    rig_small = Points("rig: redis-server, hdd, everysec, below 128 bytes, x", RIG_SMALL_MOST)
    rig_large = Points("rig: redis-server, hdd, everysec, 4096 bytes, x", RIG_LARGE_LEAST, at_most=False)
    bound = Points("Sexton, hdd, everysec: time by that of the bandwidth or of no persistence", BOUND_MOST)
    achieved = Points("the same by the bandwidth that 64 MiB with one sync had there, nothing else running", BOUND_MOST)
    flash = Points("Sexton, nvme and nvram, everysec, x", FLASH_MOST)
    fastest = Points("the same by no persistence with values that lie in memory once, x", FLASH_MOST)
    wbl = Points("Sexton, wbl, up to 1 KB, x", WBL_MOST)
    age = Points("Sexton, everysec: oldest unsynced byte, ms (N14), every run", 2000)
    peer = Points("Sexton's rate by redis-server's, everywhere", 1.0, at_most=False)
    copied = Points("the same of Sexton with share-values no, without persistence", 1.0, at_most=False)
    for device, stack, server, placement, mode, size in dict.fromkeys(
        (r["device"], r["stack"], r["server"], r["placement"], r["mode"], r["value_bytes"])
        for r in rows.where(part="grid")
    ):
        key = {"part": "grid", "device": device, "stack": stack, "server": server, "placement": placement}
        cell = {**key, "mode": mode, "value_bytes": size}
        on = rows.middle("synced_rps", **cell)
        off = rows.off("synced_rps", mode, **key, value_bytes=size)
        slower = ratio(off, on)
        x = slower[0] if slower else None
        tables = ", tables elsewhere" if placement == "other" else ""
        where = f"{device}, {stack}, {mode}, {size:.0f} B{tables}"
        if server == "redis" and device == "hdd" and mode == "everysec":
            if size <= RIG_SMALL:
                rig_small.add(x, where)
            if size >= RIG_LARGE:
                rig_large.add(x, where)
        if server != "sexton":
            continue
        if mode == "everysec" and device == "hdd" and off:
            limit = rows.middle("bound_rps", **cell)
            bound.add(min(limit[0], off[0]) / on[0] if limit else None, where)
            given = ratio(rows.middle("achieved_write_mb_s", **cell), rows.middle("requested_write_mb_s", **cell))
            if limit and given:
                achieved.add(min(limit[0] * given[0], off[0]) / on[0], where)
        if mode == "everysec" and device in ("nvme", "nvram"):
            flash.add(x, where)
            shared = ratio(rows.middle("synced_rps", **key, mode="none", value_bytes=size), on)
            if shared and size >= SHARED_BYTES:
                fastest.add(shared[0], where)
        if mode == "wbl" and size <= WBL_LARGEST:
            wbl.add(x, where)
        theirs = rows.middle(
            "synced_rps",
            part="grid",
            device=device,
            stack=stack,
            server="redis",
            mode=mode.removesuffix("-copied"),
            value_bytes=size,
        )
        (copied if mode == "none-copied" else peer).add(on[0] / theirs[0] if theirs else None, where)
    for row in rows.where(part="grid", server="sexton", mode=("everysec", "rdb-aof")):
        if isinstance(row.get("unsynced_age_ms"), float):
            age.add(row["unsynced_age_ms"], f"{row['device']}, {row['stack']}, {row['value_bytes']:.0f} B")
    page.text("## Wanted", "", f"Medians; x as above; {NAMES['redis']} on the same stack.")
    page.table(
        ["what", "wanted", "points", "", "worst"],
        [points.line() for points in (rig_small, rig_large, bound, achieved, flash, fastest, wbl, age, peer, copied)],
    )
