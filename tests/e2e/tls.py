"""python3 -m tls [--handshakes 10000]: clients with TLS; one line per check.

Certificates are issued by an authority of the test. redis-cli, redis-py and ioredis connect with and without a
certificate; large values, pipelines, messages and blocking commands work over the connection; a slow reader is served piecewise
and disconnected at the output limit; certificates are replaced under traffic; thousands of wrong, expired and foreign ones are
rejected with a message while others are served. Without arguments it is quick.
"""

import argparse
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import redis

from harness.certificates import Authority
from harness.resp import Connection, ReplyError
from harness.server import Server, free_port, redis_tool
from harness.steps import Steps


class Tls:
    """The certificate files, and ways to connect with them."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="sexton-test-tls-"))
        ours = Authority(self.directory, "ca")
        other = Authority(self.directory, "other")
        ours.certify("server", "localhost", "DNS:localhost,IP:127.0.0.1")
        ours.certify("next", "localhost", "DNS:localhost,IP:127.0.0.1")
        ours.certify("ann", "ann", "URI:urn:nobody,URI:urn:user:bob")
        ours.certify("expired", "ann", "DNS:ann", days=-1)
        other.certify("foreign", "ann", "DNS:ann")
        # Without an extension, openssl makes a certificate of version 1.
        ours.certify("first", "ann", None)
        ours.run("pkey", "-in", "server.key", "-aes128", "-passout", "pass:secret", "-out", "locked.key")
        self.port = free_port()

    def path(self, name):
        return str(self.directory / name)

    def options(self, **more):
        return {
            "tls-port": self.port,
            "tls-cert-file": self.path("server.crt"),
            "tls-key-file": self.path("server.key"),
            "tls-ca-cert-file": self.path("ca.crt"),
            "tls-auth-clients": "optional",
        } | {name.replace("_", "-"): value for name, value in more.items()}

    def context(self, certificate=None, version=None):
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        if certificate:
            context.load_cert_chain(self.path(f"{certificate}.crt"), self.path(f"{certificate}.key"))
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def connect(self, certificate=None, context=None, session=None, timeout_s=30.0):
        connection = Connection(self.port, timeout_s=timeout_s)
        context = context or self.context(certificate)
        connection.sock = context.wrap_socket(connection.sock, server_hostname="localhost", session=session)
        return connection


def clients_come_in(steps, tls, server):
    cli = [redis_tool("redis-cli"), "-p", str(tls.port), "--tls", "--cacert", tls.path("ca.crt")]
    done = subprocess.run([*cli, "set", "cli", "1"], capture_output=True, text=True, timeout=20)
    steps.equal("redis-cli --tls", done.stdout.strip(), "OK")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        connection = tls.connect(context=tls.context(version=version))
        steps.equal(f"{connection.sock.version()}", connection.cmd("PING"), b"PONG")
        connection.close()
    client = redis.Redis(port=tls.port, host="localhost", ssl=True, ssl_ca_certs=tls.path("ca.crt"), protocol=3)
    client.set("py", "x")
    pipe = client.pipeline(transaction=True)
    for number in range(500):
        pipe.hset("py:hash", str(number), number)
    pipe.execute()
    steps.equal("redis-py", (client.get("py"), client.hlen("py:hash")), (b"x", 500))
    steps.equal("the plain port serves beside it", server.connect().cmd("GET", "py"), b"x")
    client.close()
    directory = Path(__file__).parent / "node_client"
    files = [tls.path("ca.crt"), tls.path("ann.crt"), tls.path("ann.key")]
    done = subprocess.run(["node", "tls.js", str(tls.port), *files], cwd=directory, capture_output=True, text=True, timeout=60)
    steps.equal("ioredis with a certificate", done.stdout.strip(), "ok")
    with socket.create_connection(("127.0.0.1", tls.port), timeout=10) as sock:
        sock.sendall(b"PING\r\n")
        try:
            said = sock.recv(100)
        except ConnectionError:
            said = b""
    steps.equal("who does not speak TLS hears nothing", said, b"")


def data_crosses(steps, tls):
    random.seed(1)
    connection = tls.connect()
    large = random.randbytes(5_000_000)
    connection.cmd("SET", "large", large)
    steps.check("5 MB there and back", connection.cmd("GET", "large") == large)
    replies = connection.pipeline([["SET", f"k{n}", "v" * (n % 3000)] for n in range(3000)])
    replies = connection.pipeline([["GET", f"k{n}"] for n in range(3000)])
    steps.check("a pipeline of 3000", all(len(reply.value) == n % 3000 for n, reply in enumerate(replies)))
    request = b"*3\r\n$3\r\nSET\r\n$5\r\nbytes\r\n$5\r\nhello\r\n"
    for byte in request:
        connection.sock.sendall(bytes([byte]))
    steps.equal("a record a byte", connection.read_node().value, b"OK")
    listener, waiting = tls.connect(), tls.connect()
    listener.cmd("SUBSCRIBE", "news")
    waiting.send_raw(b"BLPOP queue 20\r\n")
    connection.pipeline([["PUBLISH", "news", str(n)] for n in range(1000)])
    heard = [listener.read_node().items[2].value for _ in range(1000)]
    steps.check("1000 messages in order", heard == [str(n).encode() for n in range(1000)])
    connection.cmd("RPUSH", "queue", "x")
    steps.equal("BLPOP over TLS", waiting.read_node().items[1].value, b"x")
    for each in (connection, listener, waiting):
        each.close()


def slow_readers(steps, tls, server):
    """Replies larger than all buffers: partial writes, in order, and the output limit."""
    connection = tls.connect()
    value = random.randbytes(1 << 20)
    connection.cmd("SET", "mega", value)
    count = 24
    connection.send_raw(b"GET mega\r\n" * count)
    admin = server.connect()
    while b"cmd=get" not in admin.cmd("CLIENT", "LIST"):
        pass
    steps.check("24 MB of replies to one who reads late", all(connection.read_node().value == value for _ in range(count)))
    connection.close()
    admin.cmd("CONFIG", "SET", "client-output-buffer-limit", "normal 8mb 0 0")
    lazy = tls.connect(timeout_s=10)
    name = f"{lazy.sock.getsockname()[0]}:{lazy.sock.getsockname()[1]}"
    # From now on it is listed.
    lazy.cmd("PING")
    lazy.send_raw(b"GET mega\r\n" * 64)
    deadline = time.monotonic() + 10
    while name.encode() in admin.cmd("CLIENT", "LIST") and time.monotonic() < deadline:
        time.sleep(0.02)
    steps.check("who does not read is closed at the limit", name.encode() not in admin.cmd("CLIENT", "LIST"))
    admin.cmd("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")
    lazy.close()
    admin.close()


def certificates_name_users(steps, tls, server):
    admin = server.connect()
    who = lambda certificate: tls.connect(certificate).cmd("ACL", "WHOAMI")
    steps.equal("a certificate alone is nobody", who("ann"), b"default")
    admin.cmd("CONFIG", "SET", "tls-auth-clients-user", "CN")
    steps.equal("without such a user: default", who("ann"), b"default")
    entry = admin.cmd("ACL", "LOG")[0]
    steps.check("ACL LOG names it", b"tls-cert" in entry and b"ann" in entry)
    admin.cmd("ACL", "SETUSER", "ann", "on", "resetpass", "+@all", "~*")
    admin.cmd("ACL", "SETUSER", "urn:user:bob", "on", "resetpass", "+@all", "~*")
    steps.equal("the common name", who("ann"), b"ann")
    steps.equal("and without a certificate", who(None), b"default")
    admin.cmd("CONFIG", "SET", "tls-auth-clients-user", "URI")
    steps.equal("the first URI that is a user", who("ann"), b"urn:user:bob")
    admin.cmd("ACL", "SETUSER", "urn:user:bob", "off")
    steps.equal("a user that is off is not taken", who("ann"), b"default")
    admin.cmd("ACL", "SETUSER", "default", ">secret", "resetpass", ">secret")
    admin.cmd("ACL", "SETUSER", "urn:user:bob", "on")
    steps.equal("a certificate in the place of a password", who("ann"), b"urn:user:bob")
    connection = tls.connect()
    try:
        connection.cmd("GET", "x")
        refused = ""
    except ReplyError as error:
        refused = str(error)
    steps.check("without either: NOAUTH", "NOAUTH" in refused, refused)
    admin.cmd("ACL", "SETUSER", "default", "nopass")
    admin.cmd("CONFIG", "SET", "tls-auth-clients-user", "off")
    admin.close()


def served(connection):
    """The serial number of the certificate that the server has shown."""
    return connection.sock.getpeercert()["serialNumber"]


def reload_under_traffic(steps, tls, server):
    stop, errors, served_by = threading.Event(), [], []

    def traffic(certificate):
        try:
            connection = tls.connect(certificate)
            number = 0
            while not stop.is_set():
                number += 1
                if connection.cmd("INCR", f"traffic:{threading.get_ident()}") != number:
                    raise ValueError("a reply is wrong")
            served_by.append(number)
            connection.close()
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=traffic, args=(name,)) for name in ("ann", None, None)]
    for thread in threads:
        thread.start()
    admin = server.connect()
    first = served(tls.connect())
    for number in range(20):
        name = ("next", "server")[number % 2]
        admin.cmd("CONFIG", "SET", "tls-cert-file", tls.path(f"{name}.crt"), "tls-key-file", tls.path(f"{name}.key"))
        tls.connect().cmd("PING")
    steps.equal("the last one is shown", served(tls.connect()), first)
    try:
        admin.cmd("CONFIG", "SET", "tls-cert-file", tls.path("next.crt"))
        refused = ""
    except ReplyError as error:
        refused = str(error)
    steps.check("a certificate without its key is refused", "Unable to update TLS configuration" in refused, refused)
    steps.equal("and all is as it was", (served(tls.connect()), admin.cmd("CONFIG", "GET", "tls-cert-file")[1]), (first, tls.path("server.crt").encode()))
    shutil.copy(tls.path("server.crt"), tls.path("kept.crt"))
    shutil.copy(tls.path("server.key"), tls.path("kept.key"))
    shutil.copy(tls.path("next.crt"), tls.path("server.crt"))
    shutil.copy(tls.path("next.key"), tls.path("server.key"))
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while served(tls.connect()) == first and time.monotonic() < deadline:
        time.sleep(0.02)
    steps.check("SIGHUP reads the files again", served(tls.connect()) != first)
    Path(tls.path("server.crt")).write_text("rubbish")
    server.process.send_signal(signal.SIGHUP)
    while "are kept as they were" not in server.log_path.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    steps.check("rubbish is named, and what there was serves on", "are kept as they were" in server.log_path.read_text() and tls.connect().cmd("PING") == b"PONG")
    shutil.copy(tls.path("kept.crt"), tls.path("server.crt"))
    shutil.copy(tls.path("kept.key"), tls.path("server.key"))
    server.process.send_signal(signal.SIGHUP)
    stop.set()
    for thread in threads:
        thread.join()
    steps.check("no connection was lost", not errors and len(served_by) == 3, "; ".join(errors) or f"{sum(served_by)} requests")
    second = free_port()
    admin.cmd("CONFIG", "SET", "tls-port", str(second))
    old, tls.port = tls.port, second
    steps.equal("tls-port moves", tls.connect().cmd("PING"), b"PONG")
    admin.cmd("CONFIG", "SET", "tls-port", str(old))
    tls.port = old
    admin.close()


def sessions_are_resumed(steps, tls, server):
    context = tls.context()
    before = int(server.info()["tls_handshakes_resumed"])
    first = tls.connect(context=context)
    first.cmd("PING")
    again = tls.connect(context=context, session=first.sock.session)
    again.cmd("PING")
    steps.check("a session is resumed", again.sock.session_reused and int(server.info()["tls_handshakes_resumed"]) == before + 1)
    admin = server.connect()
    admin.cmd("CONFIG", "SET", "tls-session-caching", "no")
    third = tls.connect(context=context, session=again.sock.session)
    third.cmd("PING")
    fourth = tls.connect(context=context, session=third.sock.session)
    fourth.cmd("PING")
    reused = [third.sock.session_reused, fourth.sock.session_reused]
    steps.equal("and not without tls-session-caching", reused, [False, False])
    admin.cmd("CONFIG", "SET", "tls-session-caching", "yes")
    admin.cmd("CONFIG", "SET", "tls-protocols", "TLSv1.3")
    try:
        tls.connect(context=tls.context(version=ssl.TLSVersion.TLSv1_2))
        spoken = True
    except ssl.SSLError:
        spoken = False
    steps.check("tls-protocols", not spoken and tls.connect().sock.version() == "TLSv1.3")
    admin.cmd("CONFIG", "SET", "tls-protocols", "", "tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256")
    steps.equal("tls-ciphersuites", tls.connect().sock.cipher()[0], "TLS_CHACHA20_POLY1305_SHA256")
    admin.cmd("CONFIG", "SET", "tls-ciphersuites", "", "tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")
    twelve = tls.context(version=ssl.TLSVersion.TLSv1_2)
    steps.equal("tls-ciphers", tls.connect(context=twelve).sock.cipher()[0], "ECDHE-ECDSA-AES128-GCM-SHA256")
    both = ["ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"]
    twelve.set_ciphers(":".join(reversed(both)))
    for preferred, chosen in [("no", both[1]), ("yes", both[0])]:
        admin.cmd("CONFIG", "SET", "tls-ciphers", ":".join(both), "tls-prefer-server-ciphers", preferred)
        steps.equal(f"tls-prefer-server-ciphers {preferred}", tls.connect(context=twelve).sock.cipher()[0], chosen)
    for name, value in [("tls-ciphers", "AES128-SHA"), ("tls-protocols", "TLSv1.1"), ("tls-key-file", tls.path("locked.key")), ("tls-cert-file", tls.path("first.crt"))]:
        try:
            admin.cmd("CONFIG", "SET", name, value)
            refused = False
        except ReplyError:
            refused = True
        steps.check(f"{name} {Path(value).name} is refused", refused)
    log = server.log_path.read_text()
    steps.check("in words", all(words in log for words in ["names no cipher that there is", "TLSv1.1 is broken", "keys with a passphrase are not read"]))
    admin.cmd("CONFIG", "SET", "tls-ciphers", "")
    admin.close()


def refused_handshakes(steps, tls, server, count):
    """Wrong, expired and foreign certificates, none at all, no TLS, and clients that disconnect: all are rejected."""
    admin = server.connect()
    admin.cmd("CONFIG", "SET", "tls-auth-clients", "yes")
    good = tls.connect("ann")
    before = server.info()
    contexts = {name: tls.context(name) for name in ("expired", "foreign", "first")} | {"none": tls.context()}
    came_in, lock = [], threading.Lock()

    def one(kind):
        try:
            with socket.create_connection(("127.0.0.1", tls.port), timeout=20) as sock:
                if kind == "garbage":
                    sock.sendall(b"\x16\x03\x01\xff\xff" + bytes(100))
                    sock.recv(100)
                elif kind == "plain":
                    sock.sendall(b"PING\r\n")
                    sock.recv(100)
                elif kind == "gone":
                    sock.sendall(b"\x16\x03\x01")
                else:
                    wrapped = contexts[kind].wrap_socket(sock, server_hostname="localhost")
                    wrapped.sendall(b"PING\r\n")
                    if wrapped.recv(100).startswith(b"+PONG"):
                        with lock:
                            came_in.append(kind)
        except (OSError, ssl.SSLError):
            pass

    kinds = ["expired", "foreign", "first", "none", "garbage", "plain", "gone"]

    def many(start):
        for number in range(start, count, 4):
            one(kinds[number % len(kinds)])

    threads = [threading.Thread(target=many, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    pings = 0
    while any(thread.is_alive() for thread in threads):
        pings += good.cmd("PING") == b"PONG"
    for thread in threads:
        thread.join()
    steps.equal("none of the wrong ones comes in", came_in, [])
    deadline = time.monotonic() + 20
    failed = lambda: int(server.info()["tls_handshakes_failed"]) - int(before["tls_handshakes_failed"])
    while failed() < count and time.monotonic() < deadline:
        time.sleep(0.05)
    steps.equal(f"{count} are counted", failed(), count)
    for name, words in [("expired", "Expired"), ("foreign", "UnknownIssuer"), ("first", "is of version 1"), ("none", "has shown no certificate"), ("plain", "is not TLS")]:
        time.sleep(1.05 if words not in server.log_path.read_text() else 0)
        one(name)
        until = time.monotonic() + 5
        while words not in server.log_path.read_text() and time.monotonic() < until:
            time.sleep(0.02)
        steps.check(f"the log says of {name}: {words}", words in server.log_path.read_text())
    lines = server.log_path.read_text().count("Error accepting a client connection")
    steps.check("in few lines", lines < 20 + count / 50, f"{lines} lines")
    steps.check("others were served meanwhile", pings > 0 and good.cmd("PING") == b"PONG", f"{pings} times")
    admin.cmd("CONFIG", "SET", "tls-auth-clients", "optional")
    silent = [socket.create_connection(("127.0.0.1", tls.port), timeout=10) for _ in range(100)]
    steps.equal("clients that say nothing keep nobody out", tls.connect().cmd("PING"), b"PONG")
    for sock in silent:
        sock.close()
    good.close()
    admin.close()


def starts_that_cannot_be(steps, tls):
    for name, options, words in [
        ("no certificate", {"tls-cert-file": ""}, "No tls-cert-file configured!"),
        ("no authority", {"tls-ca-cert-file": "", "tls-auth-clients": "yes"}, "Either tls-ca-cert-file or"),
        ("another's key", {"tls-key-file": tls.path("next.key")}, "Failed to load private key"),
        ("no such file", {"tls-cert-file": tls.path("nosuch")}, "Failed to load certificate"),
    ]:
        server = Server("sexton", tls.options() | options)
        try:
            server.start()
            said = "it started"
        except RuntimeError:
            said = server.log_path.read_text()
        finally:
            server.close()
        steps.check(f"a start with {name} is refused", words in said and "Failed to configure TLS" in said, "" if words in said else said[-300:])
    directory = tls.directory / "authorities"
    directory.mkdir()
    shutil.copy(tls.path("ca.crt"), directory)
    (directory / "notes.txt").write_text("no certificate")
    options = tls.options(tls_ca_cert_dir=directory, tls_auth_clients="yes") | {"tls-ca-cert-file": ""}
    with Server("sexton", options):
        steps.equal("tls-ca-cert-dir", tls.connect("ann").cmd("PING"), b"PONG")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--handshakes", type=int, default=300)
    args = parser.parse_args()
    steps = Steps("tls")
    tls = Tls()
    try:
        with Server("sexton", tls.options()) as server:
            clients_come_in(steps, tls, server)
            data_crosses(steps, tls)
            slow_readers(steps, tls, server)
            certificates_name_users(steps, tls, server)
            sessions_are_resumed(steps, tls, server)
            reload_under_traffic(steps, tls, server)
            refused_handshakes(steps, tls, server, args.handshakes)
            steps.check("no panic", "panic" not in server.log_path.read_text() and server.alive())
        starts_that_cannot_be(steps, tls)
    finally:
        shutil.rmtree(tls.directory, ignore_errors=True)
    steps.finish()


if __name__ == "__main__":
    main()
