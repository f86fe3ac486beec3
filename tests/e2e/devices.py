"""python3 -m devices [--server sexton]: files on named devices.

Log, dump and tables move to devices and back at restarts, with all data, also after a crash between
the copy and the link. Log records are distributed over devices by size. An import sets aside a store on its device,
and is undone there. Undo runs are stored on their device and leave nothing behind. A log on persistent memory (emulated on
tmpfs) is mapped, survives kill -9 and needs no fsync. INFO counts the operations of each device, and marks emulated ones.
An emulated disk is as slow as its profile. Undeclared names and occupied places are refused.
"""

import argparse
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from harness.server import Server, binary_of, redis_tool
from harness.steps import Steps

KEYS = 3000


def fill(server, first, count):
    connection = server.connect()
    connection.pipeline([[b"SET", b"k%d" % i, b"%d" % i * 20] for i in range(first, first + count)])
    connection.cmd("WAITAOF", 1, 0, 0)
    connection.close()


def holds(server, count):
    connection = server.connect()
    nodes = connection.pipeline([[b"GET", b"k%d" % i] for i in range(count)])
    size = connection.cmd("DBSIZE")
    connection.close()
    return size == count and all(node.value == b"%d" % i * 20 for i, node in enumerate(nodes))


def device(server, name):
    """Fields of a device of INFO, those of its kinds of operation under their names."""
    info = server.info()
    for number in range(8):
        fields = dict(pair.split("=", 1) for pair in info.get(f"device{number}", "").split(",") if pair)
        if fields.get("name") == name:
            for kind in ("reads", "writes", "syncs"):
                fields[kind] = dict(pair.split("=") for pair in info[f"device{number}_{kind}"].split(","))
            return fields
    return None


def hold_the_past(server, steps, name, device_name, places):
    """Overwrites under an open snapshot until there are undo runs; leaves them there."""
    past, writer = server.connect(), server.connect()
    then = writer.cmd("GET", "k7")
    past.cmd("SEXTON.SNAPSHOT", "OPEN")
    deadline = time.monotonic() + 60
    while int(server.info()["flsm_undo_runs"]) == 0 and time.monotonic() < deadline:
        # The same values: the data is compared at every start.
        writer.pipeline([[b"SET", b"k%d" % i, b"%d" % i * 20] for i in range(KEYS)])
    info = server.info()
    steps.check(f"{name}: what the snapshot needs is apart", int(info["flsm_undo_runs"]) > 0, f"{info['flsm_undo_runs']} runs")
    written = int(device(server, device_name)["written_bytes"])
    steps.check(f"{name}: its device counts it", written >= int(info["flsm_undo_written_bytes"]) > 0, f"{written} bytes")
    steps.check(f"{name}: the files are there", any((places / device_name / "undo").glob("*.undo")))
    steps.equal(f"{name}: the snapshot reads them", past.cmd("GET", "k7"), then)
    # Killed below or not: the connections end without a word.
    past.close()
    writer.close()


def save(server, command):
    connection = server.connect(timeout_s=60)
    saves = int(server.info()["rdb_saves"])
    connection.cmd(command)
    while int(server.info()["rdb_saves"]) == saves:
        time.sleep(0.02)
    connection.close()


def dumps(steps, server, config, places, base):
    """Reads and writes of snapshots are counted for the devices they use."""
    server.options = base | {"include": config, "rdb-device": "big", "aof-device": "fast", "save": ""}
    server.options |= {"enable-debug-command": "yes", "enable-protected-configs": "yes"}
    server.start()
    connection = server.connect(timeout_s=60)
    # Values that do not compress, so that the bytes are known.
    value = b"".join(b"%d" % (i * i) for i in range(500))
    connection.pipeline([[b"SET", b"d%d" % i, value] for i in range(200)])
    least = 200 * len(value) // 4
    figure = lambda name, field: int(device(server, name)[field])
    before = figure("big", "written_bytes")
    save(server, "BGSAVE")
    written = figure("big", "written_bytes") - before
    steps.check("BGSAVE writes to rdb-device", written > least, f"{written} bytes")
    before = figure("big", "read_bytes")
    digest = connection.cmd("DEBUG", "DIGEST")
    reply = connection.cmd("DEBUG", "RELOAD")
    read = figure("big", "read_bytes") - before
    steps.check("DEBUG RELOAD reads it there", reply == b"OK" and read > least, f"{reply!r}, {read} bytes")
    steps.equal("DEBUG RELOAD gives the same data", connection.cmd("DEBUG", "DIGEST"), digest)
    before = figure("fast", "written_bytes")
    connection.cmd("BGREWRITEAOF")
    while server.info()["aof_rewrite_in_progress"] != "0":
        time.sleep(0.02)
    written = figure("fast", "written_bytes") - before
    steps.check("BGREWRITEAOF's base counts for aof-device", written > least, f"{written} bytes")
    keys = connection.cmd("DBSIZE")
    connection.cmd("CONFIG", "SET", "dbfilename", "other.rdb")
    save(server, "SAVE")
    link = server.directory / "other.rdb"
    steps.equal("a new dbfilename leads to rdb-device", link.is_symlink() and link.readlink(), places / "big/other.rdb")
    connection.close()
    server.kill()

    # Without a log the dump is the truth, wherever it lies.
    server.options = {"appendonly": "no", "save": "", "include": config, "rdb-device": "big"}
    server.start()
    connection = server.connect()
    steps.equal("appendonly no loads it from there", connection.cmd("DBSIZE"), keys)
    read = figure("big", "read_bytes")
    steps.check("and its device counts the load", read > least, f"{read} bytes")
    connection.close()
    server.kill()
    for name in ("dump.rdb", "other.rdb"):
        (server.directory / name).unlink()
    server.options = base | {"include": config, "rdb-device": "big"}
    said = refused(server, "is there already")
    steps.check("a dump that is in the way is refused", said is None, said or "")
    (places / "big/dump.rdb").unlink()


def tables(directory):
    """Numbers of the tables in a directory, empty if it does not exist."""
    return {path.stem for path in directory.glob("*.tbl")} if directory.exists() else set()


def levels(steps, server, config, places, base):
    """Tables of levels on devices of their own, in changing layouts."""
    count = 0
    tree = server.directory / "tree"
    layouts = {
        "two ranges": ["tree-device 0-1 fast", "tree-device 2-6 big"],
        "the ranges change places": ["tree-device 0-1 big", "tree-device 2-6 fast"],
        "the tree on one, the last level on another": ["tree-device big", "tree-device 6 fast"],
        "one level only": ["tree-device 0 fast"],
        "no device": [],
    }
    devices = config.read_text()
    for name, lines in layouts.items():
        config.write_text(devices + "".join(line + "\n" for line in lines))
        server.options = base | {"include": config, "save": ""}
        server.start()
        steps.check(f"{name}: the data came along", holds(server, count))
        for _ in range(6):
            fill(server, count, 600)
            count += 600
        info = wait_for_levels(server)
        wanted = {}
        for line in lines:
            *ranges, device_name = line.split()[1:]
            first, _, last = ranges[0].partition("-") if ranges else ("0", "", "6")
            for level in range(int(first), int(last or first) + 1):
                if ranges or level not in wanted:
                    wanted[level] = device_name
        shown = {level: info[f"flsm_level{level}"].split("device=")[1] for level in range(7)}
        steps.equal(f"{name}: INFO names the devices", shown, {level: wanted.get(level, "dir") for level in range(7)})
        home = next((line.split()[1] for line in lines if len(line.split()) == 2), "dir")
        for place in ("fast", "big"):
            by_info = sum(
                int(info[f"flsm_level{level}"].split(",")[0].split("=")[1])
                for level in range(7)
                if wanted.get(level) == place and place != home
            )
            found = tables(tree / f"on-{place}")
            steps.check(f"{name}: tables on {place} are those of its levels", len(found) == by_info, f"{len(found)}, {by_info}")
        on_devices = {path for path in places.rglob("*.tbl")}
        expected = sum(int(info[f"flsm_level{level}"].split(",")[0].split("=")[1]) for level in range(7) if level in wanted)
        steps.equal(f"{name}: no table stays behind", len(on_devices), expected)
        server.kill()
        checker = Path(binary_of(server.kind)).with_name("sexton-check")
        if checker.exists():
            done = subprocess.run([checker, server.directory], capture_output=True, text=True, timeout=120)
            steps.check(f"{name}: sexton-check finds nothing wrong", done.returncode == 0, done.stdout[-300:] if done.returncode else "")
    config.write_text(devices)
    return count


def mixed(server, first, count):
    """Short and long values in turn, some of both in one transaction, an increment that must not run twice."""
    connection = server.connect(timeout_s=60)
    commands = []
    for i in range(first, first + count):
        commands += [[b"SET", b"short:%d" % i, b"%d" % i], [b"SET", b"long:%d" % i, b"%d" % i * 300]]
        commands += [[b"MULTI"], [b"INCR", b"count"], [b"SET", b"both:%d" % i, b"%d" % i * 200], [b"EXEC"]]
    connection.pipeline(commands)
    connection.cmd("WAITAOF", 1, 0, 0)
    connection.close()


def holds_mixed(server, count):
    connection = server.connect(timeout_s=60)
    keys = [(b"short:%d", 1), (b"long:%d", 300), (b"both:%d", 200)]
    nodes = connection.pipeline([[b"GET", name % i] for i in range(1000, count) for name, _ in keys])
    values = [b"%d" % i * times for i in range(1000, count) for _, times in keys]
    counted = connection.cmd("GET", "count")
    connection.close()
    return int(counted or 0) == count - 1000 and [node.value for node in nodes] == values


def log_parts(places):
    return sorted(path.parent.parent.name for path in places.glob("*/records-*/*.on-*"))


def refused(server, reason):
    """None if the start is refused for this reason, otherwise the output."""
    try:
        server.start(timeout_s=20)
        return "it started"
    except RuntimeError as error:
        return None if reason in str(error) else str(error)[-300:]
    finally:
        server.kill()


def routes(steps, server, config, places, base):
    """Records of the log by size on several devices, in changing layouts, killed each time."""
    devices = config.read_text()
    count = 1000
    for name, line, places_used in (
        ("no routes", "", []),
        ("long ones apart", "aof-route 600 big", ["big3"]),
        ("three classes", "aof-route 600 fast 900 big\naof-device big", ["big3", "fast3"]),
        ("the other way round", "aof-route 600 big 900 fast\naof-device fast", ["big3", "fast3"]),
        ("one class only", "aof-route 0 big", ["big3"]),
        ("no routes again", "", []),
    ):
        config.write_text(f"{devices}{line}\n")
        server.options = base | {"include": config, "memtable-bytes": "64mb"}
        server.start()
        steps.check(f"routes, {name}: the data came along", holds_mixed(server, count))
        before = {at: int(device(server, at)["written_bytes"]) for at in ("fast", "big")}
        mixed(server, count, 200)
        count += 200
        written = {at: int(device(server, at)["written_bytes"]) - before[at] for at in ("fast", "big")}
        if name == "long ones apart":
            steps.check(f"routes, {name}: INFO counts them there", written["big"] > 200 * 2000 > written["fast"], f"{written}")
        found = set(log_parts(places))
        steps.check(f"routes, {name}: the places are used", found >= set(places_used), f"{found}")
        server.kill()
    server.start()
    steps.check("routes: all data after all of it", holds_mixed(server, count))
    server.kill()
    # Flushes retire the segments, and their parts go with them; the next start removes the links.
    server.options["memtable-bytes"] = "64kb"
    server.start()
    mixed(server, count, 2000)
    count += 2000
    deadline = time.monotonic() + 30
    while log_parts(places) and time.monotonic() < deadline:
        time.sleep(0.05)
    steps.equal("routes: parts go with their segments", log_parts(places), [])
    server.kill()
    server.start()
    steps.equal("routes: links go with the parts", list((server.directory / "appendonlydir").glob("on-*")), [])
    steps.check("routes: all data behind the flushes", holds_mixed(server, count))
    server.kill()

    server.options["memtable-bytes"] = "64mb"
    config.write_text(f"{devices}aof-route 600 big\n")
    server.start()
    for _ in range(2):
        # The second one's groups say that the first one's were synced.
        mixed(server, count, 25)
        count += 25
    connection = server.connect(timeout_s=60)
    error = connection.node("BGREWRITEAOF").python()
    steps.check("routes: BGREWRITEAOF is refused", "aof-route" in str(error), str(error))
    connection.close()
    server.kill()
    copy = Path(tempfile.mkdtemp(prefix="sexton-test-copy-"))
    shutil.copytree(server.directory / "appendonlydir", copy / "appendonlydir")
    peer = Server("redis", {"appendonly": "yes"}, directory=copy)
    said = refused(peer, "run-BGREWRITEAOF-first.rdb")
    steps.check("routes: redis-server refuses the directory", said is None, said or "")
    shutil.rmtree(copy)
    away = places / "big3-away"
    (places / "big3").rename(away)
    said = refused(server, "is its device mounted?")
    steps.check("routes: a device that is away is refused", said is None, said or "")
    away.rename(places / "big3")
    # What was acknowledged is damaged.
    part = max(places.glob("big3/records-*/*.on-*"), key=lambda path: path.stat().st_size)
    bytes_of_part = part.read_bytes()
    part.write_bytes(bytes_of_part[:100] + b"?" + bytes_of_part[101:])
    said = refused(server, "sexton-check")
    steps.check("routes: a damaged record is refused", said is None, said or "")
    part.write_bytes(bytes_of_part)
    server.start()
    steps.check("routes: whole again, it starts", holds_mixed(server, count))
    server.kill()


def wait_for_levels(server):
    """INFO once no compaction is due."""
    while True:
        info = server.info()
        if info["flsm_compaction_debt_bytes"] == "0" and info.get("flsm_background_error", "") == "":
            time.sleep(0.2)
            again = server.info()
            if all(info[f"flsm_level{level}"] == again[f"flsm_level{level}"] for level in range(7)):
                return again


def interrupted(steps, server, config, places, base, count):
    """A crash while files are moved: the copy is there, partly or completely, and no link leads to it yet."""
    tree, copy = server.directory / "tree", places / "big/tree"
    for name, parts in (("half of a copy", 2), ("a whole copy", 1)):
        files = sorted(path.name for path in tree.iterdir())
        (server.directory / "tree.moved").symlink_to(copy)
        copy.mkdir(parents=True, exist_ok=True)
        for file in files[: len(files) // parts]:
            shutil.copy(tree / file, copy / file)
        server.options = base | {"include": config, "tree-device": "big"}
        server.start()
        steps.check(f"a crash after {name}: all data", holds(server, count))
        at = tree.readlink() if tree.is_symlink() else None
        steps.equal(f"a crash after {name}: the tables are where they should be", at, copy)
        server.terminate()
        left = [path.name for path in server.directory.iterdir() if path.suffix in (".moved", ".old")]
        steps.equal(f"a crash after {name}: nothing stays beside them", left, [])
        server.options = base | {"include": config}
        server.start()
        steps.check(f"a crash after {name}: all data is back", holds(server, count) and not tree.is_symlink())
        server.terminate()


def imports(steps, server, config, places, base, count):
    """--import on a store whose files are on devices, refused and undone, or completed."""
    dump = server.directory / "import-me.rdb"
    layout = {"aof-device": "fast", "rdb-device": "big"}
    config.write_text(config.read_text() + "tree-device big\ntree-device 0-6 fast\n")
    server.options = base | {"include": config, "save": ""} | layout
    server.start()
    connection = server.connect(timeout_s=60)
    connection.cmd("SET", "k0", "of before")
    save(server, "SAVE")
    shutil.copy(places / "big2/dump.rdb", dump)
    connection.cmd("SET", "k0", "of later")
    connection.cmd("WAITAOF", 1, 0, 0)
    connection.close()
    server.kill()
    # A file with a type that cannot be stored: the import is undone.
    bad = server.directory / "bad.rdb"
    bad.write_bytes(b"REDIS0009\xfe\x00\x00\x01a\x01b\x06\x01c\xff" + bytes(8))
    for path, reason in ((bad, "Fatal error loading the DB"), (dump, None)):
        server.options["import"] = path
        try:
            server.start(timeout_s=60)
            steps.check(f"--import {path.name}", reason is None, "it started")
        except RuntimeError as error:
            refused = reason is not None and reason in str(error)
            steps.check(f"--import {path.name} is refused", refused, "" if refused else str(error)[-300:])
        if reason is None:
            connection = server.connect()
            steps.equal(f"--import {path.name}: it had it", connection.cmd("GET", "k0"), b"of before")
            connection.close()
        server.kill()
        del server.options["import"]
        server.start()
        connection = server.connect()
        expected = b"of later" if reason else b"of before"
        steps.equal(f"after --import {path.name}: what counts is there", connection.cmd("GET", "k0"), expected)
        steps.equal(f"after --import {path.name}: all keys", connection.cmd("DBSIZE"), count)
        connection.close()
        for name, place in (("appendonlydir", "fast"), ("tree", "big")):
            link = server.directory / name
            target = link.readlink() if link.is_symlink() else None
            steps.equal(f"after --import {path.name}: {name} is on its device", target, places / f"{place}2" / name)
        server.kill()
    kept = sorted(path.name.split("-")[2] for path in places.glob("*/imported-*"))
    steps.equal("what was in the way is kept on the devices", kept, ["appendonlydir", "tree"])


def kill_under_load(server, first):
    """Writes one by one, several to each of four connections, until the process is killed; returns which were acknowledged."""
    answered, stop = [], threading.Event()

    def write(nth):
        try:
            connection = server.connect(timeout_s=20)
            for i in range(first + nth, first + 4000, 4):
                connection.cmd("SET", f"m{i}", f"{i}" * (1 + i % 300))
                connection.cmd("INCR", f"count{nth}")
                answered.append(i)
                if len(answered) >= 600:
                    stop.set()
        except OSError:
            pass  # Killed.

    writers = [threading.Thread(target=write, args=(nth,)) for nth in range(4)]
    for writer in writers:
        writer.start()
    stop.wait(60)
    server.kill()
    for writer in writers:
        writer.join()
    return list(answered)


def mapped_log(steps, kind, config, name, place, line, route=""):
    """Rounds of kill -9 with the log on a device of persistent memory."""
    config.write_text(f"device pm kind pmem path {place}{line}\n{route}")
    how = {"tmpfs": "emulated", "emulated": "emulated", "a disk": "msync", "no libpmem": "no"}[name]
    options = {"appendonly": "yes", "appendfsync": "always", "include": config, "aof-device": "pm"}
    options |= {"memtable-bytes": "256kb", "aof-segment-bytes": "1mb"}
    env = {}
    if name == "no libpmem":
        # A file of that name that is no library.
        broken = config.parent / "broken"
        broken.mkdir(exist_ok=True)
        (broken / "libpmem.so.1").write_bytes(b"")
        env["LD_LIBRARY_PATH"] = str(broken)
    server = Server(kind, options, env=env)
    try:
        kept, counts = [], [0] * 4
        for number in range(3):
            server.start()
            connection = server.connect(timeout_s=60)
            nodes = connection.pipeline([[b"GET", b"m%d" % i] for i in kept])
            whole = all(node.value == b"%d" % i * (1 + i % 300) for i, node in zip(kept, nodes))
            steps.check(f"log on {name}, round {number}: all that was answered is there", whole, f"{len(kept)} writes")
            # Of each connection one increment at most was under way.
            found = [int(connection.cmd("GET", f"count{nth}") or 0) for nth in range(4)]
            exact = all(known <= value <= known + number for known, value in zip(counts, found))
            steps.check(f"log on {name}, round {number}: no increment twice", exact, f"{found}, answered {counts}")
            connection.close()
            before = device(server, "pm")
            steps.equal(f"log on {name}, round {number}: INFO says how", before["mapped"], how)
            answered = kill_under_load(server, 10_000 * (number + 1))
            counts = [count + sum(1 for i in answered if i % 4 == nth) for nth, count in enumerate(counts)]
            kept += answered
        said = "is not mapped, but written with write and fdatasync" if how == "no" else "The log on device pm is mapped"
        steps.equal(f"log on {name}: the log says so once a start", server.log_tail(10_000).count(said), 3)
        tool = Path(binary_of(kind)).with_name("sexton-check")
        if tool.exists():
            done = subprocess.run([tool, "--quiet", server.directory], capture_output=True, text=True, timeout=120)
            steps.check(f"log on {name}: sexton-check finds nothing wrong", done.returncode == 0, done.stdout[-300:] if done.returncode else "")
        manifest = server.directory / "appendonlydir/appendonly.aof.manifest"
        if not route:
            # Killed in the middle of a write: what Redis' tool sees is at worst a comment that was not finished.
            server.start()
            server.terminate()
            segments = sorted((server.directory / "appendonlydir").glob("*.incr.aof"))
            listed = manifest.read_text()
            for segment in (path for path in segments if path.name in listed):
                done = subprocess.run([redis_tool("redis-check-aof"), segment], capture_output=True, text=True, timeout=120)
                steps.check(f"log on {name}: redis-check-aof reads {segment.name}", done.returncode == 0, (done.stdout + done.stderr)[-300:] if done.returncode else "")
                steps.check(f"log on {name}: no zeros in {segment.name}", b"\0" not in segment.read_bytes())
        if shutil.which("strace"):
            trace = server.directory / "trace"
            calls = "fdatasync,fsync,msync,pwrite64"
            server.prefix = ["strace", "-D", "-f", "-qq", "-y", "-o", trace, "-e", f"trace={calls}"]
            server.options["memtable-bytes"] = "64mb"
            server.start()
            begun = trace.stat().st_size
            connection = server.connect(timeout_s=60)
            figures = device(server, "pm")
            for i in range(200):
                connection.cmd("SET", f"traced{i}", "x")
            connection.close()
            with trace.open() as file:
                file.seek(begun)
                lines = [text for text in file if "incr.aof" in text or "msync" in text]
            per_write = len(lines) / 200
            # The next segment may just be made.
            seen = {"emulated": per_write < 0.1, "msync": 0.9 < per_write < 1.2, "no": 1.8 < per_write < 2.2}[how]
            steps.check(f"log on {name}: system calls for a durable write", seen, f"{per_write:.2f}")
            after = device(server, "pm")
            grew = {
                "bytes": int(after["written_bytes"]) - int(figures["written_bytes"]),
                "syncs": int(after["syncs"]["operations"]) - int(figures["syncs"]["operations"]),
            }
            counted = grew["bytes"] >= 200 * 192 and 190 <= grew["syncs"] <= 210
            steps.check(f"log on {name}: INFO counts bytes and syncs", counted, f"{grew}")
            if line:
                said = after["emulated"] == "optane-pmem" and after["writes"]["emulated"] == "yes"
                steps.check(f"log on {name}: INFO says what it emulates", said, after["emulated"])
    finally:
        server.close()


def persistent_memory(steps, kind, places):
    config = places / "pmem.conf"
    memory = Path("/dev/shm")
    mapped_log(steps, kind, config, "a disk", places / "pm-disk", "")
    mapped_log(steps, kind, config, "emulated", places / "pm-emulated", " emulate optane-pmem")
    mapped_log(steps, kind, config, "no libpmem", places / "pm-none", "")
    if memory.is_dir():
        place = Path(tempfile.mkdtemp(prefix="sexton-test-pmem-", dir=memory))
        try:
            mapped_log(steps, kind, config, "tmpfs", place / "log", "")
            mapped_log(steps, kind, config, "tmpfs", place / "routed", "", "aof-route 600 pm\n")
        finally:
            shutil.rmtree(place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    args = parser.parse_args()
    steps = Steps("devices")
    places = Path(tempfile.mkdtemp(prefix="sexton-test-places-"))
    base = {"appendonly": "yes", "memtable-bytes": "64kb"}
    server = Server(args.server, base)
    try:
        server.start()
        fill(server, 0, KEYS)
        server.kill()
        count = KEYS
        layouts = {
            "log on a device": {"aof-device": "fast"},
            "tables and dump too": {"aof-device": "fast", "tree-device": "big", "rdb-device": "big"},
            "log on the device of the tables": {"aof-device": "big", "tree-device": "big", "rdb-device": "fast"},
            "tables only": {"tree-device": "big"},
            "undo runs too": {"tree-device": "big", "undo-device": "fast"},
            "undo runs elsewhere": {"undo-device": "big"},
            "all back": {},
        }
        config = server.directory / "devices.conf"
        config.write_text(f"device fast kind nvme path {places}/fast\ndevice big kind hdd path {places}/big\n")
        for name, layout in layouts.items():
            server.options = base | {"include": config} | layout
            server.start()
            steps.check(f"{name}: the data came along", holds(server, count))
            fill(server, count, 500)
            count += 500
            save(server, "SAVE" if "rdb-device" in layout else "BGSAVE")
            kinds = {"aof-device": "appendonlydir", "tree-device": "tree", "undo-device": "undo", "rdb-device": "dump.rdb"}
            for directive, files in kinds.items():
                wanted = layout.get(directive)
                link = server.directory / files
                at = link.readlink() if link.is_symlink() else None
                expected = places / wanted / files if wanted else None
                steps.equal(f"{name}: {files} is where it should be", at, expected)
            written = int(device(server, layout.get("aof-device", "dir"))["written_bytes"])
            steps.check(f"{name}: its device counts the log", written > 500 * 40, f"{written} bytes")
            if "undo-device" in layout:
                hold_the_past(server, steps, name, layout["undo-device"], places)
            server.kill() if len(layout) > 1 else server.terminate()
        left = [path for path in places.rglob("*.undo")] + [path for path in server.directory.rglob("*.undo")]
        steps.equal("no undo run is left anywhere", left, [])

        interrupted(steps, server, config, places, base, count)
        dumps(steps, server, config, places, base)
        server.close()
        server = Server(args.server, base)
        config = server.directory / "devices.conf"
        config.write_text(f"device fast kind nvme path {places}/fast2\ndevice big kind hdd path {places}/big2\n")
        count = levels(steps, server, config, places, base)
        imports(steps, server, config, places, base, count)
        server.close()
        server = Server(args.server, base)
        config = server.directory / "devices.conf"
        config.write_text(f"device fast kind nvme path {places}/fast3\ndevice big kind hdd path {places}/big3\n")
        routes(steps, server, config, places, base)
        server.close()
        persistent_memory(steps, args.server, places)
        server = Server(args.server, base)
        config = server.directory / "devices.conf"

        config.write_text(f"device disk kind hdd path {places}/disk emulate hdd\n")
        server.options = base | {"include": config, "aof-device": "disk", "appendfsync": "always"}
        server.start()
        connection = server.connect()
        begun = time.monotonic()
        for i in range(20):
            connection.cmd("SET", f"slow{i}", "x")
        took = time.monotonic() - begun
        connection.close()
        disk = device(server, "disk")
        steps.check("an emulated disk takes its time", took > 20 * 0.008, f"{took / 20 * 1000:.1f} ms a synced write")
        steps.check("INFO says emulated", disk["emulated"] == "hdd" and disk["syncs"]["emulated"] == "yes")
        steps.check("INFO has the syncs' latency", float(disk["syncs"]["p50_us"]) > 8000, f"p50 {disk['syncs']['p50_us']} us")
        steps.check("the log says emulated", "Device disk is emulated: hdd" in server.log_tail(200))
        server.kill()

        own = server.directory / "own.conf"
        line = "read-us 1 write-us 1 position-us 0 sync-us 30000 read-mb-s 100 write-mb-s 100 channels 4 cache-bytes 1000000 unit-bytes 1 write-through no"
        own.write_text(f"profile floppy {line}\n")
        config.write_text(f"device disk kind ssd path {places}/disk emulate floppy\n")
        server.options["device-profiles"] = own
        server.start()
        fill(server, 0, 1)
        steps.check("one's own profile", float(device(server, "disk")["syncs"]["p50_us"]) > 30000)
        server.kill()

        for name, options, reason in (
            ("an undeclared device", {"tree-device": "nowhere"}, "no device is named 'nowhere'"),
            ("an unknown profile", {"device-profiles": ""}, "no profile is named 'floppy'"),
        ):
            failing = Server(args.server, server.options | options, directory=server.directory)
            said = refused(failing, reason)
            steps.check(f"{name} is refused", said is None, said or "")
        (places / "taken/appendonlydir").mkdir(parents=True)
        (places / "taken/appendonlydir/file").write_text("of somebody")
        config.write_text(f"device disk kind ssd path {places}/taken\n")
        server.options = base | {"include": config, "aof-device": "disk"}
        said = refused(server, "is not empty")
        steps.check("a place that is taken is refused", said is None, said or "")
    finally:
        server.close()
        shutil.rmtree(places, ignore_errors=True)
    steps.finish()


if __name__ == "__main__":
    main()
