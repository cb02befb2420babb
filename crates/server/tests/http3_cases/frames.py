"""Each frame of HTTP/3 and each error, right and wrong, against a server with a.txt ("hello") and large.bin.

frames.py PORT   The bytes are written here, QUIC is aioquic's and the reading of fields is lsqpack's.
"""

import asyncio
import sys

import pylsqpack
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamDataReceived, StreamReset
from client import configuration

DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
NO_ERROR, STREAM_CREATION, CLOSED_CRITICAL, UNEXPECTED, FRAME, LOAD, ID, SETTINGS_ERROR, MISSING_SETTINGS = (
    0x100, 0x103, 0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10A)
REJECTED, CANCELLED, INCOMPLETE, MESSAGE, DECOMPRESSION, ENCODER, DECODER = 0x10B, 0x10C, 0x10D, 0x10E, 0x200, 0x201, 0x202


def number(value):
    for bits, size in ((6, 1), (14, 2), (30, 4), (62, 8)):
        if value < 1 << bits:
            return (value | (size.bit_length() - 1) << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(value)


def frame(kind, content=b""):
    return number(kind) + number(len(content)) + content


def block(fields):
    encoder = pylsqpack.Encoder()
    _, content = encoder.encode(0, [(name.encode(), value.encode()) for name, value in fields])
    return content


def literal(*fields):
    """A block that an encoder would not make: names and values as they are."""
    def prefixed(first, bits, value):
        most = (1 << bits) - 1
        if value < most:
            return bytes([first | value])
        out, value = bytes([first | most]), value - most
        while value >= 128:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])
    parts = (prefixed(0x20, 3, len(name)) + name + prefixed(0, 7, len(value)) + value for name, value in fields)
    return b"\0\0" + b"".join(parts)


def head(path="/a.txt", method="GET", more=(), authority="localhost"):
    fields = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path), *more]
    return frame(HEADERS, block(fields))


SET = frame(SETTINGS)
GREASE = frame(0x21, b"abc")
PSEUDO = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a"), (b":path", b"/a.txt")]


class Raw(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.ended, self.streams, self.resets, self.stops = None, {}, {}, {}
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ended = event.error_code
        elif isinstance(event, StreamDataReceived):
            data, end = self.streams.get(event.stream_id, (b"", False))
            self.streams[event.stream_id] = (data + event.data, end or event.end_stream)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, StopSendingReceived):
            self.stops[event.stream_id] = event.error_code
        self.news.set()

    def send(self, stream, data=b"", end=False, piece=None):
        for at in range(0, max(len(data), 1), piece or max(len(data), 1)):
            part = data[at:at + piece] if piece else data
            self._quic.send_stream_data(stream, part, end and at + len(part) == len(data))
            if piece:
                self.transmit()
        self.transmit()

    def reset(self, stream, code=CANCELLED):
        self._quic.reset_stream(stream, code)
        self.transmit()

    async def until(self, is_there):
        async def wait():
            while not is_there():
                self.news.clear()
                await self.news.wait()
        await asyncio.wait_for(wait(), 20)


def take(data):
    size = 1 << (data[0] >> 6)
    return int.from_bytes(data[:size], "big") & ((1 << (8 * size - 2)) - 1), data[size:]


def read(data):
    """Fields and body of an answer."""
    fields, body = None, b""
    while data:
        kind, data = take(data)
        size, data = take(data)
        content, data = data[:size], data[size:]
        assert len(content) == size, "a frame is cut off"
        if kind == HEADERS:
            assert fields is None, "a second head"
            _, fields = pylsqpack.Decoder(0, 0).feed_header(0, content)
        else:
            assert kind == DATA and fields is not None, kind
            body += content
    return dict(fields), body


async def answered(raw, stream):
    await raw.until(lambda: raw.ended is not None or stream in raw.resets or raw.streams.get(stream, (0, False))[1])
    assert raw.ended is None and stream not in raw.resets, (raw.ended, raw.resets)
    return read(raw.streams[stream][0])


PORT = int(sys.argv[1])


def raw():
    return connect("127.0.0.1", PORT, configuration=configuration(), create_protocol=Raw)


async def ends_connection(name, code, *sent):
    """Streams with what is sent on them, and whether they end, must end the connection with a code."""
    async with raw() as client:
        for stream, data, end in sent:
            client.send(stream, data, end)
        await client.until(lambda: client.ended is not None)
        assert client.ended == code, (name, hex(client.ended))


async def ends_stream(name, code, data, end=True):
    """A request must end with a code, and the next one must be answered."""
    async with raw() as client:
        client.send(2, b"\0" + SET)
        client.send(0, data, end)
        await client.until(lambda: client.ended is not None or 0 in client.resets)
        assert client.ended is None and client.resets[0] == code, (name, client.ended, client.resets)
        client.send(4, head(), True)
        fields, body = await answered(client, 4)
        assert (fields[b":status"], body) == (b"200", b"hello"), name


async def is_answered(name, status, data, end=True, body=None, piece=None, control=b"\0" + SET):
    async with raw() as client:
        client.send(2, control, piece=piece)
        client.send(0, data, end, piece)
        fields, came = await answered(client, 0)
        assert fields[b":status"] == status, (name, fields)
        assert body is None or came == body, (name, came[:100])
        return fields


async def connection_errors():
    bodied = head(method="POST")
    for name, code, *sent in [
        ("DATA before HEADERS", UNEXPECTED, (0, frame(DATA, b"a"), False)),
        ("HEADERS after trailers", UNEXPECTED, (0, bodied + 2 * frame(HEADERS, block([("a", "b")])), False)),
        ("DATA after trailers", UNEXPECTED, (0, bodied + frame(HEADERS, block([("a", "b")])) + frame(DATA, b"a"), False)),
        *((f"frame {kind} within a request", UNEXPECTED, (0, bodied + frame(kind, b"\0"), False))
          for kind in (CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID, 2, 6, 8, 9)),
        *((f"frame {kind} at a request's beginning", UNEXPECTED, (0, frame(kind), False)) for kind in (2, 4, 5, 6)),
        ("a frame that is cut off", FRAME, (0, head()[:-1], True)),
        ("a head of a frame that is cut off", FRAME, (0, bodied + b"\0", True)),
        ("a body that is cut off", FRAME, (0, bodied + b"\0\x05abc", True)),
        ("no settings", MISSING_SETTINGS, (2, b"\0" + GREASE, False)),
        ("GOAWAY before settings", MISSING_SETTINGS, (2, b"\0" + frame(GOAWAY, b"\0"), False)),
        ("settings twice", UNEXPECTED, (2, b"\0" + SET + SET, False)),
        *((f"setting {id} of HTTP/2", SETTINGS_ERROR, (2, b"\0" + frame(SETTINGS, bytes([id, 1])), False))
          for id in (0, 2, 3, 4, 5)),
        ("a setting twice", SETTINGS_ERROR, (2, b"\0" + frame(SETTINGS, b"\x06\x10\x06\x10"), False)),
        ("half a setting", FRAME, (2, b"\0" + frame(SETTINGS, b"\x06"), False)),
        *((f"frame {kind} on the control stream", UNEXPECTED, (2, b"\0" + SET + frame(kind, b"\0"), False))
          for kind in (DATA, HEADERS, PUSH_PROMISE, 2, 6, 8, 9)),
        ("a push given up that never was", ID, (2, b"\0" + SET + frame(CANCEL_PUSH, b"\0"), False)),
        ("fewer pushes than before", ID, (2, b"\0" + SET + frame(MAX_PUSH_ID, b"\2") + frame(MAX_PUSH_ID, b"\1"), False)),
        ("GOAWAY that grows", ID, (2, b"\0" + SET + frame(GOAWAY, b"\0") + frame(GOAWAY, b"\4"), False)),
        ("GOAWAY with more than a number", FRAME, (2, b"\0" + SET + frame(GOAWAY, b"\0\0"), False)),
        ("settings without end", LOAD, (2, b"\0" + number(SETTINGS) + number(1 << 20), False)),
        ("two control streams", STREAM_CREATION, (2, b"\0" + SET, False), (6, b"\0" + SET, False)),
        ("two encoders", STREAM_CREATION, (2, b"\2", False), (6, b"\2", False)),
        ("two decoders", STREAM_CREATION, (2, b"\3", False), (6, b"\3", False)),
        ("a push by a client", STREAM_CREATION, (2, b"\1", False)),
        ("the control stream's end", CLOSED_CRITICAL, (2, b"\0" + SET, True)),
        ("the encoder's end", CLOSED_CRITICAL, (2, b"\2", True)),
        ("the decoder's end", CLOSED_CRITICAL, (2, b"\3", True)),
        ("an insertion", ENCODER, (2, b"\2\xc1\x01a", False)),
        ("a table with room", ENCODER, (2, b"\2\x3f\xe1\x1f", False)),
        ("an acknowledgement of nothing", DECODER, (2, b"\3\x80", False)),
        ("an increment of nothing", DECODER, (2, b"\3\x01", False)),
        ("a field of a dynamic table", DECOMPRESSION, (0, frame(HEADERS, b"\0\0\x80"), False)),
        ("insertions required", DECOMPRESSION, (0, frame(HEADERS, b"\2\0\xd1"), False)),
        ("a base below zero", DECOMPRESSION, (0, frame(HEADERS, b"\0\x80\xd1"), False)),
        ("half a block", DECOMPRESSION, (0, frame(HEADERS, b"\0\0\x51\x20/"), False)),
        ("an empty block", DECOMPRESSION, (0, frame(HEADERS), False)),
        ("a text that is no Huffman code", DECOMPRESSION, (0, frame(HEADERS, b"\0\0\x51\x81\x00"), False)),
    ]:
        await ends_connection(name, code, *sent)
    async with raw() as client:
        client.send(2, b"\0" + SET)
        client.send(0, head(), True)
        await answered(client, 0)
        client.reset(2)
        await client.until(lambda: client.ended is not None)
        assert client.ended == CLOSED_CRITICAL, hex(client.ended)


async def stream_errors():
    def with_fields(*fields):
        return frame(HEADERS, literal(*PSEUDO, *fields))

    def without(name):
        return frame(HEADERS, literal(*(field for field in PSEUDO if field[0] != name)))

    for name, code, data in [
        ("nothing at all", INCOMPLETE, b""),
        ("nothing but grease", INCOMPLETE, GREASE),
        ("a name in upper case", MESSAGE, with_fields((b"X-A", b"b"))),
        ("an empty name", MESSAGE, with_fields((b"", b"b"))),
        ("a name with a space", MESSAGE, with_fields((b"a b", b"c"))),
        ("a line end in a value", MESSAGE, with_fields((b"a", b"b\r\nc: d"))),
        ("a zero in a value", MESSAGE, with_fields((b"a", b"b\0"))),
        ("a space before a value", MESSAGE, with_fields((b"a", b" b"))),
        ("a pseudo-field behind others", MESSAGE, with_fields((b"a", b"b"), (b":path", b"/"))),
        ("a pseudo-field twice", MESSAGE, with_fields((b":path", b"/"))),
        ("an unknown pseudo-field", MESSAGE, with_fields((b":a", b"b"))),
        ("a status in a request", MESSAGE, with_fields((b":status", b"200"))),
        *((f"{name} in a request", MESSAGE, with_fields((name, b"a")))
          for name in (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te")),
        ("a host that differs", MESSAGE, with_fields((b"host", b"b"))),
        *((f"no {name}", MESSAGE, without(name)) for name in (b":method", b":scheme", b":path")),
        ("a path without a slash", MESSAGE, head("a.txt")),
        ("a body that is too short", MESSAGE, head(method="POST", more=[("content-length", "3")]) + frame(DATA, b"ab")),
        ("a body that is missing", MESSAGE, head(method="POST", more=[("content-length", "3")])),
        ("a body that is too long", MESSAGE, head(method="POST", more=[("content-length", "1")]) + frame(DATA, b"ab")),
        ("trailers with a pseudo-field", MESSAGE, head(method="POST") + frame(HEADERS, literal((b":path", b"/")))),
    ]:
        await ends_stream(name, code, data)


async def answers():
    for piece in (None, 1, 7):
        await is_answered("a request", b"200", head(), body=b"hello", piece=piece)
        trailers = frame(HEADERS, block([("a", "b")]))
        post = head(method="POST", more=[("content-length", "3")])
        whole = GREASE + post + GREASE + frame(DATA, b"ab") + frame(DATA) + frame(DATA, b"c") + trailers + GREASE
        control = b"\0" + frame(SETTINGS, b"\x06\x7f\xff\x21\x05") + GREASE + frame(MAX_PUSH_ID, b"\1") + frame(GOAWAY, b"\0")
        await is_answered("a body with everything", b"405", whole, piece=piece, control=control)
    fields = await is_answered("HEAD", b"200", head(method="HEAD"), body=b"")
    assert fields[b"content-length"] == b"5" and fields[b"server"] == b"weir", fields
    assert not any(name in fields for name in (b"connection", b"alt-svc", b"transfer-encoding")), fields
    await is_answered("no such file", b"404", head("/none"))
    fields = await is_answered("a range", b"206", head(more=[("range", "bytes=1-2")]), body=b"el")
    assert fields[b"content-range"] == b"bytes 1-2/5", fields
    await is_answered("two ranges", b"206", head("/large.bin", more=[("range", "bytes=1-2,7-8")]))
    await is_answered("unchanged", b"304", head(more=[("if-none-match", "*")]), body=b"")
    await is_answered("no authority", b"400", frame(HEADERS, literal(*(f for f in PSEUDO if f[0] != b":authority"))))
    await is_answered("a host instead", b"200", frame(HEADERS, literal(
        *(f for f in PSEUDO if f[0] != b":authority"), (b"host", b"a"))), body=b"hello")
    await is_answered("a long path", b"414", head("/" + "a" * 9000))
    for path, status in [
        (b"/a.txt?q=\xc3\xbc", b"200"), (b"/a.txt?q=\xfc", b"400"), (b"/a.txt?x#y", b"400"), (b"/a.txt?q=100%", b"200")
    ]:
        await is_answered(f"the target {path}", status, frame(HEADERS, literal(*PSEUDO[:3], (b":path", path))))
    await is_answered("no host", b"400", frame(HEADERS, literal(*PSEUDO[:2], (b":authority", b"a:80a"), PSEUDO[3])))
    await is_answered("a large head", b"431", head(more=[("a", "~" * 17000)]))
    await is_answered("a huge head", b"431", frame(HEADERS, literal(*PSEUDO, (b"a", b"b" * 40000))))
    await is_answered("many fields", b"431", frame(HEADERS, literal(*PSEUDO, *[(b"a", b"b")] * 120)))
    await is_answered("an expectation", b"417", head(more=[("expect", "magic")]))
    await is_answered("OPTIONS *", b"204", head("*", method="OPTIONS"))
    large = bytes(i % 251 for i in range(200_000))
    await is_answered("a large file", b"200", head("/large.bin"), body=large)
    # A stream for something unknown is not wanted, and all goes on; so does an encoder that wants no table.
    async with raw() as client:
        client.send(2, b"\x40\x21abc")
        client.send(6, b"\2\x20")
        client.send(10, b"\3\x40")
        await client.until(lambda: 2 in client.stops)
        assert client.stops[2] == STREAM_CREATION, client.stops
        client.send(0, head(), True)
        assert (await answered(client, 0))[1] == b"hello"
        # The first word of ours on the control stream are settings.
        await client.until(lambda: 3 in client.streams)
        data = client.streams[3][0]
        assert data[:2] == b"\0\x04" and not client.streams[3][1], data
    # A request with a body that the server does not want is answered, and then the server stops the body.
    async with raw() as client:
        client.send(0, head(method="POST", more=[("content-length", "1000000")]))
        fields, _ = await answered(client, 0)
        await client.until(lambda: 0 in client.stops)
        assert fields[b":status"] == b"405" and client.stops[0] == NO_ERROR, (fields, client.stops)
    # What is taken back is not answered, and the rest is.
    async with raw() as client:
        client.send(0, head(method="POST"))
        client.reset(0)
        client.send(4, head(), True)
        assert (await answered(client, 4))[1] == b"hello"
        assert client.resets == {0: CANCELLED}, client.resets


async def floods():
    async with raw() as client:
        for place in range(500):
            client.send(4 * place, head(method="POST"))
            client.reset(4 * place)
            await asyncio.sleep(0)
            if client.ended is not None:
                break
        await client.until(lambda: client.ended is not None)
        assert client.ended == LOAD, hex(client.ended)
    await ends_connection("grease without end", LOAD, (0, head(method="POST") + frame(0x21) * 1500, False))
    await ends_connection("empty frames without end", LOAD, (0, head(method="POST") + frame(DATA) * 1500, False))
    await ends_connection("words about pushes", LOAD, (2, b"\0" + SET + frame(MAX_PUSH_ID, b"\1") * 1500, False))
    await ends_connection("streams given up without end", LOAD, (2, b"\3" + b"\x41" * 1500, False))


async def main():
    for part in (answers, connection_errors, stream_errors, floods):
        await part()


asyncio.run(main())
