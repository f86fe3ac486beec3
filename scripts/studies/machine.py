"""The environment of a study: machine, versions, command line."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bench_common import ROOT
from harness.server import binary_of

#: What random numbers begin with.
SEEDS = "flsm-bench and db_bench: --seed is the repetition; command_load: fixed, one for each client"


def _output(*command):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).strip()


def _first(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else ""


def build():
    """Short commit of the working tree, with a + when it has changes."""
    commit = _output("git", "-C", ROOT, "rev-parse", "--short", "HEAD")
    if not re.fullmatch(r"[0-9a-f]+", commit):
        return "unknown"
    changed = _output("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no")
    return commit + ("+" if changed else "")


def available_bytes():
    """Memory available to programs."""
    return int(_first(r"^MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())) * 1024


def version_of(binary):
    return _first(r"v=(\S+)", _output(binary, "--version")) or _first(r"(\d+\.\d+\.\d+)", _output(binary, "--version"))


def programs(kinds):
    """(kind, path) of the available servers. Ours is required; rows of missing servers say what is missing."""
    found = []
    for kind in kinds:
        try:
            found.append((kind, binary_of(kind)))
        except SystemExit:
            if kind == "sexton":
                raise
    return found


def describe(programs=()):
    """Facts for the report. `programs` are (name, path) of what is measured."""
    cpu = Path("/proc/cpuinfo").read_text()
    db_bench = shutil.which("db_bench")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "command": " ".join(sys.argv),
        "build": build(),
        "cpu": _first(r"^model name\s*:\s*(.*)", cpu) or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(_first(r"^MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())) / 1048576, 1),
        "kernel": platform.release(),
        "system": _first(r'^PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text()),
        "root": os.geteuid() == 0,
        "seeds": SEEDS,
        "versions": {name: version_of(path) for name, path in programs},
        "rocksdb": _output("dpkg-query", "-W", "-f", "${Version}", "rocksdb-tools") if db_bench else "",
    }


def record(directory, programs=()):
    """Writes machine.json into a study's directory; returns its content. `sittings` are the command lines of all runs
    whose lines are in the directory."""
    facts = describe(programs)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "machine.json"
    try:
        earlier = json.loads(path.read_text()).get("sittings", [])
    except (OSError, ValueError):
        earlier = []
    facts["sittings"] = [*earlier, {name: facts[name] for name in ("date", "command", "build")}]
    new = path.with_suffix(".new")
    new.write_text(json.dumps(facts, indent=1) + "\n")
    os.replace(new, path)
    return facts
