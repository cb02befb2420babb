"""Prints what a segment holds, read by nothing of weir's but the description in crates/trace/src/block.rs.

usage: read_segment.py FILE
"""

import struct
import sys
import zlib

HEAD = struct.Struct("<8s HH B B 2x IIII QQQ 4x I")
SLOT = struct.Struct("<QQQQ")
RECORD = struct.Struct("<Q H B B I Q Q")
NAME = struct.Struct("<IH")


def blocks(data):
    at = 0
    while at < len(data):
        head = HEAD.unpack_from(data, at)
        assert head[0] == b"weirblk\n", f"no magic at byte {at}"
        slots, dictionary, crc = head[6], head[8], head[12]
        end = at + HEAD.size + dictionary + slots * SLOT.size
        assert end <= len(data), f"the block at byte {at} is cut"
        block = bytearray(data[at:end])
        block[60:64] = bytes(4)
        assert zlib.crc32(block) == crc, f"the block at byte {at} is damaged"
        names_end = HEAD.size + dictionary
        yield head, bytes(block[HEAD.size : names_end]), bytes(block[names_end:])
        at = end


def names(data):
    at = 0
    while at < len(data):
        number, length = NAME.unpack_from(data, at)
        at += NAME.size
        yield number, data[at : at + length].decode()
        at += length


def main(path):
    assert HEAD.size == 64 and RECORD.size == SLOT.size == 32
    sys.stdout.reconfigure(encoding="utf-8")
    with open(path, "rb") as file:
        data = file.read()
    for head, dictionary, body in blocks(data):
        _, major, minor, clock, source, lane, _, records, _, base, end, lost, _ = head
        print(
            f"block schema {major}.{minor} clock {clock} source {source} lane {lane}"
            f" base {base} end {end} lost {lost} records {records}"
        )
        for number, text in sorted(names(dictionary)):
            print(f"  name {number} {text}")
        at = 0
        while at < len(body):
            time, kind, flags, slots, lane, a, b = RECORD.unpack_from(body, at)
            print(f"  {time} kind {kind:#06x} flags {flags} lane {lane} a {a:#x} b {b:#x}")
            at += RECORD.size
            for _ in range(slots):
                print("    " + " ".join(f"{word:#x}" for word in SLOT.unpack_from(body, at)))
                at += SLOT.size
            records -= 1
        assert records == 0, "the head counts the records wrongly"


if __name__ == "__main__":
    main(sys.argv[1])
