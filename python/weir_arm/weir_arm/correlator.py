"""Correlators: what a transaction gives to those that it causes elsewhere."""

import os
import re

from .types import CorrelatorBytes

_HEADER = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_FORMAT, _BYTES, _RECORDED = 0xD7, 28, 0x40


class Correlator(bytes):
    """The bytes of a correlator, to be sent as they are or as the header ``traceparent`` of W3C Trace Context."""

    @classmethod
    def of_traceparent(cls, header):
        """Reads a header; None if it is none."""
        found = _HEADER.fullmatch(header.strip())
        if not found or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        trace, span = bytes.fromhex(found[2]), bytes.fromhex(found[3])
        if not any(trace) or not any(span):
            return None
        flags = _RECORDED if int(found[4], 16) & 1 else 0
        return cls(bytes([0, _BYTES, _FORMAT, flags]) + trace + span)

    @property
    def traceparent(self):
        """The header; None if the correlator is not of the format that has a trace and a span."""
        if len(self) != _BYTES or self[2] != _FORMAT:
            return None
        return f"00-{self[4:20].hex()}-{self[20:28].hex()}-{1 if self[3] & _RECORDED else 0:02x}"


def of_c(structure):
    """What the library has left, as its length says. Without one a trace begins here all the same."""
    opaque = bytes(structure.opaque)
    length = int.from_bytes(opaque[:2], "big")
    if 4 <= length <= len(opaque):
        return Correlator(opaque[:length])
    return Correlator(bytes([0, _BYTES, _FORMAT, 0]) + os.urandom(_BYTES - 4))


def to_c(parent):
    """A parent as the library takes it: a correlator, a header, a running transaction; None for everything else."""
    parent = getattr(parent, "correlator", parent)
    if isinstance(parent, str):
        parent = Correlator.of_traceparent(parent)
    if not isinstance(parent, (bytes, bytearray)) or not 4 <= len(parent) <= 512:
        return None
    structure = CorrelatorBytes()
    structure.opaque[: len(parent)] = parent
    return structure
