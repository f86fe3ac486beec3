"""python3 -m fresh_start: a new user's first steps, with the shipped configuration file.

The server starts on config/sexton.conf in an empty directory, accepts a value, is killed by kill -9, and
after a restart the value is there; SIGTERM then ends it with exit code 0. Under the default policy an
acknowledged write survives after at most two seconds.
"""

import argparse
import subprocess
import tempfile
import time

from harness.resp import Connection, ReplyError
from harness.server import ROOT, free_port, redis_tool, sexton_binary
from harness.steps import Steps


def start(port, directory):
    line = [sexton_binary(), str(ROOT / "config/sexton.conf"), "--port", str(port), "--dir", directory]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = Connection(port)
            connection.cmd("PING")
            connection.close()
            return process
        except (OSError, ReplyError):
            time.sleep(0.02)  # not there yet, or LOADING
    process.kill()
    raise SystemExit(f"the server does not come up:\n{process.communicate()[0][-2000:]}")


def cli(port, *args):
    line = [redis_tool("redis-cli"), "-p", str(port), *args]
    return subprocess.run(line, capture_output=True, text=True, timeout=20).stdout.strip()


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    steps = Steps("fresh start")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="sexton-test-fresh-") as directory:
        process = start(port, directory)
        steps.equal("redis-cli SET", cli(port, "SET", "greeting", "hello"), "OK")
        steps.equal("redis-cli GET", cli(port, "GET", "greeting"), "hello")
        time.sleep(2.1)  # everysec: the promise is about a second, at most two
        process.kill()
        process.communicate()
        process = start(port, directory)
        steps.equal("after kill -9 and restart", cli(port, "GET", "greeting"), "hello")
        steps.equal("DBSIZE", cli(port, "DBSIZE"), "1")
        process.terminate()
        output = process.communicate(timeout=30)[0]
        steps.equal("exit code after SIGTERM", process.returncode, 0)
        steps.check("the log says when it is ready", "Ready to accept connections" in output)
        process = start(port, directory)
        steps.equal("after a clean stop and restart", cli(port, "GET", "greeting"), "hello")
        process.terminate()
        process.communicate(timeout=30)
    steps.finish()


if __name__ == "__main__":
    main()
