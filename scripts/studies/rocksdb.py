"""Our C programs that use the RocksDB library for workloads that db_bench lacks."""

import shutil
import subprocess
from pathlib import Path

from bench_common import ROOT
from harness.server import jemalloc
from studies.cells import Absent


def build(name, directory):
    """Compiles scripts/NAME.c into a directory, with jemalloc; returns its path. Raises Absent without librocksdb or a C compiler."""
    libraries = sorted(Path("/usr/lib").glob("*/librocksdb.so*"))
    compiler = shutil.which("cc")
    if not libraries or not compiler:
        raise Absent("no C compiler" if libraries else "no librocksdb (package rocksdb-tools)")
    binary = directory / name
    # The allocator that flsm-bench has, too.
    shared = [libraries[0], "-Wl,--no-as-needed", jemalloc(), "-lm"]
    command = [compiler, "-O2", "-pthread", "-o", binary, ROOT / f"scripts/{name}.c", *shared]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Absent(f"{name}.c does not compile: {done.stderr.strip()[-200:]}")
    return binary
