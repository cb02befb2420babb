"""Persistent scripts of Python: CGIplus.

    import cgiplus
    for request in cgiplus.requests():
        request.write("Content-Type: text/plain\\r\\n\\r\\n")
        request.write("hello " + request["QUERY_STRING"] + "\\n")

A request is a mapping of its variables; one that is missing is "". `request.body` reads the body and ends behind it;
what a script does not read is read when its response ends, so that it cannot reach the next request. `write` takes str
(UTF-8) and bytes, and `print(..., file=request)` works. `request.callout("LIFETIME: 5")` asks the server and returns
its answer. Started without CGIplus, a script answers one request of plain CGI.
"""

import io
import os
import struct

_BUFFER = 65536  # bytes of a response that are kept before they are written


class _Body(io.RawIOBase):
    """Reads exactly the bytes of one body from descriptor 0."""

    def __init__(self, length):
        self.left = length

    def readable(self):
        return True

    def readinto(self, buffer):
        size = min(len(buffer), self.left)
        if size == 0:
            return 0
        data = os.read(0, size)
        if not data:
            raise EOFError("the body ends early")
        buffer[: len(data)] = data
        self.left -= len(data)
        return len(data)


class _Stream:
    """The stream of variables on descriptor 3, and the sentinels."""

    def __init__(self):
        self.eof, self.eot, self.esc = (
            os.environ.pop(name).encode() for name in ("CGIPLUSEOF", "CGIPLUSEOT", "CGIPLUSESC")
        )
        self.kept = b""
        self.asked = False

    def fill(self):
        data = os.read(3, 65536)
        self.kept += data
        return bool(data)

    def line(self):
        while (at := self.kept.find(b"\n")) < 0:
            if not self.fill():
                return None
        line, self.kept = self.kept[:at], self.kept[at + 1 :]
        return line

    def structs(self, length):
        while len(self.kept) < length:
            if not self.fill():
                raise EOFError("the variables end early")
        data, self.kept = self.kept[:length], self.kept[length:]
        items, at = [], 0
        while at + 2 <= length:
            (size,) = struct.unpack_from("=H", data, at)
            if size == 0:
                break
            items.append(data[at + 2 : at + 1 + size])
            at += 2 + size
        return items

    def lines(self):
        items = []
        while line := self.line():
            items.append(line)
        if line is None:
            raise EOFError("the variables end early")
        return items


class Request(dict):
    """A request: its variables, its body, and where its response goes."""

    def __init__(self, variables, stream):
        super().__init__(variables)
        self._stream = stream
        self._out = bytearray()
        length = self["CONTENT_LENGTH"]
        self._raw = _Body(int(length) if length.isascii() and length.isdigit() else 0)
        self.body = io.BufferedReader(self._raw)

    def __missing__(self, name):
        return ""

    def write(self, data):
        self._out += data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        if len(self._out) > _BUFFER:
            self.flush()
        return len(data)

    def flush(self):
        data = memoryview(bytes(self._out))
        self._out.clear()
        while data:
            data = data[os.write(1, data) :]

    def callout(self, request):
        if self._stream is None:
            return None
        self.write(b"%s\n%s\n%s\n" % (self._stream.esc, request.encode(), self._stream.eot))
        if request.startswith("!"):
            return None
        self.flush()
        answer = self._stream.line()
        if answer is None:
            raise EOFError("the server's answer is missing")
        return answer.decode()

    def _end(self):
        while self._raw.left:
            self._raw.readinto(bytearray(min(self._raw.left, _BUFFER)))
        if self._stream is not None:
            self._out += self._stream.eof
        self.flush()


def _next(stream):
    first = stream.line()
    if first is None:
        return None
    if first.startswith(b"!!"):
        items = stream.structs(int(first[2:]))
    elif first == b"!":
        items = stream.lines()
    else:
        raise ValueError("this is no request: %r" % first)
    request = Request((item.decode("utf-8", "surrogateescape").split("=", 1) for item in items), stream)
    if first == b"!" and not stream.asked:
        # The other form of the variables costs less.
        stream.asked = True
        request.callout("!CGIPLUS: struct")
    return request


def requests():
    """Yields the requests until the server wants the script to end. The response ends when the next one is asked for."""
    if "CGIPLUSEOF" not in os.environ:
        request = Request(os.environ, None)
        yield request
        request._end()
        return
    stream = _Stream()
    while (request := _next(stream)) is not None:
        yield request
        request._end()
