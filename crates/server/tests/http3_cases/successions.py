"""Clients of servers that follow each other at one address, and whether any of them notices. successions.py PORT FOLDER

Each line with a number on its input is answered by a line once so many more answers have come; at the end of its input
it says how many there were, over how many connections. The site has the files a.txt and huge.bin of FOLDER.
"""

import asyncio
import pathlib
import sys

from aioquic.asyncio.client import connect
from client import configuration
from farewell import Listening

PORT, FOLDER = int(sys.argv[1]), pathlib.Path(sys.argv[2])
NO_ERROR, REQUEST_REJECTED = 0x100, 0x10B


class Counts:
    answers = connections = ended = 0


def client():
    Counts.connections += 1
    return connect("127.0.0.1", PORT, configuration=configuration(), create_protocol=Listening)


async def answered(client, name):
    """Whether it is: a server that says goodbye may leave it to the next one, which it has to say."""
    fields, body, end = await client.answer(client.ask("/" + name))
    if client.goodbyes and (end == REQUEST_REJECTED or client.ended):
        assert not client.ended or client.ended.error_code == NO_ERROR, client.ended
        return False
    assert fields.get(b":status") == b"200" and end == "end", (name, fields, len(body), end, client.ended)
    assert body == (FOLDER / name).read_bytes(), (name, len(body))
    Counts.answers += 1
    return True


async def fresh(stop):
    """Connects anew for each request."""
    while not stop.is_set():
        async with client() as one:
            assert await answered(one, "a.txt")


async def staying(stop, name, pause):
    """Stays with the server that it has connected to, until that server says goodbye."""
    while not stop.is_set():
        async with client() as one:
            while not stop.is_set() and await answered(one, name) and not one.goodbyes:
                await asyncio.sleep(pause)
            if one.goodbyes:
                await one.wait_for(lambda: one.ended, 10)
                assert one.ended.error_code == NO_ERROR, one.ended
                Counts.ended += 1


async def main():
    stop = asyncio.Event()
    tasks = [fresh(stop), fresh(stop), staying(stop, "a.txt", 0), staying(stop, "a.txt", 0.05)]
    tasks = [asyncio.create_task(task) for task in tasks + [staying(stop, "huge.bin", 0)]]

    async def commands():
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async for line in reader:
            aim = Counts.answers + int(line)
            while Counts.answers < aim:
                await asyncio.sleep(0.005)
            print("so many", flush=True)

    asked = asyncio.create_task(commands())
    # One that fails ends the test at once.
    done, _ = await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    stop.set()
    await asyncio.gather(*tasks)
    print(f"{Counts.answers} answers over {Counts.connections} connections, {Counts.ended} of them told of an end")


asyncio.run(main())
