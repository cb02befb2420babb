"""Clients that take nothing, ask nothing or send half a body, and give signs of life: they are let go all the same. One that
takes a little at a time is not. silent.py PORT SECONDS

SECONDS is what the server bears. The site has /a.txt (b"hello") and /large.bin (200,000 bytes).
"""

import sys
import time

from frames import GET, Client
from hyperframe.frame import DataFrame, GoAwayFrame, PingFrame, WindowUpdateFrame

SECONDS = float(sys.argv[2])
LARGE = GET[:3] + [(":path", "/large.bin")]


def is_let_go(name, begin, **how):
    client = Client(**how)
    begin(client)
    began = time.monotonic()
    while not client.ended and time.monotonic() - began < 5 * SECONDS + 1:
        client.send(PingFrame(0, opaque_data=b"are you?"))
        # Either the ping's answer or the end.
        while (frame := client.read()) is not None and not isinstance(frame, PingFrame):
            pass
        time.sleep(SECONDS / 10)
    assert client.ended, f"{name}: it is still there after {time.monotonic() - began:.1f} s"
    goodbye = [frame for frame in client.frames if isinstance(frame, GoAwayFrame)]
    assert [frame.error_code for frame in goodbye] == [0], f"{name}: {goodbye}"
    assert time.monotonic() - began > 0.9 * SECONDS, f"{name}: that was soon"


def half_a_body(client):
    client.headers(1, [(":method", "POST")] + GET[1:] + [("content-length", "2")], flags=("END_HEADERS",))
    client.send(DataFrame(1, b"a"))


def takes_little(client):
    """Three times as long as the server bears to see nothing move."""
    client.headers(1, LARGE)
    for _ in range(9):
        client.send(WindowUpdateFrame(1, window_increment=1000))
        client.until(lambda frame: isinstance(frame, DataFrame))
        time.sleep(SECONDS / 3)
    client.lives()


is_let_go("no window", lambda client: client.headers(1, LARGE), settings={4: 0})
is_let_go("no request", lambda client: None)
is_let_go("half a body", half_a_body)
takes_little(Client(settings={4: 1000}))
