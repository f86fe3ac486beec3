"""One thing to do, and how its replies are compared."""

EXACT, UNORDERED, SECONDS, MILLIS, SHAPE, MAP_KEYS = "exact", "unordered", "seconds", "ms", "shape", "map-keys"
SUPERSET, LENGTH = "superset", "length"


class Step:
    """`kind` is `cmd`, `wait` (ms in args) or `scan` (a full iteration)."""

    __slots__ = ("kind", "conn", "args", "tag", "batch")

    def __init__(self, args, tag=EXACT, kind="cmd"):
        self.kind = kind
        self.args = args
        self.tag = tag
        self.conn = 0
        self.batch = 0

    def name(self):
        return self.args[0].decode("latin-1").upper() if self.kind == "cmd" else self.kind.upper()

    def __repr__(self):
        if self.kind == "wait":
            return f"     (wait {self.args[0]} ms)"
        words = " ".join(repr(a)[1:] if a == b"" or not a.isalnum() else a.decode() for a in self.args)
        return f"  c{self.conn} {'SCAN-ALL ' if self.kind == 'scan' else ''}{words}"
