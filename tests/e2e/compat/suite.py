"""Runs one file ("unit") of Redis' own tests, and reports the result of every test in it."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from harness.certificates import Authority
from harness.server import ROOT, Server, binary_of, free_port, redis_tool

HERE = Path(__file__).resolve().parent

#: Where the suite is unpacked.
SUITE = ROOT / "target/redis-suite"

#: A test without a sign of life for so long hangs.
HUNG_S = 60

#: All of one unit, once.
UNIT_S = 600

#: How often a unit begins again without the tests that hung.
ROUNDS = 5

#: What the suite needs of a server that it does not start itself.
EXTERNAL_OPTIONS = {
    "enable_debug_command": "yes",
    "enable_protected_configs": "yes",
    "enable_module_command": "yes",
}

#: Asks for the process id of a server on this machine, which the suite does not know of an external one.
NOT_EXTERNAL = ["SRANDMEMBER with a dict containing long chain"]


#: Sends a request that is larger than its `maxmemory` allows here, and does not take `maxmemory` back when it fails: all
#: behind it would fail, too.
UPSETS_OTHERS = ["client evicted due to percentage of maxmemory"]

#: A script adds 1,000,000 elements to one set, one by one, which takes a busy machine twenty seconds; then the test expects that
#: their expiry takes more than 20 ms, which it does not here: a collection goes at once.
EXPECTS_SLOWNESS = ["LATENCY of expire events are correctly collected"]

#: There is no debugger of scripts: SCRIPT DEBUG is refused, and what these leave behind would end the whole file.
NO_DEBUGGER = ["Test scripting debug protocol parsing", "Test scripting debug lua stack overflow"]

#: Units that mean nothing without TLS.
OVER_TLS = ["unit/tls"]

#: Files of the suite behind which ours are read.
PRELUDES = {"test.tcl": "prelude.tcl", "aofmanifest.tcl": "prelude_aof.tcl", "util.tcl": "prelude_start.tcl"}


@dataclass
class UnitRun:
    """The results of one run of a unit."""

    #: Test -> what it saw; None where it passed. A name that comes again has " #2" and so on behind it.
    tests: dict = field(default_factory=dict)
    #: Blocks whose set-up failed, and what else the suite reported.
    lost: list = field(default_factory=list)
    #: Why the unit did not end well; None when it did.
    broken: str = None
    log: str = ""

    def failed(self):
        return {name: seen for name, seen in self.tests.items() if seen is not None}


def fetch():
    """Unpacks the suite unless it exists; ends the program on failure."""
    if subprocess.run([HERE / "fetch.sh", SUITE]).returncode != 0:
        raise SystemExit("compat: no suite, nothing was tested")
    if not shutil.which("tclsh"):
        raise SystemExit("compat: tclsh is missing: run scripts/setup.sh")


def view_of_suite(directory, server):
    """A directory that the suite may write to: links to its files, the prelude added, `server` as its redis-server."""
    tests, sources = directory / "tests", directory / "src"
    for part in (tests / "tmp", tests / "support", sources):
        part.mkdir(parents=True)
    for file in (SUITE / "tests").iterdir():
        if file.name not in ("tmp", "support"):
            (tests / file.name).symlink_to(file)
    for file in (SUITE / "tests/support").iterdir():
        if file.name in PRELUDES:
            (tests / "support" / file.name).write_text(f"source {{{file}}}\nsource {{{HERE / PRELUDES[file.name]}}}\n")
        else:
            (tests / "support" / file.name).symlink_to(file)
    for tool in ("redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"):
        (sources / tool).symlink_to(redis_tool(tool))
    (sources / "redis-server").symlink_to(server)


def add_certificates(directory):
    """Those that the suite looks for: of an authority, a server, a client, and one for both; of RSA, as it names ciphers of RSA."""
    directory.mkdir()
    authority = Authority(directory, "ca", rsa=True)
    for name in ("server", "client", "redis"):
        authority.certify(name, name, f"DNS:{name}")
    authority.run("genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out", "redis.dh")


def run_once(view, unit, where, skipped, log_path):
    """Runs the suite once over the unit; returns its log. All processes that it started are ended."""
    (view / "skipped").write_text("".join(f"{name}\n" for name in skipped))
    line = [shutil.which("tclsh"), "tests/test_helper.tcl", *where, "--clients", "1", "--durable",
            "--single", unit, "--baseport", str(free_port() % 8000 + 20000), "--skipfile", view / "skipped",
            "--timeout", str(HUNG_S)]  # fmt: skip
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            list(map(str, line)), cwd=view, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=dict(os.environ, TERM="dumb"), start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(UNIT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    return log_path.read_text(errors="replace")


def read_log(log, run):
    """Parses the log of a run of the suite into `run`."""
    seen = {}
    # Each report begins with its kind; what a failed test saw stands on the lines behind it.
    reports = re.split(r"^\[(ok|err|ignore|skip|exception|testing|ready|\d+/\d+ done)\](?:: )?", log, flags=re.M)
    for kind, text in zip(reports[1::2], reports[2::2]):
        first, _, rest = text.partition("\n")
        if kind == "ok":
            name, what = re.sub(r" \(\d+ ms\)$", "", first), None
        elif kind == "err" and re.search(r" in tests/\S+\.tcl$", first):
            name, what = re.sub(r" in tests/\S+\.tcl$", "", first), " ".join(rest.split())[:400]
        elif kind in ("err", "exception"):
            run.lost.append(" ".join(text.split())[:400])
            continue
        else:
            continue
        seen[name] = seen.get(name, 0) + 1
        run.tests[name if seen[name] == 1 else f"{name} #{seen[name]}"] = what


def run_unit(unit, mode, kind):
    """Runs a unit against a server of `kind` that we start (`external`), or that the suite starts (`own`)."""
    run = UnitRun()
    skipped, hung = list(NOT_EXTERNAL if mode == "external" else []), {}
    if kind != "redis":
        skipped += UPSETS_OTHERS + EXPECTS_SLOWNESS + NO_DEBUGGER
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="sexton-compat-") as scratch:
            scratch = Path(scratch)
            view = scratch / "view"
            view_of_suite(view, Path(binary_of(kind)).resolve())
            if mode == "external":
                with Server(kind, EXTERNAL_OPTIONS, directory=scratch / "data") as server:
                    where = ["--host", "127.0.0.1", "--port", server.port]
                    log = run_once(view, unit, where, skipped, scratch / "log")
                    alive = server.alive()
            else:
                where = ["--tags", "-cluster -large-memory"]
                if unit in OVER_TLS:
                    add_certificates(view / "tests/tls")
                    where.append("--tls")
                log, alive = run_once(view, unit, where, skipped, scratch / "log"), True
        run.tests, run.lost, run.log = {}, [], log
        read_log(log, run)
        done = re.search(r"^\[1/1 done\]", log, flags=re.M) is not None
        if done and alive:
            run.tests.update(hung)
            return run
        stuck = re.search(r"=> \(IN PROGRESS\) (.*)$", log, flags=re.M)
        if not alive:
            first = next((name for name, what in run.tests.items() if what and "I/O error" in what), None)
            stuck_name, what = first, "CRASHED the server"
        else:
            stuck_name, what = stuck and stuck[1], f"HUNG: no answer for {HUNG_S} s"
        if not stuck_name or stuck_name in skipped:
            run.broken = " ".join(log.split()[-40:])
            break
        skipped.append(stuck_name)
        hung[stuck_name] = what
    else:
        run.broken = f"more than {ROUNDS} tests hung"
    run.tests.update(hung)
    return run
