"""Cases from the server's own command table: COMMAND INFO and COMMAND DOCS.

Each command and subcommand gets valid requests derived from its argument specification (options one by one and
together, each alternative, repeated arguments, a key used twice, existing keys together with missing
ones) and invalid ones (a word less, a word more, a non-number where a number is required). Every declared command
is in the matrix; `hints` only makes some arguments more useful.
"""

import itertools

from . import hints
from .hints import Absent, Key

#: Combinations of options of one command that are all tried; of more, each alone and all together.
PRODUCT_MAX = 20
#: Number words for which a command has an invalid case.
NOT_A_NUMBER, TOO_LARGE = b"abc", b"9223372036854775808"


class Case:
    """One request: `words` are bytes and placeholders, `group` is the command's group in the table."""

    __slots__ = ("command", "index", "words", "valid", "group", "flags", "tag")

    def __init__(self, command, index, words, valid, group, flags):
        self.command, self.index, self.words, self.valid = command, index, words, valid
        self.group, self.flags = group, flags
        self.tag = hints.tag_of(command)

    def name(self):
        return f"{self.command}.{self.index}"

    def has_key(self):
        return any(isinstance(word, (Key, Absent)) for word in self.words)

    def writes(self):
        return "write" in self.flags


class Word:
    """A word of an argument: `number` when the specification wants one."""

    __slots__ = ("value", "number")

    def __init__(self, value, number=False):
        self.value, self.number = value, number


KEY = object()
NUMBERS = ("integer", "double", "unix-time")


def pairs(node):
    """A reply that is a map, in RESP2's form."""
    return {node[i].decode(): node[i + 1] for i in range(0, len(node), 2)}


class Argument:
    """One argument of COMMAND DOCS."""

    def __init__(self, reply):
        fields = pairs(reply)
        self.name = fields["name"].decode()
        self.kind = fields["type"].decode()
        self.token = fields.get("token")
        self.flags = {flag.decode() for flag in fields.get("flags", [])}
        self.inner = [Argument(argument) for argument in fields.get("arguments", [])]

    def forms(self, command):
        """Lists of words, the shortest usual form first; an empty one first when it is optional."""
        if self.kind == "oneof":
            forms = [form for inner in self.inner for form in inner.forms(command) if form]
        elif self.kind == "block":
            forms = sequences(self.inner, command)
        elif self.kind == "pure-token":
            forms = [[]]
        elif self.kind == "key":
            forms = [[Word(KEY)]]
        else:
            number = self.kind in NUMBERS
            forms = [[Word(value, number)] for value in hints.values(command, self.name, self.kind)]
        if self.token is not None:
            forms = [[Word(self.token), *form] for form in forms]
        if "multiple" in self.flags:
            again = forms[0]
            if self.token is not None and "multiple_token" not in self.flags:
                again = again[1:]
            forms = [*forms, forms[0] + again]
        if "optional" in self.flags:
            forms = [[], *forms]
        return forms


def sequences(arguments, command):
    """The forms of arguments that follow one another."""
    forms = [argument.forms(command) for argument in arguments]
    total = 1
    for one in forms:
        total *= len(one)
    if total <= PRODUCT_MAX:
        return [sum(choice, []) for choice in itertools.product(*forms)]
    base = [one[0] for one in forms]
    chosen = [base]
    for place, one in enumerate(forms):
        chosen += [base[:place] + [form] + base[place + 1 :] for form in one[1:]]
    chosen.append([one[-1] for one in forms])
    return [sum(choice, []) for choice in chosen]


def place_keys(words):
    """Keys get numbers in their order; with several also: one twice, and one that was never there."""
    places = [at for at, word in enumerate(words) if word.value is KEY]
    plain = [word.value for word in words]
    for number, at in enumerate(places):
        plain[at] = Key(number % hints.KEYS)
    forms = [plain]
    if len(places) > 1:
        for first, second in ((Key(0), Key(0)), (Key(0), Absent()), (Absent(), Key(0))):
            other = list(plain)
            other[places[0]], other[places[1]] = first, second
            forms.append(other)
    return forms


def invalid(words, form):
    """Requests that violate the specification of `form`, the words after the command's name."""
    yield words[:-1] if form else words + [b"extra", b"words"]
    yield words + [b"extra"]
    offset = len(words) - len(form)
    for at, word in enumerate(form):
        if word.number:
            for wrong in (NOT_A_NUMBER, TOO_LARGE):
                yield words[: offset + at] + [wrong] + words[offset + at + 1 :]


class Table:
    """All cases of a server, by COMMAND INFO and DOCS."""

    def __init__(self, connection):
        self.cases = []
        docs = pairs(connection.cmd("COMMAND", "DOCS"))
        infos = {row[0].decode(): row for row in connection.cmd("COMMAND", "INFO")}
        for name in sorted(docs):
            self.add(name.upper(), [name.upper().encode()], infos[name], pairs(docs[name]))
        self.by_name = {case.name(): case for case in self.cases}

    def add(self, name, words, info, docs):
        flags = {flag.decode() for flag in info[2]}
        group = docs["group"].decode() if "group" in docs else "none"
        subcommands = pairs(docs["subcommands"]) if "subcommands" in docs else {}
        rows = {row[0].decode(): row for row in info[9]} if len(info) > 9 else {}
        arguments = [Argument(argument) for argument in docs.get("arguments", [])]
        forms = sequences(arguments, name) if arguments else [[]]
        given = hints.requests(name)
        if given is not None:
            forms = [[Word(value) for value in form] for form in given]
        elif not arguments and not subcommands:
            # Nothing is said of its arguments: as many words as its arity wants.
            forms = [[Word(b"x")] * (abs(info[1]) - len(words))]
        requests = []
        if not subcommands or given is not None:
            for form in forms:
                placed = place_keys(form)
                several = form is forms[0] or form is forms[-1]
                requests += [(words + keys, True) for keys in (placed if several else placed[:1])]
        # The longest form has the most to get wrong.
        longest = max(forms, key=len)
        requests += [(wrong, False) for wrong in invalid(words + place_keys(longest)[0], longest)]
        if subcommands:
            requests.append((words + [b"nosuch"], False))
        seen = []
        for request, valid in requests:
            if request not in seen and not hints.is_left_out(name, request):
                seen.append(request)
                self.cases.append(Case(name, len(seen) - 1, request, valid, group, flags))
        for sub in sorted(subcommands):
            short = sub.split("|", 1)[1]
            self.add(sub.upper(), [*words, short.upper().encode()], rows[sub], pairs(subcommands[sub]))
