"""Random SORT and SORT_RO. The source is created anew, so that only its order determines the result."""

from .step import UNORDERED, Step

NUMBERS = [b"%d" % number for number in range(-4, 16)] + [b"1.5", b"-0", b"1e3", b"0x1f", b" 7", b"inf", b""]
TEXTS = [b"abc", b"ab", b"a\x00b", b"a", b"B", b"\xff\x00"]
SOURCE, RESULT = b"sort source", b"sort result"
NO_SORT = (b"nosort", b"#", b"no\x00*")


class Sorting:
    """Makes the arguments."""

    def __init__(self, grammar):
        self.g = grammar

    def source(self):
        """Steps that make the source, and its type; nothing where no command for it is built."""
        g = self.g
        pool = NUMBERS + TEXTS if g.chance(30) else NUMBERS
        elements = [g.rng.choice(pool) for _ in range(g.rng.choice([1, 4, 12, 30]))]
        kinds = [kind for kind, name in (("list", "RPUSH"), ("set", "SADD"), ("sorted set", "ZADD")) if g.known(name)]
        if not kinds:
            return [], None
        kind = g.rng.choice(kinds)
        words = {"list": [b"RPUSH", SOURCE, *elements], "set": [b"SADD", SOURCE, *elements]}.get(kind) or [
            b"ZADD", SOURCE, *(word for element in elements for word in (b"%d" % g.rng.randint(-3, 3), element))]
        return [Step([b"DEL", SOURCE]), Step(words)], kind

    def weights(self):
        g = self.g
        steps = []
        for _ in range(g.rng.choice([0, 3, 8])):
            name, value = g.rng.choice(NUMBERS), g.rng.choice(NUMBERS if g.chance(95) else TEXTS)
            steps.append(Step([b"SET", b"weight_" + name, value]))
            if g.known("HSET"):
                steps.append(Step([b"HSET", b"hash_" + name + b"x", b"f", value, b"", b"3"]))
        return steps

    def sort(self):
        g, rng = self.g, self.g.rng
        made, kind = self.source()
        if kind is None or g.chance(10):
            # Whatever it is: a set, which has no order of its own, among others.
            made, kind, source = [], "set", g.key()
        else:
            source = SOURCE
        is_text, has_limit, by, store = g.chance(40), g.chance(40), None, None
        options = [[g.word("ALPHA")]] if is_text else []
        if g.chance(50):
            options.append([g.word(rng.choice(["ASC", "DESC"]))])
        if has_limit:
            options.append([g.word("LIMIT"), rng.choice([b"0", b"1", b"-3", b"20", g.integer()]),
                            rng.choice([b"0", b"1", b"3", b"-1", b"9223372036854775807", g.integer()])])
        if g.chance(50):
            by = rng.choice([*NO_SORT, b"weight_*", b"weight_*", b"hash_*x->f", b"hash_*x->", b"*", b"none_*"])
            options.append([g.word("BY"), by])
        for _ in range(rng.choice([0, 0, 1, 2])):
            options.append([g.word("GET"), rng.choice([b"#", b"weight_*", b"hash_*x->f", b"hash_*x->none", b"const", b"#\x00a"])])
        if g.chance(30):
            store = RESULT
            options.append([g.word("STORE"), store])
        rng.shuffle(options)
        words = [word for option in options for word in option]
        unsorted = by in NO_SORT
        # Redis has an order of its own among equal texts where a hash table or LIMIT is behind it.
        is_loose = is_text and bool(by and not unsorted or kind != "list" or has_limit) or kind == "set" and unsorted
        if is_loose:
            # What is left of an order that differs differs, too: no LIMIT, no STORE, no GET.
            words = [g.word("ALPHA")] if is_text else []
            words += [b"BY", by] if by else []
            store = None
        # An option that is misspelt makes another command of it.
        name = rng.choice([b"SORT", b"SORT", b"SORT_RO"]) if not store else b"SORT"
        # Redis holds a number out of range that anybody has named before against SORT; a cursor in range makes up for it.
        asked = [Step([b"HSCAN", b"no such key", b"0"]), Step([name, source, *words], UNORDERED if is_loose else "exact")]
        if store and g.known("LRANGE"):
            asked.append(Step([b"LRANGE", store, b"0", b"-1"]))
        keys = [SOURCE, RESULT, *(prefix + number for prefix in (b"weight_", b"hash_") for number in NUMBERS)]
        keys += [b"hash_" + number + b"x" for number in NUMBERS]
        return [*made, *self.weights(), *asked, Step([b"DEL", *keys])]


def rows(grammar):
    """(command, weight, generator), as in `Grammar.table`."""
    s = Sorting(grammar)
    return [("SORT", 2, s.sort)]
