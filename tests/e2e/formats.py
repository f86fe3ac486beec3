"""python3 -m formats [--make]: data directories of earlier versions are opened, and those of a newer version are refused.

`tests/stored/VERSION.tar.gz` is a data directory of that version, `VERSION.json` its expected content. `--make` creates both
for the version built now: once for each release, before it.
"""

import argparse
import hashlib
import io
import json
import struct
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path

from harness.server import ROOT, Server, sexton_binary, sexton_check
from harness.steps import Steps

STORED = ROOT / "tests/stored"
OPTIONS = {"enable-debug-command": "yes", "appendfsync": "always", "memtable-bytes": "1mb"}
#: Magic, secret, checksum.
MANIFEST_VERSION_AT, MANIFEST_CHECKED_BYTES = 15, 24
#: From the end of a table: its version, and the checksum of the 52 bytes in front of that.
FOOTER_BYTES, TABLE_VERSION_AT, FOOTER_CHECKED_BYTES = 64, 48, 52
GRAVES_VERSION_AT = 7


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def holds(connection):
    """A server's content in a serializable form."""
    out = {"digest": connection.cmd("DEBUG", "DIGEST").decode()}
    libraries = repr(connection.cmd("FUNCTION", "LIST", "WITHCODE")).encode()
    out["functions"] = hashlib.sha256(libraries).hexdigest()
    expires = 0
    for db in (0, 5):
        connection.cmd("SELECT", db)
        out[f"keys of {db}"] = connection.cmd("DBSIZE")
        expires += sum(connection.cmd("PEXPIRETIME", key) > 0 for key in connection.cmd("KEYS", "*"))
    out["keys that expire"] = expires
    return out


FAR_MS = 4102444800000
#: Every type, short and long.
COMMANDS = [
    *[("SET", f"string:{nth}", f"value {nth}" * (1 + nth)) for nth in range(20)],
    ("SET", "number", 12345), ("SET", "expiring", "x", "PXAT", FAR_MS), ("SET", "large", "abc" * 3000), ("PFADD", "hll", *"abcdef"),
    ("RPUSH", "list", 1, "two", 3), ("RPUSH", "list:long", *range(500)), ("SADD", "intset", *range(10)),
    ("SADD", "set", "a", "b"), ("SADD", "set:long", *[f"member {nth}" for nth in range(200)]), ("HSET", "hash", "field", "value", "n", 1),
    *[("HSET", "hash:long", f"field {nth}", nth) for nth in range(200)], ("ZADD", "zset", 1, "one", "-inf", "least", 2.5, "more"),
    *[("ZADD", "zset:long", nth / 4, f"member {nth}") for nth in range(200)], ("PEXPIREAT", "zset:long", FAR_MS),
    *[("XADD", "stream", f"{nth}-1", "field", nth) for nth in range(1, 120)], ("XGROUP", "CREATE", "stream", "group", "10-1"),
    ("XREADGROUP", "GROUP", "group", "reader", "COUNT", 5, "STREAMS", "stream", ">"), ("XDEL", "stream", "3-1"),
    ("SELECT", 5), ("SET", "other", "database"), ("SELECT", 0),
    ("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)"),
]  # fmt: skip


def fill(connection):
    """Tables, graves of keys in these tables, a mark, and data that only the log has."""
    for words in COMMANDS:
        connection.cmd(*words)
    for later in [("DEL", *[f"string:{nth}" for nth in range(10)]), ("SET", "between", "1")]:
        connection.cmd("BACKUP", "START")
        connection.cmd("BACKUP", "ABORT")
        connection.cmd(*later)
    connection.cmd("SET", "behind the mark", "x" * 50, "PXAT", FAR_MS)
    connection.cmd("DEL", "string:11")


def make():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    with Server("sexton", OPTIONS) as server:
        connection = server.connect()
        fill(connection)
        found = holds(connection)
        server.kill()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=9) as tar:
            for name in ("tree", "appendonlydir", "store-id"):
                tar.add(server.directory / name, name)
        (STORED / f"{version}.tar.gz").write_bytes(packed.getvalue())
    (STORED / f"{version}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{version}: {len(packed.getvalue())} bytes, {found}")


def unpacked(archive, folder):
    home = Path(tempfile.mkdtemp(dir=folder))
    with tarfile.open(archive) as tar:
        # The archives are our own. Debian 12's Python knows no filter yet.
        tar.extractall(home, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return home


def opened(steps, archive, folder):
    version = archive.name.removesuffix(".tar.gz")
    want = json.loads((STORED / f"{version}.json").read_text())
    home = unpacked(archive, folder)
    code, text = sexton_check(home)
    steps.check(f"{version}: sexton-check", code == 0, text if code else "")
    for turn in ("opened", "opened again after it was written to"):
        with Server("sexton", OPTIONS, directory=home) as server:
            connection = server.connect()
            steps.equal(f"{version}: {turn}", holds(connection), want)
            connection.cmd("SELECT", 0)
            connection.cmd("SET", "new", "1")
            connection.cmd("DEL", "new")
            connection.close()
            server.terminate()


def newer_manifest(home):
    path = next(path for path in (home / "tree").iterdir() if path.read_bytes()[:15] == b"SEXTON MANIFEST")
    data = bytearray(path.read_bytes())
    data[MANIFEST_VERSION_AT] += 1
    data[MANIFEST_CHECKED_BYTES : MANIFEST_CHECKED_BYTES + 4] = struct.pack("<I", crc32c(data[:MANIFEST_CHECKED_BYTES]))
    path.write_bytes(data)


def newer_table(home):
    path = next((home / "tree").glob("*.tbl"))
    data = bytearray(path.read_bytes())
    footer = data[-FOOTER_BYTES:]
    footer[TABLE_VERSION_AT] += 1
    footer[FOOTER_CHECKED_BYTES : FOOTER_CHECKED_BYTES + 4] = struct.pack("<I", crc32c(footer[:FOOTER_CHECKED_BYTES]))
    data[-FOOTER_BYTES:] = footer
    path.write_bytes(data)


def newer_graves(home):
    path = next((home / "tree").glob("*.graves"))
    data = bytearray(path.read_bytes())
    data[GRAVES_VERSION_AT] += 1
    path.write_bytes(data)


def refused(steps, archive, folder):
    """A downgrade is refused with a message, and nothing is changed."""
    for name, change in (("manifest", newer_manifest), ("table", newer_table), ("cemetery checkpoint", newer_graves)):
        home = unpacked(archive, folder)
        change(home)
        before = {path: path.read_bytes() for path in (home / "tree").iterdir()}
        done = subprocess.run([sexton_binary(), "--port", "0", "--unixsocket", home / "sock", "--dir", home],
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        said = done.stdout + done.stderr
        steps.check(f"a newer {name}: refused in words", done.returncode == 1 and "a newer Sexton wrote it" in said, said[-400:])
        after = {path: path.read_bytes() for path in (home / "tree").iterdir()}
        steps.check(f"a newer {name}: nothing has changed", before == after)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true", help="write the directory of this version")
    if parser.parse_args().make:
        make()
        return
    steps = Steps("formats of earlier versions")
    archives = sorted(STORED.glob("*.tar.gz"))
    steps.check("there are stored directories", bool(archives))
    with tempfile.TemporaryDirectory(prefix="sexton-test-formats-") as folder:
        for archive in archives:
            opened(steps, archive, folder)
        refused(steps, archives[-1], folder)
    steps.finish()


if __name__ == "__main__":
    main()
