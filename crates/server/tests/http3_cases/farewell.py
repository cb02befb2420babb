"""Clients of a server that is stopped, and whether any of them loses a request. farewell.py PORT

It says "ready", and the server is to be stopped then. The site has /a.txt (b"hello").
"""

import asyncio
import contextlib
import sys

from aioquic.asyncio.client import connect
from aioquic.buffer import Buffer, BufferReadError
from aioquic.h3.connection import FrameType, StreamType
from aioquic.quic.events import StreamDataReceived
from client import Client, configuration

PORT = int(sys.argv[1])
ANY = 2**62 - 4
UNDER_WAY = 8
# The server opens this stream of its own first.
CONTROL = 3


class Listening(Client):
    """Reads what the server says of the end on its control stream, as aioquic passes over it."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.control = b""

    @property
    def goodbyes(self):
        said = []
        buffer = Buffer(data=self.control)
        with contextlib.suppress(BufferReadError):
            assert buffer.pull_uint_var() == StreamType.CONTROL
            while not buffer.eof():
                kind, content = buffer.pull_uint_var(), buffer.pull_bytes(buffer.pull_uint_var())
                if kind == FrameType.GOAWAY:
                    said.append(Buffer(data=content).pull_uint_var())
        return said

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.stream_id == CONTROL:
            self.control += event.data
        super().quic_event_received(event)


def client():
    return connect("127.0.0.1", PORT, configuration=configuration(), create_protocol=Listening)


async def answered(client, stream):
    fields, body, end = await client.answer(stream)
    assert (fields.get(b":status"), body, end) == (b"200", b"hello", "end"), (stream, fields, body, end, client.ended)


async def busy(ready):
    """Has many under way until it hears of the end: each of them is answered."""
    async with client() as listening:
        streams = []
        while not listening.goodbyes:
            streams.append(listening.ask("/a.txt"))
            if len(streams) > UNDER_WAY:
                await answered(listening, streams[-UNDER_WAY])
            ready.set()
        for stream in streams:
            await answered(listening, stream)
        await listening.wait_for(lambda: listening.ended, 10)
        assert listening.goodbyes == [ANY, streams[-1] + 4], (listening.goodbyes, streams[-1])
        assert listening.ended.error_code == 0x100, listening.ended


async def late(is_begun, seconds):
    """Could not have asked yet, and does so a while later."""
    async with client() as listening:
        is_begun.set()
        await asyncio.sleep(seconds)
        assert not listening.goodbyes and not listening.ended, (listening.goodbyes, listening.ended)
        await answered(listening, listening.ask("/a.txt"))
        await listening.wait_for(lambda: listening.ended, 10)
        assert listening.goodbyes == [ANY, 4], listening.goodbyes


async def mute(is_begun):
    """Never asks."""
    async with client() as listening:
        is_begun.set()
        await listening.wait_for(lambda: listening.ended, 10)
        assert listening.goodbyes == [ANY, 0], listening.goodbyes


async def main():
    begun = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(task) for task in (busy(begun[0]), late(begun[1], 0.6), mute(begun[2]))]
    for event in begun:
        await event.wait()
    print("ready", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
