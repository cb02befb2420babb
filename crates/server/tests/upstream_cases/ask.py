"""Asks a proxy over HTTP/2 by h2 (in the clear), or over HTTP/3 by aioquic.

ask.py h2|h3 PORT all         Requests and responses of every framing, interim responses, faults.
ask.py h2|h3 PORT leave       A request that hangs is taken back, then another one is answered.
ask.py h2 PORT window         A stream whose window is closed holds up no other.
ask.py h2 PORT websocket      Extended CONNECT (RFC 8441).
ask.py h3 PORT websocket      The same over HTTP/3 (RFC 9220).
ask.py tls PORT tunnel        An upgrade over HTTP/1.1 and TLS, much through it, and the end of each side.
"""

import asyncio
import pathlib
import socket
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "http3_cases"))

LARGE = bytes(i % 251 for i in range(300_000))


class Answer:
    def __init__(self):
        self.interims, self.fields, self.body, self.trailers, self.end = [], None, b"", {}, None


class Http2:
    def __init__(self, port, **settings):
        import h2.config
        import h2.connection
        import h2.settings

        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.http.initiate_connection()
        if settings:
            self.http.update_settings({getattr(h2.settings.SettingCodes, name): value for name, value in settings.items()})
        self.answers, self.holds_back = {}, set()
        self.unsent = {}
        self.flush()

    def flush(self):
        self.socket.sendall(self.http.data_to_send())

    def begin(self, fields, ends):
        stream = self.http.get_next_available_stream_id()
        self.answers[stream] = Answer()
        self.http.send_headers(stream, fields, end_stream=ends)
        self.flush()
        return stream

    def ask(self, method, path, body=None, trailers=(), fields=()):
        head = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path), *fields]
        stream = self.begin(head, body is None)
        if body is not None:
            self.unsent[stream] = (body, list(trailers))
            self.send(stream)
        return stream

    def send(self, stream):
        body, trailers = self.unsent[stream]
        while body:
            most = min(self.http.local_flow_control_window(stream), self.http.max_outbound_frame_size, len(body))
            if most == 0:
                self.unsent[stream] = (body, trailers)
                return self.flush()
            self.http.send_data(stream, body[:most])
            body = body[most:]
        del self.unsent[stream]
        if trailers:
            self.http.send_headers(stream, trailers, end_stream=True)
        else:
            self.http.end_stream(stream)
        self.flush()

    def step(self):
        import h2.events as events

        received = self.socket.recv(65536)
        assert received, "the server closes"
        for event in self.http.receive_data(received):
            answer = self.answers.get(getattr(event, "stream_id", None))
            if isinstance(event, events.InformationalResponseReceived):
                answer.interims.append(dict(event.headers))
            elif isinstance(event, events.ResponseReceived):
                answer.fields = dict(event.headers)
            elif isinstance(event, events.DataReceived):
                answer.body += event.data
                if event.stream_id not in self.holds_back:
                    self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                else:
                    self.http.increment_flow_control_window(event.flow_controlled_length)
            elif isinstance(event, events.TrailersReceived):
                answer.trailers = dict(event.headers)
            elif isinstance(event, events.StreamEnded):
                answer.end = "end"
            elif isinstance(event, events.StreamReset):
                answer.end = answer.end or "reset"
            elif isinstance(event, events.ConnectionTerminated):
                raise AssertionError(event)
        for stream in list(self.unsent):
            if self.answers[stream].end is None:
                self.send(stream)
        self.flush()

    def until(self, is_so):
        while not is_so():
            self.step()

    def answer(self, method, path, body=None, trailers=(), fields=()):
        stream = self.ask(method, path, body, trailers, fields)
        self.until(lambda: self.answers[stream].end is not None)
        return self.answers[stream]

    def take_back(self, path):
        stream = self.ask("GET", path)
        import time

        time.sleep(0.3)
        self.http.reset_stream(stream, 8)
        self.flush()


class Http3:
    """The same over HTTP/3, each request over a connection of its own."""

    def __init__(self, port):
        self.port = port

    async def run(self, method, path, body, trailers, fields, takes_back=False):
        from aioquic.asyncio.client import connect
        from aioquic.h3.events import DataReceived, HeadersReceived
        from client import Client, configuration

        answer, own = Answer(), {}

        class Heads(Client):
            def quic_event_received(self, event):
                handle = self.http.handle_event

                def noted(event):
                    events = handle(event)
                    for each in events:
                        if isinstance(each, HeadersReceived) and each.stream_id == own.get("stream"):
                            head = {name.decode(): value.decode() for name, value in each.headers}
                            if head.get(":status", "").startswith("1"):
                                answer.interims.append(head)
                            elif ":status" in head:
                                answer.fields = head
                            else:
                                answer.trailers = head
                    return events

                self.http.handle_event = noted
                super().quic_event_received(event)
                self.http.handle_event = handle

        how = configuration(max_data=1 << 24, max_stream_data=1 << 24)
        encoded = lambda pairs: [(name.encode(), value.encode()) for name, value in pairs]
        async with connect("127.0.0.1", self.port, configuration=how, create_protocol=Heads) as client:
            own["stream"] = stream = client._quic.get_next_available_stream_id()
            head = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path), *fields]
            client.http.send_headers(stream, encoded(head), end_stream=body is None)
            if body is not None:
                client.http.send_data(stream, body, end_stream=not trailers)
            if trailers:
                client.http.send_headers(stream, encoded(trailers), end_stream=True)
            client.transmit()
            if takes_back:
                await asyncio.sleep(0.3)
                client._quic.stop_stream(stream, 0x10C)
                client.transmit()
                await asyncio.sleep(0.3)
                return answer
            _, answer.body, end = await client.answer(stream)
            answer.end = "end" if end == "end" else "reset"
            return answer

    def answer(self, method, path, body=None, trailers=(), fields=()):
        return asyncio.run(self.run(method, path, body, trailers, fields))

    def take_back(self, path):
        asyncio.run(self.run("GET", path, None, (), (), takes_back=True))


def check_all(client):
    got = client.answer("GET", "/any", fields=[("cookie", "a=b"), ("cookie", "c=d")])
    assert got.fields[":status"] == "200" and b"Cookie: a=b; c=d\r\n" in got.body and got.end == "end", got.body
    assert got.body.startswith(b"GET /any HTTP/1.1\r\nHost: localhost\r\n"), got.body
    if isinstance(client, Http2):
        # aioquic takes a length without a body for an error, also in answer to HEAD.
        got = client.answer("HEAD", "/any")
        assert got.fields[":status"] == "200" and got.body == b"" and got.end == "end", vars(got)
    for body, length, trailers in [
        (b"", None, ()),
        (b"hello", None, ()),
        (b"hello", "5", ()),
        (LARGE, None, [("x-sum", "5")]),
        (LARGE, str(len(LARGE)), ()),
    ]:
        fields = [("content-length", length)] if length else []
        got = client.answer("POST", "/echo", body, trailers, fields)
        assert got.fields[":status"] == "200" and got.end == "end", vars(got)
        assert got.body == body, (len(got.body), len(body))
        assert got.trailers == dict(trailers), got.trailers
        assert length is None or got.fields["x-framing"] == length, got.fields
    for path, status, body in [("/204", "204", b""), ("/304", "304", b""), ("/close", "200", b"hello")]:
        got = client.answer("GET", path)
        assert (got.fields[":status"], got.body, got.end) == (status, body, "end"), (path, vars(got))
    got = client.answer("GET", "/hints")
    links = [(interim[":status"], interim["link"]) for interim in got.interims]
    assert links == [("103", "</a.css>"), ("103", "</b.css>")], links
    assert (got.fields[":status"], got.body) == ("200", b"body"), vars(got)
    got = client.answer("GET", "/nothing")
    assert got.fields[":status"] == "502" and got.end == "end", vars(got)
    got = client.answer("GET", "/cut")
    assert got.end == "reset", vars(got)
    got = client.answer("GET", "/any")
    assert got.fields[":status"] == "200", vars(got)


def check_window(port):
    client = Http2(port, INITIAL_WINDOW_SIZE=1000)
    slow = client.ask("GET", "/large")
    client.holds_back.add(slow)
    client.until(lambda: len(client.answers[slow].body) == 1000)
    import time

    for _ in range(3):
        # For longer than the upstream may keep the client waiting.
        time.sleep(0.7)
        assert client.answer("GET", "/small").body != b""
    client.holds_back.clear()
    client.http.increment_flow_control_window(1 << 20, slow)
    client.http.increment_flow_control_window(1 << 20)
    client.flush()
    client.until(lambda: client.answers[slow].end is not None)
    assert client.answers[slow].end == "end" and len(client.answers[slow].body) == 1 << 20


def connect(client, path, more=()):
    fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
        ("sec-websocket-version", "13"),
        *more,
    ]
    return client.begin(fields, False)


def check_websocket(port):
    client = Http2(port)
    client.until(lambda: client.http.remote_settings.enable_connect_protocol == 1)
    for ends in ["client", "upstream"]:
        stream = connect(client, "/chat")
        answer = client.answers[stream]
        # Before the upstream has answered.
        client.http.send_data(stream, b"<early>")
        client.flush()
        client.until(lambda: answer.body == b"hello<early>")
        assert answer.fields[":status"] == "200" and answer.fields["sec-websocket-protocol"] == "chat", answer.fields
        assert "upgrade" not in answer.fields and "sec-websocket-accept" not in answer.fields, answer.fields
        body = LARGE
        while body:
            most = min(client.http.local_flow_control_window(stream), 16384, len(body))
            if most == 0:
                client.flush()
                client.step()
                continue
            client.http.send_data(stream, body[:most])
            body = body[most:]
        client.flush()
        client.until(lambda: len(answer.body) == 12 + len(LARGE))
        assert answer.body[12:] == LARGE
        if ends == "client":
            client.http.end_stream(stream)
        else:
            client.http.send_data(stream, b"bye")
        client.flush()
        client.until(lambda: answer.end is not None)
        assert answer.body.endswith(b"end") and answer.end == "end", answer.body[-20:]
    slow = connect(client, "/chat", [("x-slow", "yes")])
    client.until(lambda: client.answers[slow].body == b"hello")
    client.http.end_stream(slow)
    client.flush()
    client.until(lambda: client.answers[slow].end == "end")
    for path, status in [("/refused", "403"), ("/ignored", "502")]:
        stream = connect(client, path)
        answer = client.answers[stream]
        client.until(lambda: answer.fields is not None)
        assert answer.fields[":status"] == status, answer.fields


async def websocket3(port):
    """What check_websocket does, over one connection of HTTP/3."""
    from aioquic.asyncio.client import connect as connect3
    from client import Client, configuration

    how = configuration(max_data=1 << 24, max_stream_data=1 << 24)
    async with connect3("127.0.0.1", port, configuration=how, create_protocol=Client) as client:
        settings = lambda: client.http.received_settings or {}
        await client.wait_for(lambda: 8 in settings())
        assert settings()[8] == 1, settings()

        def tunnel(path, more=()):
            stream = client._quic.get_next_available_stream_id()
            head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"),
                    (":authority", "localhost"), (":path", path), ("sec-websocket-version", "13"), *more]
            client.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head])
            client.transmit()
            return stream

        def say(stream, data, ends=False):
            client.http.send_data(stream, data, end_stream=ends)
            client.transmit()

        body_of = lambda stream: client.answers.get(stream, [[], b"", None])[1]
        # Longer than the stream's window, so that the server has to give it back.
        large = LARGE * 4
        for ends in ["client", "upstream"]:
            stream = tunnel("/chat")
            # Before the upstream has answered.
            say(stream, b"<early>")
            await client.wait_for(lambda: body_of(stream) == b"hello<early>")
            fields = dict(client.answers[stream][0])
            assert fields[b":status"] == b"200" and fields[b"sec-websocket-protocol"] == b"chat", fields
            assert b"upgrade" not in fields and b"sec-websocket-accept" not in fields, fields
            say(stream, large)
            await client.wait_for(lambda: len(body_of(stream)) == 12 + len(large))
            assert body_of(stream)[12:] == large
            say(stream, b"", True) if ends == "client" else say(stream, b"bye")
            _, body, end = await client.answer(stream)
            assert body.endswith(b"end") and end == "end", (body[-20:], end)
        # One is silent for longer than a body may be, and others go on meanwhile.
        silent = tunnel("/chat")
        await client.wait_for(lambda: body_of(silent) == b"hello")
        slow = tunnel("/chat", [("x-slow", "yes")])
        await client.wait_for(lambda: body_of(slow) == b"hello")
        say(silent, b"<still>")
        await client.wait_for(lambda: body_of(silent) == b"hello<still>")
        # The client resets one: the other one stays.
        client._quic.reset_stream(slow, 0x10C)
        client._quic.stop_stream(slow, 0x10C)
        client.transmit()
        for path, status in [("/refused", b"403"), ("/ignored", b"502")]:
            stream = tunnel(path)
            await client.wait_for(lambda: client.answers.get(stream, [[]])[0])
            assert dict(client.answers[stream][0])[b":status"] == status, client.answers[stream]
        # What is no request for a tunnel is none for another one either.
        for wrong in [[(":method", "GET")], [(":method", "CONNECT"), (":authority", "")]]:
            stream = client._quic.get_next_available_stream_id()
            head = {":method": "CONNECT", ":protocol": "websocket", ":scheme": "https", ":authority": "localhost",
                    ":path": "/chat", **dict(wrong)}
            head = [(name, value) for name, value in head.items() if value]
            client.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in head])
            client.transmit()
            _, _, end = await client.answer(stream)
            assert end == 0x10E, (wrong, end)
        say(silent, b"", True)
        _, body, end = await client.answer(silent)
        assert body == b"hello<still>end" and end == "end", (body, end)


def both_ways(stream, body):
    """Sends and receives at once; what a session of TLS has is for one thread."""
    import select
    import ssl

    sent, received = 0, b""
    stream.setblocking(False)
    while len(received) < len(body):
        select.select([stream], [stream] if sent < len(body) else [], [], 30)
        try:
            while sent < len(body):
                sent += stream.send(body[sent : sent + 16384])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            while len(received) < len(body):
                more = stream.recv(65536)
                assert more, (sent, len(received))
                received += more
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
    stream.settimeout(30)
    return received


def check_tunnel(port):
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for ends in ["client", "upstream"]:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30)) as stream:
            head = b"GET /chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
            stream.sendall(head + b"second")
            body = LARGE * 10
            received = b""
            while not received.endswith(b"firstsecond"):
                more = stream.recv(65536)
                assert more, received
                received += more
            assert received.startswith(b"HTTP/1.1 101 "), received
            assert both_ways(stream, body) == body
            if ends == "upstream":
                stream.sendall(b"bye")
                assert stream.recv(65536) == b"end" and stream.recv(65536) == b""
            else:
                # Its notice of the end, and the end of the socket's side.
                try:
                    stream.unwrap()
                except (ssl.SSLError, OSError):
                    pass


def main():
    version, port, case = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if case == "window":
        return check_window(port)
    if case == "websocket":
        return asyncio.run(websocket3(port)) if version == "h3" else check_websocket(port)
    if case == "tunnel":
        return check_tunnel(port)
    client = Http3(port) if version == "h3" else Http2(port)
    if case == "all":
        check_all(client)
    else:
        client.take_back("/hang")
        assert client.answer("GET", "/early").body == b"early"


main()
