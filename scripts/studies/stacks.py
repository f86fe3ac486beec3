"""Where a study's files are stored: a real device, a block device with a timing model, or an in-process profile.

In this order of preference, for each device of the grid:

  directory   named by the user with --device: nothing is emulated
  block       a timing model (devmodel.c) under ext4: nbdkit, nbdfuse, a loop device. Every server runs on it
              unmodified. nvram and pmem are memory: ext4 on a loop device in tmpfs, without any model
  profile     Sexton's own emulation (config/profiles.conf) around files in tmpfs; no other server has it

`off` of a device is the same stack with persistence disabled.
"""

import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from bench_common import ROOT
from studies.sitting import fast_directory, prefix

#: Devices of the grid: kind and profile of Sexton's configuration, figures of the profile, and the published name.
DEVICES = {
    "hdd": ("hdd", "hdd", "Seagate ST3000DM001"),
    "sata": ("ssd", "sata-ssd", "Samsung 850 PRO"),
    "nvme": ("nvme", "nvme", "Samsung 950 PRO, a stand-in"),
    "nvram": ("nvme", "nvram", "Flashtec NV1616"),
    "pmem": ("pmem", "optane-pmem", "Optane DC 200"),
}

#: Parameters of devmodel.c. The loop device, FUSE and nbdkit cost about 95 us for 4 KiB themselves, so the latencies of
#: flash are left out; on nvme the floor is above the device, which the rows say.
BLOCK = {
    "hdd": {
        "position_us": 8500,
        "turn_us": 4160,
        "read_mb_s": 180,
        "write_mb_s": 180,
        "sync_us": 8300,
        "cache_bytes": 64_000_000,
        "write_us": 100,
    },
    "sata": {"read_us": 5, "read_mb_s": 550, "write_mb_s": 520, "sync_us": 600, "channels": 10},
    "nvme": {"read_mb_s": 2500, "write_mb_s": 1500},
}
IN_MEMORY = ("nvram", "pmem")
IMAGE_BYTES = 8 << 30
PROBE_SYNCS, PROBE_BYTES = 20, 64 << 20


class NotHere(Exception):
    """Why a stack is not available on this machine."""


def profile_figures(name):
    """Figures of a line of config/profiles.conf."""
    for line in (ROOT / "config/profiles.conf").read_text().splitlines():
        words = line.split()
        if words[:2] == ["profile", name]:
            return dict(zip(words[2::2], words[3::2]))
    raise KeyError(name)


def run(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    if check and done.returncode:
        raise NotHere(f"{command[0]}: {(done.stderr or done.stdout).strip()[-200:]}")
    return done.stdout.strip()


def missing_for_block(device):
    """One line that names what block-level emulation lacks here; None if nothing is missing."""
    if os.geteuid() != 0:
        return "block-level emulation needs root"
    if not Path("/dev/loop-control").exists():
        return "no loop devices here"
    wanted = {"losetup": "util-linux", "mkfs.ext4": "e2fsprogs"}
    if device not in IN_MEMORY:
        if not Path("/dev/fuse").exists():
            return "no /dev/fuse here"
        wanted |= {"nbdkit": "nbdkit", "nbdfuse": "libnbd-bin", "fusermount3": "fuse3", "cc": "gcc"}
        if not Path("/usr/include/nbdkit-plugin.h").exists():
            wanted["nbdkit-plugin.h"] = "nbdkit-plugin-dev"
    missing = sorted({package for program, package in wanted.items() if not shutil.which(program)})
    return f"missing packages: {' '.join(missing)} (scripts/setup.sh studies)" if missing else None


#: Values from which on records go to the device of the long ones.
ROUTE_BYTES = 512


class Stack:
    """A place for one device. `with` sets it up and takes it down, also after a failure."""

    name = ""
    emulated = True
    #: What is expected of it, from its parameters: microseconds of a sync, MB/s of writing.
    requested = (None, None)

    def __init__(self, device, scratch):
        self.device, self.scratch = device, Path(scratch)
        self.directory = None
        #: Directory on real persistent memory, if the user named one.
        self.pmem = None
        self.achieved = (None, None)

    def up(self):
        raise NotImplementedError

    def down(self):
        pass

    def __enter__(self):
        try:
            self.up()
            self.achieved = probe(self.directory)
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def places(self):
        """Directories that a cell leaves files in, besides that of the data."""
        return [self.directory / "device", self.directory / "log"]

    def declaration(self, name):
        """The line that declares it to our server, for the log."""
        return f"device {name} kind {DEVICES[self.device][0]} path {self.directory / 'log'}\n"

    def sexton_options(self, placement):
        """Directives for our server; `placement` says whether the tables lie on the device, too (`same`) or elsewhere
        (`other`). Answers (directory of the data, directives). The device is declared with its kind, as its owner
        would; but memory, which stands for a block device here."""
        if placement == "same" and DEVICES[self.device][0] == "pmem":
            return self.directory / "data", {}
        config = self.scratch / f"{self.device}.conf"
        config.write_text(self.declaration("log"))
        if placement == "same":
            return self.directory / "data", {"include": config, "aof-device": "log", "tree-device": "log"}
        return fast_directory() / f"{prefix()}tables", {"include": config, "aof-device": "log"}


class DirectoryStack(Stack):
    """A directory on a device that the user named."""

    name, emulated = "directory", False

    def __init__(self, device, scratch, directory):
        super().__init__(device, scratch)
        self.base = Path(directory)

    def up(self):
        if not self.base.is_dir():
            raise NotHere(f"--device {self.device}={self.base}: no such directory")
        self.directory = self.base / f"{prefix()}files"
        self.directory.mkdir(exist_ok=True)

    def down(self):
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)


class BlockStack(Stack):
    """ext4 on a loop device: over a timing model through nbdkit and FUSE, or plainly in tmpfs."""

    name = "block"

    def __init__(self, device, scratch):
        super().__init__(device, scratch)
        self.model = BLOCK.get(device)
        self.image = fast_directory() / f"{prefix()}{device}.img"
        self.loop = None
        self.processes = []
        self.socket = self.scratch / f"{device}.sock"
        self.mount = self.scratch / f"{device}.fuse"
        self.directory = self.scratch / f"{device}.mnt"
        self.is_mounted = False
        if self.model:
            self.requested = (self.model.get("sync_us", 0), self.model["write_mb_s"])

    def up(self):
        problem = missing_for_block(self.device)
        if problem:
            raise NotHere(problem)
        source = self._model_file() if self.model else self._plain_file()
        self.loop = run("losetup", "-f", "--show", *(["--direct-io=on"] if self.model else []), source)
        run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self.loop)
        self.directory.mkdir(exist_ok=True)
        run("mount", "-o", "noatime", self.loop, self.directory)
        self.is_mounted = True

    def _plain_file(self):
        with open(self.image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        return self.image

    def _model_file(self):
        plugin = self.scratch / "devmodel.so"
        if not plugin.exists():
            source = ROOT / "scripts/studies/devmodel.c"
            run("cc", "-O2", "-shared", "-fPIC", "-o", plugin, source, "-lpthread", "-lm")
        parameters = [f"{name}={value}" for name, value in self.model.items()]
        self._start(
            "nbdkit",
            "-f",
            "-U",
            self.socket,
            "-t",
            "16",
            plugin,
            f"file={self.image}",
            f"size={IMAGE_BYTES}",
            *parameters,
        )
        self._wait(self.socket)
        self.mount.mkdir(exist_ok=True)
        disk = self.mount / "disk"
        self._start("nbdfuse", disk, f"nbd+unix:///?socket={self.socket}")
        self._wait(disk)
        return disk

    def _start(self, *command):
        log = open(self.scratch / f"{self.device}.{command[0]}.log", "wb")
        self.processes.append(
            subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        )
        log.close()

    def _wait(self, path, limit_s=10):
        deadline = time.monotonic() + limit_s
        while not path.exists():
            if self.processes[-1].poll() is not None or time.monotonic() > deadline:
                logs = " ".join(
                    log.read_text(errors="replace").strip()[-200:]
                    for log in self.scratch.glob(f"{self.device}.nbd*.log")
                )
                raise NotHere(f"nbdkit and nbdfuse do not come up: {logs}")
            time.sleep(0.02)

    def down(self):
        if self.is_mounted:
            for _ in range(50):
                run("umount", self.directory, check=False)
                if not os.path.ismount(self.directory):
                    break
                time.sleep(0.1)
            else:
                run("umount", "-l", self.directory, check=False)
            self.is_mounted = False
        if self.loop:
            run("losetup", "-d", self.loop, check=False)
            self.loop = None
        if self.processes:
            if len(self.processes) > 1:
                run("fusermount3", "-u", self.mount, check=False)
            for process in reversed(self.processes):
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            self.processes = []
        for left in (self.image, self.socket):
            left.unlink(missing_ok=True)


class ProfileStack(Stack):
    """Sexton's own emulation around files in memory."""

    name = "profile"

    def __init__(self, device, scratch):
        super().__init__(device, scratch)
        figures = profile_figures(DEVICES[device][1])
        self.requested = (float(figures["sync-us"]), float(figures["write-mb-s"]))

    def up(self):
        self.directory = fast_directory() / f"{prefix()}{self.device}"
        self.directory.mkdir(exist_ok=True)

    def down(self):
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def declaration(self, name):
        kind, profile, _ = DEVICES[self.device]
        return f"device {name} kind {kind} path {self.directory / 'device'} emulate {profile}\n"

    def sexton_options(self, placement):
        config = self.scratch / f"{self.device}.conf"
        config.write_text(self.declaration("model"))
        made = {"include": config, "aof-device": "model"}
        if placement == "same":
            made["tree-device"] = "model"
        return self.directory / "data", made


class PairStack(Stack):
    """The log on the second device, and its records with long values on the first (`aof-route`)."""

    def __init__(self, long, short):
        super().__init__(f"{long.device}+{short.device}", long.scratch)
        self.long, self.short = long, short
        self.name = long.name if long.name == short.name else f"{long.name}+{short.name}"
        self.emulated = long.emulated or short.emulated
        self.requested = long.requested

    def up(self):
        self.short.up()
        self.long.up()
        self.directory = self.long.directory

    def down(self):
        self.long.down()
        self.short.down()

    def places(self):
        return self.long.places() + self.short.places()

    def sexton_options(self, placement):
        config = self.scratch / "pair.conf"
        route = f"aof-route {ROUTE_BYTES} long\n"
        config.write_text(self.long.declaration("long") + self.short.declaration("short") + route)
        directory = fast_directory() / f"{prefix()}pair"
        return directory, {"include": config, "aof-device": "short"}


def choose(device, scratch, directories, forced=None):
    """(stack, why no better one) for a device, or for two as in `hdd+nvme`. The second is empty for a real device."""
    if "+" in device:
        chosen = [choose(part, scratch, directories, forced) for part in device.split("+")]
        return PairStack(*(stack for stack, _ in chosen)), "; ".join(filter(None, (why for _, why in chosen)))
    if device in directories and forced in (None, "directory"):
        return DirectoryStack(device, scratch, directories[device]), ""
    problem = missing_for_block(device) if forced in (None, "block") else "not asked for"
    if problem is None:
        return BlockStack(device, scratch), ""
    if forced == "block":
        raise NotHere(problem)
    return ProfileStack(device, scratch), problem


def probe(directory):
    """(microseconds of a 4 KiB append with fdatasync, MB/s of a 64 MiB write with fsync) of a directory."""
    path = Path(directory) / "probe"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        block, took = os.urandom(4096), []
        for _ in range(PROBE_SYNCS):
            begun = time.monotonic()
            os.write(fd, block)
            os.fdatasync(fd)
            took.append(time.monotonic() - begun)
        chunk = os.urandom(1 << 20)
        begun = time.monotonic()
        for _ in range(PROBE_BYTES >> 20):
            os.write(fd, chunk)
        os.fsync(fd)
        rate = PROBE_BYTES / 1e6 / (time.monotonic() - begun)
    finally:
        os.close(fd)
        path.unlink()
    return round(statistics.median(took) * 1e6, 1), round(rate, 1)
