"""Sends bodies to an application that sends them back over HTTP/3, by aioquic.

echo.py PORT          Bodies of several sizes, some with trailers, several at once; and one request that is taken back.
echo.py PORT BYTES    One body of so many bytes, of which no more than some are on the way at a time.
"""

import asyncio
import sys

from aioquic.asyncio.client import connect

from client import Client, configuration


async def main():
    port = int(sys.argv[1])
    how = configuration(max_data=1 << 24, max_stream_data=1 << 24)
    async with connect("127.0.0.1", port, configuration=how, create_protocol=Client) as client:
        for size in [0, 1, 20_000, 3_000_000]:
            body = bytes(i % 251 for i in range(size))
            for path in ["/echo", "/echo?length"]:
                fields = [(b"content-length", str(size).encode())] if "length" in path else []
                stream = client.ask(path, fields, b"POST", body)
                head, answer, end = await client.answer(stream)
                assert end == "end" and head[b":status"] == b"200", (path, size, head, end)
                assert answer == body, (path, size, len(answer))
                assert head[b"x-asked"] == f"POST {path} 30".encode(), head
        # Several at once, of which each holds its own.
        streams = [client.ask("/echo", [], b"PUT", bytes([i]) * 150_000) for i in range(10)]
        for i, stream in enumerate(streams):
            _, answer, end = await client.answer(stream)
            assert end == "end" and answer == bytes([i]) * 150_000, (i, len(answer))
        # What an application gives later.
        stream = client.ask("/wait/100")
        head, answer, end = await client.answer(stream)
        assert (head[b":status"], answer, end) == (b"200", b"waited", "end"), (head, answer, end)
        # More than is given at a time, of an application that nothing wakes.
        stream = client.ask("/pour/3000000")
        head, answer, end = await client.answer(stream)
        assert (len(answer), end) == (3_000_000, "end"), (head, len(answer), end)
        # Trailers there and back.
        stream = client._quic.get_next_available_stream_id()
        head = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/echo")]
        client.http.send_headers(stream, head)
        client.http.send_data(stream, b"hello", end_stream=False)
        client.http.send_headers(stream, [(b"x-sum", b"5")], end_stream=True)
        client.transmit()
        head, answer, end = await client.answer(stream)
        assert (answer, end, head[b"x-sum"]) == (b"hello", "end", b"5"), (head, answer, end)
        # One that is taken back.
        stream = client.ask("/wait/60000")
        await asyncio.sleep(0.1)
        client._quic.reset_stream(stream, 0x10C)
        client._quic.stop_stream(stream, 0x10C)
        client.transmit()
        await asyncio.sleep(0.2)
    print("bodies came back")


async def send_many(port, size):
    """Sends a body while it comes back, and holds neither of both whole."""
    how = configuration(max_data=1 << 24, max_stream_data=1 << 24)
    block = bytes(i % 251 for i in range(251 * 1024))
    async with connect("127.0.0.1", port, configuration=how, create_protocol=Client) as client:
        stream = client._quic.get_next_available_stream_id()
        head = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/echo")]
        client.http.send_headers(stream, head)
        sent = received = 0
        ended = False
        while not ended:
            while sent < size and sent - received < 1 << 20:
                part = block[: min(len(block), size - sent)]
                sent += len(part)
                client.http.send_data(stream, part, end_stream=sent == size)
            client.transmit()
            client.news.clear()
            answer = client.answers.setdefault(stream, [[], b"", None])
            taken, answer[1] = answer[1], b""
            ended = answer[2] is not None
            if taken:
                start = received % 251
                assert taken == (block[start:] + block)[: len(taken)] or taken == expected(received, len(taken))
                received += len(taken)
            elif not ended:
                await asyncio.wait_for(client.news.wait(), 60)
        assert (received, client.answers[stream][2]) == (size, "end"), (received, client.answers[stream][2])


def expected(start, size):
    return bytes(i % 251 for i in range(start, start + size))


if len(sys.argv) > 2:
    asyncio.run(send_many(int(sys.argv[1]), int(sys.argv[2])))
else:
    asyncio.run(main())
