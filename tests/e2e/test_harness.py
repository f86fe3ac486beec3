"""python3 -m unittest test_harness: the parts of the black-box tests that could hide a bug."""

import unittest

from crash_loop import Model, Writer, matching_prefixes
from differential import episode
from differential.compare import Skew, TransactionTags, same
from differential.grammar import FAR_MS, Grammar
from differential.step import EXACT, MILLIS, SECONDS, SHAPE, SUPERSET, UNORDERED, Step
from harness.resp import Incomplete, ProtocolError, encode, parse


def node(raw):
    return parse(raw)[0]


class Codec(unittest.TestCase):
    def test_every_type_keeps_its_bytes(self):
        for raw in (b"+OK\r\n", b"-ERR x\r\n", b":-7\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"$4\r\n\r\n\r\n\r\n", b"*-1\r\n", b"*0\r\n",
                    b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", b"%1\r\n+k\r\n,1.5\r\n", b"~1\r\n#t\r\n", b"_\r\n", b"=7\r\ntxt:abc\r\n"):
            decoded, end = parse(raw + b"+next\r\n")
            self.assertEqual((decoded.raw, end), (raw, len(raw)))

    def test_a_part_is_incomplete(self):
        raw = b"*2\r\n$3\r\nabc\r\n%1\r\n+k\r\n:1\r\n"
        for length in range(len(raw)):
            with self.assertRaises(Incomplete):
                parse(raw[:length])

    def test_garbage_is_an_error(self):
        for raw in (b"OK\r\n", b"$3\r\nabcde\r\n"):
            with self.assertRaises(ProtocolError):
                parse(raw)

    def test_encode(self):
        self.assertEqual(encode([b"GET", b""]), b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n")


class Rules(unittest.TestCase):
    def test_exact(self):
        self.assertTrue(same(EXACT, node(b":1\r\n"), node(b":1\r\n")))
        self.assertFalse(same(EXACT, node(b"$1\r\n1\r\n"), node(b":1\r\n")))

    def test_unordered_sees_contents(self):
        one, two, three = node(b"*2\r\n+a\r\n+b\r\n"), node(b"*2\r\n+b\r\n+a\r\n"), node(b"*2\r\n+b\r\n+b\r\n")
        self.assertTrue(same(UNORDERED, one, two))
        self.assertFalse(same(UNORDERED, one, three))

    def test_times(self):
        self.assertTrue(same(MILLIS, node(b":100000\r\n"), node(b":99990\r\n")))
        self.assertFalse(same(MILLIS, node(b":100000\r\n"), node(b":90000\r\n")))
        self.assertTrue(same(MILLIS, node(b":100000\r\n"), node(b":99300\r\n"), skew_ms=700))
        self.assertTrue(same(SECONDS, node(b":100\r\n"), node(b":98\r\n"), skew_ms=1200))
        self.assertFalse(same(SECONDS, node(b":100\r\n"), node(b":98\r\n")))
        self.assertFalse(same(SECONDS, node(b":-1\r\n"), node(b":-2\r\n")))
        self.assertFalse(same(MILLIS, node(b":%d\r\n" % (FAR_MS[0] + 1)), node(b":%d\r\n" % FAR_MS[0])))

    def test_superset(self):
        more, less = node(b"*2\r\n+a\r\n+b\r\n"), node(b"*1\r\n+b\r\n")
        self.assertTrue(same(SUPERSET, more, less))
        self.assertFalse(same(SUPERSET, less, more))

    def test_shape_tells_nil_from_value(self):
        self.assertTrue(same(SHAPE, node(b"$1\r\na\r\n"), node(b"$1\r\nb\r\n")))
        self.assertFalse(same(SHAPE, node(b"$-1\r\n"), node(b"$1\r\nb\r\n")))
        self.assertFalse(same(SHAPE, node(b"-ERR\r\n"), node(b"$1\r\nb\r\n")))

    def test_exec_applies_the_rules_of_its_commands(self):
        tags, queued, ok = TransactionTags(Skew()), node(b"+QUEUED\r\n"), node(b"+OK\r\n")
        self.assertTrue(tags.same(Step([b"MULTI"]), ok, ok))
        self.assertTrue(tags.same(Step([b"KEYS", b"*"], UNORDERED), queued, queued))
        self.assertTrue(tags.same(Step([b"GET", b"k"]), queued, queued))
        one = node(b"*2\r\n*2\r\n+a\r\n+b\r\n+x\r\n")
        self.assertTrue(tags.same(Step([b"EXEC"]), one, node(b"*2\r\n*2\r\n+b\r\n+a\r\n+x\r\n")))
        self.assertFalse(tags.same(Step([b"EXEC"]), one, node(b"*2\r\n*2\r\n+b\r\n+a\r\n+x\r\n")))


class Generator(unittest.TestCase):
    def test_a_seed_repeats(self):
        available = {"get", "set", "multi", "exec", "expire", "scan"}
        one = [s.args for s in Grammar(7, True, available).episode(200, True)]
        self.assertEqual(one, [s.args for s in Grammar(7, True, available).episode(200, True)])

    def test_missing_commands_are_not_generated(self):
        names = {s.name() for s in Grammar(7, True, {"get"}).episode(300, False) if s.kind == "cmd"}
        self.assertIn("GET", names)
        self.assertNotIn("INCR", names)

    def test_shrink_keeps_what_matters(self):
        steps = [Step([b"%d" % i]) for i in range(40)]
        short = episode.shrink(steps, lambda c: {b"3", b"31"} <= {s.args[0] for s in c})
        self.assertEqual([s.args[0] for s in short], [b"3", b"31"])


class Prefixes(unittest.TestCase):
    def writer(self):
        writer = Writer(0, 0, {}, 1)
        writer.ops = [("set", b"a", b"1"), ("incr", b"n"), ("rename", b"a", b"b"), ("incr", b"n"), ("del", b"b")]
        return writer

    def state_after(self, count):
        model = Model()
        for op in self.writer().ops[:count]:
            model.apply(op)
        return model.keys

    def test_each_prefix_is_recognised(self):
        for count in range(6):
            self.assertEqual(matching_prefixes(self.writer(), self.state_after(count), 0), [count])

    def test_a_lost_acknowledged_write_is_no_match(self):
        self.assertEqual(matching_prefixes(self.writer(), self.state_after(3), 4), [])

    def test_a_hole_is_no_match(self):
        holed = self.state_after(4)
        holed[b"a"] = holed.pop(b"b")  # the rename is missing, the later INCR is there
        self.assertEqual(matching_prefixes(self.writer(), holed, 0), [])

    def test_half_a_transaction_is_no_match(self):
        writer = Writer(0, 0, {}, 1)
        writer.ops = [("tx", None, [("set", b"a", b"1"), ("set", b"b", b"2")], [])]
        self.assertEqual(matching_prefixes(writer, {b"a": (b"1", None)}, 0), [])


if __name__ == "__main__":
    unittest.main()
