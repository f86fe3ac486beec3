"""python3 -m outages [--server sexton]: damaged files and failing disks; one line per check.

Files: after a load and a kill, every kind of file is damaged or removed in turn, on a copy. The server must
refuse to start and name the file, or start with exactly the data it had. Devices: full, hanging (faults.py
covers failing system calls).
Writes are refused or wait, reads continue, and service recovers by itself.
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from harness import faultlog
from harness.resp import ReplyError
from harness.server import Server, sexton_check
from harness.steps import Steps

OPTIONS = {"appendonly": "yes", "appendfsync": "always", "memtable-bytes": "64kb"}
KEYS = 20000


def flip(path):
    """Turns the bits of a byte in the middle."""
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))


def cut(path):
    """Keeps the first half."""
    os.truncate(path, os.path.getsize(path) // 2)


def newest(directory, pattern):
    """The newest file of a kind that has content."""
    found = [path for path in directory.glob(pattern) if path.stat().st_size]
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def log_with_groups(directory):
    """The segment that holds the last groups."""
    segments = sorted(directory.glob("appendonlydir/*.incr.aof"), key=lambda p: int(p.name.split(".")[-3]))
    with_groups = [path for path in segments if b"#SX2 " in path.read_bytes()]
    return with_groups[-1] if with_groups else None


def damage_first_group(path):
    """A bit of the first group's commands, with synced groups behind it."""
    content = path.read_bytes()
    at = content.index(b"#SX2 ") + 200
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes([content[at] ^ 0xFF]))


def tear_last_group(path):
    """A last group of which only the annotation was written: a possible result of an unsynced write."""
    content = path.read_bytes()
    last = [match.start() for match in re.finditer(rb"#SX2 ", content)][-1]
    length = int(content[last + 48 : last + 64], 16)
    end = last + 128 + (-length % 64) + length
    with open(path, "r+b") as file:
        file.seek(end)
        file.write(b"#SX2 " + b"torn" * 30)


#: name -> (finds the file, what happens to it, whether the server must refuse)
FILES = {
    "a table, damaged": (lambda d: newest(d, "tree/*.tbl"), flip, None),
    "a table, cut": (lambda d: newest(d, "tree/*.tbl"), cut, True),
    "a table, missing": (lambda d: newest(d, "tree/*.tbl"), os.remove, True),
    "the manifest, damaged": (lambda d: newest(d, "tree/MANIFEST-*"), flip, True),
    "the manifest, missing": (lambda d: newest(d, "tree/MANIFEST-*"), os.remove, True),
    "CURRENT, missing": (lambda d: d / "tree/CURRENT", os.remove, True),
    "CURRENT, damaged": (lambda d: d / "tree/CURRENT", flip, True),
    "the graves' checkpoint, damaged": (lambda d: newest(d, "tree/*.graves"), flip, True),
    "the graves' checkpoint, missing": (lambda d: newest(d, "tree/*.graves"), os.remove, True),
    "a grave run, damaged": (lambda d: newest(d, "tree/*.grun"), flip, None),
    "a grave run, cut": (lambda d: newest(d, "tree/*.grun"), cut, True),
    "a grave run, missing": (lambda d: newest(d, "tree/*.grun"), os.remove, True),
    "the log, damaged before synced groups": (log_with_groups, damage_first_group, True),
    "the log, with a torn last group": (log_with_groups, tear_last_group, False),
    "the log, missing": (log_with_groups, os.remove, True),
    "the AOF manifest, cut": (lambda d: d / "appendonlydir/appendonly.aof.manifest", cut, None),
    "the AOF manifest, missing": (lambda d: d / "appendonlydir/appendonly.aof.manifest", os.remove, True),
    "LOCK, missing": (lambda d: d / "LOCK", os.remove, False),
}


def content(server):
    """Digest and number of keys, or the error that the client got."""
    connection = server.connect()
    try:
        return connection.cmd("DEBUG", "DIGEST"), connection.cmd("DBSIZE")
    except ReplyError as error:
        return str(error), None
    finally:
        connection.close()


def run_file(steps, args, source, expected, name):
    find, harm, must_refuse = FILES[name]
    directory = Path(tempfile.mkdtemp(prefix="sexton-test-outage-"))
    shutil.copytree(source, directory, dirs_exist_ok=True)
    path = find(directory)
    server = Server(args.server, OPTIONS | {"enable-debug-command": "local"}, directory=directory)
    try:
        if path is None:
            steps.check(name, False, "no such file")
            return
        harm(path)
        try:
            server.start(timeout_s=30)
        except RuntimeError as error:
            text = str(error)
            said = path.name in text or path.parent.name in text or "is missing" in text
            ended = "Cannot open the store" in text or "refuse" in text or said
            steps.check(f"{name}: refused, and named", must_refuse is not False and ended and said, "" if said else text[-400:])
            return
        found = content(server)
        if must_refuse:
            steps.check(f"{name}: refused", False, f"serves {found[1]} keys")
        elif found[1] is None:
            # Blocks are checked when they are read.
            steps.check(f"{name}: served until read, then an error", must_refuse is None, found[0])
        else:
            steps.check(f"{name}: served whole", found == expected, f"{found[1]} keys")
    finally:
        server.kill()
        shutil.rmtree(directory)


def torn_and_kept(steps, args, source, expected):
    """A torn end under `aof-load-truncated no`: the start is refused until sexton-check has truncated it."""
    name = "aof-load-truncated no"
    directory = Path(tempfile.mkdtemp(prefix="sexton-test-outage-"))
    shutil.copytree(source, directory, dirs_exist_ok=True)
    options = OPTIONS | {"enable-debug-command": "local", "aof-load-truncated": "no"}
    server = Server(args.server, options, directory=directory)
    try:
        server.start()
        # A start begins a segment whose header says that all before it is synced: only behind that is an end torn.
        connection = server.connect()
        connection.cmd("SET", "before the end", "1")
        connection.cmd("DEL", "before the end")
        connection.close()
        server.kill()
        path = log_with_groups(directory)
        tear_last_group(path)
        before = path.read_bytes()
        try:
            server.start(timeout_s=30)
            said = "it serves"
        except RuntimeError as error:
            said = str(error)
        told = "Unexpected end of file reading the append only file" in said and "--truncate-log" in said and path.name in said
        steps.check(f"{name}: a torn end refuses the start, and says how to mend it", told, "" if told else said[-400:])
        steps.equal(f"{name}: nothing was cut off", path.read_bytes(), before)
        code, text = sexton_check("--truncate-log", directory)
        steps.check(f"{name}: sexton-check cuts it off", code == 0 and "was cut at byte" in text, text)
        server.start()
        steps.equal(f"{name}: then it serves whole", content(server), expected)
    finally:
        server.kill()
        shutil.rmtree(directory)


def run_files(steps, args):
    server = Server(args.server, OPTIONS | {"enable-debug-command": "local"})
    try:
        server.start()
        connection = server.connect()
        connection.pipeline([[b"SET", b"k%d" % i, b"%d" % i * 40] for i in range(KEYS)])
        # What a snapshot from before the deletes needs is not buried: the runs and the checkpoint of graves stay.
        reader = server.connect()
        reader.cmd("SEXTON.SNAPSHOT", "OPEN")
        connection.cmd("CONFIG", "SET", "cemetery-max-memory", "64kb")
        connection.pipeline([[b"DEL", b"k%d" % i] for i in range(0, KEYS, 7)])
        connection.cmd("CONFIG", "SET", "cemetery-max-memory", "64mb")
        connection.pipeline([[b"DEL", b"k%d" % i] for i in range(1, KEYS, 7)])
        # The next flush writes the graves' checkpoint.
        connection.pipeline([[b"SET", b"m%d" % i, b"%d" % i * 40] for i in range(KEYS)])
        for _ in range(50):
            connection.pipeline([[b"SET", b"last%d" % i, b"x" * 30] for i in range(20)])
        connection.cmd("WAITAOF", 1, 0, 0)
        connection.close()
        expected = content(server)
        server.kill()
        for name in FILES:
            run_file(steps, args, server.directory, expected, name)
        torn_and_kept(steps, args, server.directory, expected)
        server.start()
        second = Server(args.server, OPTIONS, directory=server.directory)
        try:
            second.start(timeout_s=10)
            steps.check("two servers on one directory: the second is refused", False, "it started")
        except RuntimeError as error:
            steps.check("two servers on one directory: the second is refused", f"process {server.pid}" in str(error))
        finally:
            second.kill()
        steps.equal("two servers on one directory: the first goes on", content(server), expected)
        server.kill()
        if os.geteuid() == 0 and shutil.which("setpriv"):
            other = Server(args.server, OPTIONS, directory=server.directory, prefix=["setpriv", "--reuid=65534", "--clear-groups"])
            try:
                other.start(timeout_s=10)
                steps.check("permission denied: refused", False, "it started")
            except RuntimeError as error:
                steps.check("permission denied: refused, and named", "Permission denied" in str(error))
            finally:
                other.kill()
        else:
            print("skip  permission denied: needs root and setpriv")
    finally:
        server.close()


def mounted(size_mb):
    """A small file system of its own: its image, its mount point; None if mounting is not permitted."""
    base = Path(tempfile.mkdtemp(prefix="sexton-test-mount-"))
    image, point = base / "image", base / "fs"
    point.mkdir()
    with open(image, "wb") as file:
        file.truncate(size_mb << 20)
    for command in (["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], ["mount", "-o", "loop", str(image), str(point)]):
        if subprocess.run(command, capture_output=True).returncode:
            shutil.rmtree(base)
            return None
    return base, point


def run_device(steps, args, name, begin, end):
    made = mounted(96)
    if not made:
        print(f"skip  {name}: cannot mount a file system here")
        return
    base, point = made
    server = Server(args.server, OPTIONS | {"appendfsync": "everysec"}, directory=point / "data")
    server.log_path = base / "server.log"
    try:
        server.start()
        connection = server.connect(timeout_s=20)
        for i in range(500):
            connection.cmd("SET", f"before{i}", "x" * 100)
        connection.cmd("WAITAOF", 1, 0, 0)
        begin(point)
        refused, deadline = None, time.monotonic() + 30
        while refused is None and time.monotonic() < deadline:
            try:
                connection.pipeline([[b"SET", b"during%d" % i, b"x" * 4000] for i in range(50)])
                node = connection.node("SET", "during", "x")
                refused = node.value if node.is_error() else None
            except (OSError, ReplyError) as error:
                refused = str(error)
                connection = server.connect(timeout_s=20)
        steps.check(f"{name}: writes are refused", refused is not None, str(refused)[:90])
        steps.check(f"{name}: reads go on", connection.cmd("GET", "before7") == b"x" * 100)
        end(point)
        taken, deadline = False, time.monotonic() + 30
        while not taken and time.monotonic() < deadline:
            node = connection.node("SET", "after", "1")
            taken = not node.is_error()
            time.sleep(0.02)
        steps.check(f"{name}: service comes back", taken)
        steps.equal(f"{name}: and is durable again", connection.cmd("WAITAOF", 1, 0, 10000), [1, 0])
        log = lambda: server.log_path.read_text(errors="replace")
        told = {fault: lines for fault, lines in faultlog.settled(log).items() if lines != (0, 0)}
        steps.equal(f"{name}: the log says once that it begins and once that it is over", told, dict.fromkeys(told, (1, 1)))
        full = [line for fault in ("log", "flush") for line in faultlog.reasons(log(), fault)]
        steps.check(f"{name}: and that the disk is full", "refusal" in told and full and all("No space left" in line for line in full), str(full))
        server.kill()
        server.start()
        connection = server.connect()
        kept = [connection.cmd("GET", "before499"), connection.cmd("GET", "after")]
        steps.equal(f"{name}: what was synced is there after kill -9", kept, [b"x" * 100, b"1"])
    finally:
        server.kill()
        subprocess.run(["umount", "-l", str(point)], check=False)
        shutil.rmtree(base, ignore_errors=True)


def fill_up(point):
    with open(point / "ballast", "wb", buffering=0) as file:
        try:
            while file.write(b"x" * (64 << 10)):
                pass
        except OSError:
            pass


def vanish(server, is_stalled):
    """Clients that write and disconnect while writers wait: how many more connections there were, how many are left, and
    whether writers still wait then."""
    before = int(server.info()["connected_clients"])
    clients = [server.connect() for _ in range(40)]
    for number, client in enumerate(clients):
        client.send_raw(b"SET key:%d x\r\n" % number * 3)
    came = int(server.info()["connected_clients"]) - before
    for client in clients:
        client.close()
    ended = time.monotonic() + 3
    while (left := int(server.info()["connected_clients"]) - before) > 0 and time.monotonic() < ended:
        time.sleep(0.02)
    return came, left, is_stalled()


def run_hang(steps, args):
    if not shutil.which("strace"):
        print("skip  a device that hangs: strace is missing")
        return
    # The third sync of each thread: that of the log's own thread comes after some three seconds.
    inject = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_exit=8000000:when=3"]
    server = Server(args.server, OPTIONS | {"appendfsync": "everysec", "memtable-bytes": "64mb"}, prefix=inject)
    stop = threading.Event()

    def write():
        writer = server.connect()
        while not stop.wait(0.01):
            writer.cmd("SET", "k", "x")
        writer.close()

    thread = threading.Thread(target=write)
    try:
        server.start()
        thread.start()
        connection = server.connect()
        log = lambda: server.log_path.read_text(errors="replace")
        slowest, left, ended = 0.0, None, time.monotonic() + 15
        while time.monotonic() < ended and faultlog.counts(log())["stall"] != (1, 1):
            begun = time.monotonic()
            connection.cmd("GET", "anything")
            slowest = max(slowest, time.monotonic() - begun)
            if left is None and faultlog.counts(log())["stall"] == (1, 0):
                left = vanish(server, lambda: faultlog.counts(log())["stall"] == (1, 0))
            time.sleep(0.005)
        steps.check("a device that hangs in a sync: writers that vanish while they wait are gone soon",
                    left is not None and left[0] == 40 and left[1] == 0 and left[2], str(left))
        steps.check("a device that hangs in a sync: reads go on", slowest < 0.5, f"slowest {slowest * 1000:.0f} ms")
        stop.set()
        thread.join()
        steps.equal("a device that hangs: one line when writers wait, one when they go on", faultlog.settled(log)["stall"], (1, 1))
        reason = faultlog.reasons(log(), "stall")
        steps.check("a device that hangs: and why they wait", any("waits for its device" in line for line in reason), str(reason))
    finally:
        stop.set()
        server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    args = parser.parse_args()
    steps = Steps("outages")
    run_files(steps, args)
    run_device(steps, args, "a full disk", fill_up, lambda point: os.remove(point / "ballast"))
    run_hang(steps, args)
    steps.finish()


if __name__ == "__main__":
    main()
