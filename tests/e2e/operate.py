"""python3 -m operate: the server from an operator's view; one line per check.

Configurations written for redis-server start it unchanged, and the log names directives without effect. A long start
answers LOADING and can be stopped; an occupied port is reported at once. CONFIG SET moves the
port, the addresses, the log's file and its level, or reports why not. The log's file is reopened after a rotation,
and contains panics and crashes with their stack.
"""

import argparse
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from crash_loop import persistent_memory
from harness.resp import Connection, ReplyError
from harness.server import ROOT, Server, free_port, redis_tool, sexton_binary
from harness.steps import Steps

#: The directives of the configuration that Redis' own test suite starts its servers with.
SUITE = """
always-show-logo yes
notify-keyspace-events KEA
daemonize no
timeout 0
bind 127.0.0.1
loglevel verbose
logfile ''
databases 16
latency-monitor-threshold 1
repl-diskless-sync-delay 0
save 900 1
rdbcompression yes
dbfilename dump.rdb
slave-serve-stale-data yes
appendonly no
appendfsync everysec
no-appendfsync-on-rewrite no
activerehashing yes
enable-protected-configs yes
enable-debug-command yes
enable-module-command yes
propagation-error-behavior panic
"""


def wait_for(what, timeout_s=20.0):
    """Waits until `what` returns a true value; returns it, or the last value."""
    deadline = time.monotonic() + timeout_s
    while not (answer := what()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def unnamed(log, names):
    """Those of the directives that the log does not name exactly once."""
    return [name for name in names if len(re.findall(f"# Directive '{name}' has no effect: ", log)) != 1]


class WithFile(Server):
    """A server with a configuration file, followed by command-line arguments."""

    def __init__(self, config, options=None):
        super().__init__("sexton", options)
        self.config = Path(config)

    def command_line(self):
        options = {"port": self.port, "dir": self.directory} | self.options
        arguments = [word for name, value in options.items() for word in ("--" + name, str(value))]
        return [sexton_binary(), str(self.config), *arguments]


def suite_configuration(steps):
    name = "the configuration of Redis' test suite"
    server = WithFile("suite.conf")
    server.config = server.directory / "suite.conf"
    server.config.write_text(SUITE)
    try:
        server.start()
        connection = server.connect()
        steps.equal(f"{name} starts the server", connection.cmd("CONFIG", "GET", "repl-diskless-sync-delay"),
                    [b"repl-diskless-sync-delay", b"0"])
        log = server.log_path.read_text()
        named = ["always-show-logo", "repl-diskless-sync-delay", "enable-module-command", "propagation-error-behavior"]
        steps.equal(f"{name}: each directive without effect is named once", unnamed(log, named), [])
        steps.equal(f"{name}: and nothing else", len(re.findall("has no effect", log)), len(named))
        for value in ("yes", "no", "yes"):
            connection.cmd("CONFIG", "SET", "lazyfree-lazy-eviction", value)
        log = server.log_path.read_text()
        steps.equal("CONFIG SET of a directive without effect: one line, however often",
                    unnamed(log, ["lazyfree-lazy-eviction"]), [])
        node = connection.node("CONFIG", "SET", "min-replicas-to-write", "1")
        steps.check("CONFIG SET of a protection that is not built is refused", node.is_error(), str(node.value))
        connection.close()
    finally:
        server.close()


def debian_configuration(steps):
    name = "Debian's redis.conf"
    config = Path("/etc/redis/redis.conf")
    if not os.access(config, os.R_OK):
        print(f"skip  {name}: {config} is not there")
        return
    server = WithFile(config)
    log, pid_file = server.directory / "background.log", server.directory / "pid"
    server.options |= {"logfile": log, "pidfile": pid_file}
    try:
        started = subprocess.run(server.command_line(), capture_output=True, timeout=60)
        steps.equal(f"{name}: the process that was started ends at once, and says nothing",
                    (started.returncode, started.stdout, started.stderr), (0, b"", b""))
        ready = wait_for(lambda: log.exists() and "Ready to accept connections" in log.read_text())
        steps.check(f"{name}: the server runs in the background", ready)
        pid = int(wait_for(lambda: pid_file.exists() and pid_file.read_text()) or 0)
        steps.equal(f"{name}: pidfile names a session of its own", os.getsid(pid), pid)
        cli = [redis_tool("redis-cli"), "-p", str(server.port)]
        steps.equal(f"{name}: it answers", subprocess.run([*cli, "PING"], capture_output=True).stdout, b"PONG\n")
        steps.check(f"{name}: no directive of it is without effect", "has no effect" not in log.read_text())
        subprocess.run([*cli, "SHUTDOWN", "NOSAVE"], capture_output=True)
        steps.check(f"{name}: the pid file goes with the server", wait_for(lambda: not pid_file.exists()))
        steps.check(f"{name}: the process ends", wait_for(lambda: not Path(f"/proc/{pid}").exists()))
    finally:
        if pid_file.exists():
            subprocess.run(["kill", "-9", pid_file.read_text().strip()], check=False)
        server.close()


def listens(port, address="127.0.0.1"):
    with socket.socket() as sock:
        return sock.connect_ex((address, port)) == 0


def sockets(steps):
    """CONFIG SET port and bind, beside redis-server: texts and what listens afterwards."""
    texts = {}
    for kind in ("redis", "sexton"):
        server = Server(kind)
        try:
            server.start()
            client = server.connect()
            first, second = server.port, free_port()
            replies = [client.cmd("CONFIG", "SET", "port", second)]
            wait_for(lambda: not listens(first))
            replies += [listens(first), listens(second), client.cmd("PING")]
            replies.append(client.node("CONFIG", "SET", "bind", "192.0.2.1").value)
            replies += [listens(second), client.cmd("CONFIG", "GET", "bind")]
            replies.append(client.cmd("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2"))
            replies += [listens(second), listens(second, "127.0.0.2"), listens(second, "127.0.0.3")]
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                replies.append(client.node("CONFIG", "SET", "port", taken.getsockname()[1]).value)
            replies += [listens(second), client.cmd("CONFIG", "GET", "port")[1] == str(second).encode()]
            replies.append(client.cmd("CONFIG", "SET", "port", 0))
            replies += [listens(second), client.cmd("PING")]
            replies.append(client.cmd("CONFIG", "SET", "port", first))
            replies.append(listens(first))
            texts[kind] = replies
        finally:
            server.close()
    steps.equal("CONFIG SET port and bind: replies and open ports as redis-server's", texts["sexton"], texts["redis"])


def unread_output(steps):
    """Standard output is a pipe that nobody reads: all clients are served, and the log reports how much of it is missing."""
    server = Server("sexton", {"loglevel": "verbose"})
    server.process = subprocess.Popen(server.command_line(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(server))
        # Each is told of; a pipe takes 64 KiB.
        for _ in range(2000):
            server.connect(timeout_s=5.0).close()
        steps.check("a client is served while nobody reads the log", answers(server))
        os.set_blocking(server.process.stdout.fileno(), False)
        text = b""

        def is_told():
            nonlocal text
            text += server.process.stdout.read() or b""
            return answers(server) and re.search(rb"# \d+ lines are missing here", text)

        steps.check("who reads it again hears how many lines are missing", wait_for(is_told))
        steps.check("the last line before them is there", b"Ready to accept connections" in text)
    finally:
        server.close()


def answers(server):
    try:
        client = server.connect(timeout_s=5.0)
        answer = client.cmd("PING")
        client.close()
        return answer == b"PONG"
    except (OSError, ReplyError):
        return False


def unix_sockets(steps):
    """An existing file at the socket's path: a stale socket is replaced, anything else is kept."""
    with tempfile.TemporaryDirectory(prefix="sexton-test-socket-") as folder:
        path, kept = Path(folder) / "sexton.sock", Path(folder) / "kept"
        kept.write_text("mine")

        def is_refused():
            server = Server("sexton", {"unixsocket": path})
            try:
                server.start(timeout_s=20)
                return False
            except RuntimeError as error:
                return str(path) in str(error)
            finally:
                server.close()

        path.write_text("mine")
        steps.check("a file where the socket is to be: no start, which names it", is_refused())
        steps.equal("the file is as it was", path.read_text(), "mine")
        path.unlink()
        path.symlink_to(kept)
        steps.check("a link: no start", is_refused())
        steps.equal("link and file are as they were", (path.is_symlink(), kept.read_text()), (True, "mine"))
        path.unlink()
        path.mkdir()
        steps.check("a folder: no start", is_refused() and path.is_dir())
        path.rmdir()
        server = Server("sexton", {"unixsocket": path})
        try:
            for _ in range(2):
                server.start()
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(str(path))
                    client.sendall(b"PING\r\n")
                    steps.equal("a socket, left over or not, answers", client.recv(100), b"+PONG\r\n")
                server.kill()
                steps.check("a killed server leaves its socket", path.is_socket())
        finally:
            server.close()


def log_settings(steps):
    server = Server("sexton", {"loglevel": "warning", "enable-protected-configs": "yes"})
    log, rotated, other = (server.directory / name for name in ("a.log", "a.log.1", "b.log"))
    server.options["logfile"] = log
    try:
        server.start()
        client = server.connect()
        client.cmd("CONFIG", "SET", "list-compress-depth", "1")
        steps.check("loglevel warning: no line below it", " * " not in log.read_text() and " # " in log.read_text())
        client.cmd("CONFIG", "SET", "loglevel", "verbose")
        server.connect().close()
        steps.check("CONFIG SET loglevel verbose: connections are logged", wait_for(lambda: " - Accepted 127.0.0.1:" in log.read_text()))
        log.rename(rotated)
        before = rotated.read_text()
        os.kill(server.pid, signal.SIGHUP)
        steps.check("SIGHUP: the file is there again", wait_for(log.exists))
        server.connect().close()
        steps.check("SIGHUP: lines go to the new file", wait_for(lambda: "Accepted" in log.read_text()))
        steps.equal("SIGHUP: and not to the one that was moved", rotated.read_text(), before)
        log.rename(rotated)
        server.connect().close()
        steps.check("a file that was moved is left without a signal too", wait_for(lambda: log.exists() and "Accepted" in log.read_text()))
        client.cmd("CONFIG", "SET", "logfile", other)
        server.connect().close()
        steps.check("CONFIG SET logfile: lines go there", wait_for(lambda: other.exists() and "Accepted" in other.read_text()))
        node = client.node("CONFIG", "SET", "logfile", server.directory / "no/such/dir.log")
        steps.check("CONFIG SET logfile of a file that cannot be opened is refused", node.is_error(), str(node.value))
        stamp = re.search(r"\d+ \w+ \d{4} \d\d:\d\d", other.read_text()).group(0)
        near = [time.strftime("%d %b %Y %H:%M", time.localtime(time.time() - age)) for age in (0, 60)]
        steps.check("times are local", stamp in near, stamp)
    finally:
        server.close()
    zone = Server("sexton", env={"TZ": "XYZ-05:30"})
    try:
        zone.start()
        stamp = re.search(r"\d\d:\d\d:\d\d", zone.log_path.read_text()).group(0)
        near = [time.strftime("%H:%M", time.gmtime(time.time() + 5.5 * 3600 - age)) for age in (0, 60)]
        steps.check("times are those of TZ", stamp[:5] in near, stamp)
    finally:
        zone.close()


def loading(steps):
    """A slow replay: clients receive LOADING, INFO shows the progress, signals and SHUTDOWN end it."""
    if not shutil.which("strace"):
        print("skip  a long start: strace is missing")
        return
    server = Server("sexton", {"appendonly": "yes", "appendfsync": "everysec", "memtable-bytes": "64mb"})
    try:
        server.start()
        client = server.connect()
        for base in range(0, 40000, 2000):
            client.pipeline([[b"SET", b"key:%d" % i, b"x" * 200] for i in range(base, base + 2000)])
        client.cmd("WAITAOF", 1, 0, 0)
        server.kill()
        # The log is read in pieces, each of which takes most of a second now; a few more reads tell how long it is.
        slow = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-P", str(server.directory / "appendonlydir/appendonly.aof.1.incr.aof"),
                "-e", "trace=pread64,read", "-e", "inject=pread64,read:delay_enter=700000:when=2+"]
        for how in ("SIGTERM", "SHUTDOWN"):
            server.prefix = slow
            thread = threading.Thread(target=lambda: start_quietly(server))
            thread.start()
            replies = {}
            wait_for(lambda: listens(server.port))
            client = Connection(server.port, timeout_s=20)
            for command in ("PING", "GET key:1", "SET key:1 y"):
                replies[command] = client.node(*command.split()).value
            expected = b"LOADING Redis is loading the dataset in memory"
            steps.equal(f"a long start ({how}): clients hear LOADING", set(replies.values()), {expected})
            info = dict(line.split(":", 1) for line in client.cmd("INFO").decode().splitlines() if ":" in line)
            fields = ["loading_start_time", "loading_total_bytes", "loading_loaded_bytes", "loading_loaded_perc", "loading_eta_seconds"]
            steps.check(f"a long start ({how}): INFO shows it", info.get("loading") == "1" and all(name in info for name in fields),
                        str({name: info.get(name) for name in ["loading", *fields]}))
            total = int(info["loading_total_bytes"])
            steps.check(f"a long start ({how}): records are to be loaded, and not what is prepared behind them",
                        40_000 * 200 < total < 40_000 * 300, str(total))
            # Some asked and did not read, some said nothing.
            gone = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
            for one in gone[::2]:
                one.sendall(b"PING\r\n" * 10)
            connected = lambda: re.search(rb"connected_clients:(\d+)", client.cmd("INFO", "clients")).group(1)
            came = wait_for(lambda: connected() == b"21")
            for one in gone:
                one.close()
            left = wait_for(lambda: connected() == b"1", 2)
            steps.check(f"a long start ({how}): clients that vanish are gone at once", came and left and server.alive(), str(connected()))
            if how == "SIGTERM":
                told = wait_for(lambda: re.search(r"Loading: \d+ % of \d+ bytes", server.log_path.read_text()), 12)
                steps.check("a long start: the log says how far it is", told)
                second = Server("sexton", port=server.port)
                begun = time.monotonic()
                try:
                    second.start(timeout_s=10)
                    steps.check("a port that is taken", False, "it started")
                except RuntimeError as error:
                    steps.check("a port that is taken ends the start before anything is read",
                                "Failed listening on port" in str(error) and not (second.directory / "tree").exists()
                                and time.monotonic() - begun < 5, str(error)[-200:])
                finally:
                    second.close()
                server.process.terminate()
            else:
                try:
                    client.cmd("SHUTDOWN", "NOSAVE")
                except (OSError, ReplyError, Exception) as error:
                    assert not isinstance(error, ReplyError), error
            ended = wait_for(lambda: not server.alive(), 15)
            steps.check(f"a long start: {how} ends it", ended and server.process.returncode == 0,
                        f"status {server.process.poll()}")
            server.kill()
            thread.join()
        server.prefix = []
        server.start()
        client = server.connect()
        steps.equal("a long start that was ended: nothing is lost", [client.cmd("DBSIZE"), client.cmd("GET", "key:39999")], [40000, b"x" * 200])
    finally:
        server.close()


def ends_while_it_imports(steps):
    """SIGTERM at any moment of a start that imports a dump ends the server: no signal is lost when the import ends."""
    with tempfile.TemporaryDirectory(prefix="sexton-test-operate-") as folder:
        with Server("sexton", {"appendonly": "no"}, directory=Path(folder) / "first") as server:
            server.connect().cmd("SET", "k", "v")
            server.connect().cmd("SAVE")
            dump = (server.directory / "dump.rdb").read_bytes()
        stayed = 0
        for number in range(80):
            home = Path(folder) / str(number)
            home.mkdir()
            (home / "dump.rdb").write_bytes(dump)
            process = subprocess.Popen([sexton_binary(), "--port", str(free_port()), "--dir", home, "--appendonly", "yes"],
                                       stdout=subprocess.DEVNULL)
            # From before its first line to behind its last one: half a millisecond later each time.
            time.sleep(0.005 + 0.0005 * number)
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                stayed += 1
                process.kill()
                process.wait()
        steps.equal("SIGTERM while a dump is imported: all servers end", stayed, 0)


def start_quietly(server):
    try:
        server.start()
    except RuntimeError:
        pass  # It was ended.


def crashes(steps):
    for how in ("SIGSEGV", "SIGABRT", "DEBUG SEGFAULT", "DEBUG PANIC"):
        server = Server("sexton", {"enable-debug-command": "local"})
        log = server.directory / "crash.log"
        server.options["logfile"] = log
        try:
            server.start()
            client = server.connect()
            if how.startswith("SIG"):
                # To the first thread: of one that is sent to the process the system may choose any, one that is being born too.
                sent = ctypes.CDLL(None).tgkill(server.pid, server.pid, getattr(signal, how))
                assert sent == 0, "no such thread"
            else:
                try:
                    client.cmd(*how.split())
                except Exception:  # closed, or an error reply: the log is looked at
                    pass
            if how == "DEBUG PANIC":
                told = wait_for(lambda: re.search(r"# Thread '\S+' panicked at .*: called by DEBUG PANIC", log.read_text()))
                steps.check(f"{how}: the log has thread, place and message", told)
                steps.check(f"{how}: and the stack", "sexton" in log.read_text().partition("STACK TRACE")[2])
                steps.equal(f"{how}: others are served", server.connect().cmd("PING"), b"PONG")
                continue
            wait_for(lambda: not server.alive())
            number = signal.SIGABRT if how == "SIGABRT" else signal.SIGSEGV
            steps.equal(f"{how}: the process ends by the signal", server.process.returncode, -number)
            report = log.read_text().partition("SEXTON BUG REPORT START")[2]
            parts = ["crashed by signal: %d" % number, "STACK TRACE", "Threads:", "BUG REPORT END"]
            steps.equal(f"{how}: the log has a report", [part for part in parts if part not in report], [])
            # The signal was sent to the first thread; the command runs on one of its own.
            where = r"\d+: .*\bdebug\b" if how == "DEBUG SEGFAULT" else r"\d+: .*\bmain\b"
            steps.check(f"{how}: with the stack of the thread", re.search(where, report.partition("STACK TRACE")[2]))
        finally:
            server.close()
    server = Server("sexton", {"crash-log-enabled": "no"})
    try:
        server.start()
        os.kill(server.pid, signal.SIGSEGV)
        wait_for(lambda: not server.alive())
        steps.check("crash-log-enabled no: no report", "BUG REPORT" not in server.log_path.read_text())
    finally:
        server.close()


def panics_behind_whole_databases(steps):
    """A panic in EXEC behind FLUSHDB or SWAPDB: the process ends, and the next start finds all of EXEC or nothing."""
    behind = {
        "FLUSHDB": [("SET", "old", "new"), ("FLUSHDB",), ("SET", "after", 1)],
        "SWAPDB": [("SWAPDB", 0, 1), ("SET", "after", 1), ("DEL", "old")],
        "FLUSHALL and SWAPDB": [("INCR", "number"), ("FLUSHALL",), ("SWAPDB", 0, 1), ("INCR", "number")],
    }
    for mode in ("everysec", "always", "wbl"):
        for name, requests in behind.items():
            options, env, place = {"enable-debug-command": "local"}, {}, None
            if mode == "wbl":
                place, env = persistent_memory(options)
            else:
                options["appendfsync"] = mode
            server = Server("sexton", options, env=env)
            try:
                client = server.start().connect()
                for request in [("SET", "old", 1), ("SET", "number", 7, "PX", 10**9), ("SELECT", 1), ("SET", "other", 2), ("SELECT", 0)]:
                    client.cmd(*request)
                if mode != "wbl":
                    client.cmd("WAITAOF", 1, 0, 0)
                before = client.cmd("DEBUG", "DIGEST")
                for request in [("MULTI",), *requests, ("DEBUG", "PANIC")]:
                    client.cmd(*request)
                try:
                    answer = client.node("EXEC").value
                except (EOFError, OSError):
                    answer = None
                wait_for(lambda: not server.alive())
                what = f"{mode}: a panic behind {name}"
                steps.check(f"{what}: nobody hears an answer", answer is None, str(answer))
                steps.equal(f"{what}: the process ends", server.process.returncode, -signal.SIGABRT)
                steps.check(f"{what}: and says why", "cannot be taken back" in server.log_path.read_text())
                client = server.start().connect()
                steps.equal(f"{what}: nothing of EXEC is there", client.cmd("DEBUG", "DIGEST"), before)
                steps.equal(f"{what}: writes go on", client.cmd("SET", "after", 3), b"OK")
            finally:
                server.close()
                if place:
                    shutil.rmtree(place, ignore_errors=True)


def health_check(steps):
    """The image's health check is a script: the test runs it here as in the image."""
    for options in ({}, {"requirepass": "secret"}):
        server = Server("sexton", options)
        command = [ROOT / "docker/healthcheck.sh"]
        try:
            with open(server.log_path, "ab") as log:
                server.process = subprocess.Popen(server.command_line(), stdout=log, stderr=log)
            wait_for(lambda: "Ready to accept" in server.log_path.read_text())
            done = subprocess.run(command, env=dict(os.environ, SEXTON_PORT=str(server.port)))
            steps.equal(f"the image's health check {'with a password' if options else 'without one'}", done.returncode, 0)
            server.kill()
            done = subprocess.run(command, env=dict(os.environ, SEXTON_PORT=str(server.port)))
            steps.equal("the image's health check of a server that is gone", done.returncode, 1)
        finally:
            server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="the part of this name")
    args = parser.parse_args()
    steps = Steps("what an operator sees")
    for part in (suite_configuration, debian_configuration, sockets, unread_output, unix_sockets, log_settings, loading,
                 ends_while_it_imports, crashes, panics_behind_whole_databases, health_check):
        if args.only in (None, part.__name__):
            part(steps)
    steps.finish()


if __name__ == "__main__":
    main()
