"""What is asked arrives as it was meant, at a server in this very process: the interpreter is free during a run."""

import os
import tempfile
import threading
import time
import unittest
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import weir


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers), body, self.client_address))
        if self.path == "/late":
            time.sleep(0.5)
        answer = b"x" * 10_000 if self.path == "/large" else b"ok"
        self.send_response(404 if self.path == "/missing" else 200)
        if self.path == "/login":
            self.send_header("Set-Cookie", f"user={self.client_address[1]}; Path=/")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class Asking(unittest.TestCase):
    def setUp(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.seen = []
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def load(self, *arguments, **options):
        result = weir.load(*arguments, **options)
        self.assertEqual(result.failures, 0, result.errors)
        return result

    def test_one_url(self):
        result = self.load(self.base + "/a?b=c", requests=3, headers={"X-One": "1"}, cookies={"lang": "de"})
        for method, path, headers, body, _ in self.server.seen:
            self.assertEqual((method, path, body), ("GET", "/a?b=c", b""))
            self.assertEqual((headers["X-One"], headers["Cookie"]), ("1", "lang=de"))
        self.assertEqual((len(self.server.seen), result.asked[0].url), (3, self.base + "/a?b=c"))

    def test_several_requests_in_turn(self):
        asked = [
            self.base + "/one",
            weir.Request(self.base + "/two", "POST", {"Content-Type": "text/plain"}, "grün"),
            weir.Request(self.base + "/three", "HEAD"),
            weir.Request(self.base + "/missing", "PUT", body=b"\x00\xff"),
        ]
        result = self.load(asked, requests=8, connections=1)
        got = [(method, path, body) for method, path, _, body, _ in self.server.seen]
        once = [
            ("GET", "/one", b""),
            ("POST", "/two", "grün".encode()),
            ("HEAD", "/three", b""),
            ("PUT", "/missing", b"\x00\xff"),
        ]
        self.assertEqual(got, once * 2)
        self.assertEqual(self.server.seen[1][2]["Content-Type"], "text/plain")
        self.assertEqual([sample.request for sample in result.samples], [0, 1, 2, 3] * 2)
        self.assertEqual(result.asked[1].method, "POST")
        self.assertEqual(result.status, {200: 6, 404: 2})
        statuses = [sample.status for sample in result.samples]
        self.assertEqual(statuses, [200, 200, 200, 404] * 2)

    def test_weights(self):
        asked = [weir.Request(self.base + "/rare"), weir.Request(self.base + "/often", weight=9)]
        result = self.load(asked, requests=400, connections=2, seed=5)
        counts = Counter(path for _, path, *_ in self.server.seen)
        # Five standard deviations of 400 draws with 0.1.
        self.assertAlmostEqual(counts["/rare"], 40, delta=30)
        self.assertEqual(Counter(result.samples.column("request")), {0: counts["/rare"], 1: counts["/often"]})

    def test_logins(self):
        self.load(self.base, requests=1, user=("alice", "secret"))
        self.load(self.base, requests=1, bearer="token")
        self.load(self.base, requests=1, method="POST", body="x=1")
        given = [headers.get("Authorization") for _, _, headers, *_ in self.server.seen]
        self.assertEqual(given, ["Basic YWxpY2U6c2VjcmV0", "Bearer token", None])
        self.assertEqual((self.server.seen[2][0], self.server.seen[2][3]), ("POST", b"x=1"))

    def test_users_who_ask_everything_once(self):
        asked = [self.base + path for path in ("/login", "/news", "/logout")]
        result = self.load(asked, repeat=5, connections=2, think=0.01, cookie_jar=True)
        self.assertEqual((result.requests, result.sessions.completed, result.sessions.failed), (15, 5, 0))
        by_user = {}
        for _, path, headers, _, client in self.server.seen:
            by_user.setdefault(client, []).append((path, headers.get("Cookie")))
        self.assertEqual(len(by_user), 5)
        for (_, port), steps in by_user.items():
            cookie = f"user={port}"
            self.assertEqual(steps, [("/login", None), ("/news", cookie), ("/logout", cookie)])
        # Two pauses of 10 ms.
        self.assertGreater(result.sessions.lifetime.min_us, 19_900)
        for connection in set(result.samples.column("connection")):
            own = [sample.request for sample in result.samples if sample.connection == connection]
            self.assertEqual(own, [0, 1, 2])

    def test_users_of_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("/login think=0.02\n  /news\n  /one\n/logout\n\n/missing method=HEAD\n")
            file.flush()
            result = self.load(self.base, sessions=file.name, requests=4, connections=1, cookie_jar=True)
        self.assertEqual((result.requests, result.sessions.completed, result.sessions.connections), (10, 4, 4))
        self.assertEqual([(one.method, one.url) for one in result.asked], [
            ("GET", self.base + "/login"), ("GET", self.base + "/news"), ("GET", self.base + "/one"),
            ("GET", self.base + "/logout"), ("HEAD", self.base + "/missing"),
        ])
        self.assertEqual([sample.request for sample in result.samples], [0, 1, 2, 3, 4] * 2)
        self.assertEqual([path for _, path, *_ in self.server.seen], ["/login", "/news", "/one", "/logout", "/missing"] * 2)
        self.assertGreater(result.sessions.lifetime.max_us, 19_900)

    def test_the_files_of_a_workload(self):
        result = self.load(self.base + "/set/", mix="specweb96", directories=2, requests=300, connections=3, seed=3)
        paths = Counter(path for _, path, *_ in self.server.seen)
        self.assertTrue(all(path.startswith("/set/dir") for path in paths), paths)
        self.assertTrue(20 < len(paths) <= 72, len(paths))
        self.assertEqual((len(result.asked), sum(result.status.values())), (4, 300))
        users = self.load(self.base, mix="surge", files=50, duration=0.5, connections=2)
        self.assertGreater(users.requests, 0)

    def test_slow_clients(self):
        # A quarter of a second's worth may come before its time.
        large = self.load(self.base + "/large", limit_read=20_000, requests=1, connections=1)
        self.assertTrue(200_000 < large.total.min_us < 2_000_000, large.total)
        far = self.load(self.base, latency=0.2, requests=2, connections=1)
        self.assertGreater(far.latency.min_us, 199_000)
        modem = self.load(self.base, client="modem", latency=0, requests=2, connections=1)
        self.assertLess(modem.latency.min_us, 119_000)
        users = self.load(self.base + "/late", patience=0.1, requests=3, connections=3)
        self.assertEqual((users.requests, users.stopped), (0, 3))
        self.assertEqual({sample.outcome for sample in users.samples}, {"stopped"})

    def test_what_cannot_be_meant(self):
        for words, options in [
            ("one URL", {"mix": "surge", "files": 5, "what": [self.base, self.base]}),
            ("sessions or mix", {"mix": "surge", "files": 5, "sessions": os.devnull}),
            ("give one", {"repeat": 2, "sessions": os.devnull}),
            ("specweb96 or surge", {"mix": "other"}),
            ("give directories", {"mix": "specweb96", "files": 5}),
            ("a mix's", {"directories": 5}),
            ("3g-slow", {"client": "5g"}),
            ("no time", {"latency": -1.0}),
            ("No such file", {"sessions": "/no/such/file"}),
        ]:
            with self.subTest(options), self.assertRaisesRegex(ValueError, words):
                weir.load(options.pop("what", self.base), **options)

    def test_runs_one_after_the_other(self):
        runs = [weir.Run(self.base + "/a", {"requests": 3}), weir.Run([self.base + "/b"], {"connections": 2})]
        results = weir.execute(runs, requests=5, connections=1)
        self.assertEqual([result.requests for result in results], [3, 5])
        self.assertEqual([path for _, path, *_ in self.server.seen], ["/a"] * 3 + ["/b"] * 5)
        self.assertEqual(len({client for *_, client in self.server.seen}), 3)


if __name__ == "__main__":
    unittest.main()
