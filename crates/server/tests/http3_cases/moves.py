"""Clients whose port changes between requests, as behind a router that forgets: moves.py PORT"""

import asyncio
import socket
import sys

from aioquic.asyncio.client import connect
from client import Client, configuration


async def main():
    for _ in range(4):
        async with connect("127.0.0.1", int(sys.argv[1]), configuration=configuration(), create_protocol=Client) as client:
            moved = False
            for _ in range(8):
                fields, body, end = await client.answer(client.ask("/a.txt"))
                assert (fields[b":status"], body, end) == (b"200", b"hello", "end"), (fields, body, end)
                # From a port that the kernel has no reason to lead to the same loop; aioquic itself stays as it is.
                # The addresses are those of an IPv6 socket that speaks to IPv4.
                fresh = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
                fresh.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                fresh.setblocking(False)
                fresh.bind(("::", 0))
                transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                    lambda: Relay(client), sock=fresh)
                if moved:
                    client._transport.close()
                client._transport, moved = transport, True


class Relay(asyncio.DatagramProtocol):
    def __init__(self, client):
        self.client = client

    def datagram_received(self, data, addr):
        self.client.datagram_received(data, addr)


asyncio.run(main())
