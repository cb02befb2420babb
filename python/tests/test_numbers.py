"""The samples and the report are of one run: their numbers are the same."""

import math
import os
import time
import unittest
import urllib.parse

import weir

URL = os.environ["WEIR_TEST_URL"]


class Numbers(unittest.TestCase):
    def check(self, result):
        """Counts are equal, and means within the three digits that the report's histograms have."""
        samples = list(result.samples)
        done = [sample for sample in samples if sample.outcome == "done"]
        self.assertEqual(len(done), result.requests)
        self.assertEqual(len(samples) - len(done), result.failures)
        good = [sample for sample in done if 200 <= sample.status < 400]
        self.assertEqual((result.successes, result.unexpected), (len(good), len(done) - len(good)))
        self.assertEqual(len(result.latency), len(good))
        self.assertEqual(len(result.latency_unexpected), result.unexpected)
        self.assertEqual(len(result.latency_failed), result.failures)
        self.assertEqual(sum(sample.bytes for sample in samples), result.bytes)
        statuses = {}
        for sample in done:
            statuses[sample.status] = statuses.get(sample.status, 0) + 1
        self.assertEqual(statuses, result.status)
        opened = [sample for sample in done if sample.opened]
        for times, values in [
            (result.latency, [sample.latency_us for sample in good]),
            (result.total, [sample.total_us for sample in good]),
            (result.first_byte, [sample.first_byte_us for sample in good]),
            (result.connect, [sample.connect_us for sample in opened]),
        ]:
            self.assertEqual(times.count, len(values))
            mean = sum(values) / len(values)
            self.assertAlmostEqual(times.mean_us, mean, delta=mean / 1000)
            self.assertAlmostEqual(times.max_us, max(values), delta=max(values) / 500)
            self.assertAlmostEqual(times.min_us, min(values), delta=min(values) / 500)
            values.sort()
            for percent in (50, 90, 99):
                value = values[math.ceil(len(values) * percent / 100) - 1]
                self.assertAlmostEqual(times.percentile(percent), value, delta=value / 500)
        self.assertEqual(sum(point.requests for point in result.series), result.requests)
        self.assertEqual(sum(point.successes for point in result.series), result.successes)
        for sample in samples:
            self.assertLessEqual(sample.connect_us + sample.first_byte_us, sample.total_us + 0.001)
            self.assertLessEqual(sample.total_us, sample.latency_us + 0.001)
            self.assertGreater(sample.start_us, 0)
        starts = [sample.start_us for sample in samples]
        self.assertEqual(starts, sorted(starts))

    def test_a_closed_loop(self):
        result = weir.load(URL, connections=20, threads=2, requests=5000)
        self.assertEqual((result.requests, result.failures, result.left_out), (5000, 0, 0))
        self.check(result)

    def test_times_are_those_of_successes(self):
        missing = urllib.parse.urljoin(URL, "/no/such/file")
        result = weir.load([URL, missing], connections=1, requests=40)
        self.assertEqual((result.successes, result.unexpected, result.success_rate), (20, 20, 0.5))
        self.check(result)
        self.assertIn("50.00 %", str(result))
        nothing = weir.load(missing, requests=10)
        self.assertEqual((nothing.success_rate, nothing.latency.count, nothing.latency_unexpected.count), (0.0, 0, 10))
        self.assertEqual(weir.load(missing, requests=10, ok="2xx,404").successes, 10)
        with self.assertRaisesRegex(ValueError, "ok: "):
            weir.load(URL, requests=1, ok="fine")

    def test_a_connection_for_each_request(self):
        result = weir.load(URL, connections=5, requests=500, keepalive=False)
        self.check(result)
        self.assertEqual(len({sample.connection for sample in result.samples}), 500)
        self.assertTrue(all(sample.connect_us > 0 for sample in result.samples))

    def test_an_open_loop(self):
        result = weir.load(URL, rate=2000, duration=0.5, poisson=True, seed=3)
        self.check(result)
        # Five standard deviations of a Poisson process of 1000 arrivals.
        self.assertAlmostEqual(result.requests, 1000, delta=160)

    def test_rates_over_time(self):
        result = weir.load(URL, rates=[(200, 0.5), (200, 600, 0.5)])
        self.check(result)
        self.assertAlmostEqual(result.requests, 100 + 200, delta=2)

    def test_the_samples_that_are_kept_have_a_bound(self):
        result = weir.load(URL, connections=4, threads=2, requests=3000, samples=101)
        self.assertEqual((len(result.samples), result.left_out), (101, 2899))
        self.assertEqual(len(weir.load(URL, requests=10, samples=0).samples), 0)

    def test_columns_are_the_samples(self):
        samples = weir.load(URL, connections=4, requests=300, keepalive=False).samples
        for name in ("start_us", "connect_us", "first_byte_us", "total_us", "latency_us", "bytes", "status", "request"):
            self.assertEqual(samples.column(name).tolist(), [getattr(sample, name) for sample in samples], name)
        outcomes = [weir.OUTCOMES[code] for code in samples.column("outcome")]
        self.assertEqual(outcomes, [sample.outcome for sample in samples])
        self.assertEqual((samples[-1], samples[1:3]), (list(samples)[-1], list(samples)[1:3]))
        self.assertEqual(len(bytes(samples)), 64 * 300)
        with self.assertRaises(IndexError):
            samples[300]
        with self.assertRaises(KeyError):
            samples.column("latency")

    def test_numpy_takes_them_without_copying(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        samples = weir.load(URL, requests=100).samples
        array = samples.numpy()
        self.assertIsInstance(array, numpy.ndarray)
        self.assertEqual(array["total_us"].tolist(), samples.column("total_us").tolist())
        self.assertFalse(array.flags.owndata)


class Streams(unittest.TestCase):
    def test_every_sample_comes_while_the_run_goes_on(self):
        begin, first = time.monotonic(), None
        with weir.start(URL, connections=4, threads=2, rate=1000, duration=1) as running:
            samples = []
            for sample in running:
                first = first or time.monotonic() - begin
                samples.append(sample)
        result = running.result()
        self.assertLess(first, 0.5)
        self.assertEqual((len(samples), running.lost, len(result.samples)), (1000, 0, 0))
        mean = sum(sample.latency_us for sample in samples) / len(samples)
        self.assertAlmostEqual(result.latency.mean_us, mean, delta=mean / 1000)
        self.assertEqual(running.progress.requests, 1000)

    def test_what_finds_no_room_is_counted(self):
        running = weir.start(URL, buffer=10, connections=10, requests=5000)
        while not running.is_over:
            time.sleep(0.01)
        taken = len(list(running))
        self.assertGreater(running.lost, 4900)
        self.assertEqual(taken + running.lost, 5000)
        self.assertEqual(running.result().left_out, running.lost)


if __name__ == "__main__":
    unittest.main()
