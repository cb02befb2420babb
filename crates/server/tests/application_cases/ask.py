"""Asks an application over HTTP/2 by h2 (in the clear), or over HTTP/3 by aioquic.

ask.py h2|h3 PORT echo               POST /echo with a body and trailers, all at once; both come back.
ask.py h2|h3 PORT large BYTES CODE   The same with so many bytes of trailers; the server resets the stream by CODE.
ask.py h2|h3 PORT wait               GET /wait/300; it is answered.
ask.py h3 PORT sip BYTES             POST /sip with so many bytes, of which the server takes little at a time.
ask.py h3 PORT reset|stop BYTES      POST /wait/60000 with bytes that are not taken, then RESET_STREAM or STOP_SENDING;
                                        the connection stays until standard input ends.
"""

import asyncio
import pathlib
import socket
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "http3_cases"))

CANCELLED = 0x10C


def head(method, path):
    return [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]


def over_http2(port, method, path, body=None, trailers=()):
    """The fields, the body, the trailers and the end of an answer."""
    import h2.config
    import h2.connection
    import h2.events as events

    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    http.initiate_connection()
    http.send_headers(1, head(method, path), end_stream=body is None)
    if body is not None:
        http.send_data(1, body, end_stream=not trailers)
    if trailers:
        http.send_headers(1, list(trailers), end_stream=True)
    connection.sendall(http.data_to_send())
    fields, answer, behind, end = {}, b"", {}, None
    while end is None:
        received = connection.recv(65536)
        assert received, "the server closes"
        for event in http.receive_data(received):
            if isinstance(event, events.ResponseReceived):
                fields = dict(event.headers)
            elif isinstance(event, events.DataReceived):
                answer += event.data
            elif isinstance(event, events.TrailersReceived):
                behind = dict(event.headers)
            elif isinstance(event, events.StreamEnded):
                end = "end"
            elif isinstance(event, events.StreamReset):
                end = event.error_code
        connection.sendall(http.data_to_send())
    connection.close()
    return fields, answer, behind, end


def open_http3(port):
    from aioquic.asyncio.client import connect
    from client import Client, configuration

    how = configuration(max_data=1 << 24, max_stream_data=1 << 24)
    return connect("127.0.0.1", port, configuration=how, create_protocol=Client)


async def over_http3(port, method, path, body=None, trailers=()):
    """The same; of trailers and fields only what came last."""
    async with open_http3(port) as client:
        stream = client._quic.get_next_available_stream_id()
        client.http.send_headers(stream, encoded(head(method, path)), end_stream=body is None)
        if body is not None:
            client.http.send_data(stream, body, end_stream=not trailers)
        if trailers:
            client.http.send_headers(stream, encoded(trailers), end_stream=True)
        client.transmit()
        fields, answer, end = await client.answer(stream)
        fields = {name.decode(): value.decode() for name, value in fields.items()}
        return fields, answer, fields, end


def encoded(fields):
    return [(name.encode(), value.encode()) for name, value in fields]


async def sip(port, size):
    """Sends more than the server lets it send at first: the window opens as the application takes the body."""
    body = bytes(i % 251 for i in range(size))
    async with open_http3(port) as client:
        stream = client.ask("/sip", (), b"POST", body)
        first = client._quic._streams[stream].max_stream_data_remote
        assert 0 < first < size / 3, f"the window is {first} bytes"
        fields, answer, end = await client.answer(stream)
        expected = f"{size} {sum(body)}".encode()
        assert (answer, end) == (expected, "end"), (fields, answer, end, expected)


async def take_back(port, how, size):
    async with open_http3(port) as client:
        stream = client.ask("/wait/60000", (), b"POST", b"x" * size)
        # Until the server lets it send no more.
        sender = client._quic._streams[stream].sender
        last = -1
        while sender.highest_offset != last:
            last = sender.highest_offset
            await asyncio.sleep(0.3)
        assert 0 < last < size, f"{last} bytes of {size} are under way"
        if how == "reset":
            client._quic.reset_stream(stream, CANCELLED)
        else:
            client._quic.stop_stream(stream, CANCELLED)
        client.transmit()
        print("taken back", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def ask(version, port, *request):
    return asyncio.run(over_http3(port, *request)) if version == "h3" else over_http2(port, *request)


def main():
    version, port, case = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if case == "echo":
        answer = ask(version, port, "POST", "/echo", b"hello", [("x-sum", "5"), ("x-more", "six")])
        assert answer[1] == b"hello" and answer[3] == "end", answer
        assert (answer[2].get("x-sum"), answer[2].get("x-more")) == ("5", "six"), answer
    elif case == "large":
        answer = ask(version, port, "POST", "/echo", b"hello", [("x-large", "x" * int(sys.argv[4]))])
        assert answer[3] == int(sys.argv[5]), answer
    elif case == "wait":
        answer = ask(version, port, "GET", "/wait/300")
        assert (answer[0].get(":status"), answer[1], answer[3]) == ("200", b"waited", "end"), answer
    elif case == "sip":
        asyncio.run(sip(port, int(sys.argv[4])))
    else:
        asyncio.run(take_back(port, case, int(sys.argv[4])))


main()
