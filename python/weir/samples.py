"""Requests one by one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, overload

from ._native import OUTCOMES
from .asking import Request

if TYPE_CHECKING:
    import numpy

#: A packed sample: five times, two counts, then what is smaller.
_LAYOUT = struct.Struct("=5dQQIHBB")
_OPENED, _RETRIED = 1, 2
#: Columns: the format of a value, and where the first one lies.
_COLUMNS: dict[str, tuple[Literal["d", "Q", "I", "H", "B"], int]] = {
    "start_us": ("d", 0),
    "connect_us": ("d", 8),
    "first_byte_us": ("d", 16),
    "total_us": ("d", 24),
    "latency_us": ("d", 32),
    "bytes": ("Q", 40),
    "connection": ("Q", 48),
    "request": ("I", 56),
    "status": ("H", 60),
    "outcome": ("B", 62),
    "flags": ("B", 63),
}


class Sample(NamedTuple):
    """One request that is over; times are microseconds."""

    #: When the generator began with it, from the begin of the run.
    start_us: float
    #: Making its connection, TLS included, if it opened one; 0 otherwise.
    connect_us: float
    #: From just before it was written until the first byte of the response; nan if none came.
    first_byte_us: float
    #: From just before it was written (from the connect call, if it opened its connection) to the last byte.
    total_us: float
    #: The same from the time that the schedule intended for it: what a user felt.
    latency_us: float
    #: Bytes of the response, head and body.
    bytes: int
    #: The number of its connection.
    connection: int
    #: Its place in the list of requests.
    request: int
    #: The status code, 0 if none came.
    status: int
    #: How it ended: "done" if a whole response came, else the name of the error; see weir.OUTCOMES.
    outcome: str
    #: Whether it opened its connection.
    opened: bool
    #: Whether it was sent before, on a kept connection that the server had closed meanwhile.
    retried: bool


def unpack(packed: Union[bytes, memoryview]) -> Iterator[Sample]:
    """The samples of packed bytes."""
    for *numbers, outcome, flags in _LAYOUT.iter_unpack(packed):
        yield Sample(*numbers, OUTCOMES[outcome], bool(flags & _OPENED), bool(flags & _RETRIED))  # type: ignore[call-arg]


class Samples(Sequence[Sample]):
    """The samples of a run in the order in which the requests began; 64 bytes each, unpacked when they are looked at."""

    def __init__(self, packed: bytes, asked: Sequence[Request]) -> None:
        self._packed = memoryview(packed)
        #: The requests that Sample.request counts.
        self.asked = asked

    def __len__(self) -> int:
        return len(self._packed) // _LAYOUT.size

    def __iter__(self) -> Iterator[Sample]:
        return unpack(self._packed)

    @overload
    def __getitem__(self, place: int) -> Sample: ...
    @overload
    def __getitem__(self, place: slice) -> list[Sample]: ...
    def __getitem__(self, place: Union[int, slice]) -> Union[Sample, list[Sample]]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        count = len(self)
        if not -count <= place < count:
            raise IndexError(f"there are {count} samples")
        begin = place % count * _LAYOUT.size
        return next(unpack(self._packed[begin : begin + _LAYOUT.size]))

    def column(self, name: str) -> memoryview[Any]:
        """One field of all samples, without copying: start_us, connect_us, first_byte_us, total_us, latency_us, bytes,
        connection, request, status, outcome (the place in weir.OUTCOMES) or flags (1 = opened, 2 = retried)."""
        if name not in _COLUMNS:
            raise KeyError(f"{name}: the columns are {', '.join(_COLUMNS)}")
        format, offset = _COLUMNS[name]
        size = struct.calcsize(format)
        return self._packed.cast(format)[offset // size :: _LAYOUT.size // size]

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """All samples as a structured array of NumPy, without copying."""
        import numpy

        names, formats, offsets = zip(*((name, format, offset) for name, (format, offset) in _COLUMNS.items()))
        layout = {"names": names, "formats": formats, "offsets": offsets, "itemsize": _LAYOUT.size}
        return numpy.frombuffer(self._packed, dtype=numpy.dtype(layout))  # type: ignore[call-overload]

    def __bytes__(self) -> bytes:
        return bytes(self._packed)

    def __repr__(self) -> str:
        return f"<{len(self)} samples>"
