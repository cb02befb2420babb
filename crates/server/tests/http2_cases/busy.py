"""Clients that keep streams under way until they hear that the connection ends, and count what becomes of each. busy.py PORT
clear|secure CONNECTIONS STREAMS BYTES

It says how many requests were asked, and how many were not answered whole. The site has /a.bin of so many BYTES.
"""

import sys
import threading

from frames import GET, Client
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

IS_SECURE = sys.argv[2] == "secure"
CONNECTIONS, STREAMS, BYTES = map(int, sys.argv[3:6])
WINDOW = 1 << 30
asked, failed = [], []


def ask_on_and_on():
    client = Client({4: WINDOW}, is_secure=IS_SECURE)
    client.send(WindowUpdateFrame(0, window_increment=WINDOW))
    under_way, stream, has_heard = {}, 1, False

    def ask():
        nonlocal stream
        client.headers(stream, GET[:3] + [(":path", "/a.bin")])
        under_way[stream] = 0
        stream += 2

    for _ in range(STREAMS):
        ask()
    while (frame := client.read()) is not None:
        # What was read is looked at once and not kept.
        client.frames.clear()
        if isinstance(frame, GoAwayFrame):
            if frame.error_code or any(id > frame.last_stream_id for id in under_way):
                break
            has_heard = True
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            client.send(PingFrame(0, opaque_data=frame.opaque_data, flags=("ACK",)))
        elif isinstance(frame, HeadersFrame):
            # Otherwise the client's table is not the server's.
            status = dict(client.decoder.decode(frame.data))[":status"]
            if status != "200":
                break
        elif isinstance(frame, DataFrame):
            under_way[frame.stream_id] += len(frame.data)
            client.send(WindowUpdateFrame(0, window_increment=len(frame.data))) if frame.data else None
            if "END_STREAM" in frame.flags and under_way[frame.stream_id] == BYTES:
                del under_way[frame.stream_id]
                if not has_heard:
                    ask()
        elif isinstance(frame, RstStreamFrame):
            break
        elif not isinstance(frame, (SettingsFrame, WindowUpdateFrame, PingFrame)):
            raise AssertionError(f"{frame}")
    asked.append(stream // 2)
    failed.append(len(under_way))


threads = [threading.Thread(target=ask_on_and_on) for _ in range(CONNECTIONS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{sum(asked)} asked, {sum(failed)} failed")
sys.exit(0 if len(asked) == CONNECTIONS and not any(failed) else 1)
