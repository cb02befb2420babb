"""A client that does as it is told, a line at a time, and tells what comes: h2's state machine, or aioquic.

client.py h2|h2s|h3 PORT
  ask NAME PATH [USER:PASSWORD]   reset NAME   close
It says NAME STATUS RETRY-AFTER for a head, NAME end BYTES, NAME reset CODE, goaway, closed. A response gets no more room
than at the beginning, so that a large one is under way until its stream is reset.
"""

import asyncio
import base64
import ssl
import sys

VERSION, PORT = sys.argv[1], int(sys.argv[2])


def say(*words):
    print(*words, flush=True)


def head(scheme, path, credentials):
    fields = [(":method", "GET"), (":scheme", scheme), (":authority", "localhost"), (":path", path)]
    if credentials:
        fields.append(("authorization", "Basic " + base64.b64encode(credentials.encode()).decode()))
    return fields


class Http2:
    async def connect(self):
        import h2.config
        import h2.connection
        context = None
        if VERSION == "h2s":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
        self.input, self.output = await asyncio.open_connection("127.0.0.1", PORT, ssl=context)

        class Http(h2.connection.H2Connection):
            def _receive_goaway_frame(self, frame):
                # To h2 that is the end, but what was asked for is still answered (RFC 9113 section 6.8).
                heard = super()._receive_goaway_frame(frame)
                self.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
                return heard

        self.http = Http(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.http.initiate_connection()
        self.names, self.numbers, self.bytes = {}, {}, {}
        self.output.write(self.http.data_to_send())
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        import h2.events as events
        while data := await self.input.read(65536):
            for event in self.http.receive_data(data):
                name = self.names.get(getattr(event, "stream_id", None))
                if isinstance(event, events.ResponseReceived):
                    fields = dict(event.headers)
                    say(name, fields[":status"], fields.get("retry-after", "-"))
                elif isinstance(event, events.DataReceived):
                    self.bytes[name] += len(event.data)
                    if event.flow_controlled_length:
                        # That of the connection alone.
                        self.http.increment_flow_control_window(event.flow_controlled_length)
                elif isinstance(event, events.StreamEnded):
                    say(name, "end", self.bytes[name])
                elif isinstance(event, events.StreamReset):
                    say(name, "reset", event.error_code)
                elif isinstance(event, events.ConnectionTerminated):
                    say("goaway")
            self.output.write(self.http.data_to_send())
        say("closed")

    def ask(self, name, path, credentials=None):
        stream = self.http.get_next_available_stream_id()
        self.names[stream], self.numbers[name], self.bytes[name] = name, stream, 0
        self.http.send_headers(stream, head("http", path, credentials), end_stream=True)
        self.output.write(self.http.data_to_send())

    def reset(self, name):
        self.http.reset_stream(self.numbers[name], 8)
        self.output.write(self.http.data_to_send())

    def close(self):
        self.output.close()


class Http3:
    async def connect(self):
        from aioquic.asyncio.client import connect
        from aioquic.asyncio.protocol import QuicConnectionProtocol
        from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection
        from aioquic.h3.events import DataReceived, HeadersReceived
        from aioquic.quic.configuration import QuicConfiguration
        from aioquic.quic.events import ConnectionTerminated, StreamReset
        outer = self

        class Http(H3Connection):
            def _check_control_frame_type(self, frame_type):
                # It passes over what this says.
                if frame_type == FrameType.GOAWAY:
                    say("goaway")
                super()._check_control_frame_type(frame_type)

        class Protocol(QuicConnectionProtocol):
            def __init__(self, *arguments, **named):
                super().__init__(*arguments, **named)
                self.http = Http(self._quic)
                self._quic._write_stream_limits = lambda *_, **__: None

            def quic_event_received(self, event):
                if isinstance(event, ConnectionTerminated):
                    say("closed")
                if isinstance(event, StreamReset):
                    say(outer.names[event.stream_id], "reset", event.error_code)
                for event in self.http.handle_event(event):
                    name = outer.names[event.stream_id]
                    if isinstance(event, HeadersReceived):
                        fields = dict(event.headers)
                        say(name, fields[b":status"].decode(), fields.get(b"retry-after", b"-").decode())
                    if isinstance(event, DataReceived):
                        outer.bytes[name] += len(event.data)
                    if event.stream_ended:
                        say(name, "end", outer.bytes[name])

        how = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, verify_mode=ssl.CERT_NONE, max_stream_data=50_000)
        self.names, self.numbers, self.bytes = {}, {}, {}
        self.manager = connect("127.0.0.1", PORT, configuration=how, create_protocol=Protocol)
        self.client = await self.manager.__aenter__()

    def ask(self, name, path, credentials=None):
        stream = self.client._quic.get_next_available_stream_id()
        self.names[stream], self.numbers[name], self.bytes[name] = name, stream, 0
        fields = [(field.encode(), value.encode()) for field, value in head("https", path, credentials)]
        self.client.http.send_headers(stream, fields, end_stream=True)
        self.client.transmit()

    def reset(self, name):
        # All of the request is there: what is taken back is the wish for an answer.
        self.client._quic.stop_stream(self.numbers[name], 0x10C)
        self.client.transmit()

    def close(self):
        self.client.close()


async def main():
    client = Http3() if VERSION == "h3" else Http2()
    await client.connect()
    say("ready")
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().split():
        getattr(client, line[0])(*line[1:])


asyncio.run(main())
