"""A memory control group for one process, where the machine lets us make one (version 1 or 2)."""

import os
import uuid
from pathlib import Path


def _places():
    """(folder of groups, name of the limit's file) of each version that is mounted, writable ones only."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, of = line.partition(" - ")
        point, kind, options = Path(fields.split()[4]), of.split()[0], of.split()[2]
        if kind == "cgroup" and "memory" in options.split(","):
            yield point, "memory.limit_in_bytes"
        elif kind == "cgroup2" and "memory" in (point / "cgroup.subtree_control").read_text().split():
            yield point, "memory.max"


class MemoryGroup:
    """`with MemoryGroup(bytes) as group:` a group with this limit, swap not counted on; `group.prefix()` starts a
    command in it."""

    def __init__(self, limit_bytes):
        self.limit_bytes = limit_bytes
        self.path = None

    @staticmethod
    def possible():
        """True when a group can be made here."""
        try:
            with MemoryGroup(1 << 30):
                return True
        except OSError:
            return False

    def __enter__(self):
        for point, name in _places():
            path = point / f"sexton-test-{uuid.uuid4().hex[:12]}"
            try:
                path.mkdir()
            except OSError:
                continue
            self.path = path
            (path / name).write_text(str(self.limit_bytes))
            return self
        raise OSError("no memory control group can be made here")

    def __exit__(self, *_):
        if self.path:
            os.rmdir(self.path)

    def prefix(self):
        """What is put before a command line so that it runs inside."""
        return ["sh", "-c", f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"', "sh"]

    def kills(self):
        """Processes that the kernel has killed for lack of memory, as far as it counts them."""
        for name in ("memory.events", "memory.oom_control"):
            file = self.path / name
            if file.exists():
                fields = dict(line.split() for line in file.read_text().splitlines())
                return int(fields.get("oom_kill", 0))
        return 0
