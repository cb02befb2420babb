"""The C library, found and described."""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int16, c_int32, c_int64, c_uint8
from pathlib import Path

from .types import Buffer, CorrelatorBytes, Id

_TOLD = [c_int32, POINTER(Buffer)]

# The functions that are used here, with the types of their parameters.
_FUNCTIONS = {
    "arm_register_application": [c_char_p, POINTER(Id), *_TOLD, POINTER(Id)],
    "arm_register_transaction": [POINTER(Id), c_char_p, POINTER(Id), *_TOLD, POINTER(Id)],
    "arm_register_metric": [
        POINTER(Id), c_char_p, c_uint8, c_int16, c_char_p, POINTER(Id), *_TOLD, POINTER(Id),
    ],
    "arm_start_application": [POINTER(Id), c_char_p, c_char_p, *_TOLD, POINTER(c_int64)],
    "arm_stop_application": [c_int64, *_TOLD],
    "arm_start_transaction": [
        c_int64, POINTER(Id), POINTER(CorrelatorBytes), *_TOLD, POINTER(c_int64), POINTER(CorrelatorBytes),
    ],
    "arm_stop_transaction": [c_int64, c_int32, *_TOLD],
    "arm_update_transaction": [c_int64, *_TOLD],
    "arm_discard_transaction": [c_int64, *_TOLD],
    "arm_bind_thread": [c_int64, *_TOLD],
    "arm_unbind_thread": [c_int64, *_TOLD],
    "arm_block_transaction": [c_int64, *_TOLD, POINTER(c_int64)],
    "arm_unblock_transaction": [c_int64, c_int64, *_TOLD],
    "arm_report_transaction": [
        c_int64, POINTER(Id), c_int32, c_int64, c_int64, POINTER(CorrelatorBytes), POINTER(CorrelatorBytes), *_TOLD,
    ],
    "arm_get_arrival_time": [POINTER(c_int64)],
}


class _Nothing:
    """What is called where there is no library."""

    def __getattr__(self, name):
        return lambda *arguments: 0


def _load():
    """The library, or what stands for it and why: the one named by WEIR_LIBARM4, the wheel's own, the system's."""
    named = os.environ.get("WEIR_LIBARM4")
    own = Path(__file__).with_name("libarm4.so")
    path = named or (str(own) if own.exists() else "libarm4.so.4")
    try:
        # PyDLL: no call blocks, so that Python's lock need not be given up and taken again for it.
        library = ctypes.PyDLL(path)
        for name, parameters in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = parameters, c_int32
        return library, None
    except (OSError, AttributeError) as error:
        return _Nothing(), f"nothing is recorded: {error}"


library, problem = _load()
