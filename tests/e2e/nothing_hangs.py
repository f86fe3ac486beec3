"""python3 -m nothing_hangs: requests that could wait for each other, for themselves, or for a client that has left.

Each step is a regression test for a hang of a connection or of the whole server: pipelined requests that need common cold keys,
server-wide commands inside MULTI, slow commands on all helper threads, clients that disconnected while they waited.
"""

import contextlib
import random
import threading
import time

from harness.resp import encode
from harness.server import Server, process_tasks_cpu_ns
from harness.steps import Steps
from harness.visitor import Visitor, answer_ms

ANSWER_S = 20
#: Two keys that only a device knows, each read twice at most; COPY looks into 128 databases, of which filters name a few.
READS_A_REQUEST = 12
TINY = {"maxmemory": "1mb", "memtable-bytes": "1mb"}


def pipeline(server, requests):
    """Replies to requests sent in one write; a reply that does not come ends the list."""
    connection = server.connect(timeout_s=ANSWER_S)
    replies = []
    try:
        connection.send_raw(b"".join(encode(request) for request in requests))
        for _ in requests:
            replies.append(connection.read_node())
    except OSError as error:
        print(f"      after {len(replies)} of {len(requests)} replies: {error!r}")
    connection.close()
    return replies


def is_alive(server):
    """Whether another client is answered at once."""
    connection = server.connect(timeout_s=5)
    try:
        return connection.cmd("PING") == b"PONG"
    except OSError:
        return False
    finally:
        connection.close()


def check_pipelines(steps, name, options, count, pipelines_of):
    """Pipelines over keys that are only on a device: two requests that need one of them and another each."""
    with Server("sexton", options) as server:
        keys = [b"key:%d" % number for number in range(count)]
        pipeline(server, [[b"SET", key, b"v" * 20, b"EX", b"100000"] for key in keys])
        # In a table: a key that is deleted while it is in a memtable leaves nothing behind.
        server.terminate()
        server.start()
        pipeline(server, [[b"DEL", key] for key in keys[::2]])
        server.terminate()
        server.start()
        cold_reads = int(server.info()["flsm_cold_reads"])
        sent = answered = 0
        for requests in pipelines_of(keys):
            sent += len(requests)
            answered += len(pipeline(server, requests))
            if answered < sent:
                break
        steps.equal(f"{name}: every request of a pipeline is answered", answered, sent)
        reads = (int(server.info()["flsm_cold_reads"]) - cold_reads) / sent
        steps.check(f"{name}: no key is read again and again", reads <= READS_A_REQUEST, f"{reads:.1f} reads a request")


def check_pipelines_of_all_kinds(steps):
    rng = random.Random(7)

    def deleted(keys):
        pairs = [rng.sample(keys[::2], 2) for _ in range(40)]
        return [[[b"GET", one], [b"MGET", one, other]] for one, other in pairs]

    check_pipelines(steps, "deleted keys, spilled graves", {"cemetery-max-memory": "65536"}, 30_000, deleted)
    check_pipelines(steps, "deleted keys, tombstones", {"deletes": "tombstones"}, 30_000, deleted)
    check_pipelines(steps, "COPY, which looks at every database", {"databases": "128"}, 6000,
                    lambda keys: [[[b"COPY", b"same", b"new:%d" % nth] for nth in range(600)]])


def check_scripts_that_begin_again(steps):
    """Names that only a device can tell are not there: a script writes one, and then a key that it has not declared, so it is
    taken back and begins again, which makes the first one unknown again."""
    script = b"redis.call('set', KEYS[1], 'x') redis.call('set', ARGV[1], 'y') return redis.call('get', KEYS[1])"
    with Server("sexton", TINY) as server:
        pipeline(server, [[b"SET", b"key:%d" % number, b"v"] for number in range(20_000)])
        server.terminate()
        server.start()
        names = [(b"no:%d" % number, b"beside:%d" % number) for number in range(5_000)]
        replies = pipeline(server, [[b"EVAL", script, b"1", name, beside] for name, beside in names])
        right = sum(reply.value == b"x" for reply in replies)
        steps.equal("scripts that begin again for a key that they do not declare end", right, len(names))
        reads = int(server.info()["flsm_cold_reads"])
        steps.check("and some had to ask a device", 0 < reads < len(names), str(reads))


def check_whole_server_inside_multi(steps):
    with Server("sexton", {"enable-debug-command": "yes"}) as server:
        asked = [[b"INFO"], [b"INFO", b"keyspace"], [b"MEMORY", b"STATS"], [b"DEBUG", b"HTSTATS", b"0"], [b"DBSIZE"],
                 [b"CONFIG", b"SET", b"maxmemory", b"209715200"], [b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-lru"],
                 [b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction"], [b"LATENCY", b"DOCTOR"], [b"BGSAVE"]]
        for command in asked:
            replies = pipeline(server, [[b"MULTI"], [b"SET", b"x", b"1"], command, [b"GET", b"x"], [b"EXEC"]])
            answered = len(replies) == 5 and replies[-1].items is not None and replies[-1].items[2].value == b"1"
            text = b" ".join(command).decode()
            if not steps.check(f"{text} between a write and a read in MULTI", answered and is_alive(server)):
                return


def check_cold_keys_inside_multi(steps):
    with Server("sexton", {**TINY, "appendfsync": "always"}) as server:
        pipeline(server, [[b"SET", b"cold", b"7"], [b"SELECT", b"1"], [b"SET", b"cold", b"8"]])
        for name, queued, expected in [
            ("SORT", [[b"SET", b"x", b"1"], [b"SORT", b"cold"]], b"+OK\r\n-WRONGTYPE"),
            ("SORT ... STORE", [[b"SORT", b"none", b"STORE", b"cold"], [b"EXISTS", b"cold"], [b"SET", b"cold", b"7"]], b":0\r\n:0\r\n+OK"),
            ("SWAPDB, then GET", [[b"SWAPDB", b"0", b"1"], [b"GET", b"cold"], [b"SWAPDB", b"0", b"1"]], b"+OK\r\n$1\r\n8\r\n+OK"),
            ("SWAPDB, then DEL", [[b"SWAPDB", b"0", b"1"], [b"DEL", b"cold"], [b"SET", b"cold", b"8"], [b"SWAPDB", b"0", b"1"]], b"+OK\r\n:1\r\n"),
            ("SELECT, then GET", [[b"SELECT", b"1"], [b"GET", b"cold"]], b"+OK\r\n$1\r\n8"),
            ("FLUSHDB, then INCR", [[b"FLUSHDB"], [b"INCR", b"cold"], [b"SET", b"cold", b"7"]], b"+OK\r\n:1\r\n+OK"),
        ]:
            server.terminate()
            server.start()
            replies = pipeline(server, [[b"MULTI"], *queued, [b"EXEC"]])
            got = replies[-1].raw if len(replies) == len(queued) + 2 else b""
            steps.check(f"{name} of cold keys in MULTI", expected in got and is_alive(server), repr(got[:200]))
            steps.equal(f"{name}: writes are taken afterwards", [n.raw for n in pipeline(server, [[b"SET", b"y", b"1"]])], [b"+OK\r\n"])


def check_helpers(steps):
    with Server("sexton", {"enable-debug-command": "yes"}) as server:
        slow = [server.connect() for _ in range(4)]
        for connection in slow:
            connection.send_raw(encode([b"DEBUG", b"SLEEP", b"3"]))
        begun = time.monotonic()
        replies = pipeline(server, [[b"DBSIZE"], [b"SCAN", b"0"], [b"KEYS", b"*"], [b"CONFIG", b"SET", b"timeout", b"0"]])
        took = time.monotonic() - begun
        steps.check("slow commands do not keep DBSIZE, SCAN and CONFIG SET waiting", len(replies) == 4 and took < 2.5, f"{took:.2f} s")
        for connection in slow:
            connection.close()


def check_clients_that_leave(steps):
    with Server("sexton", {"maxclients": "3000"}) as server:
        def connected(wanted, limit_s=15):
            deadline = time.monotonic() + limit_s
            while (now := int(server.info()["connected_clients"])) > wanted and time.monotonic() < deadline:
                time.sleep(0.1)
            return now

        waiting = [server.connect() for _ in range(2000)]
        for connection in waiting:
            connection.send_raw(encode([b"WAITAOF", b"0", b"1", b"0"]))
        time.sleep(0.5)
        info = server.info()
        steps.equal("WAITAOF: clients that wait are blocked ones", info["blocked_clients"], "2000")
        observer = server.connect()
        line = next(line for line in observer.cmd("CLIENT", "LIST").decode().splitlines() if "cmd=waitaof" in line or "flags=b" in line)
        steps.check("CLIENT LIST shows it", " flags=b " in line, line)
        begun, cpu_ns = time.monotonic(), process_tasks_cpu_ns(server.pid)
        time.sleep(3)
        share = (process_tasks_cpu_ns(server.pid) - cpu_ns) / 1e9 / (time.monotonic() - begun)
        steps.check("2,000 clients in WAITAOF cost next to nothing", share < 0.05, f"{100 * share:.1f} % of a core")
        for connection in waiting:
            connection.close()
        steps.equal("WAITAOF: clients that left are gone", connected(2), 2)
        behind = [server.connect() for _ in range(20)]
        for connection in behind:
            connection.send_raw(encode([b"SET", b"a", b"1"]) + encode([b"WAITAOF", b"0", b"1", b"0"]))
        time.sleep(0.5)
        for connection in behind:
            connection.close()
        steps.equal("WAITAOF behind another request: clients that left are gone", connected(2), 2)
        observer.cmd("CLIENT", "PAUSE", "600000", "WRITE")
        paused = [server.connect() for _ in range(60)]
        for connection in paused:
            connection.send_raw(encode([b"SET", b"a", b"1"]) * 3)
        time.sleep(0.3)
        steps.equal("CLIENT PAUSE: clients that it holds are blocked ones", server.info()["blocked_clients"], "60")
        stays = paused.pop()
        for connection in paused:
            connection.close()
        steps.equal("CLIENT PAUSE: clients that left are gone", connected(3), 3)
        begun = time.monotonic()
        observer.cmd("CLIENT", "UNPAUSE")
        steps.equal("CLIENT PAUSE: the one that stayed is answered", stays.read_node().raw, b"+OK\r\n")
        steps.check("... as soon as it ends", time.monotonic() - begun < 1)
        half = server.connect()
        half.send_raw(encode([b"SET", b"b", b"2"]) + encode([b"WAITAOF", b"1", b"0", b"0"]) + encode([b"GET", b"b"]))
        half.sock.shutdown(1)
        steps.equal("a client that only stops sending gets its replies", [half.read_node().raw for _ in range(3)],
                    [b"+OK\r\n", b"*2\r\n:1\r\n:0\r\n", b"$1\r\n2\r\n"])


def check_sender_that_never_pauses(steps):
    """One client sends without waiting for replies: the worker has always something to do for it."""
    with Server("sexton", {"appendonly": "yes"}) as server:
        fields = [word for number in range(200) for word in (b"field:%06d" % number, b"x" * 16)]
        load = b"".join(encode([b"HSET", b"h%d" % (number % 50), *fields]) for number in range(256))
        loader, is_over = server.connect(), threading.Event()

        def send():
            while not is_over.is_set():
                loader.send_raw(load)

        def drop_replies():
            with contextlib.suppress(OSError):
                while loader.sock.recv(1 << 16):
                    pass

        threads = [threading.Thread(target=target, daemon=True) for target in (send, drop_replies)]
        for thread in threads:
            thread.start()
        # Not faster than one answer after the other can come: the visitor counts the time that requests are late.
        visitor = Visitor(server, rate=100)
        time.sleep(3)
        answers = visitor.leave()
        is_over.set()
        threads[0].join(ANSWER_S)
        half_ms, *_, longest_ms = answer_ms(answers)
        steps.check("a client that never pauses does not stop others", half_ms < 50 and longest_ms < 1000,
                    f"{len(answers)} GETs, half within {half_ms:.1f} ms, the longest {longest_ms:.0f} ms")  # fmt: skip


def main():
    steps = Steps("nothing hangs")
    check_pipelines_of_all_kinds(steps)
    check_scripts_that_begin_again(steps)
    check_whole_server_inside_multi(steps)
    check_cold_keys_inside_multi(steps)
    check_helpers(steps)
    check_clients_that_leave(steps)
    check_sender_that_never_pauses(steps)
    steps.finish()


if __name__ == "__main__":
    main()
