"""Another process that asks for small keys at a steady rate, and how long it waits for each answer."""

import gc
import multiprocessing
import time

from .resp import encode


class Visitor:
    """Asks GET of `keys` in turn, `rate` times a second, from its start until `leave`.

    A request that could not be sent in time, because the answer before it was late, waits from the time at which it
    should have been sent: one long answer delays all requests of that time, as it would those of many clients."""

    def __init__(self, server, keys=(b"visited",), rate=1000):
        self.ours, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self.ask, args=(server, keys, rate, theirs), daemon=True)
        self.process.start()
        self.ours.recv()

    @staticmethod
    def ask(server, keys, rate, pipe):
        connection = server.connect(timeout_s=120)
        requests = [encode([b"GET", key]) for key in keys]
        answers = []
        gc.disable()
        pipe.send("ready")
        clock = time.perf_counter
        due, step = clock(), 1 / rate
        while not pipe.poll():
            due += step
            begun = clock()
            if begun < due:
                time.sleep(due - begun)
                begun = clock()
            else:
                begun = due
            connection.send_raw(requests[len(answers) % len(requests)])
            connection.read_node()
            answers.append((begun, clock() - begun))
        connection.close()
        # On the clock of the day, which other processes share.
        offset = time.time() - clock()
        pipe.send([(begun + offset, took_s) for begun, took_s in answers])

    def leave(self):
        """(time of the day, seconds until the answer) of all requests."""
        self.ours.send("stop")
        answers = self.ours.recv()
        self.process.join()
        return answers


def percentiles(values, parts=(0.5, 0.99, 0.999)):
    """These parts of the values, and the largest one; None for each without values."""
    values = sorted(values)
    if not values:
        return [None] * (len(parts) + 1)
    return [values[min(int(len(values) * part), len(values) - 1)] for part in parts] + [values[-1]]


def answer_ms(answers, from_s=0.0, to_s=float("inf")):
    """Milliseconds that requests of this stretch of the day took: half of them, 99 %, 99.9 %, the longest."""
    return percentiles([1000 * took_s for begun, took_s in answers if from_s <= begun < to_s])
