"""Sends requests of HTTP/2 or HTTP/3 whose fields would say something else in HTTP/1.1.

desync.py h2|h3 PORT    Each is refused, or the upstream sees the one thing that it says.
"""

import asyncio
import pathlib
import socket
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "http3_cases"))

HIDDEN = b"GET /marked HTTP/1.1\r\nHost: a.org\r\n\r\n"


def head(path, method="POST", **other):
    fields = {":method": method, ":scheme": "http", ":authority": "a.org", ":path": path, **other}
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]


def instead(path, name, value):
    return [(own, value if own == name else old) for own, old in head(path)]


def vectors():
    """Names, fields, body, fields behind it, and whether the request must be refused."""
    more = lambda path, *fields: head(path) + list(fields)
    bad_values = [b"x\r\ntransfer-encoding: chunked", b"x\ny: z", b"x\ry", b"x\0y", b"x\r\n\r\n" + HIDDEN]
    for value in bad_values:
        yield f"a value {value!r}", lambda path, value=value: more(path, (b"x", value)), None, None, True
    for name in [b"x\r\ny", b"x: y\r\nz", b"x:y", b"x y", b"x\0", b"X-Capital", b"", b"x\x7f", b"x\xff", b"x\ty"]:
        yield f"a name {name!r}", lambda path, name=name: more(path, (name, b"z")), None, None, True
    for path in [b" HTTP/1.1\r\nX: y", b" x", b"\tx", b"\rx", b"\nx", b"\0x", b"#x", b" HTTP/1.1\r\n\r\n" + HIDDEN]:
        yield f"a path {path!r}", lambda own, path=path: instead(own, b":path", own.encode() + path), None, None, True
    for path in [b"", b"x", b"*", b"http://b.org/x", b" /x"]:
        yield f"the path {path!r}", lambda own, path=path: instead(own, b":path", path), None, None, True
    for method in [b"GET /marked HTTP/1.1\r\nx:", b"GET ", b"", b"G:T", b"GET\0", b"CONNECT"]:
        yield f"a method {method!r}", lambda own, method=method: instead(own, b":method", method), None, None, True
    for host in [b"a.org\r\nx: y", b"a b", b"a/b", b"x@a.org", b"a\0", b"a.org:80a"]:
        yield f"an authority {host!r}", lambda own, host=host: instead(own, b":authority", host), None, None, True
    for scheme in [b"http://b.org/marked HTTP/1.1\r\nx", b"ht tp", b"1http", b"h/x"]:
        yield f"a scheme {scheme!r}", lambda own, scheme=scheme: instead(own, b":scheme", scheme), None, None, True
    for name, value in [
        (b"transfer-encoding", b"chunked"),
        (b"transfer-encoding", b"identity"),
        (b"transfer-encoding", b""),
        (b"connection", b"transfer-encoding"),
        (b"connection", b"close"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-connection", b"keep-alive"),
        (b"upgrade", b"h2c"),
        (b"te", b"chunked"),
        (b"te", b"trailers, chunked"),
        (b"host", b"b.org"),
    ]:
        yield f"{name!r} {value!r}", lambda own, of=(name, value): more(own, of), HIDDEN, None, True
    for value in [b"0", b"5", b"999", b"+5", b"5, 5", b"-1", b"0x5", b"", b"18446744073709551653"]:
        yield f"a length {value!r}", lambda own, value=value: more(own, (b"content-length", value)), HIDDEN, None, True
    two = [(b"content-length", b"0"), (b"content-length", str(len(HIDDEN)).encode())]
    yield "two lengths", lambda own: more(own, *two), HIDDEN, None, True
    yield "a length and no body", lambda own: more(own, (b"content-length", b"5")), None, None, True
    for name in [b":method", b":path", b":scheme", b":authority"]:
        yield f"{name!r} twice", lambda own, name=name: more(own)[:4] + [f for f in head(own) if f[0] == name], None, None, True
        yield f"{name!r} behind fields", lambda own, name=name: (
            [f for f in head(own) if f[0] != name] + [(b"x", b"y")] + [f for f in head(own) if f[0] == name]
        ), None, None, True
    yield "no path", lambda own: [f for f in head(own) if f[0] != b":path"], None, None, True
    yield "no method", lambda own: [f for f in head(own) if f[0] != b":method"], None, None, True
    yield "a status", lambda own: head(own)[:4] + [(b":status", b"200")], None, None, True
    yield "an unknown pseudo field", lambda own: head(own)[:4] + [(b":x", b"y")], None, None, True
    yield "an extended CONNECT", lambda own: [(b":protocol", b"x\r\ny: z")] + instead(own, b":method", b"CONNECT"), None, None, True
    yield "a protocol of a POST", lambda own: [(b":protocol", b"websocket")] + head(own), None, None, True
    for name, value in [(b":path", b"/marked"), (b"x", b"y\r\nz"), (b"X", b"y"), (b"x y", b"z"), (b"connection", b"x")]:
        yield f"a trailer {name!r}", lambda own: head(own), b"body", [(name, value)], True
    # What the standard lets pass means one thing.
    yield "a body that looks like a request", lambda own: head(own), HIDDEN, None, False
    yield "the length of a body", lambda own: more(own, (b"content-length", str(len(HIDDEN)).encode())), HIDDEN, None, False
    yield "a body of GET", lambda own: instead(own, b":method", b"GET"), HIDDEN, None, False
    yield "trailers", lambda own: more(own, (b"te", b"trailers")), HIDDEN, [(b"x-sum", b"1")], False
    yield "a trailer that frames", lambda own: head(own), HIDDEN, [(b"x-content-length", b"1")], False
    yield "an expectation", lambda own: more(own, (b"expect", b"100-continue")), HIDDEN, None, False
    yield "crumbs of cookies", lambda own: more(own, (b"cookie", b"a=b"), (b"cookie", b"c=d")), None, None, False
    yield "bytes beyond ASCII", lambda own: more(own, (b"x", b"\xff\xfe")), None, None, False
    yield "a method of another kind", lambda own: instead(own, b":method", b"PURGE"), None, None, False


class Http2:
    """A connection for each request, so that what ends one ends no other. Frames are written as they are given."""

    def __init__(self, port):
        self.port = port

    def ask(self, fields, body, trailers):
        from hpack import Decoder, Encoder
        from hyperframe.frame import (
            DataFrame, Frame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame,
        )

        encoder, decoder = Encoder(), Decoder()
        frames = [SettingsFrame(0), HeadersFrame(1, encoder.encode(fields, huffman=False))]
        frames[1].flags.add("END_HEADERS")
        if body is not None:
            frames.append(DataFrame(1, body))
        if trailers:
            frames.append(HeadersFrame(1, encoder.encode(trailers, huffman=False)))
            frames[-1].flags.add("END_HEADERS")
        frames[-1].flags.add("END_STREAM")
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as stream:
            stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(frame.serialize() for frame in frames))
            received, answer = b"", {}
            while True:
                while len(received) >= 9:
                    frame, length = Frame.parse_frame_header(memoryview(received[:9]))
                    if len(received) < 9 + length:
                        break
                    frame.parse_body(memoryview(received[9 : 9 + length]))
                    received = received[9 + length :]
                    if isinstance(frame, HeadersFrame):
                        fields = {n: v for n, v in decoder.decode(frame.data)}
                        if not str(fields.get(":status", "")).startswith("1"):
                            answer = answer or fields
                    if isinstance(frame, (RstStreamFrame, GoAwayFrame)):
                        return answer or {"refused": "yes"}
                    if frame.stream_id == 1 and "END_STREAM" in frame.flags:
                        return answer
                try:
                    more = stream.recv(65536)
                except ConnectionResetError:
                    more = b""
                if not more:
                    return answer or {"refused": "yes"}
                received += more


class Http3:
    def __init__(self, port):
        self.port = port

    async def run(self, fields, body, trailers):
        from aioquic.asyncio.client import connect
        from aioquic.h3.events import HeadersReceived
        from client import Client, configuration

        answer = {}

        class Heads(Client):
            def quic_event_received(self, event):
                handle = self.http.handle_event

                def noted(event):
                    events = handle(event)
                    for each in events:
                        if isinstance(each, HeadersReceived) and not answer:
                            got = {name.decode(): value.decode() for name, value in each.headers}
                            if not got.get(":status", "1").startswith("1"):
                                answer.update(got)
                    return events

                self.http.handle_event = noted
                super().quic_event_received(event)
                self.http.handle_event = handle

        async with connect("127.0.0.1", self.port, configuration=configuration(), create_protocol=Heads) as client:
            stream = client._quic.get_next_available_stream_id()
            client.http.send_headers(stream, fields, end_stream=body is None and not trailers)
            if body is not None:
                client.http.send_data(stream, body, end_stream=not trailers)
            if trailers:
                client.http.send_headers(stream, trailers, end_stream=True)
            client.transmit()
            await client.answer(stream)
        return answer or {"refused": "yes"}

    def ask(self, fields, body, trailers):
        try:
            return asyncio.run(asyncio.wait_for(self.run(fields, body, trailers), 20))
        # What the client's own library does not send counts as refused.
        except (ConnectionError, ValueError):
            return {"refused": "yes"}


def main(version, port):
    client = {"h2": Http2, "h3": Http3}[version](port)
    for number, (name, fields, body, trailers, is_refused) in enumerate(vectors()):
        target = f"/v{number}"
        answer = client.ask(fields(target), body, trailers)
        status, seen = int(answer.get(":status", 0)), answer.get("x-seen")
        if is_refused:
            assert seen is None and ("refused" in answer or status >= 400), (name, answer)
        else:
            method = dict(fields(target))[b":method"].decode()
            assert seen in (f"{method} {target} {len(body or b'')}", None), (name, answer)
            assert seen or status >= 400, (name, answer)
        after = client.ask(head(f"/after{number}", "GET"), None, None)
        assert after.get("x-seen") == f"GET /after{number} 0", (name, after)
    print(number + 1, "vectors")


main(sys.argv[1], int(sys.argv[2]))
