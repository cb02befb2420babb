"""Runs that end early, and runs that cannot be made."""

import os
import signal
import socket
import threading
import time
import unittest

import weir

URL = os.environ["WEIR_TEST_URL"]
# What a shell starts in the background ignores Ctrl-C, and so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)


def soon(what, *arguments):
    timer = threading.Timer(0.3, what, arguments)
    timer.start()
    return timer


class Ending(unittest.TestCase):
    def test_a_ctrl_c_ends_the_run_and_is_reported(self):
        timer = soon(os.kill, os.getpid(), signal.SIGINT)
        begin = time.monotonic()
        result = weir.load(URL, connections=2, duration=30)
        timer.join()
        self.assertLess(time.monotonic() - begin, 5)
        self.assertTrue(result.interrupted)
        self.assertEqual((len(result.samples), result.failures), (result.requests, 0))
        self.assertGreater(result.requests, 10)
        self.assertIn("interrupted", str(result))
        # The next run is not concerned.
        self.assertFalse(weir.load(URL, requests=5).interrupted)

    def test_a_ctrl_c_ends_the_runs_that_follow_too(self):
        timer = soon(os.kill, os.getpid(), signal.SIGINT)
        results = weir.execute([weir.Run(URL), weir.Run(URL)], duration=30)
        timer.join()
        self.assertEqual([result.interrupted for result in results], [True])

    def test_a_ctrl_c_while_samples_are_taken_is_the_script_s(self):
        timer = soon(os.kill, os.getpid(), signal.SIGINT)
        taken = 0
        with self.assertRaises(KeyboardInterrupt):
            with weir.start(URL, rate=100, duration=30) as running:
                for _ in running:
                    taken += 1
        timer.join()
        result = running.result()
        self.assertTrue(result.interrupted)
        self.assertGreater(taken, 0)
        self.assertLessEqual(taken, result.requests)

    def test_a_run_is_stopped_from_outside(self):
        running = weir.start(URL, rate=1000, duration=30)
        soon(running.stop)
        taken = sum(1 for _ in running)
        self.assertEqual((running.result().interrupted, running.is_over), (True, True))
        self.assertEqual(taken, running.result().requests)

    def test_a_script_may_stop_at_what_it_sees(self):
        with weir.start(URL, rate=1000, duration=30) as running:
            for number, _ in enumerate(running):
                if number == 50:
                    break
        self.assertTrue(running.result().interrupted)


class Errors(unittest.TestCase):
    def test_failed_requests_are_counted_and_sampled(self):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def close_at_once():
                while True:
                    try:
                        server.accept()[0].close()
                    except OSError:
                        return

            threading.Thread(target=close_at_once, daemon=True).start()
            result = weir.load(f"http://127.0.0.1:{server.getsockname()[1]}/", requests=20, connections=2)
            server.shutdown(socket.SHUT_RDWR)
        self.assertEqual((result.requests, result.failures, len(result.samples)), (0, 20, 20))
        self.assertEqual(sum(result.errors.values()), 20)
        for sample in result.samples:
            self.assertIn(sample.outcome, ("closed", "reset"))
            self.assertEqual(sample.status, 0)
            self.assertNotEqual(sample.first_byte_us, sample.first_byte_us)
        self.assertIsNone(result.latency.p99_us)

    def test_a_server_that_is_not_there(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        with self.assertRaisesRegex(weir.LoadError, f"{port}.*cannot be reached"):
            weir.load(f"http://127.0.0.1:{port}/", requests=1)

    def test_wrong_options_are_refused_before_anything_is_sent(self):
        for words, options in [
            ("connections", {"connections": 0}),
            ("rate", {"rate": -1}),
            ("requests or duration", {"requests": 1, "duration": 1}),
            ("rate or rates", {"rate": 1, "rates": [(1, 1)]}),
            ("poisson", {"poisson": True}),
            ("think", {"think": 1}),
            ("io", {"io": "carrier pigeon"}),
            ("duration", {"duration": float("nan")}),
            ("proxy", {"proxy": "gopher://x"}),
            ("address", {"sources": ["here"]}),
            ("header", {"headers": {"A": "x\r\nB: y"}}),
            ("pipelin", {"pipeline": 2, "rate": 1}),
        ]:
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                weir.load(URL, **options)
        with self.assertRaisesRegex(ValueError, "did you mean"):
            weir.load("localhost/x")
        with self.assertRaisesRegex(ValueError, "nothing to ask"):
            weir.load([])
        with self.assertRaisesRegex(TypeError, "no option 'conections'"):
            weir.load(URL, conections=5)
        with self.assertRaisesRegex(TypeError, "a URL or a weir.Request"):
            weir.load([5])
        with self.assertRaises(TypeError):
            weir.load(URL, connections="many")


if __name__ == "__main__":
    unittest.main()
