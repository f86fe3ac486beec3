"""make profile: checks that arenas, log files and buffers are recycled. A profile of a SET-only run.

Fresh pages are expensive, so a running server must not fault in new ones. After a warm-up of
several flushes this counts the minor page faults per million SETs (/proc/PID/stat) and, if `perf`
is installed, the share of CPU samples below the page-fault handler, with the hottest symbols.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import bench_common  # noqa: F401  (puts the test harness on the path)
from harness.server import Server, redis_tool


def minor_faults(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[7])


def sets(port, number):
    line = [redis_tool("redis-benchmark"), "-p", str(port), "-t", "set", "-n", str(number), "-r", "1000000", "-d", "64",
            "-c", "50", "-P", "64", "-q"]
    done = subprocess.run(["taskset", "-c", "1", *line], capture_output=True, text=True, check=True)
    return done.stdout.replace("\r", "\n").strip().splitlines()[-1]


def report(data):
    """(share of samples below the page-fault handler in percent, hottest symbols)."""
    base = ["perf", "report", "-i", data, "--stdio", "-g", "none", "--sort", "symbol"]
    children = subprocess.run([*base, "--children"], capture_output=True, text=True).stdout
    share = max((float(m[1]) for m in re.finditer(r"^\s*([\d.]+)%.*(?:exc_page_fault|handle_mm_fault)", children, re.M)), default=0.0)
    own = subprocess.run([*base, "--no-children"], capture_output=True, text=True).stdout
    return share, [line for line in own.splitlines() if re.match(r"\s*[\d.]+%", line)][:25]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--policy", default="everysec", choices=["none", "everysec"])
    parser.add_argument("--requests", type=int, default=5_000_000)
    parser.add_argument("--warm-up", type=int, default=5_000_000)
    args = parser.parse_args()
    made = {"appendonly": "no"} if args.policy == "none" else {"appendonly": "yes", "appendfsync": args.policy}
    if args.server != "sexton":
        made["auto-aof-rewrite-percentage"] = "0"
    with Server(args.server, made, prefix=["taskset", "-c", "0"]) as server, tempfile.TemporaryDirectory() as directory:
        print("warm-up: ", sets(server.port, args.warm_up))
        data = str(Path(directory) / "perf.data")
        perf = None
        if shutil.which("perf"):
            # No hardware counters in most virtual machines: sample by the CPU clock.
            perf = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-p", str(server.pid), "-o", data],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        faults = minor_faults(server.pid)
        print("measured:", sets(server.port, args.requests))
        faults = minor_faults(server.pid) - faults
        print(f"minor page faults: {faults}, {faults / args.requests * 1e6:.0f} per million SETs")
        if perf:
            perf.send_signal(2)
            perf.wait()
            share, hottest = report(data)
            print(f"CPU samples below the page-fault handler: {share:.1f} %")
            print("\n".join(hottest))


if __name__ == "__main__":
    main()
