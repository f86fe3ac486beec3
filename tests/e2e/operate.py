"""python3 -m operate: what an operator sees of the server; one line a check.

Configurations that were written for redis-server start it unchanged, and the log names what does nothing.
"""

import argparse
import os
import re
import subprocess
import time
from pathlib import Path

from harness.server import Server, redis_tool, sexton_binary
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
    """What `what` returns as soon as that is true, or its last answer."""
    deadline = time.monotonic() + timeout_s
    while not (answer := what()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def unnamed(log, names):
    """Those of the directives that the log does not name exactly once."""
    return [name for name in names if len(re.findall(f"# Directive '{name}' has no effect: ", log)) != 1]


class WithFile(Server):
    """A server with a configuration file; arguments of the command line come behind it."""

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    steps = Steps("what an operator sees")
    suite_configuration(steps)
    debian_configuration(steps)
    steps.finish()


if __name__ == "__main__":
    main()
