"""python3 -m unittest studies.test_studies (in scripts/): what a study writes down, skips and draws."""

import argparse
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bench_common  # noqa: E402, F401 - puts the harness on the path
import study_devices  # noqa: E402
import study_flsm  # noqa: E402
import study_wbl  # noqa: E402
from studies import chart  # noqa: E402
from studies.cells import Cells  # noqa: E402
from studies.report import devices as report_devices  # noqa: E402
from studies.report import html  # noqa: E402
from studies.report import flsm as report_flsm  # noqa: E402
from studies.report import mvcc as report_mvcc  # noqa: E402
from studies.report import wbl as report_wbl  # noqa: E402
from studies.rows import Rows  # noqa: E402
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
        self.assertFalse(self.open().measured({"device": "hdd", "size": 8}))
        self.assertEqual(Rows(self.path.parent).absences(), {}, "and its old line is gone")

    def test_medians_know_their_extremes(self):
        cells = self.open()
        for size, rps in ((1, 10), (2, 30), (3, 20)):
            cells.add({"device": "hdd", "size": size, "rps": rps})
        rows = Rows(self.path.parent)
        self.assertEqual(rows.middle("rps", device="hdd"), (20, 10, 30))
        self.assertIsNone(rows.middle("rps", device="nvme"))


class PlanTest(unittest.TestCase):
    @staticmethod
    def cells(**changed):
        made = {
            "devices": list(DEVICES),
            "servers": list(study_devices.SERVERS),
            "quick": False,
            "repetitions": None,
            "part": None,
            "sizes": None,
            "modes": None,
        }
        return study_devices.Plan(argparse.Namespace(**(made | changed))).cells()

    def test_every_cell_of_the_grid_is_there_once(self):
        cells = self.cells()
        keys = [tuple(cell[name] for name in study_devices.KEY if name != "stack") for cell in cells]
        self.assertEqual(len(keys), len(set(keys)))
        grid = {(c["device"], c["value_bytes"], c["mode"], c["server"]) for c in cells if c["part"] == "grid"}
        self.assertEqual(len(grid), 5 * len(study_devices.SIZES) * len(study_devices.MODES) * 3)

    def test_single_sizes_and_modes_are_that_part_of_the_grid(self):
        cells = self.cells(sizes=[64], modes=["everysec"])
        self.assertEqual({(c["value_bytes"], c["mode"]) for c in cells}, {(64, "everysec")})

    def test_every_mode_has_its_off_beside_it(self):
        cells = self.cells()
        offs = {
            (c["device"], c["value_bytes"], c["server"], c["placement"], c["repetition"])
            for c in cells
            if c["mode"] == "none"
        }
        for cell in (c for c in cells if c["part"] == "grid"):
            self.assertIn(
                (cell["device"], cell["value_bytes"], cell["server"], cell["placement"], cell["repetition"]), offs
            )

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
        ):
            requests, _ = study_devices.requests_of(args, {"value_bytes": size, "command": command}, memory)
            self.assertEqual(requests, expected)


class StacksTest(unittest.TestCase):
    def test_every_device_has_a_profile(self):
        for _, profile, _ in DEVICES.values():
            self.assertGreater(float(profile_figures(profile)["write-mb-s"]), 0)
        self.assertLess(set(BLOCK), set(DEVICES))


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

    def test_devices_beside_off_of_the_same_stack(self):
        cells = self.cells("devices", study_devices)
        for mode, rate, repetition in (
            ("none", 80_000, 1),
            ("none", 90_000, 2),
            ("everysec", 20_000, 1),
            ("everysec", 22_000, 2),
        ):
            cells.add(
                study_devices.Plan.cell(
                    device="hdd",
                    stack="block",
                    server="redis",
                    mode=mode,
                    value_bytes=4096,
                    repetition=repetition,
                    emulated="yes",
                    synced_rps=rate,
                    generator="command_load: incompressible",
                    client_stalls=1,
                    client_stall_ms=30,
                    client_longest_stall_ms=30,
                    worker_stalls=0,
                    worker_stall_ms=0,
                    worker_longest_stall_ms=0,
                )
            )
        cells.add(
            study_devices.Plan.cell(
                device="sata", stack="none", server="redis", mode="none", value_bytes=8, repetition=1, status="no root"
            )
        )
        text = self.page(report_devices.devices, "devices")
        self.assertIn("| redis-server 7.0 | 4096 | 21,000 | 85,000 | 4.05 |", text)
        self.assertIn("1 cells: no root", text)
        self.assertIn("| at least 3 | 1 of 1 | met | 4.05: hdd, block, everysec, 4096 B |", text)
        self.assertIn("EMULATED", (self.target / "devices-hdd-block-everysec.svg").read_text())

    def test_deletes_have_their_gain(self):
        cells = self.cells("flsm", study_flsm)
        for setting, us in (("cemetery", 2), ("tombstones", 3), ("rocksdb", 4)):
            key = study_flsm.Study.key("paper", setting, "seq", 40_000, 1)
            cells.add(
                {**key, "step": 1, "benchmark": "readseq", "wall_us_per_op": us, "keys": 2_000_000, "note": "small run"}
            )
            key = study_flsm.Study.key("scan", setting, "random", 10, 1)
            cells.add({**key, "step": 1, "benchmark": "seekrandom", "wall_us_per_op": us, "space_bytes": 1e6})
        text = self.page(report_flsm.flsm, "flsm")
        self.assertIn("1.50 (1.50-1.50)", text)
        self.assertIn("SMALL RUN", (self.target / "flsm-scan.svg").read_text())

    def test_write_behind_gains_over_the_log(self):
        cells = self.cells("wbl", study_wbl)
        for setting, rate in (("wbl", 110), ("everysec, pmem", 100)):
            cells.add({**study_wbl.Study.key("ycsb", setting, "g", 1), "ops_per_s": rate, "emulated": "yes"})
        text = self.page(report_wbl.wbl, "wbl")
        self.assertIn("| G | +10.0 % | - | +13.83 % |", text)
        self.assertIn("EMULATED", (self.target / "wbl-ycsb.svg").read_text())
        html.write(self.target, ["wbl"])
        whole = (self.target / "report.html").read_text()
        self.assertIn("<td>+13.83 %</td>", whole)
        self.assertIn("<svg", whole)
        self.assertEqual(whole.count("<table>"), whole.count("</table>"))

    def test_old_versions_have_the_ratio_of_disk_and_flash(self):
        directory = self.source / "mvcc"
        directory.mkdir(parents=True)
        rows = [
            f"1,{device},yes,block,100000,1000,1.0,{seconds}"
            for device, seconds in (("hdd-7200.7", 35), ("slc-nand", 7))
        ]
        head = "run,undo_device,undo_emulated,reread,keys,value_bytes,undo_write_s,reread_s"
        (directory / "undo.csv").write_text("\n".join([head, *rows]) + "\n")
        self.assertIn("| times faster | 5.00 (5.00-5.00) |", self.page(report_mvcc.mvcc, "mvcc"))


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
