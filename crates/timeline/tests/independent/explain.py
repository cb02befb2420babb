#!/usr/bin/env python3
"""A second implementation of the join, written from the definitions, to check the first one.

usage: explain.py RUN...   prints a line of JSON for each run, and one for every request in it.

Definitions used (nanoseconds of one clock):
  position    of a byte in a connection's stream: its TCP sequence number less the stream's base, which the opening of
              the socket tells; sequence numbers wrap every 4 GiB.
  arrival     the first socket_ready whose position is past the request's offset.
  pick-up     the first socket_recv that took data (no error, no peek, not the end) past the request's offset.
  last send   the first socket_send whose position reaches the end of the response.
  The times of a request must ascend and end with the client's `done`; one that two CPUs' clocks put before the one
  before it counts as that one.
  generator and connect: from the intention to the send; the connection's part of it is `connect`.
  request_transit (coarse): from the client's send to the arrival; bytes that the server waits for later are not in it.
  back: from the last send to `done`: response_transit and client_wakeup together.

Only what can be said without a chain of wake-ups is said here. The requests come in the order in which they ended.
"""
import collections
import glob
import ipaddress
import json
import os
import struct
import sys

SLOT = struct.Struct("<QHBBIQQ")
M32 = 0xFFFFFFFF

OPEN, READY, RECV, SEND, STATE = 0x0205, 0x0201, 0x0202, 0x0203, 0x0204
CONNECTION, REQUEST = 0x0301, 0x0302


def records(path):
    """(time, kind, flags, lane, a, b, payload words) of a segment file, block by block."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        if data[at:at + 8] != b"weirblk\n":
            raise SystemExit(f"{path}: no block at byte {at}")
        slots, _, names = struct.unpack_from("<III", data, at + 20)
        here = at + 64 + names
        at = here + 32 * slots
        while here < at:
            time, kind, flags, more, lane, a, b = SLOT.unpack_from(data, here)
            payload = struct.unpack_from(f"<{4 * more}Q", data, here + 32)
            yield time, kind, flags, lane, a, b, payload
            here += 32 * (1 + more)


def address(high, low, port):
    ip = ipaddress.IPv6Address((high << 64) | low)
    return str(ip.ipv4_mapped or ip), port


class Stream:
    """One direction of a connection: bytes as (time, position), in the order of their events."""

    def __init__(self, base):
        self.base, self.reached, self.marks = base, 0, []

    def mark(self, time, sequence):
        step = (sequence - self.base - self.reached) & M32
        if step >= 1 << 31:
            step -= 1 << 32  # an event that was overtaken
        position = max(self.reached + step, 0)
        self.reached = max(self.reached, position)
        self.marks.append((time, position))

    def first_past(self, offset):
        return next((time for time, position in self.marks if position > offset), None)


class Socket:
    def __init__(self, opened, here, there, receive_base, send_base):
        self.opened, self.ends = opened, (here, there)
        self.arrivals, self.taken, self.sent = Stream(receive_base), Stream(receive_base), Stream(send_base)
        self.of_client = None


def read(run):
    everything = []
    for order, path in enumerate(sorted(glob.glob(os.path.join(run, "segments", "*.seg")))):
        for number, record in enumerate(records(path)):
            everything.append((record[0], order, number, record))
    # The order within a file is kept among equal times.
    everything.sort(key=lambda one: one[:3])
    return [record for *_, record in everything]


def explain(run):
    living, sockets, connections, requests = {}, collections.defaultdict(list), {}, []
    for time, kind, flags, lane, a, b, words in read(run):
        low, high = a & M32, a >> 32
        if kind == OPEN:
            here = address(words[4], words[5], b >> 32 & 0xFFFF)
            there = address(words[6], words[7], b >> 48)
            known = living.get(low)
            if known is None or known.ends != (here, there):
                living[low] = Socket(time, here, there, high, b & M32)
                sockets[(here, there)].append(living[low])
        elif kind == READY and low in living:
            living[low].arrivals.mark(time, high)
        elif kind == RECV and low in living and not flags & 0b1111:
            living[low].taken.mark(time, high)
        elif kind == SEND and low in living and not flags & 0b1011:
            living[low].sent.mark(time, high)
        elif kind == CONNECTION:
            ports = words[0]
            own, server = address(words[4], words[5], ports & 0xFFFF), address(words[6], words[7], ports >> 16 & 0xFFFF)
            connections[(lane, a)] = {"begun": b, "made": time, "ends": (server, own), "socket": None}
        elif kind == REQUEST and (words[8] >> 16) & 0xFF == 0:
            requests.append({
                "key": (lane, a), "done": time, "intended": words[0], "sent": words[2], "offset": b,
                "response_end": words[4] + words[5], "opened": bool(flags & 1), "encrypted": bool(flags & 2),
            })
    return [one_request(request, connections, sockets) for request in requests]


def socket_of(request, connections, sockets):
    connection = connections.get(request["key"])
    if connection is None:
        return None
    if connection["socket"] is None:
        free = [one for one in sockets[connection["ends"]] if one.of_client is None]
        meant = [one for one in free if connection["begun"] <= one.opened <= request["done"]]
        if meant:
            connection["socket"] = min(meant, key=lambda one: one.opened)
            connection["socket"].of_client = request["key"]
    return connection["socket"]


def one_request(request, connections, sockets):
    out = {"connection": request["key"][1], "offset": request["offset"], "done": request["done"]}
    connection, socket = connections.get(request["key"]), socket_of(request, connections, sockets)
    done, sent = request["done"], min(max(request["sent"], request["intended"]), request["done"])
    connect = 0
    if connection and request["opened"]:
        begun = min(max(connection["begun"], request["intended"]), sent)
        made = sent if request["encrypted"] else min(max(connection["made"], begun), sent)
        connect = made - begun
    out["generator"], out["connect"] = sent - request["intended"] - connect, connect
    if socket is None:
        return out
    arrival = socket.arrivals.first_past(request["offset"])
    taken = socket.taken.first_past(request["offset"])
    last = socket.sent.first_past(request["response_end"] - 1)
    if None in (arrival, taken, last):
        return out
    arrival = min(max(arrival, sent), done)
    taken = min(max(taken, arrival), done)
    last = min(max(last, taken), done)
    out.update(arrival=arrival, pick_up=taken, last_send=last, request_transit=arrival - sent, back=done - last)
    return out


if __name__ == "__main__":
    runs = {os.path.basename(os.path.normpath(run)): explain(run) for run in sys.argv[1:]}
    for name, requests in runs.items():
        print(json.dumps({"run": name}))
        for request in requests:
            print(json.dumps(request, separators=(",", ":")))
