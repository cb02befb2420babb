"""A server of HTTP/3 by aioquic: answers each request with 2000 bytes, POST with what came; prints its port."""

import asyncio
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated


class Server(QuicConnectionProtocol):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http = None
        self.bodies = {}

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for said in self.http.handle_event(event):
            if isinstance(said, HeadersReceived):
                method = dict(said.headers).get(b":method")
                self.bodies[said.stream_id] = None if method == b"GET" else b""
            elif isinstance(said, DataReceived) and self.bodies[said.stream_id] is not None:
                self.bodies[said.stream_id] += said.data
            if said.stream_ended:
                self.answer(said.stream_id)
        self.transmit()

    def answer(self, stream):
        body = self.bodies.pop(stream)
        content = b"x" * 2000 if body is None else body
        fields = [
            (b":status", b"200"),
            (b"content-type", b"text/plain"),
            (b"content-length", str(len(content)).encode()),
            (b"x-own", b"of aioquic"),
        ]
        self.http.send_headers(stream, fields)
        self.http.send_data(stream, content, end_stream=True)


class Tickets(dict):
    """The sessions that can be resumed, each once."""

    def add(self, ticket):
        self[ticket.ticket] = ticket

    def take(self, label):
        return self.pop(label, None)


async def main():
    tickets = Tickets()
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    configuration.load_cert_chain(sys.argv[1], sys.argv[2])
    server = await serve(
        "127.0.0.1",
        0,
        configuration=configuration,
        create_protocol=Server,
        session_ticket_fetcher=tickets.take,
        session_ticket_handler=tickets.add,
    )
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
