"""The package does what it says, and what it tells arrives in the memory that an agent reads."""

import asyncio
import os
import struct
import unittest

import reader
import weir_arm as arm

START, STOP, UPDATE, DISCARD, BLOCK, UNBLOCK, BIND, REPORT = 0x601, 0x602, 0x603, 0x604, 0x605, 0x606, 0x607, 0x608
USER, CONTEXT_VALUE, DIAGNOSIS, METRIC_VALUE = 10, 7, 13, 17


class Transactions(unittest.TestCase):
    def setUp(self):
        self.shop = arm.Application("Shop", group="eu", instance="1", properties={"tier": "web"}, context={"site": "a"})
        self.checkout = self.shop.transaction(
            "checkout", context=["order", "cart"],
            metrics={"rows": arm.COUNTER32, "rate": arm.GAUGEDIVR32, "part": arm.STRING32, "big": arm.Metric(arm.GAUGE64)},
        )
        reader.listen()
        reader.records()

    def kinds(self):
        return [record[0] for record in reader.records() if record[0] not in (0x609, 0x60B, 0x60C)]

    def test_a_block_is_a_transaction(self):
        with self.checkout.start() as running:
            self.assertTrue(running.recorded)
        told = reader.records()
        self.assertEqual([(record[0], record[3]) for record in told][-1], (STOP, arm.GOOD))
        self.assertEqual([record[0] for record in told], [START, STOP])
        self.assertEqual(told[0][2], told[1][2], "the same handle")

    def test_an_exception_fails_it_and_goes_on(self):
        with self.assertRaises(KeyError):
            with self.checkout.start():
                raise KeyError("order")
        told = reader.records()
        self.assertEqual(reader.details(told)[DIAGNOSIS, 0], b"KeyError: 'order'")
        self.assertEqual((told[-1][0], told[-1][3]), (STOP, arm.FAILED))

    def test_what_is_told_with_it_arrives(self):
        metrics = {"rows": 7, "rate": (30, 4), "part": "bolts", "big": 1 << 40, "unknown": 1, "unfit": "x"}
        with self.checkout.start(user="Änn", context={"cart": "c9"}, metrics=metrics) as running:
            running.update({"rows": "no number"})
            running.update({"rows": 9})
            running.status = arm.ABORTED
        told = reader.records()
        found = reader.details(told)
        self.assertEqual(found[USER, 0], "Änn".encode())
        self.assertEqual(found[CONTEXT_VALUE, 1], b"c9")
        value = {slot: found[METRIC_VALUE, slot] for slot in (0, 1, 2, 6)}
        self.assertEqual(struct.unpack("=BBBBiq", value[0]), (1, 0, 1, 0, 0, 9), "the last one")
        self.assertEqual(struct.unpack("=BBBBiq", value[1]), (6, 0, 1, 0, 4, 30))
        self.assertEqual(struct.unpack("=BBBBiq", value[2]), (5, 0, 1, 0, 0, 1 << 40))
        self.assertEqual(value[6][8:], b"bolts")
        self.assertEqual((told[-1][0], told[-1][3]), (STOP, arm.ABORTED))
        self.assertEqual([record[0] for record in told].count(UPDATE), 2)

    def test_children_name_their_parents(self):
        with self.checkout.start(correlator=True) as parent:
            header = parent.correlator.traceparent
            for whose in (parent, parent.correlator, header):
                with self.checkout.start(whose):
                    pass
            with self.checkout.start("no header at all"):
                pass
        starts = [record for record in reader.records() if record[0] == START]
        parents = [struct.unpack("=QQQQ", start[4][:32]) if start[1] & 1 else None for start in starts]
        self.assertEqual(parents[0], None)
        self.assertEqual(parents[1][:3], parents[2][:3])
        self.assertEqual(parents[1][:3], parents[3][:3])
        self.assertEqual(f"{parents[1][0]:016x}{parents[1][1]:016x}-{parents[1][2]:016x}", header[3:52])
        self.assertEqual(parents[4], None)

    def test_headers_are_those_of_the_standard(self):
        header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        self.assertEqual(arm.Correlator.of_traceparent(header).traceparent, header)
        for wrong in ("", "00-0-0-0", header.upper(), f"{header}-x", "ff" + header[2:], header.replace("4bf9", "4bfx"),
                      "00-" + "0" * 32 + header[35:]):
            self.assertIsNone(arm.Correlator.of_traceparent(wrong), wrong)

    def test_a_function_is_measured(self):
        @self.checkout.measured
        def double(number):
            return 2 * number

        @self.checkout.measured
        async def later(number):
            await asyncio.sleep(0)
            return 3 * number

        self.assertEqual((double(4), asyncio.run(later(4)), double.__name__), (8, 12, "double"))
        self.assertEqual(self.kinds(), [START, STOP] * 2)

    def test_the_rest(self):
        running = self.checkout.start(arrival=self.checkout.arrival(), trace=True)
        with running.blocked():
            pass
        running.bind()
        running.unbind()
        running.discard()
        running.stop()
        self.checkout.report(0.25, arm.FAILED, user="ann")
        self.assertEqual(self.kinds(), [START, BLOCK, UNBLOCK, BIND, BIND, DISCARD, REPORT])

    def test_nobody_listens(self):
        reader.listen(0)
        with self.checkout.start(user="ann", metrics={"rows": 1}, correlator=True) as running:
            self.assertFalse(running.recorded)
            self.assertEqual(len(running.correlator), 28, "it is passed on all the same")
        self.assertEqual(reader.records(), [])
        reader.listen()

    def test_a_child_of_fork_measures_too(self):
        with self.checkout.start():
            child = os.fork()
            if child == 0:
                try:
                    reader.listen()
                    with self.checkout.start() as running:
                        assert running.recorded
                    os._exit(0)
                except BaseException:
                    os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.kinds(), [START, STOP])

    def test_what_is_wrong_is_said_when_it_is_named(self):
        for wrong in (
            lambda: arm.Application(""),
            lambda: self.shop.transaction(""),
            lambda: arm.Metric(9),
            lambda: self.shop.transaction("x", metrics={"a": arm.STRING32, "b": arm.STRING32}),
            lambda: self.shop.transaction("x", context=[str(number) for number in range(21)]),
        ):
            self.assertRaises(ValueError, wrong)

    def test_the_library_is_there(self):
        self.assertIsNone(arm.problem)
        self.shop.stop()


if __name__ == "__main__":
    unittest.main()
