"""Clients that begin something and go silent: idle, within a head, within a body, not reading, killed. silent.py PORT"""

import asyncio
import contextlib
import sys

from aioquic.asyncio.client import connect
from aioquic.h3.connection import FrameType, encode_frame
from client import Client, configuration

PORT = int(sys.argv[1])


async def is_ended(begin, **how):
    async with connect("127.0.0.1", PORT, configuration=configuration(**how), create_protocol=Client) as client:
        begin(client)
        for _ in range(40):
            if client.ended is not None:
                break
            # Signs of life do not help.
            with contextlib.suppress(ConnectionError):
                await client.ping()
            await asyncio.sleep(0.1)
        assert client.ended is not None and client.ended.error_code == 0x100, client.ended


def half_a_head(client):
    client._quic.send_stream_data(0, encode_frame(FrameType.HEADERS, b"a" * 20)[:9])
    client.transmit()


def half_a_body(client):
    head = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"a"), (b":path", b"/a.txt"),
            (b"content-length", b"2")]
    client.http.send_headers(0, head, end_stream=False)
    client.http.send_data(0, b"a", end_stream=False)
    client.transmit()


async def killed():
    # No word of goodbye: the socket is simply gone.
    manager = connect("127.0.0.1", PORT, configuration=configuration(), create_protocol=Client)
    client = await manager.__aenter__()
    await client.answer(client.ask("/a.txt"))
    client._transport.abort()


def no_window(client):
    # More is never allowed than what was at the beginning.
    client._quic._write_stream_limits = lambda *_, **__: None
    client._quic._write_connection_limits = lambda *_, **__: None
    client.ask("/huge.bin")


async def main():
    await is_ended(lambda client: None)
    await is_ended(half_a_head)
    await is_ended(half_a_body)
    await is_ended(no_window, max_stream_data=20_000, max_data=20_000)
    await killed()


asyncio.run(main())
