"""make studies: the four studies one after the other, then the report.

    .venv/bin/python scripts/study_all.py [--full | --quick] [--plan] [--device hdd=DIR ...] [--studies devices,flsm,wbl,mvcc]

Prints the estimated total time first, and the expected end while it runs. Each study has its own limit
(its option --minutes) and marks the cells that no longer fit, so that the report is always written. The run can be stopped
or killed at any moment: the same command resumes it. A study that fails does not keep the others from running.
"""

import argparse
import os
import subprocess
import sys
import time

import study_devices
import study_flsm
import study_mvcc
import study_wbl
from bench_common import ROOT
from studies.cells import AFTER_MIN, minutes
from studies.sitting import end_with_parent

STUDIES = {"devices": study_devices, "flsm": study_flsm, "wbl": study_wbl, "mvcc": study_mvcc}
#: For the report, and for the starts of the programs.
REPORT_MIN = 1


def run(script, options, after_min=0.0):
    """Runs one script; its exit code."""
    environment = dict(os.environ, PYTHONUNBUFFERED="1", **{AFTER_MIN: f"{after_min:.0f}"})
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *options]
    process = subprocess.Popen(command, env=environment, preexec_fn=end_with_parent)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # It has had the same signal, and takes its devices down.
        process.wait()
        raise


def on_devices(name, given):
    """Options that have a study use the user's devices, as far as it can: the disk, the faster of the SSDs, persistent
    memory."""
    flash = given.get("nvme") or given.get("sata")
    if name == "devices":
        return [word for pair in given.items() for word in ("--device", "=".join(pair))]
    if name == "flsm" and flash:
        return ["--dir", flash]
    if name == "wbl" and "pmem" in given:
        return ["--pmem-dir", given["pmem"]]
    if name == "mvcc" and flash and "hdd" in given:
        return ["--device", f"hdd={given['hdd']}", "--device", f"flash={flash}"]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", default=",".join(STUDIES), help="only these, comma-separated")
    parser.add_argument("--device", action="append", default=[], metavar="NAME=DIR", help="a real device: hdd, sata, nvme, nvram, pmem")
    parser.add_argument("--plan", action="store_true", help="print what would be measured, and the estimated time")
    parser.add_argument("--full", action="store_true", help="everything, without a time limit")
    parser.add_argument("--quick", action="store_true", help="a smoke run of all studies")
    args = parser.parse_args()
    names = args.studies.split(",")
    unknown = [name for name in names if name not in STUDIES]
    if unknown:
        parser.error(f"unknown study {unknown[0]}: {', '.join(STUDIES)}")
    size = ["--full"] if args.full else ["--quick"] if args.quick else []
    limits_min = {name: 0 if size else STUDIES[name].MINUTES for name in names}
    options = {name: [*size, *on_devices(name, dict(pair.split("=", 1) for pair in args.device))] for name in names}
    for name in names:
        print(f"== {name}{'' if size else f', at most {limits_min[name]} min'}", flush=True)
        run(f"study_{name}", [*options[name], "--plan"])
    total_s = 60 * (sum(limits_min.values()) + REPORT_MIN)
    if not size:
        over = time.strftime("%H:%M", time.localtime(time.time() + total_s))
        print(f"== all studies and the report: at most {minutes(total_s)}, over by {over}", flush=True)
    if args.plan:
        return 0
    begun, failed = time.monotonic(), []
    try:
        for number, name in enumerate(names):
            print(f"\n== {name}: study {number + 1} of {len(names)}", flush=True)
            after_min = sum(limits_min[later] for later in names[number + 1 :])
            if run(f"study_{name}", options[name], after_min):
                failed.append(name)
    except KeyboardInterrupt:
        return 1
    source = ["--from", "study/quick", "--to", "study/quick/report"] if args.quick else []
    print("\n== report", flush=True)
    if run("study_report", [*source, "--html"]):
        failed.append("report")
    print(f"all of it took {minutes(time.monotonic() - begun)}{'; failed: ' + ', '.join(failed) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
