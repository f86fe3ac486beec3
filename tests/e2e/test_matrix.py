"""python3 -m unittest test_matrix: the matrix of commands and states detects failures, and misses no command."""

import socket
import threading
import types
import unittest
from unittest import mock

from harness.resp import Incomplete, parse
from matrix import player
from matrix.cell import Cell
from matrix.hints import EXACT, IGNORED, Absent, Key
from matrix.life import Life
from matrix.pair import PANIC
from matrix.player import Hang, Player, Side
from matrix.table import Case, Table


class Declared:
    """A server's replies to COMMAND INFO and DOCS for a command without a hint."""

    def cmd(self, _, sub):
        if sub == "INFO":
            return [[b"frobnicate", -3, [b"write"], 1, 1, 1, [], [], [], []]]
        argument = lambda name, kind, *more: [b"name", name, b"type", kind, *more]
        choice = [argument(b"nx", b"pure-token", b"token", b"NX"), argument(b"xx", b"pure-token", b"token", b"XX")]
        return [b"frobnicate", [b"group", b"string", b"arguments", [
            argument(b"key", b"key"), argument(b"source", b"key"), argument(b"times", b"integer", b"flags", [b"optional"]),
            argument(b"when", b"oneof", b"flags", [b"optional"], b"arguments", choice),
        ]]]


class Cases(unittest.TestCase):
    def setUp(self):
        self.cases = Table(Declared()).cases
        self.valid = [case.words for case in self.cases if case.valid]

    def test_a_command_without_hints_gets_its_arguments(self):
        name = b"FROBNICATE"
        for words in ([name, Key(0), Key(1)], [name, Key(0), Key(1), b"2"], [name, Key(0), Key(1), b"NX"],
                      [name, Key(0), Key(1), b"2", b"XX"]):
            self.assertIn(words, self.valid)

    def test_one_key_twice_and_a_key_that_is_not_there(self):
        for words in ([b"FROBNICATE", Key(0), Key(0)], [b"FROBNICATE", Absent(), Key(0)]):
            self.assertIn(words, self.valid)

    def test_invalid_requests(self):
        invalid = [case.words for case in self.cases if not case.valid]
        self.assertIn([b"FROBNICATE", Key(0), Key(1), b"abc", b"NX"], invalid)
        self.assertTrue(any(words[-1] == b"extra" for words in invalid))


class Fake(threading.Thread):
    """A server that answers as `answer` says: bytes, or None for silence."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            self.talk(connection)

    def talk(self, connection):
        pending = b""
        while data := connection.recv(65536):
            pending += data
            while True:
                try:
                    request, end = parse(pending)
                except Incomplete:
                    break
                pending = pending[end:]
                reply = self.answer([item.value for item in request.items])
                if reply == b"close":
                    return
                if reply:
                    connection.sendall(reply)


def right(words):
    if words[0] == b"ECHO":
        return b"$%d\r\n%b\r\n" % (len(words[1]), words[1])
    return b"$5\r\nvalue\r\n" if words[0] == b"GET" else b"+OK\r\n"


class Plays(unittest.TestCase):
    """Plays one cell on a correct server, and on faulty ones."""

    def play(self, answer, context="alone"):
        ours, theirs = Fake(answer), Fake(right)
        self.addCleanup(ours.listener.close)
        self.addCleanup(theirs.listener.close)
        sides = [Side(ours, "ours"), Side(theirs, "theirs")]
        for side in sides:
            self.addCleanup(side.close)
        cell = Cell(Case("GET", 0, [b"GET", Key(0)], True, "string", set()), "memory", context, "normal", "everysec", 2)
        with mock.patch.object(player, "SECOND_LOOK_S", 0.3):
            return Player(*sides, {"get"}).play(cell)

    def test_equal_replies_pass(self):
        self.assertEqual(self.play(right), [])
        self.assertEqual(self.play(right, "pipelined"), [])

    def test_another_reply_fails(self):
        other = lambda words: b"$5\r\nother\r\n" if words[0] == b"GET" else right(words)
        self.assertIn("other", self.play(other)[0])

    def test_a_reply_that_is_missing_is_a_hang(self):
        with self.assertRaises(Hang):
            self.play(lambda words: None if words[0] == b"GET" else right(words))

    def test_a_reply_keeps_its_tag_behind_a_push(self):
        """A read concurrent with FLUSHALL may find nothing on one side; the replies behind it are still compared."""
        cell = Cell(Case("GET", 0, [b"GET", Key(0)], True, "string", set()), "loading", "reply-off-subscribed", "normal", "everysec", 3)
        play = Player(None, None, {"get"})
        play.cell = cell
        tags = [IGNORED, EXACT]

        def wire(*replies):
            return types.SimpleNamespace(heard=[parse(raw)[0] for raw in replies], tags=tags, closed=False)

        theirs = wire(b"$1\r\nv\r\n", b":1\r\n")
        self.assertEqual(play.compare("b", wire(b"_\r\n", b":1\r\n"), theirs), [])
        self.assertIn("2", play.compare("b", wire(b"_\r\n", b":2\r\n"), theirs)[0])

    def test_a_connection_that_is_closed_fails(self):
        self.assertIn("closed", self.play(lambda words: b"close" if words[0] == b"GET" else right(words))[0])


class Verdicts(unittest.TestCase):
    def test_other_data_fails(self):
        life = Life.__new__(Life)
        node = lambda raw: parse(raw)[0]
        self.assertIsNone(life.differs([node(b"$1\r\na\r\n"), node(b":1000\r\n")], [node(b"$1\r\na\r\n"), node(b":1500\r\n")], 600))
        self.assertIsNotNone(life.differs([node(b"$1\r\na\r\n")], [node(b"$-1\r\n")], 600))
        self.assertIsNotNone(life.differs([node(b":1000\r\n")], [node(b":1500\r\n")], 0))
        self.assertIsNotNone(life.differs([node(b":-1\r\n")], [node(b":1500\r\n")], 6000))

    def test_a_panic_is_seen_in_the_log(self):
        self.assertRegex("thread 'worker-0' panicked at server/src/x.rs:1:2:", PANIC)
        self.assertNotRegex("Ready to accept connections", PANIC)

    def test_a_worse_failure_of_a_cell_is_the_one_that_is_told(self):
        life, cell = Life.__new__(Life), types.SimpleNamespace()
        life.failures = []
        life.fail(cell, "reply", "another reply")
        life.fail(cell, "panic", "a panic")
        life.fail(cell, "data", "other data")
        self.assertEqual([failure.kind for failure in life.failures], ["panic"])


if __name__ == "__main__":
    unittest.main()
