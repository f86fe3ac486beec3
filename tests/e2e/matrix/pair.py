"""The server under test, and a redis-server that keeps running."""

import itertools
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from harness.server import Server

from . import hints
from .conditions import CONDITIONS
from .life import COLD, COMMON, MODES, SLOW
from .names import DATABASES

PANIC = re.compile(r"panicked at|poisoned|stack backtrace|SIGSEGV|fatal runtime error|overflowed its stack", re.I)
#: Lines of the log that a panic shows.
EXCERPT = 16


class Pair:
    """`begin` starts a fresh server with the settings of a life; the reference is emptied, not restarted."""

    def __init__(self, kind):
        self.kind = kind
        self.base = Path(tempfile.mkdtemp(prefix="sexton-test-matrix-"))
        self.theirs = Server("redis", {"databases": DATABASES, "enable-debug-command": "yes", "appendonly": "no", "hz": 500}).start()
        connection = self.theirs.connect()
        connection.cmd("SET", "x", "dumped")
        self.dump = connection.cmd("DUMP", "x")
        self.reference_commands = self.names(connection)
        connection.close()
        self.ours = None
        #: Cells that broke the server, by context and command.
        self.breaks = Counter()

    def names(self, connection):
        """All commands and subcommands of a server, in lower case."""
        names = set()
        for row in connection.cmd("COMMAND", "INFO"):
            names.add(row[0].decode())
            names |= {sub[0].decode() for sub in row[9]}
        return names

    def settings(self, mode, condition, family):
        surroundings = CONDITIONS[condition]
        options = COMMON | MODES[mode] | surroundings.settings
        if self.kind == "redis":
            return {name: options[name] for name in ("databases", "enable-debug-command", "hz")}
        if family == "cold":
            options = options | COLD
            if mode == "no-log":
                options["maxmemory"] = "1mb"
        devices = []
        slow_dumps = getattr(surroundings, "slow_dumps", False)
        if family == "frozen" or slow_dumps:
            profiles = self.base / "profiles.conf"
            profiles.write_text(SLOW)
            options["device-profiles"] = profiles
            devices.append(f"device slow kind ssd path {self.base / 'slow'} emulate slow")
            devices.append("rdb-device slow" if slow_dumps else "tree-device 0 slow")
        if mode == "wbl":
            devices.append(f"device pm kind pmem path {self.base / 'pm'} emulate optane-pmem")
            devices.append("memtable-device pm")
        if devices:
            include = self.base / "devices.conf"
            include.write_text("\n".join(devices) + "\n")
            options["include"] = include
        return options

    def changeable(self, mode, condition, family):
        """The settings of a life that a cell may change, as CONFIG SET takes them."""
        options = {"maxmemory": "0", "maxmemory-policy": "noeviction", "maxmemory-samples": "5", "hz": "100",
                   "appendfsync": "everysec", "save": getattr(CONDITIONS[condition], "SAVE", "")}
        options |= {name: str(value) for name, value in self.settings(mode, condition, family).items() if name in options}
        return {name.encode(): value.encode() for name, value in options.items()}

    def options_text(self, *life):
        return " ".join(f"--{name} {value}" for name, value in self.settings(*life).items())

    def begin(self, mode, condition, family):
        self.abandon()
        if not self.theirs.alive():
            self.theirs.start()
        connection = self.theirs.connect()
        for name, value in ({b"appendfsync": b"everysec", b"save": b"", b"hz": b"500"} | hints.UNBOUND).items():
            connection.cmd("CONFIG", "SET", name, value)
        connection.close()
        for name in ("data", "slow", "pm"):
            shutil.rmtree(self.base / name, ignore_errors=True)
            (self.base / name).mkdir()
        self.ours = Server(self.kind, self.settings(mode, condition, family), directory=self.base / "data",
                           prefix=CONDITIONS[condition].prefix).start()

    def quicken_devices(self):
        """Lets the next start skip the delays of a device that was slowed down to keep a state."""
        profiles = self.base / "profiles.conf"
        if profiles.exists():
            profiles.write_text(SLOW.replace("write-mb-s 0.02", "write-mb-s 1000"))

    def log_size(self):
        try:
            return self.ours.log_path.stat().st_size
        except OSError:
            return 0

    def panic_since(self, offset):
        """The message of a panic after this position of the log, and its location in our own code, or None."""
        if self.log_size() <= offset:
            return None
        with open(self.ours.log_path, "rb") as log:
            log.seek(offset)
            lines = log.read().decode(errors="replace").splitlines()
        for at, line in enumerate(lines):
            if PANIC.search(line):
                places = (line.strip() for line in lines[at + 1 :] if " at " in line and "/rustc/" not in line)
                return " | ".join([line, *itertools.islice(places, EXCERPT)])
        return None

    def abandon(self):
        if self.ours:
            self.ours.kill()

    def close(self):
        self.abandon()
        self.theirs.close()
        shutil.rmtree(self.base, ignore_errors=True)
