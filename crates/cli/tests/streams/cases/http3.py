"""Asks a server over HTTP/3: port, connections, requests of each, how many at a time, path."""

import asyncio
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.quic.configuration import QuicConfiguration


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http, self.waiting = H3Connection(self._quic), {}

    def quic_event_received(self, event):
        for got in self.http.handle_event(event):
            if got.stream_ended and not self.waiting[got.stream_id].done():
                self.waiting[got.stream_id].set_result(True)

    async def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = done = asyncio.get_running_loop().create_future()
        fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        self.http.send_headers(stream, [(n.encode(), v.encode()) for n, v in fields], end_stream=True)
        self.transmit()
        await asyncio.wait_for(done, 30)


async def ask(port, requests, at_a_time, path):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
        for begin in range(0, requests, at_a_time):
            await asyncio.gather(*(client.get(path) for _ in range(min(at_a_time, requests - begin))))


async def main():
    port, connections, requests, at_a_time = map(int, sys.argv[1:5])
    await asyncio.gather(*(ask(port, requests, at_a_time, sys.argv[5]) for _ in range(connections)))


asyncio.run(main())
