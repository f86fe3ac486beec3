"""Loading and checking many keys by pipelines, and watching a server's memory."""

import hashlib
import threading
import time

from .resp import encode
from .server import process_rss_bytes


def incompressible(key, size):
    """A value that no compressor shrinks and that depends on its key only."""
    return hashlib.shake_128(key).digest(size)


def pipelined(connection, requests, depth=256):
    """Sends all requests of an iterator in pipelines; yields (request, reply node)."""
    batch = []
    for request in requests:
        batch.append(request)
        if len(batch) == depth:
            yield from _batch(connection, batch)
            batch = []
    if batch:
        yield from _batch(connection, batch)


def _batch(connection, batch):
    connection.send_raw(b"".join(encode(r) for r in batch))
    for request in batch:
        yield request, connection.read_node()


def send_all(steps, title, connection, requests, count, is_right, depth=256):
    """Sends requests whose replies must all be right, as a named step with its rate."""
    wrong = []
    with Timer(title, count):
        for _, reply in pipelined(connection, requests, depth):
            if not is_right(reply):
                wrong.append(reply.raw[:100])
    steps.check(title, not wrong, f"{len(wrong)} refused, first {wrong[:1]}" if wrong else "")


class RssSampler(threading.Thread):
    """Samples a process' resident memory until `stop`; `peak` is in bytes."""

    def __init__(self, server, interval_s=0.05):
        super().__init__(daemon=True)
        self.server = server
        self.interval_s = interval_s
        self.peak = 0
        self.samples = 0
        self._ended = threading.Event()

    def run(self):
        while not self._ended.is_set():
            try:
                self.peak = max(self.peak, process_rss_bytes(self.server.pid))
                self.samples += 1
            except (FileNotFoundError, ProcessLookupError):
                pass  # between two processes
            self._ended.wait(self.interval_s)

    def stop(self):
        self._ended.set()
        self.join()
        return self.peak


def scan_all(connection, count=1000, match=None):
    """All keys a full SCAN returns, in order of arrival."""
    cursor = b"0"
    extra = ("MATCH", match) if match else ()
    while True:
        cursor, page = connection.cmd("SCAN", cursor, "COUNT", count, *extra)
        yield from page
        if cursor == b"0":
            return


class Timer:
    """`with Timer("load", n):` prints how long something took and its rate."""

    def __init__(self, what, items=0):
        self.what, self.items = what, items

    def __enter__(self):
        self.begun = time.monotonic()
        return self

    def __exit__(self, *_):
        took = time.monotonic() - self.begun
        rate = f", {self.items / took:,.0f}/s" if self.items else ""
        print(f"      {self.what}: {took:.1f} s{rate}", flush=True)
