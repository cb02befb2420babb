"""The constants and structures of ARM 4.0 that are passed to the C library."""

from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char_p,
    c_int16,
    c_int32,
    c_int64,
    c_uint8,
    c_uint64,
    cast,
    pointer,
)

GOOD, ABORTED, FAILED, UNKNOWN = range(4)

COUNTER32, COUNTER64, CNTRDIVR32, GAUGE32, GAUGE64, GAUGEDIVR32, NUMERICID32, NUMERICID64 = range(1, 9)
STRING32 = 10

TRACE_REQUEST, BIND_THREAD = 1, 2

# The most that the standard takes, in characters, properties, context values.
NAME_CHARS, VALUE_CHARS, DETAIL_CHARS, URI_CHARS, STRING32_CHARS, MOST_PROPERTIES = 127, 255, 4095, 4095, 31, 20
STRING_SLOT = 6


def text(value, chars):
    """A text as the library takes it: UTF-8, cut at so many characters and at a NUL."""
    return None if value is None else str(value).split("\0", 1)[0][:chars].encode("utf-8", "replace")


class Id(Structure):
    _fields_ = [("words", c_uint64 * 2)]


class CorrelatorBytes(Structure):
    _fields_ = [("opaque", c_uint8 * 512)]


class Property(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Divided(Structure):
    _fields_ = [("value", c_int32), ("divisor", c_int32)]


class Value(Union):
    _fields_ = [("int32", c_int32), ("int64", c_int64), ("divided", Divided), ("string32", c_char_p)]


class MetricValue(Structure):
    _fields_ = [
        ("slot", c_uint8), ("format", c_uint8), ("usage", c_int16), ("valid", c_int32), ("value", Value),
    ]


class MetricBinding(Structure):
    _fields_ = [("slot", c_uint8), ("id", Id)]


class User(Structure):
    NUMBER = 3
    _fields_ = [("format", c_int32), ("name", c_char_p), ("id_valid", c_int32), ("id", Id)]


class ArrivalTime(Structure):
    NUMBER = 4
    _fields_ = [("format", c_int32), ("opaque_time", c_int64)]


class MetricValues(Structure):
    NUMBER = 5
    _fields_ = [("format", c_int32), ("count", c_int32), ("values", POINTER(MetricValue))]


class DiagDetail(Structure):
    NUMBER = 7
    _fields_ = [("format", c_int32), ("detail", c_char_p)]


class AppIdentity(Structure):
    NUMBER = 102
    _fields_ = [
        ("format", c_int32), ("property_count", c_int32), ("properties", POINTER(Property)),
        ("context_count", c_int32), ("context_names", POINTER(c_char_p)),
    ]


class AppContext(Structure):
    NUMBER = 103
    _fields_ = [("format", c_int32), ("context_count", c_int32), ("context_values", POINTER(c_char_p))]


class TranIdentity(Structure):
    NUMBER = 104
    _fields_ = [*AppIdentity._fields_, ("uri", c_char_p)]


class TranContext(Structure):
    NUMBER = 105
    _fields_ = [*AppContext._fields_, ("uri", c_char_p)]


class MetricBindings(Structure):
    NUMBER = 106
    _fields_ = [("format", c_int32), ("count", c_int32), ("bindings", POINTER(MetricBinding))]


class Buffer(Structure):
    """``arm_buffer4_t``: keeps what it points to."""

    _fields_ = [("count", c_int32), ("array", POINTER(POINTER(c_int32)))]


def buffer(*subbuffers):
    """The sub-buffers that are not None as one buffer; None if there are none."""
    given = [subbuffer for subbuffer in subbuffers if subbuffer is not None]
    if not given:
        return None
    array = (POINTER(c_int32) * len(given))(*(cast(pointer(subbuffer), POINTER(c_int32)) for subbuffer in given))
    made = Buffer(len(given), array)
    made.kept = given, array
    return made


def identity(kind, properties, context_names, **more):
    """An AppIdentity or TranIdentity; None if it would say nothing."""
    if not (properties or context_names or any(more.values())):
        return None
    pairs = [(text(name, NAME_CHARS), text(value, VALUE_CHARS)) for name, value in (properties or {}).items()]
    array, names = (Property * len(pairs))(*pairs), texts(context_names or (), NAME_CHARS)
    made = kind(kind.NUMBER, len(pairs), array, len(names), names, **more)
    made.kept = pairs, names
    return made


def context(kind, names, values, **more):
    """An AppContext or TranContext with the values of the names, in their order; None if it would say nothing."""
    if not (values or any(more.values())):
        return None
    array = texts([(values or {}).get(name) for name in names], VALUE_CHARS)
    return kind(kind.NUMBER, len(array), array, **more)


def texts(values, chars):
    """An array of C strings."""
    return (c_char_p * len(values))(*(text(value, chars) for value in values))
