"""Speaks HTTP/2 with hyperframe and hpack, rightly and wrongly, and says where the server errs.

usage: frames.py PORT
The site has /a.txt (b"hello") and /large.bin (200,000 bytes).
"""

import socket
import ssl
import struct
import sys
import time

import hpack
from hyperframe.frame import (
    ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, PriorityFrame, PushPromiseFrame,
    RstStreamFrame, SettingsFrame, WindowUpdateFrame,
)

PORT = int(sys.argv[1])
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL, INTERNAL, FLOW, _, CLOSED, SIZE, REFUSED, _, COMPRESSION, _, CALM = range(12)
GET = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/a.txt")]


def raw(kind, flags, stream, payload, length=None):
    length = len(payload) if length is None else length
    return struct.pack(">I", length)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Client:
    def __init__(self, settings=None, preface=PREFACE, greet=True, is_secure=False):
        self.socket = socket.create_connection(("127.0.0.1", PORT), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_secure:
            context = ssl._create_unverified_context()
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.buffer, self.frames, self.ended = b"", [], False
        self.send(preface)
        if greet:
            self.send(SettingsFrame(0, settings=settings or {}).serialize())

    def send(self, data):
        try:
            self.socket.sendall(data.serialize() if isinstance(data, Frame) else data)
        except OSError:
            pass  # The server may have ended the connection, which reading tells.

    def headers(self, stream, fields=GET, flags=("END_STREAM", "END_HEADERS"), **more):
        self.send(HeadersFrame(stream, self.encoder.encode(fields), flags=flags, **more))

    def read(self):
        """The next frame; None at the end."""
        while True:
            if len(self.buffer) >= 9:
                frame, length = Frame.parse_frame_header(memoryview(self.buffer[:9]))
                if len(self.buffer) >= 9 + length:
                    frame.parse_body(memoryview(self.buffer[9 : 9 + length]))
                    self.buffer = self.buffer[9 + length :]
                    self.frames.append(frame)
                    return frame
            try:
                received = self.socket.recv(65536)
            except ConnectionResetError:
                received = b""
            if not received:
                self.ended = True
                return None
            self.buffer += received

    def until(self, wanted):
        """The first frame that is wanted; what comes before it stays in `frames`."""
        while True:
            frame = self.read()
            if frame is None:
                raise AssertionError(f"the connection ended; before: {self.frames}")
            if wanted(frame):
                return frame

    def goes_away(self, *codes):
        frame = self.until(lambda frame: isinstance(frame, GoAwayFrame))
        assert frame.error_code in codes, f"GOAWAY {frame.error_code} in place of {codes}"
        while self.read() is not None:
            pass
        return frame

    def resets(self, stream, code):
        frame = self.until(lambda frame: isinstance(frame, (RstStreamFrame, GoAwayFrame)))
        assert isinstance(frame, RstStreamFrame) and frame.stream_id == stream, f"{frame} in place of a reset of {stream}"
        assert frame.error_code == code, f"RST_STREAM {frame.error_code} in place of {code}"
        self.lives()

    def lives(self):
        self.send(PingFrame(0, opaque_data=b"are you?"))
        self.until(lambda frame: isinstance(frame, PingFrame) and "ACK" in frame.flags and frame.opaque_data == b"are you?")

    def response(self, stream):
        """Status, fields and body of a response; windows are given back."""
        fields, body, block = None, b"", b""
        while True:
            frame = self.until(lambda frame: frame.stream_id == stream)
            if isinstance(frame, (HeadersFrame, ContinuationFrame)):
                block += frame.data
                if "END_HEADERS" in frame.flags:
                    fields = dict(self.decoder.decode(block))
                ends = "END_STREAM" in frame.flags if isinstance(frame, HeadersFrame) else ends
                if ends and "END_HEADERS" in frame.flags:
                    return fields[":status"], fields, body
            elif isinstance(frame, DataFrame):
                body += frame.data
                if frame.data:
                    for of in (0, stream):
                        self.send(WindowUpdateFrame(of, window_increment=len(frame.data)))
                if "END_STREAM" in frame.flags:
                    return fields[":status"], fields, body
            elif not isinstance(frame, WindowUpdateFrame):
                raise AssertionError(f"{frame}")


CASES = []


def case(function):
    CASES.append(function)
    return function


def with_fields(*fields, drop=()):
    return [field for field in GET if field[0] not in drop] + list(fields)


@case
def a_request_is_answered():
    client = Client()
    client.headers(1)
    status, fields, body = client.response(1)
    assert (status, body) == ("200", b"hello"), (status, body)
    assert fields["content-length"] == "5" and fields["server"] == "weir" and "connection" not in fields
    client.headers(3, with_fields(("if-none-match", fields["etag"])))
    assert client.response(3)[0] == "304"
    client.headers(5, [(":method", "HEAD")] + GET[1:])
    status, fields, body = client.response(5)
    assert (status, fields["content-length"], body) == ("200", "5", b"")
    client.headers(7, with_fields(("range", "bytes=1-2")))
    status, fields, body = client.response(7)
    assert (status, body, fields["content-range"]) == ("206", b"el", "bytes 1-2/5")
    client.headers(9, GET[:3] + [(":path", "/none")])
    assert client.response(9)[0] == "404"


@case
def the_first_frame_is_our_settings():
    client = Client()
    assert isinstance(client.read(), SettingsFrame)
    client.until(lambda frame: isinstance(frame, SettingsFrame) and "ACK" in frame.flags)


@case
def a_large_body_waits_for_windows():
    client = Client({4: 1000})
    client.headers(1, GET[:3] + [(":path", "/large.bin")])
    first = client.until(lambda frame: isinstance(frame, DataFrame))
    assert len(first.data) == 1000
    client.lives()
    pieces = lambda: sum(isinstance(frame, DataFrame) for frame in client.frames)
    assert pieces() == 1
    client.send(SettingsFrame(0, settings={4: 3000}))
    assert len(client.until(lambda frame: isinstance(frame, DataFrame)).data) == 2000
    # Less than what is used up already: the window is below zero, and counts up from there.
    client.send(SettingsFrame(0, settings={4: 0}))
    client.lives()
    client.send(WindowUpdateFrame(1, window_increment=3000))
    client.lives()
    assert pieces() == 2
    client.send(WindowUpdateFrame(1, window_increment=7))
    assert len(client.until(lambda frame: isinstance(frame, DataFrame)).data) == 7
    client.send(WindowUpdateFrame(1, window_increment=1 << 30))
    total = 3007
    while total < 65535:
        total += len(client.until(lambda frame: isinstance(frame, DataFrame)).data)
    assert total == 65535, "the window of the connection holds"
    client.lives()
    client.send(WindowUpdateFrame(0, window_increment=1 << 30))
    while total < 200_000:
        frame = client.until(lambda frame: isinstance(frame, DataFrame))
        total += len(frame.data)
    assert total == 200_000 and "END_STREAM" in frame.flags


@case
def streams_take_turns():
    client = Client({4: 0})
    client.send(WindowUpdateFrame(0, window_increment=1 << 20))
    for stream in (1, 3, 5):
        client.headers(stream, GET[:3] + [(":path", "/large.bin")])
    client.lives()
    # All of them may begin at once.
    client.send(SettingsFrame(0, settings={4: 1 << 20}))
    order = []
    while len(order) < 3 * 13:
        order.append(client.until(lambda frame: isinstance(frame, DataFrame)).stream_id)
    assert all(set(order[at : at + 3]) == {1, 3, 5} for at in range(0, 39, 3)), order


@case
def a_body_is_read_past():
    client = Client()
    client.headers(1, [(":method", "POST")] + GET[1:] + [("content-length", "10")], flags=("END_HEADERS",))
    client.send(DataFrame(1, b"01234"))
    client.send(DataFrame(1, b"56789", flags=("END_STREAM",)))
    assert client.response(1)[0] == "405"
    client.headers(3, [(":method", "POST")] + GET[1:], flags=("END_HEADERS",))
    client.send(DataFrame(3, b"x" * 100, flags=("PADDED",), pad_length=100))
    client.headers(3, [("trailer", "yes")])
    assert client.response(3)[0] == "405"
    client.lives()


@case
def windows_are_given_back_for_bodies():
    client = Client()
    for stream in range(1, 41, 2):
        client.headers(stream, [(":method", "POST")] + GET[1:], flags=("END_HEADERS",))
        for _ in range(3):
            client.send(DataFrame(stream, b"x" * 16000))
        client.send(DataFrame(stream, b"", flags=("END_STREAM",)))
        assert client.response(stream)[0] == "405"


@case
def a_body_that_is_too_large_is_not_waited_for():
    client = Client()
    client.headers(1, [(":method", "POST")] + GET[1:] + [("content-length", "1000000")], flags=("END_HEADERS",))
    assert client.response(1)[0] == "405"
    client.resets(1, NO_ERROR)
    # The client could not know yet.
    client.send(DataFrame(1, b"x" * 1000))
    client.lives()


@case
def a_client_that_waits_for_a_word_is_answered():
    client = Client()
    fields = [(":method", "POST")] + GET[1:] + [("content-length", "10"), ("expect", "100-continue")]
    client.headers(1, fields, flags=("END_HEADERS",))
    assert client.response(1)[0] == "405"


@case
def what_is_padded_or_has_a_priority_is_read():
    client = Client()
    client.send(HeadersFrame(1, client.encoder.encode(GET), flags=("END_STREAM", "END_HEADERS", "PADDED", "PRIORITY"),
                             pad_length=9, depends_on=0, stream_weight=3, exclusive=True))
    assert client.response(1)[0] == "200"
    client.send(PriorityFrame(3, depends_on=1, stream_weight=9))
    client.lives()


@case
def blocks_go_on():
    client = Client()
    block = client.encoder.encode(GET + [("x-long", "y" * 5000)])
    client.send(HeadersFrame(1, block[:10], flags=("END_STREAM",)))
    for start in range(10, len(block), 1000):
        last = ("END_HEADERS",) if start + 1000 >= len(block) else ()
        client.send(ContinuationFrame(1, block[start : start + 1000], flags=last))
    assert client.response(1)[0] == "200"


@case
def what_is_unknown_is_ignored():
    client = Client()
    client.send(raw(0xF, 0xFF, 0, b"what"))
    client.send(raw(0xF, 0, 77, b"what"))
    client.send(SettingsFrame(0, settings={0xABCD: 7}))
    client.lives()


@case
def fields_that_are_too_large_are_answered():
    client = Client()
    client.headers(1, GET + [("x-long", "y" * 15000)])
    client.response(1)
    block = client.encoder.encode(GET + [(f"x-{i}", "y" * 4000) for i in range(6)])
    pieces = [block[start : start + 16000] for start in range(0, len(block), 16000)]
    client.send(HeadersFrame(3, pieces[0], flags=("END_STREAM",)))
    for piece in pieces[1:]:
        client.send(ContinuationFrame(3, piece, flags=("END_HEADERS",) if piece is pieces[-1] else ()))
    assert client.response(3)[0] == "431"
    client.headers(5, GET[:3] + [(":path", "/" + "a" * 9000)])
    assert client.response(5)[0] == "414"
    client.headers(7, GET + [(f"x-{i}", "1") for i in range(100)])
    assert client.response(7)[0] == "431"
    client.headers(9)
    assert client.response(9)[0] == "200"


@case
def going_away_is_no_end_of_what_was_asked():
    client = Client()
    client.headers(1)
    client.send(GoAwayFrame(0, last_stream_id=0, error_code=0))
    assert client.response(1)[0] == "200"


def malformed(name, fields):
    def check():
        client = Client()
        client.headers(1, fields)
        client.resets(1, PROTOCOL)
        client.headers(3)
        assert client.response(3)[0] == "200"
    check.__name__ = "malformed: " + name
    CASES.append(check)


malformed("no method", GET[1:])
malformed("no scheme", with_fields(drop=(":scheme",)))
malformed("no path", with_fields(drop=(":path",)))
malformed("an empty path", GET[:3] + [(":path", "")])
malformed("a path that is an address", GET[:3] + [(":path", "http://a/a.txt")])
malformed("a path with a space", GET[:3] + [(":path", "/a b")])
malformed("a path of two lines", GET[:3] + [(":path", "/a.txt HTTP/1.1\r\nHost: b")])
malformed("two methods", with_fields((":method", "GET")))
malformed("two paths", GET + [(":path", "/")])
malformed("a pseudo-field of responses", GET + [(":status", "200")])
malformed("an unknown pseudo-field", GET + [(":what", "1")])
malformed("a pseudo-field after others", GET[:3] + [("a", "b"), (":path", "/a.txt")])
malformed("capitals", GET + [("X-Own", "1")])
malformed("connection", GET + [("connection", "close")])
malformed("keep-alive", GET + [("keep-alive", "1")])
malformed("proxy-connection", GET + [("proxy-connection", "1")])
malformed("transfer-encoding", GET + [("transfer-encoding", "chunked")])
malformed("upgrade", GET + [("upgrade", "h2c")])
malformed("te", GET + [("te", "gzip")])
malformed("an empty name", GET + [("", "1")])
malformed("a name with a space", GET + [("a b", "1")])
malformed("a name with a colon", GET + [("a:b", "1")])
malformed("a value of two lines", GET + [("a", "b\r\nc: d")])
malformed("a value with a null", GET + [("a", "b\0c")])
malformed("a host that differs", GET + [("host", "b")])
malformed("two hosts", GET + [("host", "a"), ("host", "a")])
malformed("a method with a space", [(":method", "GET /")] + GET[1:])
malformed("a length without a body", GET + [("content-length", "5")])
malformed("connect with a path", [(":method", "CONNECT")] + GET[1:])


@case
def a_value_with_space_around_is_malformed():
    client = Client()
    # hpack's encoder takes it as it is.
    client.headers(1, GET + [("a", " b ")])
    client.resets(1, PROTOCOL)


@case
def neither_authority_nor_host_is_refused():
    client = Client()
    client.headers(1, with_fields(drop=(":authority",)))
    assert client.response(1)[0] == "400"
    client.headers(3, with_fields(("host", "a"), drop=(":authority",)))
    assert client.response(3)[0] == "200"
    client.headers(5, [(":method", "CONNECT"), (":authority", "a:443")])
    assert client.response(5)[0] == "405"
    client.headers(7, [(":method", "OPTIONS"), (":scheme", "http"), (":authority", "a"), (":path", "*")])
    assert client.response(7)[0] == "204"
    client.headers(9, GET + [("te", "trailers")])
    assert client.response(9)[0] == "200"


@case
def targets_and_authorities_are_those_of_http_1():
    """One grammar for all versions: RFC 3986, and UTF-8 that is not escaped."""
    client = Client()
    stream = 1
    for path, authority, status in [
        (b"/a.txt?q=\xc3\xbc", b"a", "200"),
        (b"/\xc3\xbc", b"a", "404"),
        (b"/a.txt?q=100%", b"a", "200"),
        (b"/a.txt?q=\xfc", b"a", "400"),
        (b"/a.txt?x#y", b"a", "400"),
        (b"/a.txt#y", b"a", "400"),
        (b"/a.txt", b"[::1]:80", "200"),
        (b"/a.txt", b"[::1", "400"),
        (b"/a.txt", b"a:80a", "400"),
        (b"/a.txt", b"u@a", "400"),
    ]:
        client.headers(stream, [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", path)])
        assert client.response(stream)[0] == status, (path, authority)
        stream += 2
    client.headers(stream, GET + [("host", "A")])
    assert client.response(stream)[0] == "200"
    client.headers(stream + 2, GET + [("if-none-match", '"x"'), ("if-none-match", "*")])
    assert client.response(stream + 2)[0] == "304"


@case
def bodies_that_are_not_as_long_as_said():
    for body, length in ((b"1234", 5), (b"123456", 5)):
        client = Client()
        client.headers(1, [(":method", "POST")] + GET[1:] + [("content-length", str(length))], flags=("END_HEADERS",))
        client.send(DataFrame(1, body, flags=("END_STREAM",)))
        client.resets(1, PROTOCOL)
    client = Client()
    client.headers(1, [(":method", "POST")] + GET[1:] + [("content-length", "5")], flags=("END_HEADERS",))
    client.headers(1, [("trailer", "yes")])
    client.resets(1, PROTOCOL)


@case
def trailers_that_are_none():
    for fields, flags in (([("a", "b")], ("END_HEADERS",)), ([(":path", "/")], ("END_HEADERS", "END_STREAM"))):
        client = Client()
        client.headers(1, [(":method", "POST")] + GET[1:], flags=("END_HEADERS",))
        client.headers(1, fields, flags=flags)
        client.resets(1, PROTOCOL)


@case
def a_stream_that_depends_on_itself():
    client = Client()
    client.send(HeadersFrame(1, client.encoder.encode(GET), flags=("END_STREAM", "END_HEADERS", "PRIORITY"), depends_on=1))
    client.resets(1, PROTOCOL)


@case
def too_many_streams_are_refused():
    client = Client({4: 0})
    for stream in range(1, 2 * 129, 2):
        client.headers(stream)
    client.headers(257)
    client.resets(257, REFUSED)


@case
def windows_that_overflow():
    client = Client()
    client.headers(1, GET[:3] + [(":path", "/large.bin")])
    client.until(lambda frame: isinstance(frame, DataFrame))
    for _ in range(2):
        client.send(WindowUpdateFrame(1, window_increment=2**31 - 1))
    client.resets(1, FLOW)
    client = Client({4: 0})
    client.headers(1)
    client.send(raw(8, 0, 1, struct.pack(">I", 0)))
    client.resets(1, PROTOCOL)


def connection_error(name, code, *frames, settings=None):
    def check():
        client = Client(settings)
        for frame in frames:
            client.send(frame(client) if callable(frame) else frame)
        client.goes_away(*(code if isinstance(code, tuple) else (code,)))
    check.__name__ = "connection error: " + name
    CASES.append(check)


def get(stream, flags=5):
    return lambda client: raw(1, flags, stream, client.encoder.encode(GET))


def head_of_body(client):
    return raw(1, 4, 1, client.encoder.encode([(":method", "POST")] + GET[1:]))


connection_error("a frame that is too large", SIZE, raw(0, 0, 1, b"x" * 16385))
connection_error("data of no stream", PROTOCOL, raw(0, 0, 0, b"x"))
connection_error("data of an idle stream", PROTOCOL, raw(0, 0, 1, b"x"))
connection_error("more padding than data", PROTOCOL, head_of_body, raw(0, 8, 1, b"\x05xxxx"))
connection_error("padding without its length", SIZE, head_of_body, raw(0, 8, 1, b""))
connection_error("a request of no stream", PROTOCOL, get(0))
connection_error("a request of an even stream", PROTOCOL, get(2))
connection_error("more padding than fields", PROTOCOL, raw(1, 13, 1, b"\x20\x82"))
connection_error("a priority cut short", SIZE, raw(1, 0x25, 1, b"\0\0"))
connection_error("an older stream", CLOSED, get(5), get(3))
connection_error("fields that cannot be read", COMPRESSION, raw(1, 5, 1, b"\x82\xff\xff\xff\xff\xff\xff"))
connection_error("an index beyond the table", COMPRESSION, raw(1, 5, 1, b"\xfe"))
connection_error("a table that is too large", COMPRESSION, raw(1, 5, 1, b"\x3f\xe2\x1f\x82"))
connection_error("a string code that ends wrongly", COMPRESSION, raw(1, 5, 1, b"\x82\x86\x04\x82\x00\x00"))
connection_error("a priority of no stream", PROTOCOL, raw(2, 0, 0, b"\0\0\0\0\0"))
connection_error("a priority of another length", SIZE, raw(2, 0, 1, b"\0\0\0\0"))
connection_error("a reset of no stream", PROTOCOL, raw(3, 0, 0, b"\0\0\0\0"))
connection_error("a reset of an idle stream", PROTOCOL, raw(3, 0, 1, b"\0\0\0\0"))
connection_error("a reset of another length", SIZE, get(1), raw(3, 0, 1, b"\0\0\0"))
connection_error("settings of a stream", PROTOCOL, raw(4, 0, 1, b""))
connection_error("settings of another length", SIZE, raw(4, 0, 0, b"\0\0\0\0\0"))
connection_error("an acknowledgement that says something", SIZE, raw(4, 1, 0, b"\0" * 6))
connection_error("pushes that are neither on nor off", PROTOCOL, raw(4, 0, 0, b"\0\2\0\0\0\2"))
connection_error("a window that is too large", FLOW, raw(4, 0, 0, b"\0\4\x80\0\0\0"))
connection_error("frames that are too small", PROTOCOL, raw(4, 0, 0, b"\0\5\0\0\x3f\xff"))
connection_error("frames that are too large", PROTOCOL, raw(4, 0, 0, b"\0\5\1\0\0\0"))
connection_error("a push", PROTOCOL, lambda client: PushPromiseFrame(1, 2, client.encoder.encode(GET), flags=("END_HEADERS",)))
connection_error("a ping of a stream", PROTOCOL, raw(6, 0, 1, b"\0" * 8))
connection_error("a ping of another length", SIZE, raw(6, 0, 0, b"\0" * 7))
connection_error("a goodbye of a stream", PROTOCOL, raw(7, 0, 1, b"\0" * 8))
connection_error("a goodbye of another length", SIZE, raw(7, 0, 0, b"\0" * 7))
connection_error("a window of another length", SIZE, raw(8, 0, 0, b"\0\0\0"))
connection_error("a window of nothing", PROTOCOL, raw(8, 0, 0, b"\0\0\0\0"))
connection_error("a window of an idle stream", PROTOCOL, raw(8, 0, 1, b"\0\0\0\1"))
connection_error("a window that overflows", FLOW, raw(8, 0, 0, b"\x7f\xff\xff\xff"))
connection_error("a window of settings that overflows", FLOW, head_of_body, raw(8, 0, 1, b"\0\1\0\0"),
                 raw(4, 0, 0, b"\0\4\x7f\xff\xff\xff"), settings={4: 0})
connection_error("more of no block", PROTOCOL, raw(9, 4, 1, b""))
connection_error("more of another block", PROTOCOL, get(1, flags=1), raw(9, 4, 3, b""))
connection_error("something between the pieces of a block", PROTOCOL, get(1, flags=1), raw(6, 0, 0, b"\0" * 8))
connection_error("something unknown between the pieces of a block", PROTOCOL, get(1, flags=1), raw(0xF, 0, 0, b""))


@case
def data_after_the_end():
    client = Client()
    client.headers(1)
    client.response(1)
    client.send(DataFrame(1, b"x"))
    client.goes_away(CLOSED)


@case
def a_stream_that_was_ended_and_is_not_answered_yet():
    client = Client({4: 0})
    client.headers(1)
    client.send(DataFrame(1, b"x"))
    client.resets(1, CLOSED)


@case
def data_beyond_the_window_of_the_connection():
    # Five bodies that the server discards: it gives the window back at once, except for less than a quarter of it.
    client = Client()
    client.headers(1, [(":method", "POST")] + GET[1:] + [("content-length", "1000000")], flags=("END_HEADERS",))
    assert client.response(1)[0] == "405"
    for _ in range(200):
        client.send(DataFrame(1, b"x" * 16384))
    client.lives()
    updates = [frame for frame in client.frames if isinstance(frame, WindowUpdateFrame) and frame.stream_id == 0]
    assert sum(frame.window_increment for frame in updates) == 200 * 16384


@case
def no_settings_first():
    client = Client(greet=False)
    client.send(raw(6, 0, 0, b"\0" * 8))
    client.goes_away(PROTOCOL)


@case
def http_1_is_no_preface():
    client = Client(preface=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", greet=False)
    # It is HTTP/1.1 with an unknown version until it is HTTP/2.
    while client.socket.recv(65536):
        pass


@case
def in_single_bytes():
    client = Client(greet=False, preface=b"")
    block = client.encoder.encode(GET)
    for byte in PREFACE + raw(4, 0, 0, b"") + raw(1, 5, 1, block):
        client.send(bytes([byte]))
        time.sleep(0.0005)
    assert client.response(1)[0] == "200"


@case
def resets_without_end_are_not_borne():
    client = Client()
    block = client.encoder.encode(GET)
    for stream in range(1, 20_001, 2):
        client.send(raw(1, 5, stream, block if stream == 1 else client.encoder.encode(GET)) + raw(3, 0, stream, b"\0\0\0\x08"))
    client.goes_away(CALM)


def flood(name, frame, code=CALM):
    def check():
        client = Client()
        for _ in range(500):
            client.send(frame * 20)
        client.goes_away(code)
    check.__name__ = "flood: " + name
    CASES.append(check)


flood("pings", raw(6, 0, 0, b"\0" * 8))
flood("settings", raw(4, 0, 0, b""))
flood("acknowledgements", raw(4, 1, 0, b""))
flood("priorities", raw(2, 0, 3, b"\0\0\0\0\0"))
flood("unknown frames", raw(0xF, 0, 0, b""))


@case
def resets_that_the_client_has_us_make_are_not_borne():
    # CVE-2025-8671: each request is well-formed, and what follows makes us end its stream.
    for follows in (
        lambda stream: raw(8, 0, stream, b"\0\0\0\0"),
        lambda stream: raw(0, 1, stream, b"x"),
        lambda stream: raw(8, 0, stream, b"\x7f\xff\xff\xff"),
    ):
        client = Client({4: 5})
        for stream in range(1, 2001, 2):
            client.send(raw(1, 5, stream, client.encoder.encode(GET[:3] + [(":path", "/large.bin")])) + follows(stream))
        client.goes_away(CALM)


@case
def windows_of_single_bytes_are_not_borne():
    # CVE-2019-9511: a frame for each byte.
    client = Client({4: 0})
    client.headers(1, GET[:3] + [(":path", "/large.bin")])
    for _ in range(300):
        client.send(raw(8, 0, 1, b"\0\0\0\1"))
        client.lives()
    # In one piece the increments add up before anything is sent.
    client.send(raw(8, 0, 1, b"\0\0\0\1") * 5000)
    client.lives()
    for _ in range(1000):
        client.send(raw(8, 0, 1, b"\0\0\0\1"))
        try:
            client.until(lambda frame: isinstance(frame, (DataFrame, GoAwayFrame)))
        except AssertionError:
            break
        if isinstance(client.frames[-1], GoAwayFrame):
            break
    goodbye = [frame for frame in client.frames if isinstance(frame, GoAwayFrame)]
    assert len(goodbye) == 1 and goodbye[0].error_code == CALM, goodbye


@case
def a_block_without_end_is_not_borne():
    client = Client()
    client.headers(1, flags=("END_STREAM",))
    for _ in range(100):
        client.send(raw(9, 0, 1, b"\0" * 10_000))
    client.goes_away(CALM)
    client = Client()
    client.headers(1, flags=("END_STREAM",))
    client.send(raw(9, 0, 1, b"") * 5000)
    client.goes_away(CALM)


@case
def empty_data_without_end_is_not_borne():
    client = Client()
    client.send(head_of_body(client))
    client.send(raw(0, 0, 1, b"") * 5000)
    client.goes_away(CALM)


@case
def small_blocks_that_say_much_are_not_borne():
    client = Client()
    # A name of 4,000 bytes into the table, then a word for it again and again.
    client.send(raw(1, 5, 1, client.encoder.encode(GET) + b"\x40\x7f\xa1\x1e" + b"x" * 4000 + b"\0" + b"\xbe" * 12_000))
    assert client.response(1)[0] == "431"
    block = b"\x7e\0" * 5000
    client.send(raw(1, 5, 3, block))
    client.goes_away(COMPRESSION)


def main():
    wrong = 0
    for check in CASES:
        try:
            check()
        except (AssertionError, OSError, Exception) as error:  # noqa: BLE001: every case is told
            wrong += 1
            print(f"{check.__name__}: {type(error).__name__}: {error}")
    print(f"{len(CASES)} cases, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
