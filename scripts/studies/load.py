"""Drives one server under one load, and monitors it: stalls, snapshots, memory."""

import json
import os
import subprocess
import threading
import time

from bench_common import ROOT
from harness.server import process_rss_bytes

COMMAND_LOAD = ROOT / "target/release/command_load"
#: How often a thread's state is looked at, and from when on sleeping on a device counts as a stall.
LOOK_S, STALL_S = 0.005, 0.01
CLIENTS = 50


def generate(
    port,
    command,
    requests,
    value_bytes,
    *,
    least=None,
    seconds=3600,
    clients=CLIENTS,
    pipeline=1,
    keys=100_000_000,
    first=None,
):
    """Runs command_load; returns its figures as a dictionary."""
    line = [
        COMMAND_LOAD,
        port,
        command,
        requests,
        requests if least is None else least,
        seconds,
        clients,
        pipeline,
        keys,
        value_bytes,
    ]
    if first is not None:
        line.append(first)
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=seconds + 600)
    if done.returncode:
        raise RuntimeError(f"command_load: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def written_bytes(pid):
    """Bytes that a process and its ended children have sent to devices; None if the system does not tell."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("write_bytes:"))
    except (OSError, StopIteration):
        return None


class Watch(threading.Thread):
    """Samples, until `stop`, how long a thread of the server that serves clients sleeps uninterruptibly (on a
    device, as a stalled write() does) and the largest resident memory, children included."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.pid = server.pid
        self.tasks = self._serving()
        self.stalls, self.stalled_s, self.longest_s = 0, 0.0, 0.0
        self.peak_rss_bytes = 0
        self._ended = threading.Event()

    def _serving(self):
        """Threads that run commands: the first one of redis-server, the workers of ours."""
        found = []
        for task in os.listdir(f"/proc/{self.pid}/task"):
            path = f"/proc/{self.pid}/task/{task}"
            with open(path + "/comm", encoding="ascii", errors="replace") as file:
                if task == str(self.pid) or file.read().startswith("worker"):
                    found.append(path + "/stat")
        return found

    def _blocked(self):
        for path in self.tasks:
            try:
                with open(path, "rb") as file:
                    if file.read().rsplit(b")", 1)[1].split()[0] == b"D":
                        return True
            except (OSError, IndexError):
                pass
        return False

    def _memory(self):
        total = 0
        try:
            with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
                children = file.read().split()
            # A forked child shares its pages; what it has for itself is what it costs.
            total = process_rss_bytes(self.pid) + sum(private_bytes(child) for child in children)
        except OSError:
            pass
        self.peak_rss_bytes = max(self.peak_rss_bytes, total)

    def run(self):
        since, looks = None, 0
        while not self._ended.wait(LOOK_S):
            now = time.monotonic()
            if self._blocked():
                since = since if since is not None else now
            elif since is not None:
                self._count(now - since)
                since = None
            if looks % 40 == 0:
                self._memory()
            looks += 1
        if since is not None:
            self._count(time.monotonic() - since)

    def _count(self, took_s):
        if took_s >= STALL_S:
            self.stalls += 1
            self.stalled_s += took_s
            self.longest_s = max(self.longest_s, took_s)

    def stop(self):
        self._memory()
        self._ended.set()
        self.join()


def private_bytes(pid):
    """Private memory of a process."""
    total = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith(("Private_Dirty:", "Private_Clean:")):
                    total += int(line.split()[1]) * 1024
    except OSError:
        pass
    return total


class Saving(threading.Thread):
    """BGSAVE when a quarter of the keys is loaded (or of the time is over); `stop` waits for it. Only once: a save started
    after a fixed pause would mean more work for the faster server."""

    SHARE = 0.25

    def __init__(self, server, keys, seconds):
        super().__init__(daemon=True)
        self.server, self.keys, self.seconds = server, keys, seconds
        self.begun = 0
        self.error = None
        self._ended = threading.Event()

    def run(self):
        connection = self.server.connect(timeout_s=120)
        try:
            self.wait_for_share(connection)
            connection.cmd("BGSAVE", "SCHEDULE")
            self.begun += 1
            wait_for_save(connection)
        except Exception as error:  # noqa: BLE001 - it is the cell's reason, not a traceback
            self.error = error
        finally:
            connection.close()

    def wait_for_share(self, connection):
        """Waits until `share` of the keys is loaded, or the load has run for that share of its time."""
        late = time.monotonic() + self.seconds * self.SHARE
        while (
            connection.cmd("DBSIZE") < self.keys * self.SHARE and time.monotonic() < late and not self._ended.wait(0.05)
        ):
            pass

    def stop(self):
        self._ended.set()
        self.join()
        if self.error:
            raise RuntimeError(f"BGSAVE: {self.error}")


def wait_for_save(connection):
    while b"rdb_bgsave_in_progress:1" in connection.cmd("INFO", "persistence"):
        time.sleep(0.02)


def sync(server, appendfsync):
    """Returns when everything that was written is synced: one write under `always`."""
    if appendfsync is None:
        return
    connection = server.connect(timeout_s=300)
    try:
        if appendfsync != "always":
            connection.cmd("CONFIG", "SET", "appendfsync", "always")
        connection.cmd("SET", "sync", "1")
        if appendfsync != "always":
            connection.cmd("CONFIG", "SET", "appendfsync", appendfsync)
    finally:
        connection.close()


def field(info, name):
    """A number of INFO, ignoring any prefix of its name; None if the server has none."""
    for key, value in info.items():
        if key == name or key.endswith("_" + name):
            try:
                return float(value)
            except ValueError:
                return None
    return None
