"""python3 -m crash_matrix [--crashes N] [--policy P] [--moment M]: kill -9 in the middle of each kind of operation.

For each policy of the log (always, everysec, no) and each moment (write, flush, compaction, manifest change,
BGSAVE, BGREWRITEAOF, segment switch) the real server is killed N times: strace kills it (SIGKILL) at the n-th
system call on the files of the moment, without the server's knowledge. Load, restart
and comparison are those of crash_loop: a prefix of every connection's commands that contains the
acknowledged ones (`always`), or all but the last moments. dump.rdb and the base of the log must be complete or
absent. Power loss and torn sectors cannot be caused from outside: `cargo test -p sexton-engine crash_matrix` tests
them on simulated storage (`make crash-matrix` runs both).
"""

import argparse
import random
import shutil
import sys
import threading
import time
from types import SimpleNamespace

from crash_loop import Round
from harness.resp import ReplyError
from harness.server import Server, rdb_complaint

POLICIES = ("always", "everysec", "no")
LOG = "appendonlydir/appendonly.aof"
#: What the files of a moment are called; {} is a number that rises.
TABLES, GRAVES, MANIFESTS = "tree/{:012}.tbl", "tree/{:06}.graves", "tree/MANIFEST-{:08}"
SEGMENTS, BASES, LIST = LOG + ".{}.incr.aof", LOG + ".{}.base.rdb", "appendonlydir/temp-appendonly.aof.manifest"
NEW_BASE, NEW_DUMP, DUMP = "appendonlydir/temp-appendonly.aof.base.rdb", "temp-$$.rdb", "dump.rdb"
WRITES, SYNCS = "pwrite64,write", "fdatasync,fsync"

#: moment -> alternatives of (files, system calls, highest n); a command that is asked for meanwhile
MOMENTS = {
    "write": ([(SEGMENTS, WRITES, 120), (SEGMENTS, "fdatasync", 3)], None),
    "flush": ([(GRAVES, WRITES, 4), (GRAVES, SYNCS, 3), (TABLES, WRITES, 3)], None),
    "compaction": ([(TABLES, "unlink,unlinkat", 4), (TABLES, WRITES, 25), (TABLES, SYNCS, 12)], None),
    "manifest": ([(MANIFESTS, WRITES, 10), (MANIFESTS, SYNCS, 10)], None),
    "BGSAVE": ([(NEW_DUMP, WRITES, 2), (NEW_DUMP, SYNCS, 1), (DUMP, "rename", 1)], "BGSAVE"),
    "BGREWRITEAOF": ([(NEW_BASE, WRITES, 2), (NEW_BASE, SYNCS, 1), (BASES, "rename", 1), (LIST, "rename", 6)], "BGREWRITEAOF"),
    "segment switch": ([(LIST, WRITES, 6), (LIST, SYNCS, 6), (LIST, "rename", 6), (SEGMENTS, "openat", 6)], None),
}
#: How far the numbers of files may rise during one load.
NUMBERS_AHEAD = 300
#: Without a kill after so long, the kill comes from here, and counts as missed.
MET_WITHIN_S = 5.0
TRIES_MAX = 4


def paths_of(directory, pattern):
    """The files that are there, and those that may be made."""
    if "{" not in pattern:
        return [pattern]
    head, tail = pattern[: pattern.index("{")], pattern[pattern.index("}") + 1 :]
    found = [str(path.relative_to(directory)) for path in directory.glob(f"{head}*{tail}")]
    numbers = [int(name[len(head) : len(name) - len(tail)]) for name in found]
    first = max(numbers, default=0) + 1
    return found + [pattern.format(number) for number in range(first, first + NUMBERS_AHEAD)]


def inject(directory, rng, moment):
    """Prefix of the server's command line that kills it at a random one of the moment's system calls."""
    files, calls, highest = rng.choice(MOMENTS[moment][0])
    by_name = calls.startswith(("unlink", "rename", "openat"))
    paths = []
    for file in paths_of(directory, files):
        # A call knows a file by its descriptor, that is by its whole path, or by the name it is given.
        paths += ["-P", f'"{directory}/{file}"'] + (["-P", f'"./{file}"'] if by_name else [])
    when = rng.randint(1, highest)
    strace = f"exec strace -D -f -qq -o /dev/null -e trace={calls} -e inject={calls}:signal=SIGKILL:when={when} {' '.join(paths)} \"$@\""
    # The shell's process becomes the server's: its number is in the name of a temporary file.
    return ["sh", "-c", strace, "sh"]


class Crash(Round):
    """One death at a moment."""

    def __init__(self, args, server, state, rng, moment):
        super().__init__(args, server, state, rng)
        self.moment, self.met = moment, False

    def load_and_kill(self):
        self.server.kill()
        self.server.prefix = inject(self.server.directory, self.rng, self.moment)
        self.writers = []
        try:
            self.server.start(timeout_s=30)
            self.start_writers()
            asking = threading.Thread(target=self.ask, daemon=True)
            asking.start()
            deadline = time.monotonic() + MET_WITHIN_S
            while self.server.alive() and time.monotonic() < deadline:
                time.sleep(0.005)
        except (RuntimeError, OSError, ReplyError):
            pass  # died while it started
        self.met = not self.server.alive()
        self.killed_at = time.monotonic()
        self.server.kill()
        code = self.server.process.returncode
        if code != -9:
            self.problems.append(f"the server ended by itself with {code}:\n{self.server.log_tail()}")
        self.join_writers()
        self.server.prefix = []

    def ask(self):
        command = MOMENTS[self.moment][1]
        try:
            connection = self.server.connect()
            while command:
                connection.node(command)
                time.sleep(0.05)
        except (OSError, ReplyError):
            pass  # the kill

    def check_exports(self):
        """dump.rdb is whole or absent; so is the base of the log, with the segments behind it."""
        dump = self.server.directory / "dump.rdb"
        files = [dump] if dump.exists() else []
        manifest = self.server.directory / f"{LOG}.manifest"
        base = [line.split(" ")[1] for line in manifest.read_text().splitlines() if line.endswith("type b")]
        if base and not base[0].startswith("run-BGREWRITEAOF"):
            files.append(manifest.parent / base[0])
        self.problems += filter(None, (rdb_complaint(file) for file in files))


def run_cell(args, policy, moment, rng):
    """Counts of one cell: crashes, missed, acknowledged, lost, problems."""
    round_args = SimpleNamespace(policy=policy, promises_all=policy == "always", connections=args.connections,
                                 max_loss_s=args.max_loss_s)
    options = {"appendonly": "yes", "appendfsync": policy, "memtable-bytes": "1mb", "auto-aof-rewrite-percentage": 0}
    server = Server(args.server, options)
    state, counts = {}, SimpleNamespace(crashes=0, missed=0, acked=0, lost_s=0.0, problems=[])
    try:
        server.start()
        for _ in range(args.crashes * TRIES_MAX):
            if counts.crashes == args.crashes:
                break
            crash = Crash(round_args, server, state, rng, moment)
            crash.load_and_kill()
            crash.check_exports()
            server.start()
            state = crash.check()
            counts.crashes += crash.met
            counts.missed += not crash.met
            counts.acked += sum(writer.acked for writer in crash.writers)
            counts.lost_s = max(counts.lost_s, crash.lost_s)
            counts.problems += crash.problems
            if crash.problems:
                kept = server.directory.with_name(server.directory.name + "-kept")
                shutil.copytree(server.directory, kept, dirs_exist_ok=True)
                for problem in crash.problems[:6]:
                    print(f"FAIL  {policy}, {moment}: {problem}\n      data in {kept}", flush=True)
                break
    except RuntimeError as error:
        counts.problems.append(f"no start: {error}")
        print(f"FAIL  {policy}, {moment}: {error}", flush=True)
    finally:
        server.close()
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=16, help="in each of the 21 cells")
    parser.add_argument("--policy", choices=POLICIES)
    parser.add_argument("--moment", choices=MOMENTS)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--max-loss-s", type=float, default=2.5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    args = parser.parse_args()
    if not shutil.which("strace"):
        raise SystemExit("strace is missing: run scripts/setup.sh")
    rng = random.Random(args.seed)
    print(f"crash matrix: kill -9 of {args.server}, {args.crashes} crashes a cell, seed {args.seed}")
    print(f"{'policy':9} {'during':15} {'crashes':>7} {'missed':>6} {'acknowledged':>12} {'lost s':>7} {'violations':>10}")
    crashes = violations = short = 0
    for policy in POLICIES:
        for moment in MOMENTS:
            if args.policy not in (None, policy) or args.moment not in (None, moment):
                continue
            counts = run_cell(args, policy, moment, rng)
            print(f"{policy:9} {moment:15} {counts.crashes:7} {counts.missed:6} {counts.acked:12} {counts.lost_s:7.3f} "
                  f"{len(counts.problems):10}", flush=True)
            crashes += counts.crashes
            violations += len(counts.problems)
            short += counts.crashes < args.crashes
    print(f"crash matrix: {crashes} crashes, {violations} violations, {short} cells with fewer than {args.crashes}")
    sys.exit(1 if violations or short else 0)


if __name__ == "__main__":
    main()
