"""What is asked arrives as it was meant, at a server in this very process: the interpreter is free during a run."""

import threading
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
        self.send_response(404 if self.path == "/missing" else 200)
        if self.path == "/login":
            self.send_header("Set-Cookie", f"user={self.client_address[1]}; Path=/")
        self.send_header("Content-Length", "2")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"ok")

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

    def test_runs_one_after_the_other(self):
        runs = [weir.Run(self.base + "/a", {"requests": 3}), weir.Run([self.base + "/b"], {"connections": 2})]
        results = weir.execute(runs, requests=5, connections=1)
        self.assertEqual([result.requests for result in results], [3, 5])
        self.assertEqual([path for _, path, *_ in self.server.seen], ["/a"] * 3 + ["/b"] * 5)
        self.assertEqual(len({client for *_, client in self.server.seen}), 3)


if __name__ == "__main__":
    unittest.main()
