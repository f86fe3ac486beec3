"""python3 -m backup: BACKUP START, SEAL, LIST, ABORT, CLEANUP under load, and the content of a copy in each state."""

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path

import rdb_data
from harness.resp import ReplyError
from harness.server import Server, sexton_check
from harness.steps import Steps

OPTIONS = {"enable-debug-command": "yes"}


def status(connection):
    flat = connection.cmd("BACKUP", "STATUS")
    return {name.decode(): value.decode() for name, value in zip(flat[0::2], flat[1::2])}


def state(connection):
    return status(connection)["state"]


def refused(connection, *words):
    try:
        connection.cmd("BACKUP", *words)
    except ReplyError as error:
        return error.args[0].decode()
    return None


def opened(steps, name, directory):
    """Opens a copy of the directory, which must be complete; returns its digest and the keys of one writer."""
    home = Path(tempfile.mkdtemp(prefix="sexton-test-backup-"))
    try:
        shutil.copytree(directory, home, dirs_exist_ok=True)
        code, text = sexton_check(home)
        steps.check(f"{name}: sexton-check", code == 0, text if code else "")
        with Server("sexton", OPTIONS, directory=home) as server:
            connection = server.connect()
            found = connection.cmd("DEBUG", "DIGEST"), int(connection.cmd("GET", "counter") or 0)
            connection.close()
            return found
    finally:
        shutil.rmtree(home)


def writing(server, stop):
    connection = server.connect()
    while not stop.is_set():
        connection.pipeline([("INCR", "counter")] * 50 + [("SET", "filler", "x" * 5000)] * 20)
    connection.close()


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    steps = Steps("BACKUP")
    with Server("sexton", OPTIONS) as server:
        connection = server.connect()
        directory = server.directory / "backupdir"
        rdb_data.fill(connection, (7, 0))
        connection.cmd("SELECT", 0)
        steps.equal("nothing is under way", status(connection), {"state": "idle", "error": "", "start_time": "0", "end_time": "0"})
        steps.equal("LIST is empty", connection.cmd("BACKUP", "LIST"), [])
        steps.check("SEAL and ABORT without START", refused(connection, "SEAL") and refused(connection, "ABORT"))
        want = connection.cmd("DEBUG", "DIGEST")
        steps.equal("START", connection.cmd("BACKUP", "START"), b"OK")
        steps.equal("its state", state(connection), "incrementing")
        listed = [Path(path.decode()) for path in connection.cmd("BACKUP", "LIST")]
        steps.check("LIST names files that are there", listed and all(path.is_file() and path.is_absolute() for path in listed))
        steps.check("a second START is refused", "incrementing" in (refused(connection, "START") or ""))
        tables = {path: path.read_bytes() for path in listed if path.suffix == ".tbl"}
        steps.equal("a copy of it: the data of START", opened(steps, "START", directory)[0], want)
        stop = threading.Event()
        writer = threading.Thread(target=writing, args=(server, stop))
        writer.start()
        deadline = time.monotonic() + 30
        while int(connection.cmd("GET", "counter") or 0) < 1000 and time.monotonic() < deadline:
            time.sleep(0.01)
        before = int(connection.cmd("GET", "counter"))
        steps.equal("SEAL under load", connection.cmd("BACKUP", "SEAL"), b"OK")
        after = int(connection.cmd("GET", "counter"))
        counted = opened(steps, "SEAL", directory)[1]
        stop.set()
        writer.join()
        steps.check("the state of SEAL", before <= counted <= after, f"{before} <= {counted} <= {after}")
        steps.check("its times", int(status(connection)["end_time"]) >= int(status(connection)["start_time"]) > 0)
        same = [path for path, data in tables.items() if not path.exists() or path.read_bytes() == data]
        steps.equal("tables of START that are still named have their bytes", len(same), len(tables))
        steps.check("START before CLEANUP is refused", "sealed" in (refused(connection, "START") or ""))
        steps.equal("CLEANUP", (connection.cmd("BACKUP", "CLEANUP"), directory.exists(), state(connection)), (b"OK", False, "idle"))
        connection.cmd("BACKUP", "START")
        steps.equal("ABORT", (connection.cmd("BACKUP", "ABORT"), directory.exists(), state(connection)), (b"OK", False, "failed"))
        steps.equal("START after a failure", connection.cmd("BACKUP", "START"), b"OK")
        server.kill()
        server.start()
        connection = server.connect()
        steps.check("kill -9: what is left is in the way, and named", "CLEANUP" in (refused(connection, "START") or ""))
        connection.cmd("BACKUP", "CLEANUP")
        (directory / "mine").mkdir(parents=True)
        steps.check("a directory of others is not emptied", "not empty" in (refused(connection, "START") or ""))
        steps.check("nor by CLEANUP", refused(connection, "CLEANUP") is not None and (directory / "mine").is_dir())
        (directory / "mine").rmdir()
        connection.cmd("CONFIG", "SET", "backup-sealed-ttl", 1)
        steps.equal("START in an empty directory", connection.cmd("BACKUP", "START"), b"OK")
        connection.cmd("BACKUP", "SEAL")
        deadline = time.monotonic() + 30
        while directory.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        steps.equal("backup-sealed-ttl", (directory.exists(), state(connection)), (False, "idle"))
    steps.finish()


if __name__ == "__main__":
    main()
