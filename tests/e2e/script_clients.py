"""python3 -m script_clients [--server sexton]: third-party libraries that rely on scripts.

redis-py: Lock, register_script, and its functions' commands; node: rate-limiter-flexible and redlock over ioredis
(node_client/scripts.js). Each is used by several clients at once, and its guarantees are checked by counting. Then job queues,
locks and a rate limiter while the server is killed once: `python3 -m job_queues` kills it more often.
"""

import argparse
import subprocess
import threading
from pathlib import Path

import redis

import job_queues
from harness.server import Server
from harness.steps import Steps

#: A window of `limit` calls, as those do who write their own.
LIMITER = """
local used = redis.call('incr', KEYS[1])
if used == 1 then redis.call('pexpire', KEYS[1], ARGV[2]) end
return used <= tonumber(ARGV[1]) and 1 or 0
"""

LIBRARY = """#!lua name=accounts
local function move(keys, args)
  local amount = tonumber(args[1])
  if tonumber(redis.call('get', keys[1]) or 0) < amount then
    return redis.error_reply('NOFUNDS')
  end
  redis.call('decrby', keys[1], amount)
  return redis.call('incrby', keys[2], amount)
end
redis.register_function('move', move)
redis.register_function{function_name='sum', flags={'no-writes'}, callback=function(keys)
  local sum = 0
  for _, key in ipairs(keys) do sum = sum + (redis.call('get', key) or 0) end
  return sum
end}
"""


def together(count, work):
    """Runs `work(number)` in this many threads; returns the exceptions they raised."""
    raised = []

    def run(number):
        try:
            work(number)
        except Exception as error:  # Whatever it is, the test must tell.
            raised.append(repr(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def locks(steps, port):
    client = redis.Redis(port=port)
    inside, most, rounds = [0], [0], 40
    guard = threading.Lock()

    def work(_):
        mine = redis.Redis(port=port)
        for _ in range(rounds):
            with mine.lock("lock", timeout=20, sleep=0.001):
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                # Two commands: without the lock some of them would be lost.
                mine.set("counter", int(mine.get("counter") or 0) + 1)
                with guard:
                    inside[0] -= 1

    raised = together(6, work)
    steps.check("redis-py: a Lock has one owner at a time", most[0] == 1 and not raised, f"{most[0]} at once, {raised[:2]}")
    steps.check("and nothing is lost under it", int(client.get("counter")) == 6 * rounds, repr(client.get("counter")))
    lock = client.lock("other", timeout=10)
    lock.acquire()
    before = client.pttl("other")
    lock.extend(30)
    extended = client.pttl("other")
    lock.reacquire()
    steps.check("it is extended and taken anew", before <= 10_000 < extended and client.pttl("other") <= 10_000)
    client.set("other", "stolen")
    try:
        lock.release()
        steps.check("a lock of somebody else is not released", False)
    except redis.exceptions.LockError:
        steps.check("a lock of somebody else is not released", client.get("other") == b"stolen")


def scripts(steps, port):
    client = redis.Redis(port=port)
    limiter = client.register_script(LIMITER)
    allowed = []

    def work(_):
        mine = redis.Redis(port=port)
        for _ in range(50):
            if limiter(keys=["window"], args=[100, 60_000], client=mine):
                allowed.append(1)

    raised = together(6, work)
    steps.check("redis-py: register_script, a limiter lets through what it may", len(allowed) == 100 and not raised, f"{len(allowed)} {raised[:2]}")
    client.script_flush()
    steps.check("a script that was forgotten is loaded again", limiter(keys=["window"], args=[1000, 1]) == 1)
    pipe = client.pipeline()
    for _ in range(3):
        limiter(keys=["piped"], args=[2, 60_000], client=pipe)
    steps.check("in a pipeline, too", pipe.execute() == [1, 1, 0])


def functions(steps, port):
    client = redis.Redis(port=port)
    steps.check("redis-py: a library is loaded", client.function_load(LIBRARY, replace=True) in (b"accounts", "accounts"))
    accounts = [f"account{at}" for at in range(6)]
    client.mset(dict.fromkeys(accounts, 1000))
    refused = []

    def work(number):
        mine = redis.Redis(port=port)
        for at in range(100):
            try:
                mine.fcall("move", 2, accounts[(number + at) % 6], accounts[(number * at + 1) % 6], at * 7 % 400)
            except redis.exceptions.ResponseError as error:
                refused.append(str(error))

    raised = together(6, work)
    steps.check("the sum stays", int(client.fcall_ro("sum", 6, *accounts)) == 6000 and not raised and all("NOFUNDS" in text for text in refused), f"{raised[:2]} {refused[:1]}")
    payload = client.function_dump()
    client.function_flush()
    client.function_restore(payload)
    steps.check("and the library comes back from its dump", int(client.fcall_ro("sum", 6, *accounts)) == 6000)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="sexton")
    options = parser.parse_args()
    steps = Steps("libraries on scripts")
    with Server(options.server) as server:
        locks(steps, server.port)
        scripts(steps, server.port)
        functions(steps, server.port)
        directory = Path(__file__).parent / "node_client"
        done = subprocess.run(["node", "scripts.js", str(server.port)], cwd=directory, timeout=120, capture_output=True, text=True)
        print(done.stdout, end="")
        steps.check("node: rate-limiter-flexible and redlock", done.returncode == 0, done.stdout[-300:] + done.stderr[-500:] if done.returncode else "")
    job_queues.queues(steps, rounds=1, jobs=5)
    job_queues.locks(steps, rounds=1)
    steps.finish()


if __name__ == "__main__":
    main()
