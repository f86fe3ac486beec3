"""One sitting of a study, with cleanup of everything it leaves behind, also after kill -9.

Every process of a study carries the name of its sitting in the environment, and every directory, image and mount
point carries it in its path. A janitor, a process in its own session, waits at a pipe for the end of the study. It then
ends what still runs, and unmounts, detaches and deletes what is left under that name. If the janitor was killed too,
the next study finds these names and cleans up.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VARIABLE = "SEXTON_STUDY"
PREFIX = "sexton-study-"
#: They hold up the mounted device, and end after it is unmounted.
DEVICE_PROGRAMS = ("nbdkit", "nbdfuse")
PR_SET_PDEATHSIG = 1
GONE_SECONDS_MAX, UNMOUNT_SECONDS_MAX = 20, 10


def _began(pid):
    """Start time of a process, in clock ticks since boot: together with its number, a unique name. None if it
    has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def token():
    """Name of this process's sitting."""
    return f"{os.getpid()}-{_began(os.getpid())}"


def prefix():
    """Prefix of the names of this sitting's directories and images."""
    return f"{PREFIX}{token()}-"


def is_alive(name):
    """Whether the study of this sitting still runs."""
    pid, _, began = name.partition("-")
    return pid.isdigit() and str(_began(int(pid))) == began


def fast_directory():
    """Directory for the files of a stack without a device of its own: in memory if possible."""
    shm = Path("/dev/shm")
    return shm if shm.is_dir() and os.access(shm, os.W_OK) else Path(tempfile.gettempdir())


def roots(more=()):
    """Directories in which names of a sitting may be found."""
    return list(dict.fromkeys(str(root) for root in (tempfile.gettempdir(), fast_directory(), *more) if root))


class Sitting:
    """`with Sitting(results, directories):` encloses everything that a study does. Only one run at a time may write its lines to
    `results`; `directories` are the user's directories that it puts files into."""

    def __init__(self, results, directories=()):
        self.results = Path(results)
        self.roots = roots(directories)
        self.lock = None

    def __enter__(self):
        self.results.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.results / "lock", "w", encoding="ascii")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.lock.close()
            raise SystemExit(f"another run is at work on {self.results}") from None
        for name in stale(self.roots):
            print(f"clearing away what a killed run left ({name})", flush=True)
            clear(name, self.roots)
        environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
        self.janitor = subprocess.Popen(
            [sys.executable, __file__, token(), *self.roots],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        os.environ[VARIABLE] = token()
        return self

    def __exit__(self, *_):
        del os.environ[VARIABLE]
        self.janitor.stdin.close()
        self.janitor.wait()
        self.lock.close()


def processes(name=None):
    """(pid, command, sitting) of every process that carries a sitting's name, or this one's."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "comm").read_text().strip()
        except OSError:
            continue  # ended meanwhile, or another user's
        for pair in environment.split(b"\0"):
            variable, _, value = pair.partition(b"=")
            if variable == VARIABLE.encode() and (name is None or value == name.encode()):
                yield int(entry.name), command, value.decode()


def stale(directories):
    """Names of sittings that have left something, and whose study has ended."""
    found = {name for _, _, name in processes()}
    for root in directories:
        try:
            entries = os.listdir(root)
        except OSError:
            continue
        for entry in entries:
            parts = entry.removeprefix(PREFIX).split("-")
            if entry.startswith(PREFIX) and len(parts) > 2 and parts[0].isdigit() and parts[1].isdigit():
                found.add(f"{parts[0]}-{parts[1]}")
    return sorted(name for name in found if not is_alive(name))


def clear(name, directories):
    """Ends, unmounts, detaches and deletes everything of a sitting."""
    kill(name, lambda command: command not in DEVICE_PROGRAMS)
    mark = f"{PREFIX}{name}-"
    for point, kind in reversed(mounts(mark)):
        if not kind.startswith("fuse"):
            unmount(point)
    for device in loops(mark):
        quietly("losetup", "-d", device)
    for point, kind in reversed(mounts(mark)):
        if kind.startswith("fuse"):
            quietly("fusermount3", "-u", point)
    kill(name, lambda command: True)
    for point, _ in reversed(mounts(mark)):
        quietly("umount", "-l", point)
    for root in directories:
        for path in Path(root).glob(f"{mark}*"):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def kill(name, fits):
    """kill -9 to the processes of a sitting whose command fits; returns when they are gone."""
    deadline = time.monotonic() + GONE_SECONDS_MAX
    while time.monotonic() < deadline:
        left = [pid for pid, command, _ in processes(name) if pid != os.getpid() and fits(command)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)


def end_with_parent():
    """Runs in a child before its program starts: SIGTERM when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def end_benches():
    """Ends the programs of this sitting: a stuck program fails, and the study continues with the next cell."""
    kill(token(), lambda command: True)


def mounts(mark):
    """(mount point, kind of file system) below names with this mark, in the order they were mounted."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [(words[1], words[2]) for words in lines if mark in words[1]]


def loops(mark):
    """Loop devices on files with this mark in their path."""
    found = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if mark in path.read_text():
                found.append(f"/dev/{path.parts[3]}")
        except OSError:
            pass  # detached meanwhile
    return found


def unmount(point):
    """Unmounts once the file system is not in use, and finally by force."""
    deadline = time.monotonic() + UNMOUNT_SECONDS_MAX
    while time.monotonic() < deadline:
        quietly("umount", point)
        if not os.path.ismount(point):
            return
        time.sleep(0.1)
    quietly("umount", "-l", point)


def quietly(*command):
    try:
        subprocess.run(command, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        pass


def janitor(name, directories):
    """Waits for the end of the study, then clears away."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear(name, directories)


if __name__ == "__main__":
    janitor(sys.argv[1], sys.argv[2:])
