"""python3 -m memory_bound [--only NAME ...] [--quick] [--list]

The memory of the process under `maxmemory`: each load below runs against its own server, in a control group of 1.25
times the bound if one can be created. The kernel's high-water mark of the resident set must stay below 1.2 times
the bound, the server must survive and answer, and a client that requests more than the bound allows must receive
Redis' OOM error or be disconnected.
"""

import argparse
import contextlib
import random
import socket
import threading
import time
from pathlib import Path

from harness.cgroup import MemoryGroup
from harness.resp import encode
from harness.server import Server
from harness.steps import Steps

MIB = 1 << 20
RESIDENT_SHARE, GROUP_SHARE = 1.2, 1.25
OOM = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"


def peak_rss_bytes(pid):
    """The kernel's high-water mark of the resident set."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Client:
    """A socket that reports the outcome of a request: its reply's first line, or that it was closed."""

    def __init__(self, server, timeout_s=120):
        self.sock = socket.create_connection(("127.0.0.1", server.port))
        self.sock.settimeout(timeout_s)
        self.file = self.sock.makefile("rb", buffering=1 << 16)

    def send(self, *args):
        """False when the server has closed the connection."""
        return self.send_raw(encode([a if isinstance(a, bytes) else str(a).encode() for a in args]))

    def send_raw(self, data):
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            return False

    def line(self):
        try:
            return self.file.readline()
        except OSError:
            return b""

    def reply(self):
        """The reply's first line; the rest of it is read and dropped. b"" when closed."""
        line = self.line()
        if line[:1] == b"$" and int(line[1:]) >= 0:
            left = int(line[1:]) + 2
            while left:
                try:
                    got = len(self.file.read(min(left, 1 << 16)))
                except OSError:
                    return b""
                if not got:
                    return b""
                left -= got
        elif line[:1] == b"*":
            for _ in range(max(int(line[1:]), 0)):
                if not self.reply():
                    return b""
        return line

    def ask(self, *args):
        return self.reply() if self.send(*args) else b""

    def close(self):
        self.file.close()
        self.sock.close()


def sets(server, count, value_bytes, seed=1):
    """SETs of random keys and values, in pipelines; returns the number answered with OK."""
    rng, client, taken = random.Random(seed), Client(server), 0
    for start in range(0, count, 500):
        n = min(500, count - start)
        client.send_raw(b"".join(
            b"*3\r\n$3\r\nSET\r\n$20\r\n%020d\r\n$%d\r\n%b\r\n" % (rng.getrandbits(60), value_bytes, rng.randbytes(value_bytes))
            for _ in range(n)))
        taken += sum(client.reply() == b"+OK\r\n" for _ in range(n))
    client.close()
    return taken


def small_keys(server, scale):
    count = int(3_700_000 * scale)
    return sets(server, count, 256) == count


def kilobyte_values(server, scale):
    count = int(600_000 * scale)
    return sets(server, count, 1024) == count


def many_clients(server, scale):
    """Idle ones hold a connection; busy ones write and read."""
    idle = [Client(server) for _ in range(int(10_000 * scale))]
    for client in idle:
        if client.ask("PING") != b"+PONG\r\n":
            return False
    busy = [Client(server) for _ in range(int(1_000 * scale))]
    rng = random.Random(5)
    right = True
    for _ in range(20):
        for client in busy:
            client.send("SET", rng.getrandbits(40), rng.randbytes(4096))
            client.send("GET", rng.getrandbits(40))
        for client in busy:
            right &= client.reply() == b"+OK\r\n" and client.reply()[:1] == b"$"
    for client in idle + busy:
        client.close()
    return right


def long_pipelines(server, scale):
    """200 MB in one pipeline whose replies are read while it is sent."""
    client, count = Client(server), int(200_000 * scale)
    request = encode([b"SET", b"key", b"v" * 1000])
    sender = threading.Thread(target=lambda: client.send_raw(request * count))
    sender.start()
    taken = sum(client.reply() == b"+OK\r\n" for _ in range(count))
    sender.join()
    client.close()
    return taken == count


def refused_or_closed(*replies):
    """True when each reply is the OOM error, or the connection was closed."""
    return all(reply in (OOM, b"") or reply.startswith(b"-EXECABORT") for reply in replies)


def multi_queue(server, scale):
    """A transaction that queues 1 GB."""
    client, value = Client(server), b"v" * MIB
    client.ask("MULTI")
    for _ in range(int(1024 * scale)):
        if client.ask("SET", "k", value) != b"+QUEUED\r\n":
            break
    return refused_or_closed(client.ask("EXEC"))


def big_exec(server, scale):
    """400 MB in one transaction, its commands sent in one go."""
    client, value = Client(server), b"v" * MIB
    client.send("MULTI")
    for number in range(400):
        if not client.send("SET", f"k{number}", value):
            break
    client.send("EXEC")
    replies = [client.reply() for _ in range(402)]
    return refused_or_closed(replies[-1])


def long_range(server, scale):
    """40 bytes that request 500 MB."""
    client = Client(server)
    return client.ask("SETRANGE", "k", 500_000_000, "x") == OOM and client.ask("STRLEN", "k") == b":0\r\n"


def crc64(data):
    """Redis' CRC-64 (Jones)."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x95AC9329AC4BC9B5 if byte & 1 else 0)
        table.append(byte)
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc


def restored(server, scale):
    """RESTORE of 1.7 MB that expand to 150 MB, and of payloads that expand to an allowed size."""
    client, pieces = Client(server), lambda bytes: (bytes - 1) // 264

    def payload(bytes):
        # One x, and 264 bytes copied from the one before, again and again.
        packed = b"\x00x" + b"\xe0\xff\x00" * pieces(bytes)
        plain = 1 + 264 * pieces(bytes)
        length = lambda number: b"\x80" + number.to_bytes(4, "big")
        body = b"\x00\xc3" + length(len(packed)) + length(plain) + packed + b"\x0a\x00"
        return body + crc64(body).to_bytes(8, "little")

    right = client.ask("RESTORE", "k", 0, payload(150_000_000)) == OOM and client.ask("EXISTS", "k") == b":0\r\n"
    stored = client.ask("RESTORE", "k", 0, payload(1_000_000)) == b"+OK\r\n"
    return right and stored and client.ask("STRLEN", "k") == b":%d\r\n" % (1 + 264 * pieces(1_000_000))


def appended(server, scale):
    """A value that grows to 480 MB."""
    client, piece, reply = Client(server), b"v" * (MIB // 2), b":1\r\n"
    for _ in range(960):
        reply = client.ask("APPEND", "k", piece)
        if not reply.startswith(b":"):
            break
    return refused_or_closed(reply)


def one_large_value(server, scale):
    """A value that does not fit into the bound together with the memory that its SET needs."""
    client = Client(server)
    return refused_or_closed(client.ask("SET", "k", b"v" * (60 * MIB)))


def several_large_values(server, scale):
    """16 values at once, of 40 MB and of a size that just fits."""
    answers = []

    def store(number):
        client = Client(server)
        for size in [40 * MIB] + 10 * [15 * MIB // 8]:
            answers.append(client.ask("SET", f"k{number}", b"v" * size))
            if answers[-1] == b"":
                client = Client(server)

    threads = [threading.Thread(target=store, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(answers) == 16 * 11 and all(answer in (OOM, b"", b"+OK\r\n") for answer in answers)


def unfinished_requests(server, scale):
    """50 clients that each send 20 of 25 MB, 50 that send 1.5 of 1.9, and wait."""
    clients = [Client(server) for _ in range(100)]
    for number, client in enumerate(clients):
        whole, sent = (25 * MIB, 20 * MIB) if number % 2 else (15 * MIB // 8, 3 * MIB // 2)
        client.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % whole + b"v" * sent)
    time.sleep(0.5)
    return True


def scan_cursors(server, scale):
    """Cursors positioned after keys of 100 KB each."""
    client = Client(server)
    for number in range(200):
        client.ask("SET", b"%05d" % number + b"k" * 100_000, "v")
    for _ in range(int(16_384 * scale)):
        client.send("SCAN", 0, "COUNT", 1)
        if not client.reply():
            return False
    return True


def large_replies(server, scale):
    """MGET of 100 times 1.9 MB, and replies of that size to ten clients that do not read them."""
    client = Client(server)
    client.ask("SET", "k", b"v" * (15 * MIB // 8))
    right = client.ask("MGET", *["k"] * 100) == OOM
    readers = [Client(server) for _ in range(10)]
    for reader in readers:
        for _ in range(10):
            reader.send("GET", "k")
    time.sleep(1)
    return right and client.ask("GET", "k") in (b"$%d\r\n" % (15 * MIB // 8), b"")


def cold_keys(server, scale):
    """Requests that name 100 keys whose values of 1.9 MB are on the device: alone, pipelined, and in a transaction."""
    client, rng = Client(server), random.Random(5)
    names = [b"cold:%d" % number for number in range(100)]
    right = all(client.ask("SET", name, rng.randbytes(15 * MIB // 8)) == b"+OK\r\n" for name in names)
    for command in ("EXISTS", "TOUCH", "MGET"):
        right &= client.ask(command, *names) == OOM
    client.ask("MULTI")
    for name in names:
        client.ask("STRLEN", name)
    right &= client.ask("EXEC").startswith(b"-EXECABORT")
    for name in names:
        right &= client.ask("STRLEN", name) == b":%d\r\n" % (15 * MIB // 8)
    return right


def long_names(server, scale):
    """WATCH and SUBSCRIBE of long names."""
    clients = [Client(server) for _ in range(20)]
    for number in range(int(800 * scale)):
        name = b"%06d" % number + b"n" * MIB
        client = clients[number % 20]
        if not client.send("WATCH" if number % 2 else "SUBSCRIBE", name):
            clients[number % 20] = Client(server)
            continue
        client.line()
    return True


def longest_common(server, scale):
    """LCS of two values of 11,000 bytes, whose table has 121 million fields."""
    client, rng = Client(server), random.Random(3)
    client.ask("SET", "a", rng.randbytes(11_000))
    client.ask("SET", "b", rng.randbytes(11_000))
    length = client.ask("LCS", "a", "b", "LEN")
    whole = client.ask("LCS", "a", "b")
    return length.startswith(b":") and (whole.startswith(b"$") or whole == OOM)


PARTS = ("mem_base", "mem_clients_normal", "mem_aof_buffer", "mem_table", "mem_memtables", "mem_graves", "mem_tree",
         "mem_block_cache", "mem_work")


def parts(server, scale):
    """The server's breakdown of its memory adds up to the total within 5 % once flushes and merges are done; and
    the part that counts for the bound is data, clients and the machinery's share, to the byte."""
    count = int(400_000 * scale)
    if sets(server, count, 256) != count:
        return False
    for _ in range(100):
        info = server.info()
        held, used = int(info["mem_held"]), int(info["used_memory"])
        missing = held - sum(int(info[name]) for name in PARTS)
        counted = sum(int(info[name]) for name in ("used_memory_dataset", "mem_clients_normal", "mem_machinery"))
        if counted != used:
            break
        if abs(missing) <= 0.05 * held and missing == int(info["mem_other"]):
            return True
        time.sleep(0.1)
    print({name: int(info[name]) for name in PARTS + ("mem_held", "mem_other", "used_memory", "used_memory_dataset", "mem_machinery")})
    return False


def image(server, scale):
    """1,000,000 SETs of 1 KB with the defaults of the image."""
    count = int(1_000_000 * scale)
    return sets(server, count, 1024) == count


#: name -> (load, maxmemory in MB, or None: `auto` in a group of 256 MB)
LOADS = {
    "small-keys": (small_keys, 100),
    "kilobyte-values": (kilobyte_values, 64),
    "clients": (many_clients, 100),
    "pipelines": (long_pipelines, 100),
    "multi-queue": (multi_queue, 64),
    "exec": (big_exec, 64),
    "setrange": (long_range, 64),
    "append": (appended, 64),
    "restore": (restored, 64),
    "large-value": (one_large_value, 64),
    "large-values": (several_large_values, 64),
    "unfinished": (unfinished_requests, 64),
    "scan-cursors": (scan_cursors, 64),
    "mget": (large_replies, 64),
    "cold-keys": (cold_keys, 64),
    "names": (long_names, 64),
    "lcs": (longest_common, 64),
    "parts": (parts, 256),
    "image": (image, None),
}


def run(steps, name, scale, has_groups, options):
    load, megabytes = LOADS[name]
    bound = megabytes * MIB if megabytes else int(256 * MIB * 0.8)
    limit = int(bound * GROUP_SHARE) if megabytes else 256 * MIB
    made = {"maxmemory": f"{megabytes}mb" if megabytes else "auto", "appendfsync": "everysec", "maxclients": 12_000}
    made.update(options)
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(MemoryGroup(limit)) if has_groups else None
        server = stack.enter_context(Server("sexton", made, prefix=group.prefix() if group else ()))
        before = peak_rss_bytes(server.pid)
        begun, right = time.monotonic(), False
        with contextlib.suppress(OSError, RuntimeError):
            right = load(server, scale)
        took = time.monotonic() - begun
        alive = server.alive()
        peak = peak_rss_bytes(server.pid) if alive else 0
        answers = False
        if alive:
            with contextlib.suppress(OSError):
                answers = Client(server, 10).ask("PING") == b"+PONG\r\n"
        steps.check(f"{name}: lives and answers", alive and answers, "" if alive else "killed")
        if alive:
            steps.check(f"{name}: replies as they should be", right)
            steps.check(f"{name}: resident", peak <= RESIDENT_SHARE * bound,
                        f"{peak / MIB:.0f} MiB at most, {peak / bound:.2f} of maxmemory, "
                        f"{before / MIB:.0f} before, {took:.1f} s")
        server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="these loads")
    parser.add_argument("--list", action="store_true", help="the loads' names")
    parser.add_argument("--quick", action="store_true", help="a tenth of the keys, clients and pipelines")
    parser.add_argument("--option", action="append", default=[], help="directive, name=value")
    parser.add_argument("--no-group", action="store_true", help="outside of any control group")
    args = parser.parse_args()
    if args.list:
        print("\n".join(LOADS))
        return
    has_groups = not args.no_group and MemoryGroup.possible()
    steps = Steps("resident memory under maxmemory" + ("" if has_groups else ", without control groups"))
    for name in args.only or LOADS:
        if name == "image" and not has_groups:
            continue
        run(steps, name, 0.1 if args.quick else 1.0, has_groups, [o.split("=", 1) for o in args.option])
    steps.finish()


if __name__ == "__main__":
    main()
