"""make bench-clients: what users with rules, TLS, and caches of other clients cost GET and SET.

    .venv/bin/python scripts/bench_clients.py [--rounds 9] [--requests 500000] [--only user,tracking,watching,waiting,listening,nothing,tls]

Server on core 0, redis-benchmark 7.0 on core 1, 50 clients, 100,000 keys of 64 bytes, everysec. CPU time of all threads of the server for a
request; a round runs each way once, in alternating order; ratios are of one round, with the bootstrap 95 % interval of their median.

- user: a user with a pattern of keys and two categories, beside the default user of the same server.
- tracking: beside ten clients with CLIENT TRACKING that have read 10,000 other keys each, or follow another prefix; and beside ten that do
  nothing, on the same server: two processes of one program differ by more than what is looked for.
- watching, waiting, listening: the same with ten clients that WATCH 100 other keys each, wait in BLPOP, or have subscribed to a channel.
- nothing: ten clients that do nothing either time, which tells what the method cannot see.
- tls: sexton-server beside redis-server 7.0, both with TLS 1.3 and the same certificate, at -P 1 and -P 16.
"""

import argparse
import contextlib
import subprocess
import tempfile
from pathlib import Path

from bench_common import Report, load_keys, median_interval
from harness.certificates import Authority
from harness.resp import Connection
from harness.server import Server, free_port, process_tasks_cpu_ns, redis_tool

KEYS, VALUE_BYTES, CLIENTS = 100_000, 64, 50
OTHERS, TRACKED_KEYS = 10, 10_000
COMMANDS = {"GET": ["GET", "key:__rand_int__"], "SET": ["SET", "key:__rand_int__", "x" * VALUE_BYTES]}
#: Group -> (the highest ratio wanted, of what to what).
WANTED = {
    "user": (1.03, "user with rules / default"),
    **{group: (1.02, "beside them / beside idle ones") for group in ("tracking", "watching", "waiting", "listening", "nothing")},
    "tls": (1.0, "sexton / redis"),
}


class Way:
    """One way to send requests: a server, the port, and redis-benchmark's options, beside ten other clients if there is `begin`: what each
    of them does first."""

    def __init__(self, server, port=None, options=(), begin=None):
        self.server, self.port, self.options, self.begin = server, port or server.port, list(options), begin

    def cpu_us(self, command, depth, requests):
        """CPU microseconds of the server for one request."""
        with contextlib.ExitStack() as opened:
            if self.begin:
                others = [opened.enter_context(contextlib.closing(Connection(self.port))) for _ in range(OTHERS)]
                opened.callback(forget_tracked, self.port)
                for number, other in enumerate(others):
                    self.begin(other, number)
            return self.cpu_us_now(command, depth, requests)

    def cpu_us_now(self, command, depth, requests):
        line = ["taskset", "-c", "1", redis_tool("redis-benchmark"), "-p", str(self.port), *self.options, "-n", str(requests),
                "-c", str(CLIENTS), "-P", str(depth), "-r", str(KEYS), "-q", *COMMANDS[command]]
        before_ns = process_tasks_cpu_ns(self.server.pid)
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode or "rror" in done.stderr + done.stdout:
            raise RuntimeError(f"{done.stdout[-300:]} {done.stderr[-300:]}")
        return (process_tasks_cpu_ns(self.server.pid) - before_ns) / 1000 / requests


def started(opened, kind, **more):
    """A server on core 0 that holds the keys; it ends with `opened`."""
    options = {"appendonly": "yes", "appendfsync": "everysec"} | {name.replace("_", "-"): value for name, value in more.items()}
    if kind == "redis":
        options["auto-aof-rewrite-percentage"] = "0"
    server = Server(kind, options, prefix=["taskset", "-c", "0"])
    opened.callback(server.close)
    server.start()
    load_keys(server.port, 0, KEYS, VALUE_BYTES)
    return server


def user_ways(opened):
    server = started(opened, "sexton")
    with contextlib.closing(server.connect()) as connection:
        connection.cmd("ACL", "SETUSER", "app", "on", ">secret", "~key:*", "&news:*", "-@all", "+@read", "+@write", "-@dangerous")
    return Way(server, options=["--user", "app", "-a", "secret"]), Way(server)


def track(connection, number):
    connection.cmd("HELLO", "3")
    if number % 2:
        connection.cmd("CLIENT", "TRACKING", "on", "BCAST", "PREFIX", "other:")
        return
    connection.cmd("SET", "tracked", "")
    connection.cmd("CLIENT", "TRACKING", "on")
    for first in range(0, TRACKED_KEYS, 100):
        connection.cmd("MGET", *[f"other:{number}:{key}" for key in range(first, first + 100)])


def forget_tracked(port):
    """Changes every key that a client has read: the table of those stays when the client has gone."""
    with contextlib.closing(Connection(port)) as connection:
        if connection.cmd("EXISTS", "tracked"):
            for number in range(OTHERS):
                for first in range(0, TRACKED_KEYS, 100):
                    keys = [f"other:{number}:{key}" for key in range(first, first + 100)]
                    connection.cmd("MSET", *[word for key in keys for word in (key, "")])
                    connection.cmd("DEL", *keys)
            connection.cmd("DEL", "tracked")


def watch(connection, number):
    connection.cmd("WATCH", *[f"other:{number}:{key}" for key in range(100)])


def wait(connection, number):
    connection.send([("BLPOP", f"other:{number}", "0")])


def listen(connection, number):
    connection.cmd("SUBSCRIBE", f"other:{number}")


def idle(connection, number):
    connection.cmd("PING")


def ways_beside(begin):
    """GET and SET beside ten clients that have done what `begin` does, and beside ten that do nothing."""
    def ways(opened):
        server = started(opened, "sexton")
        return Way(server, begin=begin), Way(server, begin=idle)
    return ways


def tls_ways(opened):
    directory = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="sexton-bench-tls-")))
    authority = Authority(directory, "ca")
    authority.certify("server", "localhost", "DNS:localhost,IP:127.0.0.1")
    ways = []
    for kind in ("sexton", "redis"):
        port = free_port()
        server = started(opened, kind, tls_port=port, tls_cert_file=directory / "server.crt", tls_key_file=directory / "server.key",
                         tls_ca_cert_file=directory / "ca.crt", tls_auth_clients="no")
        ways.append(Way(server, port, ["--tls", "--cacert", str(directory / "ca.crt")]))
    return tuple(ways)


GROUPS = {
    "user": (user_ways, (16,)),
    "tracking": (ways_beside(track), (16,)),
    "watching": (ways_beside(watch), (16,)),
    "waiting": (ways_beside(wait), (16,)),
    "listening": (ways_beside(listen), (16,)),
    "nothing": (ways_beside(idle), (16,)),
    "tls": (tls_ways, (1, 16)),
}


def run_group(args, group, report):
    make, depths = GROUPS[group]
    with contextlib.ExitStack() as opened:
        ways = make(opened)
        for depth in depths:
            for command in COMMANDS:
                run_row(args, group, command, depth, ways, report)


def run_row(args, group, command, depth, ways, report):
    requests = args.requests if depth > 1 else args.requests // 5
    for way in ways:
        way.cpu_us(command, depth, requests // 5)
    found = ([], [])
    for number in range(args.rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            found[which].append(ways[which].cpu_us(command, depth, requests))
    for number, (one, other) in enumerate(zip(*found)):
        report.add({"round": number, "group": group, "command": command, "depth": depth, "cpu_us": one, "beside_cpu_us": other})
    one, other = median_interval(found[0])[0], median_interval(found[1])[0]
    ratio, low, high = median_interval([one / other for one, other in zip(*found)])
    wanted, what = WANTED[group]
    print(f"{group:9} {command} -P {depth:2}  {one:6.2f} us beside {other:6.2f}   {ratio:.3f} [{low:.3f}, {high:.3f}]  {what}"
          f"  wanted {wanted}: {'met' if ratio <= wanted else 'within the interval' if low <= wanted else 'NOT met'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=500_000)
    parser.add_argument("--only", default=",".join(GROUPS))
    args = parser.parse_args()
    report = Report("clients", ("round", "group", "command", "depth", "cpu_us", "beside_cpu_us"))
    for group in args.only.split(","):
        run_group(args, group, report)
    print(f"all runs in {report.path}")


if __name__ == "__main__":
    main()
