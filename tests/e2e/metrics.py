"""python3 -m metrics [--quick]: the server's HTTP endpoint at metrics-port; one line per check.

The text can be parsed and agrees with INFO, counters increase under load, /ready changes when the server accepts no requests
or no writes, and slow, invalid or excess clients are disconnected. If promtool is installed (Debian's package
prometheus), it must not complain about our metric names or about the rules in docs/monitoring. Without --quick,
LATENCY must also name the causes of slowness on an emulated disk.
"""

import argparse
import http.client
import json
import re
import shutil
import socket
import subprocess
import tempfile
import time

from harness.resp import ReplyError
from harness.server import ROOT, Server, free_port
from harness.steps import Steps

SAMPLE = re.compile(r'^([a-z_][a-z0-9_]*)(\{[^{}]*\})? (-?[0-9.e+-]+|\+Inf|NaN)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')

#: Names that begin so are those of redis_exporter, and promtool finds some of them wanting.
BORROWED = "redis_"


def ask(port, path, method="GET", headers=None):
    """Status, headers and text of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def parse(text):
    """Samples (name and labels -> value) and types (family -> type); raises for a line that is none."""
    samples, types, family = {}, {}, ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            if family in types:
                raise ValueError(f"{family} stands twice")
            types[family] = kind
            continue
        found = SAMPLE.match(line)
        if not found or not found[1].startswith(family):
            raise ValueError(f"no sample of {family}: {line!r}")
        labels = tuple(sorted(LABEL.findall(found[2] or "")))
        if (found[1], labels) in samples:
            raise ValueError(f"{line!r} stands twice")
        samples[found[1], labels] = float(found[3])
    return samples, types


def figures_agree(steps, server, port):
    client = server.connect()
    for number in range(500):
        client.cmd("SET", f"key:{number}", "x" * 50)
    client.cmd("SELECT", "3")
    client.cmd("SET", "one", "1", "EX", "1000")
    for _ in range(3):
        try:
            client.cmd("INCR", "no", "number")
        except ReplyError:
            pass
    text = ask(port, "/metrics")[2]
    samples, types = parse(text)
    info = server.info()
    for metric, field in [
        ("redis_memory_used_dataset_bytes", "used_memory_dataset"),
        ("redis_config_maxclients", "maxclients"),
        ("redis_keyspace_misses_total", "keyspace_misses"),
        ("redis_total_error_replies", "total_error_replies"),
        ("redis_expired_keys_total", "expired_keys"),
        ("sexton_graves", "flsm_graves"),
        ("sexton_dram_entries", "flsm_dram_entries"),
        ("sexton_flushes_total", "flsm_flushes"),
        ("sexton_stalls_total", "flsm_stalls"),
    ]:
        steps.equal(f"{metric} is {field}", samples.get((metric, ())), float(info[field]))
    steps.equal("keys by database", samples["redis_db_keys", (("db", "db0"),)], 500)
    steps.equal("keys with expiry", samples["redis_db_keys_expiring", (("db", "db3"),)], 1)
    mean = samples["redis_db_avg_ttl_seconds", (("db", "db3"),)]
    steps.check("their mean time to live", 900 < mean <= 1000, f"{mean} s")
    steps.equal("that of none", samples["redis_db_avg_ttl_seconds", (("db", "db0"),)], 0)
    steps.equal("calls by command", samples["redis_commands_total", (("cmd", "set"),)], 501)
    steps.equal("errors by kind", samples["redis_errors_total", (("err", "ERR"),)], 3)
    timed = "sexton_command_duration_seconds"
    steps.equal("the histogram counts all calls", samples[f"{timed}_bucket", (("cmd", "set"), ("le", "+Inf"))], 501)
    buckets = [value for (name, labels), value in samples.items() if name == f"{timed}_bucket" and ("cmd", "set") in labels]
    steps.check("its buckets add up", buckets == sorted(buckets))
    levels = [labels for name, labels in samples if name == "sexton_level_bytes"]
    steps.check("levels and devices are there", levels and any(name == "sexton_device_info" for name, _ in samples))
    held = samples["sexton_memory_held_bytes", ()]
    parts = sum(value for (name, _), value in samples.items() if name == "sexton_memory_part_bytes")
    steps.check("the parts of memory add up", abs(held - parts) <= 0.02 * held, f"{parts:.0f} of {held:.0f}")

    before = samples["redis_commands_processed_total", ()]
    client.pipeline([["GET", "one"]] * 1000)
    after, _ = parse(ask(port, "/metrics")[2])
    steps.check("counters move under load", after["redis_commands_processed_total", ()] >= before + 1000)
    counters = [key for key in samples if types.get(key[0]) == "counter"]
    steps.check("no counter falls", all(after[key] >= samples[key] for key in counters), f"{len(counters)} counters")

    client.cmd("SET", "soon", "1", "PX", "1")
    deadline = time.monotonic() + 10
    late = "sexton_expiry_lateness_seconds_count"
    while time.monotonic() < deadline and parse(ask(port, "/metrics")[2])[0][late, ()] == 0:
        time.sleep(0.02)
    steps.equal("the lateness of expiry is counted", parse(ask(port, "/metrics")[2])[0][late, ()], 1)
    client.close()
    return text


def page_works(steps, port):
    status, headers, page = ask(port, "/")
    steps.check("the page is HTML", status == 200 and headers["content-type"].startswith("text/html"))
    steps.check("it may load nothing from elsewhere", "default-src 'none'" in headers.get("content-security-policy", ""))
    outside = [word for word in re.findall(r"https?://[^\s\"']+", page) if word != "http://www.w3.org/2000/svg"]
    steps.equal("and names nothing elsewhere", outside, [])
    status = json.loads(ask(port, "/status.json")[2])
    names = set(re.findall(r'n\("([a-z_0-9]+)"\)', page)) | set(re.findall(r"\bf\.([a-z_0-9]+)", page))
    missing = [name for name in names if name not in status["fields"] and not name.endswith("from_level")]
    steps.equal("every figure that the page shows is there", missing, [])
    steps.check("with times of commands", status["times"] and status["commands"]["set"][0] > 0)


def wrong_requests(steps, port):
    steps.equal("an unknown path", ask(port, "/nosuch")[0], 404)
    steps.equal("another method", ask(port, "/metrics", "POST")[0], 405)
    status, _, body = ask(port, "/metrics", "HEAD")
    steps.equal("HEAD has no body", (status, body), (200, ""))
    steps.check("a header that is too long", ask(port, "/metrics", headers={"x": "y" * 40_000})[0] in (400, 413, 431))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(b"*1\r\n$4\r\nPING\r\n")
        steps.check("another protocol is refused", not sock.recv(100).startswith(b"+PONG"))


def slow_and_many(steps, server, port):
    begun = time.monotonic()
    held = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]
    for sock in held:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")
    held[-1].settimeout(3)
    try:
        last = held[-1].recv(1)
    except ConnectionError:
        last = b""
    except TimeoutError:
        last = None
    steps.check("who comes beyond the limit is cut off", last == b"" and time.monotonic() - begun < 3)
    client = server.connect()
    steps.equal("clients are served meanwhile", client.cmd("PING"), b"PONG")
    client.close()
    held[0].settimeout(10)
    try:
        rest = held[0].recv(100)
    except ConnectionError:
        rest = b""
    except TimeoutError:
        rest = None
    took = time.monotonic() - begun
    steps.check("who is slow is cut off", rest == b"" and took < 6, f"{took:.1f} s")
    for sock in held:
        sock.close()
    steps.equal("and then others are answered", ask(port, "/health")[0], 200)


def readiness(steps):
    port = free_port()
    options = {"metrics_port": port, "save": "3600 1000000", "enable_debug_command": "yes", "key_load_delay": "50000"}
    server = Server("sexton", options)
    try:
        server.start()
        steps.equal("a server that serves is ready", ask(port, "/ready")[0], 200)
        client = server.connect()
        for number in range(100):
            client.cmd("SET", f"k{number}", "v")
        # A directory in the place of the file: the save fails.
        client.cmd("CONFIG", "SET", "save", "")
        (server.directory / "dump.rdb").mkdir()
        client.cmd("CONFIG", "SET", "save", "3600 1")
        client.cmd("BGSAVE")
        deadline = time.monotonic() + 10
        while ask(port, "/ready")[0] == 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        status, _, text = ask(port, "/ready")
        steps.check("a failed save makes it unready", status == 503 and "MISCONF" in text, text.strip())
        samples, _ = parse(ask(port, "/metrics")[2])
        steps.equal("and counts as refused writes", samples["sexton_writes_refused", ()], 1)
        steps.equal("while it is alive", ask(port, "/health")[0], 200)
        client.cmd("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        steps.equal("ready again", ask(port, "/ready")[0], 200)
        client.close()
    finally:
        server.close()


def loading(steps):
    """A Redis dump is loaded slowly: /ready reports it."""
    maker = Server("sexton", {"appendonly": "no"})
    port = free_port()
    with maker:
        client = maker.connect()
        for number in range(70):
            client.cmd("SET", f"k{number}", "v")
        client.cmd("SAVE")
        dump = (maker.directory / "dump.rdb").read_bytes()
        client.close()
    server = Server("sexton", {"metrics_port": port, "key_load_delay": "10000", "appendonly": "no"})
    (server.directory / "dump.rdb").write_bytes(dump)
    try:
        with open(server.log_path, "ab") as log:
            server.process = subprocess.Popen(server.command_line(), stdout=log, stderr=log)
        seen = set()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                status, _, text = ask(port, "/ready")
            except OSError:
                continue
            seen.add((status, text.split(":")[0].strip()))
            if status == 200:
                break
            time.sleep(0.02)
        steps.equal("a load makes it unready, its end ready", sorted(seen), [(200, "ready"), (503, "LOADING")])
    finally:
        server.close()


def causes_of_latency(steps):
    """LATENCY names the slow operations: syncs and reads of a device emulated as a disk, expiry, eviction."""
    place = tempfile.mkdtemp(prefix="sexton-test-slow-")
    options = {
        "device": f"slow kind hdd path {place} emulate hdd",
        "aof-device": "slow",
        "tree-device": "slow",
        "appendfsync": "always",
        "maxmemory": "1mb",
        "memtable-bytes": "256kb",
        "latency-monitor-threshold": "1",
    }
    try:
        with Server("sexton", options) as server:
            client = server.connect()
            client.pipeline([["SET", f"key:{number}", str(number) * 800] for number in range(600)])
            seen = lambda: {event[0].decode() for event in client.cmd("LATENCY", "LATEST")}
            deadline = time.monotonic() + 60
            number = 0
            while not {"device-sync", "cold-read"} <= seen() and time.monotonic() < deadline:
                client.cmd("GET", f"key:{number % 600}")
                number += 37
            client.pipeline([["PEXPIRE", f"key:{number}", "1"] for number in range(0, 600, 2)])
            while "expire-cycle" not in seen() and time.monotonic() < deadline:
                time.sleep(0.02)
            client.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
            for batch in range(40):
                if "eviction-cycle" in seen() or time.monotonic() > deadline:
                    break
                client.pipeline([["SET", f"more:{batch}:{number}", "x" * 3000] for number in range(400)])
            missing = {"device-sync", "cold-read", "expire-cycle", "eviction-cycle"} - seen()
            steps.equal("LATENCY names the causes", sorted(missing), [])
            client.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def promtool_agrees(steps, text):
    tool = shutil.which("promtool")
    if not tool:
        print("promtool is not here: its part is left out")
        return
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if not line.startswith(BORROWED)]
    steps.check("promtool takes the metrics", done.returncode in (0, 3) and not lines, "\n".join(lines))
    rules = ROOT / "docs/monitoring/alerts.yml"
    done = subprocess.run([tool, "check", "rules", str(rules)], capture_output=True, text=True)
    steps.check("promtool takes the rules", done.returncode == 0, done.stderr.strip() if done.returncode else "")


def files_name_what_is_there(steps, text):
    _, types = parse(text)
    known = set(types) | {f"{name}_{part}" for name in types for part in ("bucket", "sum", "count")}
    # Told with a log only, or of nothing that has happened here.
    known |= {"redis_up", "up"}
    for name in ("alerts.yml", "grafana.json"):
        used = set(re.findall(r"\b(?:redis|sexton)_[a-z0-9_]+", (ROOT / "docs/monitoring" / name).read_text()))
        steps.equal(f"{name} uses metrics that there are", sorted(used - known), [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    steps = Steps("metrics")
    port = free_port()
    with Server("sexton", {"metrics_port": port}) as server:
        text = figures_agree(steps, server, port)
        page_works(steps, port)
        wrong_requests(steps, port)
        slow_and_many(steps, server, port)
    files_name_what_is_there(steps, text)
    promtool_agrees(steps, text)
    readiness(steps)
    loading(steps)
    if not args.quick:
        causes_of_latency(steps)
    steps.finish()


if __name__ == "__main__":
    main()
