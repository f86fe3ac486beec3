"""python3 -m matrix [--cells N] [--seed N] [--server PATH] [--cell ID]: every command in every state it can meet.

Cells are generated from the server's own command table: each request (valid and invalid ones of every command), in each
state of its keys, in each context, under each mode of the server. Replies and the resulting data are compared with
redis-server's wherever it supports the state. In all cells no reply may be missing, nothing may panic, writes must be
accepted afterwards, and a restart after kill -9 must find identical data. Without --cells all cells are run.
"""

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter

from . import hints, states
from .cell import Cell
from .conditions import CONDITIONS
from .contexts import CONTEXTS, RESP3_ONLY
from .life import MODES, Life
from .names import FILLER_DATABASE, FIRST_OF_ITS_OWN
from .pair import Pair
from .table import Table

#: Cells of one life of the server.
LIFE_CELLS = 1200
#: Cells of one life that empty their databases: each has two of its own.
EMPTYING_CELLS = (FILLER_DATABASE - FIRST_OF_ITS_OWN) // 2
#: Contexts that are tried under every mode; the others under the first one only.
EVERY_MODE = ("alone", "pipelined", "multi-writes")
#: State of keys for a command that names none.
NO_KEYS = ("memory", "cold")


def all_cells(table):
    """All cells, in an order that depends on the table alone."""
    modes = list(MODES)
    for case in table.cases:
        for state in states.STATES if case.has_key() or hints.walks(case) else NO_KEYS:
            for number, context in enumerate(CONTEXTS):
                if context == "script" and case.command in hints.NOT_IN_SCRIPTS:
                    continue
                for mode in modes if context in EVERY_MODE else modes[:1]:
                    if state == "frozen" and (mode == "wbl" or b"RELOAD" in case.words):
                        continue  # no flush, or one after the other on a device that is slow on purpose
                    resp = 3 if context in RESP3_ONLY else 2 + (case.index + number) % 2
                    yield Cell(case, state, context, "normal", mode, resp)
            for condition, surroundings in CONDITIONS.items():
                if surroundings.states is not None and state in surroundings.states:
                    for number, context in enumerate(surroundings.contexts):
                        yield Cell(case, state, context, condition, modes[0], 2 + (case.index + number) % 2)


def lives(cells, pair):
    """Cells by mode, condition and family of states, divided into parts that fit into one life."""
    groups = {}
    for cell in cells:
        groups.setdefault((cell.mode, cell.condition, states.STATES[cell.state].family), []).append(cell)
    for group in groups.values():
        emptying = [cell for cell in group if cell.empties_database() or cell.empties_all()]
        others = [cell for cell in group if not (cell.empties_database() or cell.empties_all())]
        count = max(-(-len(others) // LIFE_CELLS), -(-len(emptying) // EMPTYING_CELLS))
        for number in range(count):
            yield others[number::count] + emptying[number::count]


def run_share(args, share, of, queue):
    """One process: runs its share of the lives on servers of its own."""
    pair = Pair(args.server)
    try:
        table = read_table(pair)
        chosen = choose(args, table)
        for number, cells in enumerate(lives(chosen, pair)):
            if number % of != share:
                continue
            begun = time.monotonic()
            life = Life(cells, pair)
            error = None
            try:
                life.run()
            except RuntimeError as broken:
                error = str(broken)
            failures = [(f.cell.name(), f.kind, f.what, life.script_of(f.cell), f.signature()) for f in life.failures]
            counts = Counter((cell.case.group, cell.state) for cell in cells)
            queue.put((number, (life.mode, life.condition, life.family), len(cells), time.monotonic() - begun, failures, counts,
                       [(cell.name(), seconds) for cell, seconds in life.slow], life.skipped, life.unproven, error))
    finally:
        pair.close()
        queue.put(None)


def read_table(pair):
    pair.begin("everysec", "normal", "warm")
    connection = pair.ours.connect()
    table = Table(connection)
    connection.close()
    pair.abandon()
    return table


def choose(args, table):
    cells = list(all_cells(table))
    if args.cell:
        found = [cell for cell in cells if cell.name() in args.cell]
        if not found:
            raise SystemExit(f"no cell is called {args.cell}")
        return found
    if args.only:
        cells = [cell for cell in cells if any(part in cell.name() for part in args.only)]
    if args.without:
        cells = [cell for cell in cells if not any(part in cell.name() for part in args.without)]
    if args.cells and args.cells < len(cells):
        cells = random.Random(args.seed).sample(cells, args.cells)
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="sexton")
    parser.add_argument("--cells", type=int, help="number of cells, chosen by the seed; default: all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--cell", action="append", help="only this cell; may be given several times")
    parser.add_argument("--only", action="append", help="only cells whose name contains this")
    parser.add_argument("--without", action="append", help="no cells whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with servers of its own")
    parser.add_argument("--list", action="store_true", help="only print the names of the cells")
    args = parser.parse_args()
    if args.list:
        pair = Pair(args.server)
        try:
            for cell in choose(args, read_table(pair)):
                print(cell.name())
        finally:
            pair.close()
        return
    print(f"matrix: {args.server}, seed {args.seed}" + (f", {args.cells} cells" if args.cells else ""), flush=True)
    sys.exit(1 if run(args) else 0)


def run(args):
    queue = multiprocessing.Queue()
    jobs = 1 if args.cell else args.jobs
    processes = [multiprocessing.Process(target=run_share, args=(args, n, jobs, queue)) for n in range(jobs)]
    for process in processes:
        process.start()
    begun, left, cells, failed, shown = time.monotonic(), jobs, 0, 0, Counter()
    counts, kinds = Counter(), Counter()
    while left:
        message = queue.get()
        if message is None:
            left -= 1
            continue
        number, what, size, took, failures, life_counts, slow, skipped, unproven, error = message
        cells += size
        counts += life_counts
        print(f"life {number}: {' '.join(what)}, {size} cells, {took:.1f} s, {len(failures)} failures", flush=True)
        if unproven:
            print("      its deleted keys had left the tree before they were asked for")
        if skipped:
            failed += 1
            print(f"FAIL  {skipped} cells left out: those before them in their context broke the server")
        if error:
            failed += 1
            print(f"FAIL  the life: {error}", flush=True)
        for name, seconds in slow:
            print(f"slow  {name}: {seconds:.1f} s")
        for name, kind, sentence, script, signature in failures:
            failed += 1
            kinds[kind] += 1
            shown[signature] += 1
            if shown[signature] <= 2:
                print(f"FAIL  {name}: {kind}: {sentence}\n{script}", flush=True)
    for process in processes:
        process.join()
        if process.exitcode:
            failed += 1
            print(f"FAIL  a process of the matrix ended with {process.exitcode}")
    print_counts(counts)
    for (command, context, kind), count in sorted(shown.items()):
        print(f"failed {kind}: {command} in {context}: {count} cells")
    print(f"matrix: {cells} cells in {time.monotonic() - begun:.0f} s, {failed} failing", flush=True)
    return failed


def print_counts(counts):
    """Cells by group of commands and state of keys."""
    columns = list(states.STATES)
    print(f"{'group':14}" + "".join(f"{name:>13}" for name in columns))
    for group in sorted({group for group, _ in counts}):
        print(f"{group:14}" + "".join(f"{counts[(group, name)] or '-':>13}" for name in columns))


if __name__ == "__main__":
    main()
