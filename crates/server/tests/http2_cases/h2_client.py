"""Speaks HTTP/2 with the state machine of h2, which is strict about what a server may do, and says where ours errs.

usage: h2_client.py PORT
The site has /a.txt (b"hello") and /large.bin (200,000 bytes, of which byte i is i modulo 251).
"""

import random
import socket
import sys

import h2.config
import h2.connection
import h2.events
import h2.settings

PORT = int(sys.argv[1])
LARGE = bytes(i % 251 for i in range(200_000))


class Client:
    def __init__(self, **settings):
        self.socket = socket.create_connection(("127.0.0.1", PORT), timeout=20)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        if settings:
            codes = {getattr(h2.settings.SettingCodes, name): value for name, value in settings.items()}
            self.h2.update_settings(codes)
        self.replies, self.resets, self.goodbye = {}, {}, None
        self.flush()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path, method="GET", body=None, fields=()):
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path), *fields]
        self.h2.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=True)
        self.replies[stream] = {"status": None, "fields": {}, "body": b"", "ended": False}
        self.flush()
        return stream

    def receive(self, slow=False):
        """Takes up what comes once; h2 raises for anything that a server must not do."""
        data = self.socket.recv(random.choice([1, 9, 100, 65536]) if slow else 65536)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                reply = self.replies[event.stream_id]
                reply["fields"] = dict(event.headers)
                reply["status"] = reply["fields"][":status"]
            elif isinstance(event, h2.events.DataReceived):
                self.replies[event.stream_id]["body"] += event.data
                if event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.replies[event.stream_id]["ended"] = True
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goodbye = event
        self.flush()
        return True

    def all(self, slow=False):
        while not all(reply["ended"] or stream in self.resets for stream, reply in self.replies.items()):
            assert self.receive(slow), "the connection ended"
        return self.replies


def many_streams_at_once():
    client = Client()
    asked = {client.ask("/large.bin" if i % 3 == 0 else "/a.txt" if i % 3 == 1 else "/none"): i % 3 for i in range(99)}
    for stream, reply in client.all().items():
        kind = asked[stream]
        assert reply["status"] == ("200", "200", "404")[kind], reply["status"]
        assert kind == 2 or reply["body"] == (LARGE, b"hello")[kind]


def in_pieces_of_any_size():
    random.seed(7)
    client = Client(INITIAL_WINDOW_SIZE=3000, MAX_FRAME_SIZE=20_000, HEADER_TABLE_SIZE=0)
    for _ in range(3):
        client.ask("/large.bin")
        client.ask("/a.txt")
    bodies = [reply["body"] for reply in client.all(slow=True).values()]
    assert bodies == [LARGE, b"hello"] * 3


def every_kind_of_response():
    client = Client()
    first = client.ask("/a.txt")
    tag = client.all()[first]["fields"]["etag"]
    asked = [
        (client.ask("/a.txt", "HEAD"), "200", b""),
        (client.ask("/a.txt", fields=[("if-none-match", tag)]), "304", b""),
        (client.ask("/a.txt", fields=[("if-match", '"other"')]), "412", None),
        (client.ask("/a.txt", fields=[("range", "bytes=1-2")]), "206", b"el"),
        (client.ask("/a.txt", fields=[("range", "bytes=9-")]), "416", None),
        (client.ask("/large.bin", fields=[("range", "bytes=0-9,100-109,-5")]), "206", None),
        (client.ask("/a.txt", "OPTIONS"), "204", b""),
        (client.ask("/a.txt", "POST", b"x" * 5000), "405", None),
        (client.ask("/a.txt", "GET", b"y" * 10), "200", b"hello"),
        (client.ask("/%2e%2e/x"), "400", None),
        (client.ask("/" + "a" * 9000), "414", None),
        (client.ask("/a.txt", fields=[("expect", "something")]), "417", None),
    ]
    replies = client.all()
    for stream, status, body in asked:
        reply = replies[stream]
        assert reply["status"] == status, (reply["status"], status)
        assert body is None or reply["body"] == body
        # What h2 does not look at: nothing of a connection of HTTP/1.1 among the fields.
        assert not {"connection", "keep-alive", "transfer-encoding"} & set(reply["fields"]), reply["fields"]


def streams_that_are_taken_back():
    client = Client()
    for round in range(30):
        kept, gone = client.ask("/large.bin"), client.ask("/large.bin")
        client.h2.reset_stream(gone, error_code=8)
        del client.replies[gone]
        client.flush()
        while not client.replies[kept]["ended"]:
            data = client.socket.recv(65536)
            for event in client.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived) and event.stream_id in client.replies:
                    client.replies[event.stream_id]["body"] += event.data
                    client.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    client.replies[event.stream_id]["ended"] = True
            client.flush()
        assert client.replies[kept]["body"] == LARGE, round


CASES = [many_streams_at_once, in_pieces_of_any_size, every_kind_of_response, streams_that_are_taken_back]
wrong = 0
for check in CASES:
    try:
        check()
    except Exception as error:  # noqa: BLE001: every case is told
        wrong += 1
        print(f"{check.__name__}: {type(error).__name__}: {error}")
print(f"{len(CASES)} cases, {wrong} wrong")
sys.exit(1 if wrong else 0)
