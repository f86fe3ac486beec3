"""A life of the server: many cells of one family of states, under one set of settings.

Keys are written to both servers and brought into their state, the cells are played one after the other, the data is
compared, and the server is killed and restarted: its data must not have changed.
"""

import time

from harness.load import incompressible
from harness.resp import ProtocolError, encode

from . import hints, states
from .cell import quoted
from .conditions import CONDITIONS, REFUSALS
from .contexts import DATA_NOT_COMPARED, Answered, Leave
from .names import DATABASES, FILLER_DATABASE, FIRST_OF_ITS_OWN, HEALTH_DATABASE, SHARED
from .player import FIRST_LOOK_S, SECOND_LOOK_S, Hang, Player, Side

#: Settings of a mode; `cold` and `frozen` ones come on top for those families.
MODES = {
    "everysec": {"appendfsync": "everysec"},
    "always": {"appendfsync": "always"},
    "no-log": {"appendonly": "no"},
    "wbl": {"persistence-mode": "wbl"},
    "tombstones": {"deletes": "tombstones"},
}
COMMON = {"databases": DATABASES, "enable-debug-command": "yes", "memtable-bytes": "1mb", "hz": 100}
COLD = {"filter-bits-per-key": 0, "cemetery-max-memory": 65536}
#: Level 0 takes a minute for a memtable.
SLOW = "profile slow read-us 0 write-us 1000 position-us 0 sync-us 1000 read-mb-s 1000 write-mb-s 0.02 channels 4 cache-bytes 0 unit-bytes 512 write-through yes\n"
PIPELINE = 500
#: Keys of a KB that fill a memtable. Without a log it refers to values that the DRAM table has, too: these count a quarter.
FILLERS = {"no-log": 3000}
FILLERS_ELSE = 1200
#: Time in which a full memtable is frozen.
FROZEN_WITHIN_S = 10
#: A key of each database that says which it was at first.
MARKER = b"marker"
#: Keys of a KB that drive all others out of a small memory.
EVICTING_KEYS = 6000
#: Deletes of other keys after which graves no longer fit in memory.
FILLER_DELETES = 3000


#: Kinds of failure, the worse ones later.
BROKEN = ("reply", "data", "restart", "clients", "life", "hang", "poison", "died", "panic")
#: Cells of a command in a context that may break a server before the others are left out, and commands that may
#: do so before the whole context is.
BREAKS_MAX, COMMANDS_MAX = 2, 4


class Failure:
    """A failed cell."""

    def __init__(self, cell, kind, what):
        self.cell, self.kind, self.what = cell, kind, what

    def signature(self):
        return (self.cell.case.command if self.cell else None, self.cell.context if self.cell else None, self.kind)


def pipelined(connection, requests):
    """Returns all replies, with at most a few hundred requests in flight."""
    nodes = []
    for at in range(0, len(requests), PIPELINE):
        part = requests[at : at + PIPELINE]
        connection.send_raw(b"".join(encode(request) for request in part))
        nodes += [connection.read_node() for _ in part]
    return nodes


class Life:
    """Cells of one mode, condition and family; `servers` makes a pair of processes with options."""

    def __init__(self, cells, pair):
        self.cells, self.pair = cells, pair
        first = cells[0]
        self.mode, self.condition = first.mode, first.condition
        self.surroundings = CONDITIONS[self.condition]
        self.family = states.STATES[first.state].family
        self.failures, self.skipped, self.slow, self.unproven = [], 0, [], False

    def place(self):
        """Assigns numbers and databases; cells that empty more than their own keys are last."""
        self.cells.sort(key=lambda cell: (cell.empties_all(), cell.empties_database(), cell.name()))
        own = FIRST_OF_ITS_OWN
        for number, cell in enumerate(self.cells):
            cell.number = number
            cell.dump = self.pair.dump
            cell.directory = str(self.pair.ours.directory / f"checkpoint-{number}").encode()
            cell.settings = self.pair.changeable(self.mode, self.condition, self.family)
            cell.databases = SHARED
            if cell.empties_database() or cell.empties_all():
                cell.databases = (own, own + 1)
                own += 2
        if own > FILLER_DATABASE:
            raise ValueError("too many cells that need databases of their own")

    # ---- the state of the keys -------------------------------------------------------------

    def setup_requests(self, due_ms):
        requests, database = [], None
        for db in sorted({db for cell in self.cells for db in cell.databases}):
            requests += [[b"SELECT", b"%d" % db], [b"SET", MARKER, b"of database %d" % db]]
            database = db
        for cell in self.cells:
            state = states.STATES[cell.state]
            if not state.there:
                continue
            for db in cell.databases:
                if db != database:
                    requests.append([b"SELECT", b"%d" % db])
                    database = db
                for n in range(hints.KEYS):
                    key = cell.key(n)
                    requests.append(hints.first_value(cell.case, n, key, cell.value(n, db)))
                    if state.due or cell.has_due_time(n):
                        requests.append([b"PEXPIREAT", key, b"%d" % (due_ms if state.due else hints.FAR_MS)])
        return requests

    def delete_requests(self):
        requests = []
        for cell in self.cells:
            if states.STATES[cell.state].deleted:
                for db in cell.databases:
                    requests += [[b"SELECT", b"%d" % db], [b"DEL", *(cell.key(n) for n in range(hints.KEYS))]]
        return requests

    def setup(self):
        """Empties both servers, writes the keys, and brings them into their state."""
        self.pair.begin(self.mode, self.condition, self.family)
        ours, theirs = self.pair.ours.connect(), self.pair.theirs.connect()
        theirs.cmd("FLUSHALL")
        for connection in (ours, theirs):
            connection.cmd("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        due_ms = time.time_ns() // 1_000_000 + states.EXPIRES_AFTER_MS.get(self.family, 1)
        requests = self.setup_requests(due_ms)
        deletes = self.delete_requests()
        for connection in (theirs, ours):
            self.must(pipelined(connection, requests))
        if self.family == "cold" and self.mode == "no-log":
            self.must(pipelined(theirs, deletes))
            self.evict(ours, deletes)
        elif self.family == "cold":
            ours.close()
            ours = self.restart()
            if deletes:
                ours = self.spill_graves(ours, deletes)
            self.must(pipelined(theirs, deletes))
        if self.family == "frozen":
            ours.cmd("SELECT", FILLER_DATABASE)
            fillers = range(FILLERS.get(self.mode, FILLERS_ELSE))
            self.must(pipelined(ours, [[b"SET", b"filler%d" % n, incompressible(b"%d" % n, 1000)] for n in fillers]))
            # The thread that freezes it needs its turn; the device needs a minute to flush it.
            deadline = time.monotonic() + FROZEN_WITHIN_S
            while int(self.pair.ours.info()["flsm_memtables_frozen"]) < 1:
                if time.monotonic() > deadline:
                    raise RuntimeError("no memtable is frozen: the state does not exist")
                time.sleep(0.01)
        if self.family == "cold" and requests and self.mode != "no-log":
            entries = int(self.pair.ours.info()["flsm_dram_entries"])
            if entries > 100:
                raise RuntimeError(f"{entries} keys are in memory: the state does not exist")
        left_s = due_ms / 1000 + 0.005 - time.time()
        if left_s > 0 and any(states.STATES[cell.state].due for cell in self.cells):
            time.sleep(left_s)
        ours.close()
        theirs.close()
        self.surroundings.enter(self.pair)

    def evict(self, ours, deletes):
        """Without a log a restart loses all data: other keys evict the cells' keys from memory instead."""
        for requests in ([], deletes):
            self.must(pipelined(ours, [*requests, [b"SELECT", b"%d" % FILLER_DATABASE]]))
            self.must(pipelined(ours, [[b"SET", b"filler%d" % n, incompressible(b"%d" % n, 1000)] for n in range(EVICTING_KEYS)]))

    def spill_graves(self, ours, deletes):
        """Deletes the cells' keys and enough others that graves have to leave memory."""
        filler = [b"filler%d" % n for n in range(FILLER_DELETES)]
        requests = [[b"SELECT", b"%d" % FILLER_DATABASE], [b"MSET", *(word for key in filler for word in (key, b"x"))]]
        self.must(pipelined(ours, requests))
        ours.close()
        ours = self.restart()
        self.must(pipelined(ours, [*deletes, [b"SELECT", b"%d" % FILLER_DATABASE], [b"DEL", *filler]]))
        ours.close()
        ours = self.restart()
        spilled = int(self.pair.ours.info()["flsm_graves_spilled"])
        self.unproven = spilled < FILLER_DELETES and self.mode != "tombstones"
        return ours

    def restart(self):
        code = self.pair.ours.terminate()
        if code != 0:
            raise RuntimeError(f"a clean stop ended with {code}:\n{self.pair.ours.log_tail()}")
        self.pair.ours.start()
        connection = self.pair.ours.connect()
        connection.cmd("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        return connection

    def must(self, nodes):
        bad = next((node.raw for node in nodes if node.is_error()), None)
        if bad:
            raise RuntimeError(f"the setup was refused: {bad!r}")

    # ---- playing ---------------------------------------------------------------------------

    def run(self):
        """Plays all cells. A hang or a death ends a life; the remaining cells are played in another."""
        rest = self.cells
        while rest:
            self.cells = rest
            self.place()
            self.setup()
            rest = self.play_until_broken()
        return self.failures

    def play_until_broken(self):
        """Returns the remaining cells when the server cannot continue."""
        ours, theirs = Side(self.pair.ours, "ours"), Side(self.pair.theirs, "theirs")
        player = Player(ours, theirs, self.pair.reference_commands)
        log_at = self.pair.log_size()
        played = []
        try:
            for at, cell in enumerate(self.cells):
                if self.is_known_to_break(cell):
                    self.skipped += 1
                    continue
                self.surroundings.before(self.pair, ours.controller(), at)
                broken = self.play_one(player, cell)
                played.append(cell)
                if not broken and cell.swaps():
                    self.align(player, cell)
                panic = self.pair.panic_since(log_at)
                if panic:
                    self.fail(cell, "panic", panic)
                    broken = True
                log_at = self.pair.log_size()
                if broken:
                    self.pair.breaks[(cell.context, cell.case.command)] += 1
                    self.pair.abandon()
                    return self.cells[at + 1 :]
                if cell.empties_all() and at + 1 < len(self.cells):
                    self.finish(played)
                    return self.cells[at + 1 :]
        finally:
            ours.close()
            theirs.close()
        if played:
            self.finish(played)
        return []

    def align(self, player, cell):
        """A database exchanged on one side only would make every later cell differ: reported once, and repaired."""
        first, second = (b"%d" % db for db in cell.databases)
        both = []
        for side in (player.ours, player.theirs):
            nodes = side.controller().pipeline([[b"SELECT", first], [b"GET", MARKER], [b"SELECT", second], [b"GET", MARKER]])
            both.append([nodes[1].value, nodes[3].value])
        ours, theirs = both
        if None not in ours + theirs and ours != theirs:
            if self.is_comparable(cell):
                self.fail(cell, "data", "the databases are exchanged here, and not in the reference, or the other way round")
            player.ours.controller().node(b"SWAPDB", first, second)

    def is_known_to_break(self, cell):
        """A server that breaks at every tenth cell would make a run endless."""
        breaks = self.pair.breaks
        commands = [command for context, command in breaks if context == cell.context]
        return breaks[(cell.context, cell.case.command)] >= BREAKS_MAX or len(commands) >= COMMANDS_MAX

    def fail(self, cell, kind, what):
        """One failure per cell: a hang or a panic is more informative than the missing reply."""
        before = next((failure for failure in self.failures if failure.cell is cell), None)
        if before is None:
            self.failures.append(Failure(cell, kind, what))
        elif BROKEN.index(kind) > BROKEN.index(before.kind):
            before.kind, before.what = kind, f"{what}; before that {before.kind}: {before.what}"
        else:
            before.what += f"; then {kind}: {what}"

    def play_one(self, player, cell):
        """Plays one cell; returns whether the server is broken."""
        try:
            wrong = player.play(cell)
            for sentence in wrong[:1]:
                self.fail(cell, "reply", sentence)
            self.ask_health(player, cell)
        except Hang as hang:
            if not self.pair.theirs.alive():
                raise RuntimeError(f"the reference died in {cell.name()}:\n{self.pair.theirs.log_tail(60)}") from hang
            kind = "hang" if self.pair.ours.alive() else "died"
            self.fail(cell, kind, str(hang))
            return True
        except (OSError, ProtocolError) as error:
            if not self.pair.theirs.alive():
                raise RuntimeError(f"the reference died in {cell.name()}:\n{self.pair.theirs.log_tail(60)}") from error
            self.fail(cell, "hang" if self.pair.ours.alive() else "died", f"{type(error).__name__}: {error}")
            return True
        if not self.pair.theirs.alive():
            raise RuntimeError(f"the reference died in {cell.name()}:\n{self.pair.theirs.log_tail(60)}")
        if not self.pair.ours.alive():
            self.fail(cell, "died", self.pair.ours.log_tail(5))
            return True
        if player.slow_s > FIRST_LOOK_S:
            self.slow.append((cell, player.slow_s))
        return False

    def ask_health(self, player, cell):
        """Another client is answered, and its write is accepted."""
        for side in (player.theirs, player.ours):
            if cell.case.command == "CLIENT|KILL" and side.control:
                side.control.close()
                side.control = None
        control = player.ours.controller()
        begun = time.monotonic()
        nodes = control.pipeline([[b"PING"], [b"SELECT", b"%d" % HEALTH_DATABASE], [b"SET", b"health", b"%d" % cell.number]])
        player.waited(begun)
        for node in nodes:
            if node.is_error() and (self.surroundings.takes_writes or not node.raw.startswith(REFUSALS)):
                self.fail(cell, "poison", f"another client's write: {node.raw!r}")
                raise OSError("writes are refused")

    # ---- the data --------------------------------------------------------------------------

    def data(self, server, cells):
        """A server's data for the cells: replies of MGET, DEBUG DIGEST-VALUE and PEXPIRETIME, by cell."""
        requests = []
        for cell in cells:
            keys = cell.keys()
            for db in cell.databases:
                requests += [[b"SELECT", b"%d" % db], [b"MGET", *keys], [b"DEBUG", b"DIGEST-VALUE", *keys]]
                requests += [[b"PEXPIRETIME", key] for key in keys[: hints.KEYS + 1]]
        connection = server.connect(timeout_s=60)
        nodes = pipelined(connection, requests)
        connection.close()
        each = 2 * (3 + hints.KEYS + 1)
        return [nodes[at : at + each] for at in range(0, len(nodes), each)]

    def differs(self, ours, theirs, tolerance_ms):
        for mine, other in zip(ours, theirs):
            if mine.raw == other.raw:
                continue
            both = isinstance(mine.value, int) and isinstance(other.value, int) and min(mine.value, other.value) > 0
            if not both or abs(mine.value - other.value) > tolerance_ms:
                return f"{mine.raw[:200]!r}, expected {other.raw[:200]!r}"
        return None

    def finish(self, cells):
        """Compares the data with the reference's, then after kill -9; no client may be left or stuck."""
        last = cells[-1]
        try:
            self.surroundings.leave(self.pair)
            compared = [cell for cell in cells if self.is_comparable(cell)]
            mine, others = self.data(self.pair.ours, compared), self.data(self.pair.theirs, compared)
            for cell, ours, theirs in zip(compared, mine, others):
                wrong = self.differs(ours, theirs, 3000)
                if wrong:
                    self.fail(cell, "data", f"data afterwards {wrong}")
            connection = self.pair.ours.connect(timeout_s=SECOND_LOOK_S)
            for request in (["DBSIZE"], ["SCAN", "0"], ["KEYS", "no-such-*"], ["CONFIG", "SET", "hz", "50"]):
                node = connection.node(*request)
                if node.is_error():
                    self.fail(last, "poison", f"at the end of the life {request[0]}: {node.raw!r}")
            self.nobody_left(connection, last)
            if self.mode != "no-log" and self.surroundings.restart_compared:
                connection.cmd("SELECT", HEALTH_DATABASE)
                connection.cmd("SET", "health", "last")
                connection.cmd("WAITAOF", "1", "0", "10000")
                connection.close()
                everything = self.data(self.pair.ours, cells)
                self.pair.ours.kill()
                self.pair.quicken_devices()
                self.pair.ours.start()
                for cell, before, after in zip(cells, everything, self.data(self.pair.ours, cells)):
                    wrong = self.differs(after, before, 0)
                    if wrong:
                        self.fail(cell, "restart", f"data after kill -9 {wrong}")
            panic = self.pair.panic_since(0)
            if panic and not any(failure.kind == "panic" for failure in self.failures):
                self.fail(last, "panic", panic)
        except (OSError, ProtocolError, RuntimeError) as error:
            self.fail(last, "life", f"at the end of the life {type(error).__name__}: {error}")
        self.pair.abandon()

    def nobody_left(self, connection, cell):
        begun = time.monotonic()
        while len(left := connection.cmd("CLIENT", "LIST").splitlines()) > 5:
            if time.monotonic() - begun > SECOND_LOOK_S:
                self.fail(cell, "clients", f"{len(left)} clients are left where at most 5 are connected: {left}")
                return
            time.sleep(0.01)

    def is_comparable(self, cell):
        known = cell.case.command.lower() in self.pair.reference_commands
        known = known and cell.case.command not in hints.DRAWS
        return known and cell.context not in DATA_NOT_COMPARED and self.surroundings.compared

    # ---- the script ------------------------------------------------------------------------

    def script_of(self, cell):
        """The commands of a cell as a person would repeat them."""
        lines = [f"# sexton-server {self.pair.options_text(self.mode, self.condition, self.family)}"]
        if self.condition != "normal":
            lines.append(f"# condition: {self.surroundings.__doc__.splitlines()[0] if self.surroundings.__doc__ else self.condition}")
        state = states.STATES[cell.state]
        say = lambda who, words: lines.append(f"{who}: " + " ".join(quoted(word) for word in words))
        only, cells = cell, self.cells
        self.cells = [only]
        for request in self.setup_requests(0):
            if request[1] != MARKER:
                say("setup", request)
        if self.family == "cold":
            lines.append("# SIGTERM, start")
        if state.deleted:
            for request in self.delete_requests():
                say("setup", request)
            lines.append("# SIGTERM, start")
        if self.family == "frozen":
            lines.append(f"# {FILLERS.get(self.mode, FILLERS_ELSE)} other keys of a KB: the memtable is frozen")
        self.cells = cells
        for name in ("a", "b"):
            say(name, [b"SELECT", b"%d" % cell.databases[0]])
            if cell.resp == 3:
                say(name, [b"HELLO", b"3"])
        for action in cell.script():
            if isinstance(action, Answered):
                lines.append(f"# {action.connection} is answered")
            elif isinstance(action, Leave):
                lines.append(f"# {action.connection} closes its connection")
            else:
                for words, _ in action.requests:
                    where = f" (only {action.side})" if action.side else ""
                    say(f"{action.connection}{where}", cell.words(words))
        return "\n".join("    " + line for line in lines)
