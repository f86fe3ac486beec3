"""Conditions of the server while a cell is played.

A condition has settings, an `enter` and a `leave` for a whole life, and `before` each cell. If the reference can
be in it too, replies and data are compared. In the others there must still be a reply, no panic, and identical data
after kill -9.
"""

import resource
import time

from harness.load import incompressible

from .names import FILLER_DATABASE, HEALTH_DATABASE

#: Bytes of a file that may be written while the log is to fail: enough for the server's own log, less than the log has.
WRITABLE_BYTES = 64 << 10
#: A bound that the keys of one life and the filler do not fit in, and keys of a KB that fill it.
BOUND, BOUND_KEYS = "4mb", 4000
#: How long a condition may take to come or to go.
CHANGE_S = 30.0
#: What a write may be told for a reason that is part of the condition.
REFUSALS = (b"-MISCONF", b"-OOM", b"-LOADING")


def wait_until(what, holds):
    deadline = time.monotonic() + CHANGE_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the condition does not change: {what}")
        time.sleep(0.01)


class Condition:
    """No special condition: the base class of the others."""

    compared, restart_compared, takes_writes = True, True, True
    #: States of keys that are tried in it; None for all.
    states = ("memory", "cold")
    contexts = ("alone", "multi-writes")
    settings = {}
    prefix = ()

    def enter(self, pair):
        """Brings the server, and if possible the reference, into the condition."""

    def before(self, pair, control, number):
        """Maintains the condition, before each cell."""

    def leave(self, pair):
        """Ends the condition: writes must be accepted again."""


class Normal(Condition):
    states = contexts = None


class Saving(Condition):
    """A long background save, on a slow device."""

    slow_dumps = True

    def before(self, pair, control, number):
        control.node("BGSAVE")


class Rewriting(Condition):
    def before(self, pair, control, number):
        control.node("BGREWRITEAOF")


class Loading(Condition):
    """DEBUG RELOAD runs on a separate connection, which does not wait for it."""

    compared, takes_writes = False, False

    def enter(self, pair):
        self.reloader = pair.ours.connect(timeout_s=CHANGE_S)
        self.under_way = 0

    def before(self, pair, control, number):
        if self.under_way:
            self.reloader.sock.settimeout(0)
            try:
                self.reloader.read_node()
                self.under_way = 0
            except OSError:
                pass
            self.reloader.sock.settimeout(CHANGE_S)
        if not self.under_way:
            self.reloader.send_raw(b"DEBUG RELOAD\r\n")
            self.under_way = 1

    def leave(self, pair):
        if self.under_way:
            self.reloader.read_node()
        self.reloader.close()


class SaveFailed(Condition):
    """The last save failed, so writes are refused: dump.rdb is a directory."""

    takes_writes = False
    states = ("memory", "absent", "expired")
    contexts = ("alone", "multi-writes", "pipelined")
    SAVE = "3600 1000000"

    def enter(self, pair):
        for server in (pair.theirs, pair.ours):
            (server.directory / "dump.rdb").unlink(missing_ok=True)
            (server.directory / "dump.rdb").mkdir()
            connection = server.connect()
            connection.cmd("CONFIG", "SET", "save", self.SAVE)
            connection.node("BGSAVE")
            wait_until("a save fails", lambda: server.info()["rdb_last_bgsave_status"] == "err")
            connection.close()

    def leave(self, pair):
        for server in (pair.theirs, pair.ours):
            (server.directory / "dump.rdb").rmdir()
            connection = server.connect()
            connection.cmd("CONFIG", "SET", "save", "")
            connection.close()


class LogFailed(Condition):
    """The log cannot be written: files may not grow."""

    compared, takes_writes = False, False
    prefix = ("sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh")

    def enter(self, pair):
        connection = pair.ours.connect()
        connection.cmd("SELECT", FILLER_DATABASE)
        # More than may be written of a table, too: else the flush that takes the failed log's place succeeds.
        fillers = range(2 * WRITABLE_BYTES // 1000)
        connection.pipeline([[b"SET", b"filler%d" % n, incompressible(b"%d" % n, 1000)] for n in fillers])
        connection.cmd("WAITAOF", 1, 0, 10000)
        self.limit(pair, WRITABLE_BYTES)
        wait_until("the log fails", lambda: connection.node("SET", "x", "1").raw.startswith(b"-MISCONF"))
        connection.close()

    def limit(self, pair, size):
        hard = resource.prlimit(pair.ours.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(pair.ours.pid, resource.RLIMIT_FSIZE, (size, hard))

    def leave(self, pair):
        self.limit(pair, resource.RLIM_INFINITY)
        connection = pair.ours.connect()
        connection.cmd("SELECT", HEALTH_DATABASE)
        wait_until("writes are taken again", lambda: connection.node("SET", "x", "1").raw == b"+OK\r\n")
        connection.close()


class Bound(Condition):
    """At the memory bound."""

    compared, takes_writes = False, False

    def __init__(self, policy):
        self.restart_compared = policy == "noeviction"
        self.settings = {"maxmemory": BOUND, "maxmemory-policy": policy}

    def enter(self, pair):
        connection = pair.ours.connect(timeout_s=60)
        connection.cmd("SELECT", FILLER_DATABASE)
        for at in range(0, BOUND_KEYS, 200):
            connection.pipeline([[b"SET", b"filler%d" % n, incompressible(b"%d" % n, 1000)] for n in range(at, at + 200)])
        connection.close()


class DiskBound(Condition):
    """Files take more than `disk-max-bytes`."""

    compared, takes_writes = False, False

    def set_bound(self, pair, size):
        connection = pair.ours.connect()
        connection.cmd("CONFIG", "SET", "disk-max-bytes", size)
        connection.close()

    def enter(self, pair):
        connection = pair.ours.connect()
        connection.cmd("SELECT", FILLER_DATABASE)
        connection.cmd("SET", "filler", "1")
        connection.close()
        self.set_bound(pair, 1)
        wait_until("files take a byte", lambda: pair.ours.info()["disk_full"] == "1")

    def leave(self, pair):
        self.set_bound(pair, 0)


POLICIES = ("noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl")
CONDITIONS = {
    "normal": Normal(),
    "bgsave": Saving(),
    "bgrewriteaof": Rewriting(),
    "load": Loading(),
    "save-failed": SaveFailed(),
    "log-failed": LogFailed(),
    "disk-bound": DiskBound(),
    **{f"bound-{policy}": Bound(policy) for policy in POLICIES},
}
