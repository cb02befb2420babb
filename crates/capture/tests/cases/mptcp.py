"""A server and a client that speak MPTCP: mptcp.py serve PORT, or mptcp.py ask PORT REQUESTS.

The server thinks for some milliseconds, and gives more than one packet; the client asks over two connections in turn.
"""

import socket
import sys
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


def made():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)


def answer(client):
    while client.recv(4096):
        time.sleep(0.004)
        client.sendall(HEAD + b"x" * 100000)


def serve(port):
    server = made()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen(64)
    while True:
        client, _ = server.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


def ask(port, requests):
    connections = [made() for _ in range(2)]
    for connection in connections:
        connection.connect(("127.0.0.1", port))
    for number in range(requests):
        connection = connections[number % 2]
        connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        left = len(HEAD) + 100000
        while left:
            left -= len(connection.recv(left))


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    ask(int(sys.argv[2]), int(sys.argv[3]))
