"""python3 -m faults [--server sexton]: failing system calls on the log and the tables (injected by strace).

Under `appendfsync always` a failed write or sync may reduce availability for a moment, but never loses an
acknowledged write: reads continue, writes are refused or unanswered, service recovers once the fault is
over, and after kill -9 and restart every acknowledged write is there.
"""

import argparse
import re
import shutil
import time

from harness import faultlog
from harness.resp import ProtocolError, ReplyError
from harness.server import Server
from harness.steps import Steps

#: name -> (system calls, error, which calls fail). Writes to sockets are `sendto` or `write`: the log's
#: own `pwrite64`, `writev` and syncs are what is named here.
CASES = {
    "one sync fails": ("fdatasync,fsync,sync_file_range", "EIO", "20"),
    "ten syncs in a row fail": ("fdatasync,fsync,sync_file_range", "EIO", "20..30"),
    "one write fails": ("pwrite64,pwritev,pwritev2", "EIO", "20"),
    "the disk is full for a while": ("pwrite64,pwritev,pwritev2,fallocate", "ENOSPC", "20..60"),
    "the file system is read-only for a while": ("pwrite64,pwritev,pwritev2,fallocate,rename", "EROFS", "20..60"),
    "renames fail": ("rename,renameat,renameat2", "EIO", "3..6"),
}


#: name -> faults that the log must tell of, and what their reason says; others of these may follow from them.
TOLD = {
    "one sync fails": (["log", "refusal"], "Input/output error (os error 5)"),
    "ten syncs in a row fail": (["log", "refusal"], "Input/output error (os error 5)"),
    "one write fails": (["log", "refusal"], "Input/output error (os error 5)"),
    "the disk is full for a while": (["log", "refusal"], "No space left on device (os error 28)"),
    "the file system is read-only for a while": (["log", "refusal"], "Read-only file system (os error 30)"),
    "renames fail": ([], ""),
}

#: Faults that count calls are over by then.
FAULT_MAX_S = 40


class Writer:
    """Counts upwards: SET key:i i, one at a time, remembering what was acknowledged."""

    def __init__(self, server):
        self.server = server
        self.connection = None
        self.acknowledged, self.refused, self.unanswered, self.silent = set(), 0, 0, 0
        self.last_success = None
        self.next = 0

    def step(self):
        self.next += 1
        try:
            if self.connection is None:
                self.connection = self.server.connect(timeout_s=5)
            if self.connection.cmd("SET", f"key:{self.next}", "x" * 200) == b"OK":
                self.acknowledged.add(self.next)
                self.last_success = time.monotonic()
        except ReplyError:
            self.refused += 1
        except (OSError, ProtocolError) as error:
            # Closed without a reply is an answer of its own: nobody knows. Silence is none.
            self.silent += isinstance(error, TimeoutError)
            self.unanswered += 1
            self.connection = None
            time.sleep(0.005)


def check_log(steps, name, log, writer):
    """One log line when each fault begins, one when it is over, however many requests it affected."""
    must, reason = TOLD[name]
    found = faultlog.settled(log)
    told = {fault: lines for fault, lines in found.items() if lines != (0, 0) or fault in must}
    if not writer.refused:
        # It was over before a request could be refused.
        told.pop("refusal", None)
    steps.equal(f"{name}: one line when it begins, one when it is over", told, dict.fromkeys(told, (1, 1)))
    named = all(reason in line for fault in must for line in faultlog.reasons(log(), fault))
    steps.check(f"{name}: the lines name the file and the error", named,
                "" if named else str([faultlog.reasons(log(), fault) for fault in must]))


def run_case(steps, args, name):
    calls, error, when = CASES[name]
    inject = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={when}"]
    options = {"appendonly": "yes", "appendfsync": "always"}
    if args.server == "sexton":
        options["memtable-bytes"] = "1mb"
    server = Server(args.server, options, prefix=inject)
    try:
        try:
            server.start(timeout_s=30)
        except RuntimeError as failure:
            # A fault that hits the start may end it; then nothing was acknowledged.
            print(f"      {name}: no start: {str(failure).splitlines()[0]}")
            server.prefix = []
            server.start()
        writer = Writer(server)
        ended = time.monotonic() + args.seconds
        # A fault counts the calls of each thread, and the threads try again several times a second: it
        # lasts as long as that takes.
        last = ended + FAULT_MAX_S
        while (now := time.monotonic()) < ended or (now < last and now - (writer.last_success or 0) > 2):
            writer.step()
        recovered = writer.last_success is not None and time.monotonic() - writer.last_success < 2
        died = not server.alive()
        print(f"      {name}: {len(writer.acknowledged)} acknowledged, {writer.refused} refused, {writer.unanswered} unanswered"
              + (", the server ended by itself" if died else ""))
        steps.check(f"{name}: the fault was met or the server went on", recovered or writer.refused + writer.unanswered > 0)
        steps.check(f"{name}: no client waits in vain", args.server != "sexton" or not writer.silent,
                    f"{writer.silent} waited 5 s")
        steps.check(f"{name}: writes are taken again", recovered or (died and args.server != "sexton"))
        if args.server == "sexton":
            check_log(steps, name, lambda: server.log_path.read_text(errors="replace"), writer)
        server.kill()
        server.prefix = []
        try:
            server.start()
        except RuntimeError as failure:
            steps.check(f"{name}: the server starts again", False, str(failure).splitlines()[-1])
            return
        connection = server.connect()
        missing = [i for i in sorted(writer.acknowledged) if connection.cmd("GET", f"key:{i}") is None]
        steps.check(f"{name}: every acknowledged write is there", not missing, f"{len(missing)} missing, first {missing[:3]}" if missing else "")
        connection.close()
    finally:
        server.close()


def both_fail(steps):
    """The log fails, and the flush that should replace it cannot write a table: held replies are
    never sent, their connection is closed (outcome unknown), and later writes are refused."""
    name = "log and flush fail"
    inject = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync,sync_file_range",
              "-e", "inject=fdatasync,fsync,sync_file_range:error=EIO:when=30+"]
    server = Server("sexton", {"appendonly": "yes", "appendfsync": "always"}, prefix=inject)
    tree, away = server.directory / "tree", server.directory / "tree.away"
    try:
        server.start(timeout_s=30)
        monitor = server.connect()
        monitor.cmd("MONITOR")
        tree.rename(away)
        writer = Writer(server)
        ended = time.monotonic() + 10
        while not writer.refused and time.monotonic() < ended:
            writer.step()
        steps.check(f"{name}: the held reply is left out, its connection closed",
                    (writer.unanswered, writer.silent) == (1, 0),
                    f"{len(writer.acknowledged)} acknowledged, {writer.unanswered} unanswered, {writer.silent} silent")
        steps.check(f"{name}: later writes are refused", writer.refused > 0)
        log = server.log_path.read_text(errors="replace")
        begun = {fault: lines for fault, lines in faultlog.counts(log).items() if lines != (0, 0)}
        steps.equal(f"{name}: one line for each, while it lasts", begun,
                    {"log": (1, 0), "flush": (1, 0), "refusal": (1, 0)})
        shown = set()
        try:
            while len(shown) <= len(writer.acknowledged):
                shown.add(int(re.search(rb"key:(\d+)", monitor.read_node().value).group(1)))
        except (OSError, ProtocolError):
            pass  # closed, like everybody who waited for the lost write
        steps.equal(f"{name}: MONITOR has seen what is durable and nothing else", shown, writer.acknowledged)
        monitor.close()
        reader = server.connect()
        steps.equal(f"{name}: what is durable is still read", reader.cmd("GET", "key:1"), b"x" * 200)
        lost = f"key:{max(writer.acknowledged) + 1}"
        for words in (["GET", lost], ["DBSIZE"], ["SCAN", "0"], ["EXISTS", "key:1", lost]):
            try:
                answer = reader.cmd(*words)
            except ReplyError as error:
                answer = error.args[0][:40]
            steps.equal(f"{name}: {words[0]} of what may be lost is an error, and the connection stays", answer,
                        b"MISCONF The answer depends on writes tha")
        reader.close()
        server.kill()
        away.rename(tree)
        server.prefix = []
        server.start()
        connection = server.connect()
        missing = [i for i in sorted(writer.acknowledged) if connection.cmd("GET", f"key:{i}") is None]
        steps.equal(f"{name}: every acknowledged write is there", missing, [])
        connection.close()
    finally:
        server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--case", help="only cases whose name contains this")
    args = parser.parse_args()
    if not shutil.which("strace"):
        raise SystemExit("strace is missing: run scripts/setup.sh")
    steps = Steps("failing system calls")
    for name in CASES:
        if not args.case or args.case in name:
            run_case(steps, args, name)
    if args.server == "sexton" and not args.case:
        both_fail(steps)
    steps.finish()


if __name__ == "__main__":
    main()
