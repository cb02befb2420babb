"""Clients of a server that is stopped, each at another point, and whether any of them loses a request. farewell.py PORT

It says "ready", and the server is to be stopped then. The site has /a.txt (b"hello").
"""

import sys
import time

from frames import Client
from hyperframe.frame import GoAwayFrame, PingFrame

ANY = 2**31 - 1


def is_goodbye(frame):
    return isinstance(frame, GoAwayFrame)


def is_asked(frame):
    return isinstance(frame, PingFrame) and "ACK" not in frame.flags


def announced(client):
    """The connection is to end, but not with any stream yet; the ping behind that is returned."""
    frame = client.until(is_goodbye)
    assert (frame.last_stream_id, frame.error_code) == (ANY, 0), frame
    return client.until(is_asked)


def acknowledge(client, ping):
    client.send(PingFrame(0, opaque_data=ping.opaque_data, flags=("ACK",)))


def ends_behind(client, stream):
    frame = client.goes_away(0)
    assert frame.last_stream_id == stream, f"{frame} behind {stream}"


def answered(client, stream):
    client.headers(stream)
    status, _, body = client.response(stream)
    assert (status, body) == ("200", b"hello"), (status, body)


def main():
    asked, late, unhearing, mute = Client(), Client(), Client(), Client()
    answered(asked, 1)
    answered(unhearing, 1)
    for client in (late, mute):
        client.lives()
    print("ready", flush=True)

    # What crosses with the announcement is answered.
    ping = announced(asked)
    began = time.monotonic()
    answered(asked, 3)
    # Another one's acknowledgement is none of this one.
    client_ping = PingFrame(0, opaque_data=b"not that", flags=("ACK",))
    asked.send(client_ping)
    answered(asked, 5)
    acknowledge(asked, ping)
    ends_behind(asked, 5)
    # Who has heard is not kept waiting; a busy machine is given its time.
    assert time.monotonic() - began < 0.9, "it was waited for in vain"

    # Who could not have asked yet does so a while later, and hears of nothing until then.
    time.sleep(0.3)
    answered(late, 1)
    acknowledge(late, announced(late))
    ends_behind(late, 1)
    heard = [frame for frame in late.frames if is_goodbye(frame)]
    assert len(heard) == 2, heard

    # Who hears nothing, or never asks, has a bounded time.
    announced(unhearing)
    ends_behind(unhearing, 1)
    announced(mute)
    ends_behind(mute, 0)
    assert time.monotonic() - began < 6, "there is no bound"


main()
