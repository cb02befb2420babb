"""A transaction that runs."""

import contextlib
from ctypes import byref, c_int64

from . import types
from .library import library
from .types import text


class Running:
    """What :func:`Transaction.start` began. It may be ended by any thread; ended twice, the first counts."""

    __slots__ = ("_transaction", "_handle", "_own", "status", "diagnosis")

    def __init__(self, transaction, handle, own):
        self._transaction, self._handle, self._own = transaction, handle, own
        #: How it will have ended when the block is left without an exception.
        self.status = types.GOOD
        #: Why, in words.
        self.diagnosis = None

    @property
    def recorded(self):
        """Whether an agent listened when it began."""
        return self._handle != 0

    @property
    def correlator(self):
        """Its correlator, if one was asked for; otherwise None."""
        return self._own

    def update(self, metrics=None):
        """Says that it is still running, and new values of its metrics."""
        if self._handle:
            library.arm_update_transaction(self._handle, 0, types.buffer(self._transaction._values(metrics)))

    @contextlib.contextmanager
    def blocked(self):
        """Says for a block that it waits for something outside."""
        block = c_int64()
        handle = self._handle
        if handle:
            library.arm_block_transaction(handle, 0, None, byref(block))
        try:
            yield
        finally:
            if handle:
                library.arm_unblock_transaction(handle, block, 0, None)

    def bind(self):
        """Says that this thread works for it from here on."""
        if self._handle:
            library.arm_bind_thread(self._handle, 0, None)

    def unbind(self):
        """Says that this thread does no longer."""
        if self._handle:
            library.arm_unbind_thread(self._handle, 0, None)

    def stop(self, status=None, *, metrics=None, diagnosis=None):
        """Ends it: GOOD, ABORTED, FAILED or UNKNOWN, by default ``self.status``."""
        handle, self._handle = self._handle, 0
        if handle:
            why = text(self.diagnosis if diagnosis is None else diagnosis, types.DETAIL_CHARS)
            told = None
            if why or metrics:
                detail = types.DiagDetail(types.DiagDetail.NUMBER, why) if why else None
                told = types.buffer(self._transaction._values(metrics), detail)
            library.arm_stop_transaction(handle, self.status if status is None else status, 0, told)

    def discard(self):
        """Ends it without counting it."""
        handle, self._handle = self._handle, 0
        if handle:
            library.arm_discard_transaction(handle, 0, None)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.stop()
        else:
            self.stop(types.FAILED, diagnosis=self.diagnosis or f"{kind.__name__}: {error}")
        return False
