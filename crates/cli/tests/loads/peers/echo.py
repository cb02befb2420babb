"""Echoes messages by the library websockets, at a port that the kernel gives, and prints the port.

/big sends messages in fragments of 100 bytes, /pushy says something unasked before each echo, /ping asks with each
message whether the client is there, /leave closes with 1001 behind the third echo, /wrong with a code of the application.
"""

import asyncio

from websockets.asyncio.server import serve


async def handler(connection):
    path = connection.request.path
    count = 0
    async for message in connection:
        count += 1
        if path == "/big":
            pieces = [message[at : at + 100] for at in range(0, len(message), 100)]
            await connection.send(pieces or [message])
        elif path == "/pushy":
            await connection.send("news")
            await connection.send(message)
        elif path == "/ping":
            await (await connection.ping())
            await connection.send(message)
        else:
            await connection.send(message)
        if path == "/leave" and count == 3:
            await connection.close(1001, "leaving")
        if path == "/wrong":
            await connection.close(4242, "no such thing")


async def main():
    def chosen(_connection, offered):
        return "second" if "second" in offered else None

    async with serve(handler, "127.0.0.1", 0, select_subprotocol=chosen, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
