"""python3 -m unittest studies.test_studies (in scripts/): what a study writes down, skips and draws."""

import argparse
import contextlib
import io
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
from functools import partial
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bench_common  # noqa: E402, F401 - puts the harness on the path
import study_all  # noqa: E402
import study_devices  # noqa: E402
import study_flsm  # noqa: E402
import study_wbl  # noqa: E402
from studies import chart, sitting  # noqa: E402
from studies.cells import OUT_OF_TIME, Cells, Job, Progress, measure  # noqa: E402
from studies.plan import KEY, MODES, SERVERS, SHARED_BYTES, SIZES, Plan, estimate_s, requests_of  # noqa: E402
from studies.report import devices as report_devices  # noqa: E402
from studies.report import flsm as report_flsm  # noqa: E402
from studies.report import html  # noqa: E402
from studies.report import mvcc as report_mvcc  # noqa: E402
from studies.report import wbl as report_wbl  # noqa: E402
from studies.report.page import of_builds  # noqa: E402
from studies.rows import Rows  # noqa: E402
from studies.sitting import Sitting  # noqa: E402
from studies.stacks import BLOCK, DEVICES, profile_figures  # noqa: E402


class CellsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "cells.csv"

    def tearDown(self):
        self.directory.cleanup()

    def open(self):
        return Cells(self.path, ["device", "size"], ["rps"], "build")

    def test_a_measured_cell_is_not_measured_again(self):
        self.open().add({"device": "hdd", "size": 8, "rps": 100})
        again = self.open()
        self.assertTrue(again.measured({"device": "hdd", "size": 8}))
        self.assertFalse(again.measured({"device": "hdd", "size": 16}))
        self.assertEqual(again.get({"device": "hdd", "size": 8})["rps"], "100")

    def test_a_cell_that_could_not_be_had_is_tried_again(self):
        self.open().add({"device": "hdd", "size": 8, "status": "no\nroot"})
        rows = Rows(self.path.parent)
        self.assertEqual(rows.absences(), {"no root": 1})
        again = self.open()
        self.assertFalse(again.measured({"device": "hdd", "size": 8}))
        again.add({"device": "hdd", "size": 8, "rps": 1})
        self.assertEqual(Rows(self.path.parent).absences(), {}, "and its old line is gone")

    def test_medians_know_their_extremes(self):
        cells = self.open()
        for size, rps in ((1, 10), (2, 30), (3, 20)):
            cells.add({"device": "hdd", "size": size, "rps": rps})
        rows = Rows(self.path.parent)
        self.assertEqual(rows.middle("rps", device="hdd"), (20, 10, 30))
        self.assertIsNone(rows.middle("rps", device="nvme"))


class TimeTest(unittest.TestCase):
    """What a run may take."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "cells.csv"

    def tearDown(self):
        self.directory.cleanup()

    def run_jobs(self, estimates_s, budget):
        """Jobs that write their line at once; what was printed."""
        cells = Cells(self.path, ["part"], ["rps"], "build")
        jobs = [Job({"part": str(n)}, partial(self.job, cells, n), s) for n, s in enumerate(estimates_s)]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            measure(cells, jobs, budget)
        return out.getvalue()

    @staticmethod
    def job(cells, number):
        cells.add({"part": str(number), "rps": 1})
        return f"cell {number}"

    def test_what_does_not_fit_is_marked_and_comes_with_the_next_run(self):
        out = self.run_jobs([10, 40, 100, 5], budget=60)
        rows = Rows(self.path.parent)
        self.assertEqual([row["part"] for row in rows.rows], [0, 1])
        self.assertEqual(rows.absences(), {OUT_OF_TIME: 2})
        self.assertIn("about 3 min by estimate, at most 60 s", out)
        self.assertIn("2 cells are left", out)
        out = self.run_jobs([10, 40, 100, 5], budget=60)
        rows = Rows(self.path.parent)
        self.assertEqual(len(rows.rows), 4, "the first one always fits, and tells that estimates are too long")
        self.assertIn("2 measured already", out)
        self.assertEqual(rows.absences(), {})

    def test_nothing_fits_into_no_time(self):
        self.run_jobs([1], budget=0)
        self.assertEqual(Rows(self.path.parent).absences(), {OUT_OF_TIME: 1})

    def test_a_failure_is_a_line(self):
        def fail():
            raise ValueError("no\n  figures")

        cells = Cells(self.path, ["part"], ["rps"], "build")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            measure(cells, [Job({"part": "0"}, fail, 1), Job({"part": "1"}, partial(self.job, cells, 1), 1)])
        self.assertEqual(Rows(self.path.parent).absences(), {"failed: ValueError: no figures": 1})
        self.assertEqual(len(Rows(self.path.parent).rows), 1, "and the next one is measured")
        self.assertIn("0: failed: ValueError", out.getvalue())

    def test_half_a_line_is_not_a_cell(self):
        self.run_jobs([1, 1], budget=None)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("2,1,o")
        cells = Cells(self.path, ["part"], ["rps"], "build")
        self.assertEqual(len(cells.rows) + len(cells.absent), 2)
        cells.add({"part": "2", "rps": 5})
        self.assertEqual([row["rps"] for row in Rows(self.path.parent).rows], [1, 1, 5])

    def test_the_time_left_follows_what_the_cells_took(self):
        with mock.patch("studies.cells.time.monotonic", side_effect=itertools.count(0, 100).__next__):
            progress = Progress([100, 100, 100], None)
            with contextlib.redirect_stdout(io.StringIO()):
                progress.step("one")
            # The clock goes on with every look: three of them, 300 s for what was estimated at 100.
            self.assertGreater(progress.left_s(), 300)


class SittingTest(unittest.TestCase):
    """What a study leaves that is killed with -9."""

    STUDY = """
import subprocess, sys, tempfile
sys.path[:0] = {path!r}
from studies.sitting import Sitting, prefix
with Sitting({results!r}):
    tempfile.mkdtemp(prefix=prefix())
    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    child.wait()
"""

    def start(self, results):
        text = self.STUDY.format(path=sys.path[:1], results=str(results))
        study = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
        return study, int(study.stdout.readline())

    def test_a_killed_study_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as results:
            for kill_janitor in (False, True):
                study, child = self.start(results)
                name = f"{study.pid}-{sitting._began(study.pid)}"
                if kill_janitor:
                    for task in Path("/proc").glob("[0-9]*/cmdline"):
                        if f"sitting.py\0{name}\0".encode() in task.read_bytes():
                            os.kill(int(task.parent.name), signal.SIGKILL)
                study.kill()
                study.wait()
                study.stdout.close()
                if kill_janitor:
                    self.assertIn(name, sitting.stale(sitting.roots()))
                    with contextlib.redirect_stdout(io.StringIO()), Sitting(results):
                        pass
                deadline = time.monotonic() + 20
                while sitting._began(child) is not None and time.monotonic() < deadline:
                    time.sleep(0.02)
                while name in sitting.stale(sitting.roots()) and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.assertIsNone(sitting._began(child), "its program has ended")
                self.assertNotIn(name, sitting.stale(sitting.roots()), "and its directories are gone")

    def test_one_run_at_a_time(self):
        with tempfile.TemporaryDirectory() as results, Sitting(results):
            with self.assertRaisesRegex(SystemExit, "another run is at work"):
                Sitting(results).__enter__()


class PlanTest(unittest.TestCase):
    @staticmethod
    def cells(**changed):
        made = {
            "devices": list(DEVICES),
            "servers": list(SERVERS),
            "quick": False,
            "repetitions": None,
            "part": None,
            "sizes": None,
            "modes": None,
            "full": False,
        }
        return Plan(argparse.Namespace(**(made | changed))).cells()

    @staticmethod
    def key(cell):
        return tuple(cell[name] for name in KEY if name != "stack")

    def test_every_cell_of_the_grid_is_there_once(self):
        cells = self.cells(full=True)
        self.assertEqual(len(cells), len(set(map(self.key, cells))))
        grid = {(c["device"], c["value_bytes"], c["mode"], c["server"]) for c in cells if c["part"] == "grid"}
        copied = sum(size >= SHARED_BYTES for size in SIZES)
        own = len(SIZES) + copied
        self.assertEqual(len(grid), 5 * (len(SIZES) * 3 * (len(MODES) - 2) + own), "wbl and copies are Sexton's alone")

    def test_full_does_what_the_default_does_and_the_rest(self):
        self.assertLess(set(map(self.key, self.cells())), set(map(self.key, self.cells(full=True))))

    def test_the_default_has_all_that_is_claimed_three_times(self):
        grid = [cell for cell in self.cells() if cell["part"] == "grid"]
        for column, wanted in (
            ("device", set(DEVICES)),
            ("server", set(SERVERS)),
            ("value_bytes", {8, 128, 1024, 4096}),
            ("mode", {"none", "none-copied", "rdb", "everysec", "always", "wbl"}),
            ("placement", {"same", "other"}),
            ("repetition", {1, 2, 3}),
        ):
            self.assertEqual({cell[column] for cell in grid}, wanted)
        parts = {cell["part"] for cell in self.cells()}
        self.assertEqual(parts, {"grid", "commands", "rewrite", "route", "pmem"})

    def test_the_default_fits_into_its_time(self):
        args = argparse.Namespace(quick=False)
        seconds = sum(estimate_s(args, cell, 2e10) for cell in self.cells())
        self.assertLess(seconds, study_devices.MINUTES * 60)

    def test_single_sizes_and_modes_are_that_part_of_the_grid(self):
        cells = self.cells(sizes=[64], modes=["everysec"])
        self.assertEqual({(c["value_bytes"], c["mode"]) for c in cells}, {(64, "everysec")})

    def test_every_mode_has_its_off_beside_it(self):
        for full in (False, True):
            cells = self.cells(full=full)
            columns = ("part", "device", "value_bytes", "command", "pipeline", "server", "placement", "repetition")
            offs = {tuple(c[name] for name in columns) for c in cells if c["mode"] == "none"}
            for cell in (c for c in cells if c["part"] in ("grid", "commands", "pmem")):
                self.assertIn(tuple(cell[name] for name in columns), offs)

    def test_quick_is_quick(self):
        self.assertLess(len(self.cells(quick=True)), 40)

    def test_n_is_bounded_by_bytes_and_memory(self):
        args = argparse.Namespace(quick=False)
        for size, command, memory, expected in (
            (8, "set", 1e12, 1_000_000),
            (4096, "set", 1e12, 362_231),
            (4096, "set", 1e9, 24_148),
            (4096, "set", 1e6, 20_000),
            (4096, "mset", 1e12, 36_223),
            (8, "mset", 1e12, 100_000),
        ):
            requests, _ = requests_of(args, {"value_bytes": size, "command": command}, memory)
            self.assertEqual(requests, expected)


class StacksTest(unittest.TestCase):
    def test_every_device_has_a_profile(self):
        for _, profile, _ in DEVICES.values():
            self.assertGreater(float(profile_figures(profile)["write-mb-s"]), 0)
        self.assertLess(set(BLOCK), set(DEVICES))


class AllTest(unittest.TestCase):
    def test_real_devices_reach_every_study_that_can_use_them(self):
        given = {"hdd": "/d", "sata": "/s", "nvme": "/n", "pmem": "/p"}
        self.assertEqual(study_all.on_devices("devices", given).count("--device"), 4)
        self.assertEqual(study_all.on_devices("flsm", given), ["--dir", "/n"])
        self.assertEqual(study_all.on_devices("wbl", given), ["--pmem-dir", "/p"])
        self.assertEqual(study_all.on_devices("mvcc", given), ["--device", "hdd=/d", "--device", "flash=/n"])
        self.assertEqual(study_all.on_devices("mvcc", {"hdd": "/d"}), [], "it needs two")

    def test_all_of_it_fits_into_one_sitting(self):
        minutes = sum(study.MINUTES for study in study_all.STUDIES.values()) + study_all.REPORT_MIN
        self.assertLessEqual(minutes, 150)


class BuildsTest(unittest.TestCase):
    """Which builds a report's rows are of."""

    def test_rows_of_several_builds_are_counted_for_each(self):
        with tempfile.TemporaryDirectory() as directory:
            for build, count in (("12e4567", 1), ("abc1234", 2)):
                cells = Cells(Path(directory) / "cells.csv", ["nth"], ["rps"], build)
                for nth in range(count):
                    cells.add({"nth": f"{build} {nth}", "rps": 1})
            builds = Rows(Path(directory)).builds()
        self.assertEqual(builds, [("abc1234", 2), ("12e4567", 1)], "a build that looks like a number, too")
        facts = {"build": "of the last run"}
        self.assertEqual(of_builds(builds, facts), "abc1234 (2 rows), 12e4567 (1 rows)")
        self.assertEqual(of_builds(builds[:1], facts), "abc1234")
        self.assertEqual(of_builds([], facts), "of the last run")


class ReportTest(unittest.TestCase):
    """Pages drawn from made-up rows."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.source, self.target = (Path(self.directory.name) / name for name in ("study", "report"))
        self.target.mkdir()

    def tearDown(self):
        self.directory.cleanup()

    def cells(self, name, module):
        return Cells(self.source / name / "cells.csv", module.KEY, module.VALUES, "build")

    def page(self, draw, name):
        draw(self.source / name, self.target)
        for svg in self.target.glob("*.svg"):
            xml.etree.ElementTree.parse(svg)
        return (self.target / f"{name}.md").read_text()

    @staticmethod
    def cell(**made):
        """A row of the study of devices, with every column that all of them have."""
        return Plan.cell(
            **{
                "device": "hdd",
                "stack": "block",
                "server": "redis",
                "mode": "none",
                "value_bytes": 4096,
                "repetition": 1,
                "emulated": "yes",
                "generator": "command_load: incompressible",
                "client_stalls": 1,
                "client_stall_ms": 30,
                "client_longest_stall_ms": 30,
                "worker_stalls": 2,
                "worker_stall_ms": 40,
                "worker_longest_stall_ms": 25,
                **made,
            }
        )

    def test_devices_beside_off_of_the_same_stack(self):
        cells = self.cells("devices", study_devices)
        for mode, rate, repetition in (
            ("none", 80_000, 1),
            ("none", 90_000, 2),
            ("everysec", 20_000, 1),
            ("everysec", 22_000, 2),
        ):
            cells.add(self.cell(mode=mode, synced_rps=rate, repetition=repetition, bound_rps=42_000))
        cells.add(self.cell(device="sata", stack="none", status="no root"))
        cells.add(self.cell(mode="everysec", value_bytes=8, status=OUT_OF_TIME))
        for mode, rate in (("none", 100_000), ("none-copied", 60_000), ("everysec", 50_000), ("rdb", 80_000)):
            cells.add(self.cell(mode=mode, device="nvme", server="sexton", synced_rps=rate))
        text = self.page(report_devices.devices, "devices")
        for line in (
            "| Sexton | 4096 | 1 | 50,000 | 60,000 | 1.20 |",
            "| Sexton | 4096 | 1 | 60,000 | 100,000 | 1.67 |",
            "| Sexton | 4096 | 1 | 80,000 | 100,000 | 1.25 |",
            "| at most 1.25 | 1 of 1 | met | 1.20: nvme, block, everysec, 4096 B |",
            "| at most 1.25 | 0 of 1 | NOT met | 2.00: nvme, block, everysec, 4096 B |",
        ):
            self.assertIn(line, text)
        line = "| redis-server 7.0 | 4096 | 2 | 21,000 (20,000-22,000) | 85,000 | 4.05 | 42,000 | 2.00 | - | 30 | 40 | - |"
        self.assertIn(line, text)
        self.assertIn("| redis-server 7.0 | 8 | 0 | not run: out of time |", text)
        self.assertIn("## sata: not measured\n\n- no root", text)
        self.assertIn("1 cells: no root", text)
        self.assertIn("| at least 3 | 1 of 1 | met | 4.05: hdd, block, everysec, 4096 B |", text)
        self.assertIn("| hdd, 4096 B | 3.5 | 4.05 (3.64-4.50) | 1.16 | - | - | rig: loses more than there |", text)
        self.assertIn("EMULATED", (self.target / "devices-hdd-block-everysec.svg").read_text())

    def test_a_disk_is_held_against_the_bandwidth_that_it_had_too(self):
        cells = self.cells("devices", study_devices)
        probed = {"bound_rps": 40_000, "requested_write_mb_s": 180, "achieved_write_mb_s": 135}
        for mode, rate in (("none", 90_000), ("everysec", 20_000)):
            cells.add(self.cell(server="sexton", mode=mode, synced_rps=rate, **probed))
        text = self.page(report_devices.devices, "devices")
        self.assertIn("| at most 1.2 | 0 of 1 | NOT met | 2.00: hdd, block, everysec, 4096 B |", text)
        self.assertIn("| at most 1.2 | 0 of 1 | NOT met | 1.50: hdd, block, everysec, 4096 B |", text)

    def test_data_that_was_unsynced_for_too_long_makes_a_run_invalid(self):
        cells = self.cells("devices", study_devices)
        for repetition, age in ((1, 900), (2, 2600)):
            note = "INVALID: unsynced data of 2600 ms (N14)" if age > 2000 else ""
            made = self.cell(server="sexton", mode="everysec", synced_rps=1000, unsynced_age_ms=age, note=note)
            cells.add({**made, "repetition": repetition})
        text = self.page(report_devices.devices, "devices")
        self.assertIn("| 2,600, 1 of 2 INVALID |", text)
        self.assertIn("| at most 2000 | 1 of 2 | NOT met | 2600.00: hdd, block, 4096 B |", text)

    def test_future_work_has_its_sections(self):
        cells = self.cells("devices", study_devices)
        for mode, rate in (("none", 90_000), ("everysec", 30_000)):
            cells.add(self.cell(part="commands", command="mset", mode=mode, synced_rps=rate, p99_us=500))
            cells.add(self.cell(part="pmem", device="pmem", mode=mode, pipeline=16, synced_rps=rate, cpu_us=2))
        cells.add(
            self.cell(
                part="rewrite",
                mode="everysec",
                rps_before=1000,
                rps_during=400,
                rps_after=900,
                during_s=2.5,
                p999_us=7000,
                max_us=9000,
                peak_rss_mb=300,
                logged_bytes=2e6,
                written_bytes=5e6,
                timeline=";".join(["100"] * 20),
            )
        )
        for device, rate in (("hdd", 10_000), ("nvme", 40_000), ("hdd+nvme", 39_000)):
            cells.add(self.cell(part="route", device=device, server="sexton", mode="everysec", synced_rps=rate))
        text = self.page(report_devices.devices, "devices")
        for line in (
            "| hdd | block | 4096 | MSET | redis-server 7.0 | everysec | 30,000 | 3.00 | 500 |",
            "| hdd | block | redis-server 7.0 | 4096 | 1,000 | 400 | 0.40 | 900 | 2.50 | 7,000 | 9,000 | 300 | 2 | 5 |",
            "| 4096 | hdd+nvme | block | 39,000 | - | - |",
            "| 4096 | 16 | redis-server 7.0 | everysec | 30,000 | 0.33 | 2.00 |",
        ):
            self.assertIn(line, text)
        for name in ("commands", "rewrite", "route", "pmem"):
            self.assertIn("EMULATED", (self.target / f"devices-{name}.svg").read_text())

    def test_deletes_have_their_gain(self):
        cells = self.cells("flsm", study_flsm)
        for setting, us in (("cemetery", 2), ("tombstones", 3), ("rocksdb", 4)):
            key = study_flsm.Study.key("paper", setting, "seq", 40_000, 1)
            made = {"wall_us_per_op": us, "ops_per_s": 1e6 / us, "keys": 2_000_000, "note": "small run"}
            cells.add({**key, **made, "step": 1, "benchmark": "readseq"})
            cells.add({**key, **made, "step": 2, "benchmark": "readrandom", "wall_us_per_op": 5 - us})
            key = study_flsm.Study.key("scan", setting, "random", 10, 1)
            cells.add({**key, "step": 1, "benchmark": "seekrandom", "wall_us_per_op": us, "space_bytes": 1e6})
        text = self.page(report_flsm.flsm, "flsm")
        self.assertIn("| readseq, default setting | 1.47 | 1.50 | 1.02 | comes out |", text)
        self.assertIn("| readrandom, default setting | 1.11 | 0.67 | 0.60 | does not come out: the other way round;", text)
        self.assertIn("| fillseq, default setting | 1.00 | not measured | - | - |", text)
        self.assertIn("SMALL RUN", (self.target / "flsm-scan.svg").read_text())

    def test_a_profile_stands_side_by_side(self):
        cells = self.cells("flsm", study_flsm)
        for setting, symbol, share in (("cemetery", "newest_grave", 12.5), ("tombstones", "decompress", 30), ("cemetery", "decompress", 20)):
            key = study_flsm.Study.key("profile", setting, "seq", 10, 1)
            cells.add({**key, "step": share, "benchmark": "readseq", "symbol": symbol, "share": share, "keys": 20})
        text = self.page(report_flsm.flsm, "flsm")
        lines = "| readseq | `decompress` | 20.0 | 30.0 |\n| readseq | `newest_grave` | 12.5 | - |"
        self.assertIn(lines, text)

    def test_write_behind_gains_over_the_log(self):
        cells = self.cells("wbl", study_wbl)
        for setting, rate in (("wbl", 110), ("everysec, pmem", 100)):
            for repetition, factor in ((1, 1), (2, 10)):
                key = study_wbl.Study.key("ycsb", setting, "g", repetition)
                cells.add({**key, "ops_per_s": rate * factor, "emulated": "yes"})
            cells.add({**study_wbl.Study.key("recovery", setting, "recover", 1), "seconds": rate, "records": 5})
        for repetition, (none, pooled) in enumerate(((100, 90), (200, 190), (50, 40)), 1):
            for way, rate in (("none", none), ("wbl", pooled)):
                key = study_wbl.Study.key("redis", way, "P16 d64", repetition)
                cells.add({**key, "ops_per_s": rate, "cpu_us_per_op": 1.5})
        text = self.page(report_wbl.wbl, "wbl")
        self.assertIn("| P16 d64 | 100, 1.50 us | - | - | 90, 1.50 us | 0.90 | - |", text)
        # Pairs of one repetition, whatever differs between repetitions.
        self.assertIn("| G, over our log: everysec, pmem | 1.14 | 1.10 | 0.97 | comes out |", text)
        self.assertIn("EMULATED", (self.target / "wbl-ycsb.svg").read_text())
        html.write(self.target, ["wbl"])
        whole = (self.target / "report.html").read_text()
        self.assertIn("<td>comes out</td>", whole)
        self.assertIn("<svg", whole)
        self.assertEqual(whole.count("<table>"), whole.count("</table>"))

    def test_old_versions_have_the_ratio_of_disk_and_flash(self):
        directory = self.source / "mvcc"
        directory.mkdir(parents=True)
        rows = [
            f"1,{device},yes,{way},100000,1000,1.0,{seconds}"
            for way, disk in (("single", 35), ("ahead", 7))
            for device, seconds in (("hdd-7200.7", disk), ("slc-nand", 7))
        ]
        head = "run,undo_device,undo_emulated,reread,keys,value_bytes,undo_write_s,reread_s"
        (directory / "undo.csv").write_text("\n".join([head, *rows]) + "\n")
        text = self.page(report_mvcc.mvcc, "mvcc")
        self.assertIn("as the paper's rollback segment is read | 3.50 | 5.00 | 1.43 | comes out, larger |", text)
        self.assertIn("reads ahead | 3.50 | 1.00 | 0.29 | no difference here; undo runs are sorted", text)
        self.assertIn("## Beside a held snapshot\n\nNot measured: no rows", text)

    def test_pages_without_any_row_say_so(self):
        for name, module, draw in (
            ("devices", study_devices, report_devices.devices),
            ("flsm", study_flsm, report_flsm.flsm),
            ("wbl", study_wbl, report_wbl.wbl),
        ):
            made = {column: "1" for column in module.KEY} | {"part": "grid", "status": OUT_OF_TIME}
            self.cells(name, module).add(made)
            self.assertIn(OUT_OF_TIME, self.page(draw, name))


class ChartTest(unittest.TestCase):
    def test_charts_are_svg_and_say_what_is_emulated(self):
        line = {"a < b": [(8, 1.0, 0.9, 1.1), (4096, 3.5, 3.0, 4.0)]}
        for svg in (
            chart.lines("title", line, "x", "y", "EMULATED", log_x=True, x_ticks=[8, 4096], level=1),
            chart.bars(
                "title",
                {"A": {"log": (10, 9, 11)}, "B": {"wbl": (1000, 900, 1100)}},
                ["log", "wbl"],
                "y",
                "EMULATED",
                log_y=True,
            ),
        ):
            xml.etree.ElementTree.fromstring(svg)
            self.assertIn("EMULATED", svg)

    def test_an_axis_maps_its_ends(self):
        axis = chart.Axis([1, 1000], 0, 300, log=True, from_zero=False)
        self.assertEqual((axis(1), axis(10), axis(1000)), (0, 100, 300))
        flat = chart.Axis([0, 0], 100, 0)
        self.assertEqual(flat(0), 100)


if __name__ == "__main__":
    unittest.main()
