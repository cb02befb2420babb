"""Speaks to messages.js: port, "tls" or "clear", messages, requests before the WebSocket on its connection.

Each message waits for its echo; then a ping, and the end."""

import os
import socket
import ssl
import sys


def frame(opcode, content):
    mask, length = os.urandom(4), len(content)
    head = bytes([0x80 | opcode, 0x80 | length]) if length < 126 else bytes([0x80 | opcode, 0xFE]) + length.to_bytes(2, "big")
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))


def take(stream, count):
    taken = b""
    while len(taken) < count:
        more = stream.recv(count - len(taken))
        if not more:
            raise SystemExit("the server has closed")
        taken += more
    return taken


def message(stream):
    first, length = take(stream, 2)
    if length == 126:
        length = int.from_bytes(take(stream, 2), "big")
    return first & 15, take(stream, length)


def main(port, tls, messages, earlier):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        stream = context.wrap_socket(stream)
    for _ in range(earlier):
        stream.sendall(b"GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += take(stream, 1)
        assert b"content-length: 5" in head.lower() and take(stream, 5) == b"short"
    stream.sendall(
        b"GET /talk?token=secret HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += take(stream, 1)
    for number in range(messages):
        content = bytes([65 + number % 26]) * (20 if number % 2 else 300)
        stream.sendall(frame(1, content))
        assert message(stream) == (1, content)
    stream.sendall(frame(9, b"there?"))
    assert message(stream)[0] == 9
    stream.sendall(frame(8, b""))
    message(stream)


main(int(sys.argv[1]), sys.argv[2] == "tls", int(sys.argv[3]), int(sys.argv[4]))
