"""python3 -m hostile [--quick]: malformed, greedy and slow clients.

The server must survive, keep serving others, bound its memory, and answer protocol errors with
redis-server's texts (compared with a real one, byte by byte, including the close).
"""

import argparse
import resource
import select
import socket
import threading
import time

from harness.resp import Connection, encode
from harness.server import Server, process_rss_bytes
from harness.steps import Steps

#: Cases whose answer and closing must equal redis-server's: name -> bytes sent.
SAME_AS_REDIS = {
    "a million nested headers": b"*1\r\n" * 1_000_000,
    "negative bulk length": b"*1\r\n$-5\r\n",
    "bulk length -1": b"*1\r\n$-1\r\n",
    "bulk length not a number": b"*1\r\n$abc\r\n",
    "bulk length with blanks": b"*1\r\n$ 4\r\nPING\r\n",
    "empty bulk length": b"*1\r\n$\r\n",
    "bulk above proto-max-bulk-len": b"*2\r\n$4\r\nECHO\r\n$1073741824\r\nabc",
    "bulk length above 64 bits": b"*1\r\n$99999999999999999999\r\n",
    "array of 2147483648": b"*2147483648\r\n",
    "array of 2147483647, never filled": b"*2147483647\r\n$4\r\nPING\r\n",
    "array length not a number": b"*abc\r\n",
    "array length with sign": b"*+1\r\n$4\r\nPING\r\n",
    "array length -1": b"*-1\r\nPING\r\n",
    "array length 0": b"*0\r\n*0\r\nPING\r\n",
    "array length above 64 bits": b"*99999999999999999999\r\n",
    "integer where a bulk is due": b"*2\r\n$4\r\nECHO\r\n:5\r\n",
    "endless array header": b"*" + b"1" * 70_000,
    "endless bulk header": b"*1\r\n$" + b"1" * 70_000,
    "header without CR": b"*1\n$4\nPING\n",
    "no CRLF behind the bulk": b"*1\r\n$4\r\nPINGxxPING\r\n",
    "huge inline": b"A" * 70_000,
    "inline that grows without end": b"A " * 600_000,
    "inline of 60,000 bytes": b"ECHO " + b"x" * 60_000 + b"\r\n",
    "unbalanced quotes": b'SET "a b\r\n',
    "quotes inside a word": b'SET "a"b c\r\n',
    "inline escapes": b'ECHO "\\x41\\n\\"b"\r\nECHO \'it\\\'s\'\r\n',
    "inline empty lines": b"\r\n\r\n\n   \r\nPING\r\n",
    "inline with LF only": b"PING\nECHO hi\n",
    "inline with zero bytes": b"PI\x00NG\r\nPING\r\n",
    "only zero bytes": b"\x00" * 1000 + b"\r\n",
    "all byte values": bytes(range(256)) + b"\r\n",
    "HTTP POST": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n",
    "HTTP GET with Host": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "good commands before a bad one": encode([b"ECHO", b"1"]) + encode([b"ECHO", b"2"]) + b"*1\r\n$x\r\n" + encode([b"PING"]),
    "QUIT with more behind it": encode([b"QUIT"]) + encode([b"SET", b"after-quit", b"1"]),
    "command name of 1 MB": encode([b"x" * 1_000_000]),
    "10,000 arguments": encode([b"MGET", *[b"k"] * 10_000]),
    "a million arguments": encode([b"DEL", *[b"k"] * 1_000_000]),
    "empty command name": encode([b""]),
    "nested MULTI": encode([b"MULTI"]) * 50,
    "EXEC without MULTI": encode([b"EXEC"]),
}


def outcome(port, data, wanted=None, quiet_s=0.4):
    """(bytes answered, closed by the server) for `data`. With `wanted`, the outcome hoped for, it waits
    for that much instead of a moment of silence, however slow the machine."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    sender = threading.Thread(target=_send, args=(sock, data), daemon=True)
    sender.start()
    answer, closed, begun = b"", False, time.monotonic()
    while time.monotonic() - begun < 20:
        ready, _, _ = select.select([sock], [], [], quiet_s)
        if not ready:
            if sender.is_alive() or (wanted and (len(answer) < len(wanted[0]) or wanted[1])):
                continue
            break
        try:
            chunk = sock.recv(1 << 20)
        except OSError:
            closed = True
            break
        if not chunk:
            closed = True
            break
        answer += chunk
    sock.close()
    return answer, closed


def _send(sock, data):
    try:
        sock.sendall(data)
    except OSError:
        pass  # the server closed first


def protocol_errors(steps, server, reference):
    for name, data in SAME_AS_REDIS.items():
        theirs = outcome(reference.port, data)
        ours = outcome(server.port, data, wanted=theirs)
        # A reset may swallow what was sent just before it; then only the closing can be compared.
        same = ours == theirs or (ours[1] and theirs[1] and (not ours[0] or not theirs[0]))
        steps.check(name, same, "" if same else f"got {ours[0][:160]!r} closed={ours[1]}, redis {theirs[0][:160]!r} closed={theirs[1]}")
        if not steps.check(f"{name}: lives", server.alive()):
            server.start()


def byte_by_byte(steps, server):
    connection = server.connect()
    request = encode([b"SET", b"slow", b"value\r\n$3\r\n"]) + encode([b"GET", b"slow"]) + b"PING\r\n"
    for i in range(len(request)):
        connection.send_raw(request[i : i + 1])
    replies = [connection.read_node().value for _ in range(3)]
    steps.equal("a request in single bytes", replies, [b"OK", b"value\r\n$3\r\n", b"PONG"])
    connection.close()


def announced_never_sent(steps, server):
    base = process_rss_bytes(server.pid)
    sockets = []
    for _ in range(50):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n" + b"x" * 100)
        sockets.append(sock)
    time.sleep(0.5)
    grown = process_rss_bytes(server.pid) - base
    steps.check("50 x 512 MB announced, never sent", grown < 100 << 20, f"memory grew by {grown >> 20} MiB")
    probe(steps, server, "others are served meanwhile")
    for sock in sockets:
        sock.close()


def probe(steps, server, name, limit_ms=250):
    connection, worst = server.connect(), 0.0
    for _ in range(200):
        begun = time.monotonic()
        ok = connection.cmd("PING") == b"PONG"
        worst = max(worst, (time.monotonic() - begun) * 1000)
    connection.close()
    steps.check(name, ok and worst < limit_ms, f"worst PING {worst:.1f} ms")


def slow_loris(steps, server, clients=500, seconds=3):
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(clients)]
    request, ended = encode([b"SET", b"loris", b"v" * 1000]), time.monotonic() + seconds
    position = 0
    while time.monotonic() < ended:
        for sock in sockets:
            sock.sendall(request[position : position + 1])
        position += 1
        time.sleep(0.05)
    probe(steps, server, f"{clients} clients that send a byte now and then")
    for sock in sockets:
        sock.close()


def never_idle(steps, server, clients=3):
    """Endless pipelines: the worker is never idle, and replies to other clients must not wait until it is."""
    ended = threading.Event()
    sockets = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(clients)]
    requests = encode([b"PING"]) * 100_000

    def send(sock):
        # Without replies nothing but the server holds them up.
        sock.sendall(encode([b"CLIENT", b"REPLY", b"OFF"]))
        while not ended.is_set():
            sock.sendall(requests)

    threads = [threading.Thread(target=send, args=[sock]) for sock in sockets]
    for thread in threads:
        thread.start()
    probe(steps, server, f"others are served beside {clients} pipelines without end", limit_ms=1000)
    ended.set()
    for thread in threads:
        thread.join()
    for sock in sockets:
        sock.close()


def never_reads(steps, server):
    """A client that requests 512 MB and does not read: Redis would buffer everything."""
    setup = server.connect()
    setup.cmd("SET", "big", b"x" * (1 << 20))
    base = process_rss_bytes(server.pid)
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.settimeout(2)
    try:
        sock.sendall(encode([b"GET", b"big"]) * 512)
    except OSError:
        pass
    time.sleep(1.5)
    grown = process_rss_bytes(server.pid) - base
    probe(steps, server, "others are served beside a client that does not read")
    steps.check("512 MB asked for and not read", grown < 128 << 20, f"memory grew by {grown >> 20} MiB")
    sock.close()
    setup.cmd("DEL", "big")
    setup.close()


def many_connections(steps, server, wanted):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    asking = server.connect()
    # The server lowers maxclients to the files it may open; both it and this process need some more.
    allowed = int(asking.cmd("CONFIG", "GET", "maxclients")[1])
    asking.close()
    with open("/proc/sys/net/ipv4/ip_local_port_range") as ports:
        low, high = map(int, ports.read().split())
    bounds = {
        f"the server takes {allowed} clients, having {hard} files at most (ulimit -Hn)": allowed - 20,
        f"this process may open {hard} files (ulimit -Hn)": hard - 100,
        f"one address has {high - low} ports (ip_local_port_range)": high - low - 100,
    }
    possible = min(wanted, *bounds.values())
    for bound, connections in bounds.items():
        if connections == possible < wanted:
            print(f"      only {possible} connections: {bound}")
    base = process_rss_bytes(server.pid)
    sockets = []
    try:
        for _ in range(possible):
            sockets.append(socket.create_connection(("127.0.0.1", server.port), timeout=10))
    except OSError as error:
        steps.check(f"{possible} connections", False, f"{len(sockets)}, then {error}")
        return
    ping, wrong = encode([b"PING"]), 0
    for sock in sockets:
        sock.sendall(ping)
    for sock in sockets:
        sock.settimeout(20)
        try:
            wrong += sock.recv(64) != b"+PONG\r\n"
        except OSError:
            wrong += 1
    grown = process_rss_bytes(server.pid) - base
    steps.check(f"{possible} connections answer PING", wrong == 0, f"{wrong} do not" if wrong else "")
    steps.check("memory per connection below 20 KB", grown / possible < 20_000, f"{grown / possible:.0f} bytes")
    for sock in sockets:
        sock.close()
    probe(steps, server, "after they have gone")


def above_maxclients(steps):
    with Server(steps.kind, {"maxclients": 10}) as server:
        sockets = []
        # The connection that asked whether the server is up may still count for a moment: one that was
        # refused for it tries again.
        until = time.monotonic() + 30
        while len(sockets) < 10 and time.monotonic() < until:
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            try:
                sock.sendall(encode([b"PING"]))
                taken = sock.recv(64) == b"+PONG\r\n"
            except ConnectionError:
                taken = False
            sockets.append(sock) if taken else sock.close()
        # Until it is closed, however long a busy machine takes for that.
        refused = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        answer = b""
        try:
            while chunk := refused.recv(1 << 16):
                answer += chunk
        except ConnectionResetError:
            pass
        except TimeoutError:
            answer += b"(still open)"
        refused.close()
        steps.equal("one client above maxclients", answer, b"-ERR max number of clients reached\r\n")
        for sock in sockets:
            sock.close()


def raise_file_limit():
    """As root the hard limit can be raised; servers started later inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (65_536, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, hard)))
            return
        except (ValueError, OSError):
            continue


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--connections", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="5,000 connections")
    args = parser.parse_args()
    raise_file_limit()
    steps = Steps("hostile input")
    steps.kind = args.server
    with Server(args.server, {"maxclients": 25_000}) as server:
        with Server("redis", {"appendonly": "no"}) as reference:
            protocol_errors(steps, server, reference)
        byte_by_byte(steps, server)
        announced_never_sent(steps, server)
        slow_loris(steps, server)
        never_idle(steps, server)
        many_connections(steps, server, 5_000 if args.quick else args.connections)
        never_reads(steps, server)
        above_maxclients(steps)
        connection = Connection(server.port)
        steps.equal("at the end a key can be written", connection.cmd("SET", "end", "1"), b"OK")
        steps.check("the server lives", server.alive())
    steps.finish()


if __name__ == "__main__":
    main()
