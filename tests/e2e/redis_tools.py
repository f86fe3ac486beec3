"""python3 -m redis_tools [--quick]: the real redis-cli and redis-benchmark against the server.

redis-cli's help data, --scan, --bigkeys, --memkeys, --stat and --latency must work without
an error; redis-benchmark must finish for every pipeline depth, number of clients and protocol.
"""

import argparse
import re
import subprocess

from harness.server import Server, redis_tool
from harness.steps import Steps


def run(command, timeout_s=120, stdin=None):
    """(exit code, output); a command that exceeds the time limit is stopped and has code None."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, text=True, errors="replace")
    try:
        output, _ = process.communicate(stdin, timeout=timeout_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
        return None, output


def cli(server, *args, **kwargs):
    return run([redis_tool("redis-cli"), "-p", str(server.port), *args], **kwargs)


def excerpt(output):
    return output.strip()[-300:]


def redis_cli(steps, server):
    steps.equal("SET", cli(server, "SET", "greeting", "hello"), (0, "OK\n"))
    steps.equal("GET", cli(server, "GET", "greeting"), (0, "hello\n"))
    steps.equal("GET -3", cli(server, "-3", "GET", "greeting"), (0, "hello\n"))
    load = "".join(f"SET key:{i} {'v' * (1 + i % 200)}\n" for i in range(2000))
    code, output = cli(server, "--pipe", stdin=load)
    steps.check("--pipe", code == 0 and "errors: 0, replies: 2000" in output, excerpt(output) if code else "")
    code, output = cli(server, "--scan", "--pattern", "key:*")
    steps.check("--scan", code == 0 and len(set(output.split())) == 2000, f"{len(set(output.split()))} keys")
    for mode in ("--bigkeys", "--memkeys"):
        code, output = cli(server, mode)
        counted = bool(re.search(r"2001 strings with", output))
        steps.check(mode, code == 0 and counted and "rror" not in output,
                    "" if counted else excerpt(output))
    # Into a pipe redis-cli would keep its rows in a buffer until it ends by itself.
    code, output = run(["stdbuf", "-oL", redis_tool("redis-cli"), "-p", str(server.port), "--stat", "-i", "0.2"], timeout_s=2)
    rows = [line for line in output.splitlines() if re.match(r"^2001 ", line)]
    steps.check("--stat", len(rows) >= 3 and "rror" not in output, f"{len(rows)} rows")
    code, output = cli(server, "--latency", "-i", "1", "--raw", timeout_s=5)
    steps.check("--latency", bool(re.match(r"^\d+ \d+ [\d.]+ \d+", output)), excerpt(output))
    code, output = cli(server, "--csv", "MGET", "greeting", "nosuch")
    steps.equal("--csv", (code, output), (0, '"hello",NULL\n'))
    code, output = cli(server, "INFO", "keyspace")
    steps.check("INFO keyspace", "db0:keys=2001" in output, excerpt(output).replace("\n", " "))
    # redis-cli builds its help and completion from COMMAND DOCS when it connects interactively.
    code, output = cli(server, "COMMAND", "DOCS", "get", "set", "expire")
    steps.check("COMMAND DOCS", code == 0 and "Returns the string value of a key" in output or "Get the value of a key" in output,
                excerpt(output) if code else "")
    code, output = cli(server, stdin="help get\nquit\n", timeout_s=10)
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)  # colours
    steps.check("interactive help", "GET key\n" in output and "Get the value of a key" in output, excerpt(output))
    code, output = cli(server, "NOSUCH")
    steps.check("an error is shown", "ERR unknown command" in output, excerpt(output))


def benchmark(steps, server, name, *args):
    code, output = run([redis_tool("redis-benchmark"), "-p", str(server.port), "-q", *args], timeout_s=300)
    # redis-benchmark asks CONFIG GET save and appendonly first and warns when it cannot.
    wrong = [line for line in re.split(r"[\r\n]+", output) if re.search(r"rror|WARN|ERR|fail", line)]
    rates = len(re.findall(r"requests per second", output))
    steps.check(f"redis-benchmark {name}", code == 0 and not wrong and rates > 0,
                f"{rates} tests" if code == 0 and not wrong else f"code {code}: {wrong[:2] or excerpt(output)}")


def redis_benchmark(steps, server, quick):
    tests = "ping_inline,ping_mbulk,set,get,incr,mset"
    for depth in (1, 16, 64):
        for clients in (1, 50, 500):
            for protocol in ((), ("-3",)):
                if clients == 1 and depth == 1:
                    number = 2000
                else:
                    number = 10_000 if quick else 100_000
                number = max(number, clients * depth)
                benchmark(steps, server, f"-P {depth} -c {clients} {' '.join(protocol)}", "-t", tests, "-P", str(depth),
                          "-c", str(clients), "-n", str(number), "-r", "100000", "-d", "64", *protocol)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    steps = Steps("redis-cli and redis-benchmark")
    with Server(args.server, {"maxclients": 2000}) as server:
        redis_cli(steps, server)
        redis_benchmark(steps, server, args.quick)
        steps.check("the server lives", server.alive())
    steps.finish()


if __name__ == "__main__":
    main()
