"""The plan of the device study: its cells, their order, their numbers of requests, and their durations."""

import itertools

SERVERS = ("sexton", "redis", "valkey")
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: Those of the default: the ends, the paper's first bend, and what fills a page of a table.
FEW_SIZES = (8, 128, 1024, 4096)
#: Mode -> appendfsync, forced snapshots.
MODES = {
    "none": (None, False),
    "none-copied": (None, False),
    "rdb": (None, True),
    "everysec": ("everysec", False),
    "always": ("always", False),
    "rdb-aof": ("everysec", True),
    "wbl": (None, False),
}
#: From this size on Sexton without a log keeps a value once for memtable and table, unless "none-copied" forbids it; the
#: modes that do not, so that this is the same path without persistence.
SHARED_BYTES = 512
COPYING_MODES = ("everysec", "always", "rdb-aof", "wbl")
N_MAX, N_MIN, SECONDS_MAX, BYTES_MAX = 1_000_000, 20_000, 20, 1.5e9
#: Requests that set up what GET, DEL and EXPIRE then find.
FOUND_MAX = 400_000
#: Bytes of a command beside its value, in the log.
COMMAND_BYTES = 45
REPETITIONS = 3

KEY = ["part", "device", "stack", "placement", "server", "mode", "command", "value_bytes", "pipeline", "repetition"]

#: For the estimate: microseconds of a SET without persistence, and of each byte of its value.
SET_US, BYTE_US = 5.3, 0.003
#: What the stacks take in, MB/s, and SETs/s under `always`, from rows that were measured; for others see --plan.
WRITE_MB_S = {"hdd": 140, "sata": 450, "nvme": 650}
ALWAYS_PER_S = {"hdd": 1500, "sata": 15_000, "nvme": 40_000}
IN_MEMORY_MB_S, IN_MEMORY_ALWAYS_PER_S = 1000, 90_000
#: A server's start and end with its files, what a forced snapshot takes beside its bytes, a device's coming up.
CELL_S, SAVE_S, STACK_S = 1.0, 1.0, 3.0


def off_modes(server, mode, value_bytes):
    """The baseline of a mode, the first of them that was measured: no persistence on the same path."""
    copies = server == "sexton" and mode in COPYING_MODES and value_bytes >= SHARED_BYTES
    return ("none-copied", "none") if copies else ("none",)


def exists(server, mode, value_bytes):
    """Whether a server has a mode that differs from its other modes."""
    if mode == "none-copied" and value_bytes < SHARED_BYTES:
        return False
    return mode not in ("none-copied", "wbl") or server == "sexton"


class Plan:
    """The cells. All default cells are measured once, then again, repetition by repetition, so that a stopped run has
    complete repetitions; in a repetition device by device, and servers on one device and size one after the other."""

    def __init__(self, args):
        self.args = args
        self.repetitions = args.repetitions or (1 if args.quick else REPETITIONS)

    @staticmethod
    def cell(**made):
        return {"part": "grid", "placement": "same", "command": "set", "pipeline": 1, **made}

    @staticmethod
    def placements(device, server, mode, elsewhere):
        """Tables on the device of the log, and on another: two rows, where this can matter."""
        if server == "sexton" and device in elsewhere and mode in ("none", "none-copied", "everysec", "always"):
            return ("same", "other")
        return ("same",)

    def grid(self, devices, sizes, modes, servers=SERVERS, elsewhere=("hdd", "sata")):
        for device, size, mode, server in itertools.product(devices, sizes, modes, servers):
            if server in self.args.servers and exists(server, mode, size):
                for placement in self.placements(device, server, mode, elsewhere):
                    yield self.cell(device=device, server=server, mode=mode, value_bytes=size, placement=placement)

    def commands(self, devices, sizes, modes, servers=SERVERS):
        for device, size, command, mode, server in itertools.product(
            devices, sizes, ("get", "incr", "del", "mset", "expire"), modes, servers
        ):
            if server in self.args.servers:
                yield self.cell(
                    part="commands", device=device, server=server, mode=mode, command=command, value_bytes=size
                )

    def rewrite(self, devices, sizes):
        for device, size, server in itertools.product(devices, sizes, self.args.servers):
            yield self.cell(part="rewrite", device=device, server=server, mode="everysec", value_bytes=size)

    def route(self, sizes):
        """Small values on a fast log device and large ones on a slow one (aof-route), compared with each device alone."""
        if "sexton" in self.args.servers:
            for size, device in itertools.product(sizes, ("hdd", "nvme", "hdd+nvme")):
                yield self.cell(
                    part="route", device=device, server="sexton", mode="everysec", value_bytes=size, placement="other"
                )

    def pmem(self, sizes, pipelines=(1, 16), servers=SERVERS):
        """The same memory as a block device, and through libpmem without RDB or AOF."""
        for size, pipeline, mode, server in itertools.product(
            sizes, pipelines, ("none", "none-copied", "everysec", "always", "wbl"), servers
        ):
            if server in self.args.servers and exists(server, mode, size):
                yield self.cell(
                    part="pmem", device="pmem", server=server, mode=mode, value_bytes=size, pipeline=pipeline
                )

    def groups(self):
        """Groups of cells."""
        devices = self.args.devices
        disk = [device for device in devices if device == "hdd"]
        if self.args.quick:
            fast = [device for device in devices if device == "nvram"]
            return [
                self.grid(disk, (64, 4096), ("none", "everysec")),
                self.grid(fast, (4096,), ("none", "everysec")),
                self.grid(disk, (64,), ("rdb", "always")),
                self.rewrite(disk, (64,)),
                self.route((4096,)) if disk else (),
            ]
        if self.args.sizes or self.args.modes:
            return [self.grid(devices, self.args.sizes or SIZES, self.args.modes or MODES)]
        pair = ("sexton", "redis")

        def only(*names):
            return [device for device in devices if device in names]

        blocks = [device for device in devices if device != "pmem"]
        default = [
            self.grid(blocks, FEW_SIZES, ("none", "none-copied", "everysec"), pair, elsewhere=("hdd",)),
            # In memory as nvram is: for wbl beside it, which is Sexton's way with such a device.
            self.grid(only("pmem"), (128, 1024), ("none", "none-copied", "everysec", "wbl"), pair),
            self.grid(devices, (1024,), ("none", "everysec"), ("valkey",)),
            self.grid(devices, (1024,), ("always",), pair, elsewhere=()),
            self.grid(only("hdd", "nvram"), (1024,), ("always",), ("valkey",)),
            self.grid(disk, FEW_SIZES, ("wbl",)),
            self.grid(only("nvme"), (1024,), ("wbl",)),
            self.grid(only("hdd", "nvme", "nvram"), (128,), ("rdb",), pair),
            self.grid(disk, (1024,), ("rdb",)),
            self.pmem((128,), (16,), pair) if "pmem" in devices else (),
            self.commands(disk, (128,), ("none", "everysec"), pair),
            self.rewrite(disk, (1024,)),
            self.route((128, 4096)) if disk else (),
        ]
        if not self.args.full:
            return default
        return [
            *default,
            self.grid(devices, SIZES, MODES),
            self.commands(devices, (8, 64, 1024), ("none", "everysec", "always")),
            self.rewrite(devices, (64, 1024, 4096)),
            self.route((64, 1024)) if disk else (),
            self.pmem(SIZES) if "pmem" in devices else (),
        ]

    def cells(self):
        first = {}
        for cell in itertools.chain.from_iterable(self.groups()):
            if self.args.part is None or cell["part"] in self.args.part:
                first.setdefault(tuple(cell[name] for name in KEY if name not in ("stack", "repetition")), cell)
        # A pair of devices comes after those of one.
        order = [*self.args.devices, *(cell["device"] for cell in first.values())]
        ordered = sorted(first.values(), key=lambda cell: order.index(cell["device"]))
        return [{**cell, "repetition": number} for number in range(1, self.repetitions + 1) for cell in ordered]


def requests_of(args, cell, memory_bytes):
    """(N, note): at most a million keys, 1.5 GB, or a tenth of the free memory."""
    if args.quick:
        return N_MIN, "small run"
    bytes_max, note = BYTES_MAX, ""
    if memory_bytes / 10 < bytes_max:
        bytes_max, note = memory_bytes / 10, "N lowered: memory"
    keys = 10 if cell["command"] == "mset" else 1
    return max(N_MIN, int(min(N_MAX, bytes_max / (cell["value_bytes"] + COMMAND_BYTES)) / keys)), note


def estimate_s(args, cell, memory_bytes):
    """Seconds that a cell takes, from the server's start to its end; an estimate within a third, based on earlier measurements."""
    requests, _ = requests_of(args, cell, memory_bytes)
    appendfsync, snapshots = MODES[cell["mode"]]
    bytes_each = (cell["value_bytes"] + COMMAND_BYTES) * (10 if cell["command"] == "mset" else 1)
    device = cell["device"].split("+")[0]
    write_mb_s = WRITE_MB_S.get(device, IN_MEMORY_MB_S)
    work_s = requests * (SET_US + BYTE_US * bytes_each) / 1e6 / (4 if cell["pipeline"] > 1 else 1)
    after_s = 0.0
    if cell["command"] in ("get", "del", "expire"):
        work_s *= 1.5 * min(1.0, FOUND_MAX / requests)
    elif cell["mode"] == "wbl":
        work_s *= 1.5
    elif appendfsync is not None:
        work_s += requests * bytes_each / 1e6 / write_mb_s
    if appendfsync == "always" and cell["command"] != "get":
        rate = ALWAYS_PER_S.get(device, IN_MEMORY_ALWAYS_PER_S)
        work_s = max(work_s, requests / rate)
    if snapshots:
        after_s = SAVE_S + requests * bytes_each / 4e6 / write_mb_s
    if args.quick:
        return min(work_s, 2) + after_s / 4 + CELL_S / 2
    return min(work_s, SECONDS_MAX) + after_s + CELL_S
