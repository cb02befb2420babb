"""Reads what this process has told, as an agent would: a second reader of the memory's layout.

WEIR_TEST_LAYOUT holds the layout's numbers as JSON.
"""

import json
import os
import struct

LAYOUT = json.loads(os.environ["WEIR_TEST_LAYOUT"])


def _memory():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:weir-arm"):
                yield int(name)
        except OSError:
            continue


def listen(word=1):
    """Writes an agent's word into this process's memory; 0 = nobody listens any more."""
    told = [os.pwrite(memory, struct.pack("=Q", word), LAYOUT["heartbeat_at"]) for memory in _memory()]
    assert told, "nothing has made a memory"


def records():
    """(kind, flags, a, b, payload) of everything that was told since the last call, in the order of time."""
    found = []
    for memory in _memory():
        for lane in range(LAYOUT["lanes"]):
            at = LAYOUT["positions_at"] + lane * LAYOUT["position_words"] * 8
            words = struct.unpack(f"={LAYOUT['position_words']}Q", os.pread(memory, LAYOUT["position_words"] * 8, at))
            read, written = words[LAYOUT["read"]], words[LAYOUT["written"]]
            begins = LAYOUT["lanes_at"] + lane * LAYOUT["lane_slots"] * 32

            def slot(position):
                return os.pread(memory, 32, begins + position % LAYOUT["lane_slots"] * 32)

            while read < written:
                time, kind, flags, slots, _, a, b = struct.unpack("=QHBBIQQ", slot(read))
                payload = b"".join(slot(read + 1 + behind) for behind in range(slots))
                found.append((time, kind, flags, a, b, payload))
                read += 1 + slots
            os.pwrite(memory, struct.pack("=Q", read), at + LAYOUT["read"] * 8)
    return [record[1:] for record in sorted(found, key=lambda record: record[0])]


def details(told):
    """{(field, index): bytes} of what was told in detail, among records."""
    found = {}
    for kind, _, _, b, payload in told:
        if kind == 0x0609:
            key = b & 0xFF, b >> 8 & 0xFF
            offset = b >> 16 & 0xFFFF
            found[key] = found.get(key, b"")[:offset] + payload[: (b >> 32) - offset]
        if kind in (0x0602, 0x060C):
            at = 0
            while at + 4 <= len(payload) and payload[at]:
                field, index, length = struct.unpack_from("=BBH", payload, at)
                piece = payload[at + 4 : at + 4 + length]
                if field == 25:
                    # A metric without the zeros of its value.
                    field, piece = 17, piece[:2] + b"\1\0\0\0\0\0" + piece[2:].ljust(8, b"\0")
                found[field, index] = piece
                at += 4 + length
    return found
