"""python3 -m job_queues [--rounds N] [--jobs N]: job queues based on scripts, locks and a rate limiter, with kill -9 during the run.

bullmq and bee-queue (node_client/queues.js), rq and celery: jobs are added and processed while the server (`appendfsync always`)
is killed and restarted; each accepted job must be processed in the end. Redlock in two languages, redis-py's Lock and a
rate limiter: held locks and used quota survive the kill.
"""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

import redis

from harness.server import Server
from harness.steps import Steps

LIBRARIES = ["bullmq", "bee-queue", "rq", "celery"]
HERE = Path(__file__).parent

#: Until then all of them must have come out, in seconds.
DRAIN_MAX_S = 60
LIMIT = 50
LIMITER = """
local used = redis.call('incr', KEYS[1])
if used == 1 then redis.call('pexpire', KEYS[1], ARGV[2]) end
return used <= tonumber(ARGV[1]) and 1 or 0
"""


def say(what, library, number):
    print(what, library, number, flush=True)


def note(library, number):
    """The job of rq and celery. Some jobs take long, so that others wait when the server is killed."""
    time.sleep(0.3 if number % 10 == 5 else 0.01)
    say("done", library, number)


def celery_app(port):
    from celery import Celery
    app = Celery("jobs", broker=f"redis://127.0.0.1:{port}/1")
    app.conf.update(
        task_acks_late=True, worker_redirect_stdouts=False, broker_connection_retry_on_startup=True, worker_prefetch_multiplier=1,
        broker_connection_max_retries=None, broker_transport_options={"visibility_timeout": 2}, task_ignore_result=True,
        worker_cancel_long_running_tasks_on_connection_loss=False)
    app.task(note, name="note")
    return app


def add_jobs(library, add):
    """Adds jobs until standard input ends."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    number = 0
    while not ended.is_set():
        try:
            add(number)
            say("ack", library, number)
        except Exception:  # The server was killed: this job was not accepted, as far as its client knows.
            ended.wait(0.05)
        number += 1
        ended.wait(0.05)


def rq_worker(port):
    from rq import Queue, SimpleWorker
    while True:
        try:
            connection = redis.Redis(port=port)
            SimpleWorker([Queue("rq", connection=connection)], connection=connection).work(burst=True, logging_level="CRITICAL")
        except Exception:  # Whatever a lost connection does to it, it begins again.
            pass
        time.sleep(0.1)


def play(role, port):
    if role == "rq-adder":
        from rq import Queue
        queue = Queue("rq", connection=redis.Redis(port=port))
        add_jobs("rq", lambda number: queue.enqueue("job_queues.note", "rq", number))
    elif role == "rq-worker":
        rq_worker(port)
    elif role == "celery-adder":
        app = celery_app(port)
        add_jobs("celery", lambda number: app.send_task("note", args=["celery", number], retry=False))
    elif role == "celery-worker":
        celery_app(port).worker_main(["worker", "--pool", "solo", "--loglevel", "CRITICAL", "--without-gossip", "--without-mingle",
                                      "--without-heartbeat"])


class Players:
    """The processes that add and process jobs, and their output."""

    def __init__(self, port):
        self.said = {(what, library): set() for what in ("ack", "done") for library in LIBRARIES}
        roles = [[sys.executable, "-m", "job_queues", "--role", role, "--port", str(port)]
                 for role in ("rq-adder", "rq-worker", "celery-adder", "celery-worker")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.processes = [subprocess.Popen(role, cwd=HERE, **pipes) for role in roles]
        self.processes.append(subprocess.Popen(["node", "queues.js", str(port)], cwd=HERE / "node_client", **pipes))
        self.readers = [threading.Thread(target=self.read, args=(process,)) for process in self.processes]
        for reader in self.readers:
            reader.start()

    def read(self, process):
        for line in process.stdout:
            words = line.split()
            if len(words) == 3 and (words[0], words[1]) in self.said:
                self.said[words[0], words[1]].add(int(words[2]))

    def count(self, what):
        return {library: len(self.said[what, library]) for library in LIBRARIES}

    def wait(self, holds, limit_s):
        deadline = time.monotonic() + limit_s
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.02)
        return holds()

    def stop_adding(self):
        for process in self.processes[:-1]:
            if "worker" not in process.args[4]:
                process.stdin.close()
        self.processes[-1].stdin.write("enough\n")
        self.processes[-1].stdin.flush()

    def missing(self, library):
        return self.said["ack", library] - self.said["done", library]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for reader in self.readers:
            reader.join()


def restart(server):
    server.kill()
    server.start()


def queues(steps, rounds, jobs):
    """`jobs`: number of jobs per library that finish before a kill, and that are accepted after the last one."""
    with Server("sexton", {"appendonly": "yes", "appendfsync": "always"}) as server:
        players = Players(server.port)
        try:
            for number in range(rounds):
                before = players.count("done"), players.count("ack")
                comes = lambda: all(players.count("done")[name] >= before[0][name] + jobs for name in LIBRARIES)  # noqa: E731
                came = players.wait(comes, DRAIN_MAX_S)
                if number in (0, rounds - 1) or not came:
                    steps.check(f"jobs go in and come out ({number + 1})", came, repr((players.count("ack"), players.count("done"))))
                restart(server)
            acked = players.count("ack")
            goes_on = players.wait(lambda: all(players.count("ack")[name] >= acked[name] + jobs for name in LIBRARIES), DRAIN_MAX_S)
            steps.check("further ones are accepted behind kill -9", goes_on, repr((acked, players.count("ack"))))
            players.stop_adding()
            players.wait(lambda: not any(players.missing(name) for name in LIBRARIES), DRAIN_MAX_S)
            client = redis.Redis(port=server.port)
            for name in LIBRARIES:
                missing = players.missing(name)
                if name == "rq":
                    # It asks again for what a worker had taken when its connection was lost, but after minutes only.
                    missing = {number for number in missing if not is_held_by_rq(client, number)}
                if name == "celery" and len(missing) <= rounds:
                    # Its worker takes jobs by BRPOP: one whose reply is on its way at the kill is nobody's, on redis-server, too.
                    missing = set()
                total = len(players.said["ack", name])
                steps.check(f"{name}: none of {total} jobs that were accepted is lost by {rounds} kill -9", total > 0 and not missing,
                            repr(sorted(missing)[:20]))
        finally:
            players.close()


def is_held_by_rq(client, number):
    from rq import Queue
    queue = Queue("rq", connection=client)
    held = [name.decode() for name in client.lrange(queue.intermediate_queue_key, 0, -1)]
    held += queue.started_job_registry.get_job_ids()
    return any(job is not None and number in job.args for job in (queue.fetch_job(name) for name in held))


def locks(steps, rounds):
    from redlock import Redlock
    with Server("sexton", {"appendonly": "yes", "appendfsync": "always"}) as server:
        for number in range(rounds):
            client = redis.Redis(port=server.port)
            locker = Redlock([{"host": "127.0.0.1", "port": server.port}], retry_count=1)
            held = locker.lock(f"redlock{number}", 60_000)
            lock = client.lock(f"lock{number}", timeout=60)
            lock.acquire()
            other = node_lock(server.port, f"node{number}")
            limiter = client.register_script(LIMITER)
            window = {"keys": [f"window{number}"], "args": [LIMIT, 60_000]}
            passed = sum(limiter(**window) for _ in range(LIMIT // 2))
            restart(server)
            again = redis.Redis(port=server.port)
            fine = [held, not locker.lock(f"redlock{number}", 1000), lock.owned(), other == 0,
                    not again.lock(f"lock{number}", timeout=1).acquire(blocking=False), node_lock(server.port, f"node{number}") == 2,
                    not locker.lock(f"node{number}", 1000)]
            limiter = again.register_script(LIMITER)
            passed += sum(limiter(**window) for _ in range(LIMIT))
            locker.unlock(held)
            if lock.owned():
                lock.release()
            fine += [node_lock(server.port, f"redlock{number}") == 0, again.lock(f"lock{number}", timeout=1).acquire(blocking=False)]
            if not all(fine) or passed != LIMIT or number == rounds - 1:
                steps.check(f"redlock in two languages and Lock are held behind kill -9, and free when they are released ({number + 1})",
                            all(fine), repr(fine))
                steps.check("a limiter lets through what it may, and no more behind kill -9", passed == LIMIT, str(passed))


def node_lock(port, name):
    """Node's redlock acquires a lock for a minute: 0 if it succeeds, 2 if another client has it."""
    program = ("const Redis = require('ioredis'), Redlock = require('redlock'), client = new Redis(+process.argv[1]);"
               "new Redlock([client], { retryCount: 0 }).lock(process.argv[2], 60000).then(() => process.exit(0), () => process.exit(2))")
    return subprocess.run(["node", "-e", program, str(port), name], cwd=HERE / "node_client", timeout=60, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="number of kills")
    parser.add_argument("--jobs", type=int, default=50, help="number of jobs per library that finish before each kill")
    parser.add_argument("--role", help="role of a process of this test")
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.role:
        play(options.role, options.port)
        return
    steps = Steps("queues of jobs")
    queues(steps, options.rounds, options.jobs)
    locks(steps, options.rounds)
    steps.finish()


if __name__ == "__main__":
    main()
