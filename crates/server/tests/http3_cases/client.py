"""Asks a server for files over HTTP/3 by aioquic, as a browser would: several at once over one connection.

client.py PORT AUTHORITY FOLDER NAME...   Each answer must be the file NAME of FOLDER. With --times N all of them N times.
"""

import argparse
import asyncio
import pathlib
import ssl

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset


class Client(QuicConnectionProtocol):
    """A connection that keeps what comes of each request."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.answers = {}
        self.ended = None
        self.news = asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ended = event
        if isinstance(event, StreamReset):
            self.answers.setdefault(event.stream_id, [[], b"", None])[2] = event.error_code
        for event in self.http.handle_event(event):
            answer = self.answers.setdefault(event.stream_id, [[], b"", None])
            if isinstance(event, HeadersReceived):
                answer[0] = event.headers
            if isinstance(event, DataReceived):
                answer[1] += event.data
            if event.stream_ended:
                answer[2] = "end"
        self.news.set()

    def ask(self, path, fields=(), method=b"GET", body=None):
        stream = self._quic.get_next_available_stream_id()
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
        self.http.send_headers(stream, head + list(fields), end_stream=body is None)
        if body is not None:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return stream

    async def wait_for(self, is_there, seconds=60):
        async def wait():
            while not is_there():
                self.news.clear()
                await self.news.wait()

        await asyncio.wait_for(wait(), seconds)

    async def answer(self, stream):
        await self.wait_for(lambda: self.ended or self.answers.get(stream, [0, 0, None])[2] is not None)
        fields, body, end = self.answers.get(stream, [[], b"", None])
        return dict(fields), body, end


def configuration(**more):
    return QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, verify_mode=ssl.CERT_NONE, **more)


async def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("port", type=int)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("names", nargs="+")
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--host", default="127.0.0.1")
    wanted = arguments.parse_args()
    how = configuration(max_data=1 << 24, max_stream_data=1 << 24)
    async with connect(wanted.host, wanted.port, configuration=how, create_protocol=Client) as client:
        streams = [(name, client.ask("/" + name)) for _ in range(wanted.times) for name in wanted.names]
        for name, stream in streams:
            fields, body, end = await client.answer(stream)
            assert fields.get(b":status") == b"200", (name, fields, end, client.ended)
            assert end == "end" and body == (wanted.folder / name).read_bytes(), (name, len(body), end)
    print(f"{len(streams)} answers")


if __name__ == "__main__":
    asyncio.run(main())
