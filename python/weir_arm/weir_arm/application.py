"""Applications and the transactions that they name."""

import functools
import inspect
import os
import weakref
from ctypes import byref, c_int64

from . import types
from .correlator import of_c, to_c
from .library import library
from .running import Running
from .types import STRING32, STRING_SLOT, Id, text


class Metric:
    """A number or text that transactions carry: one of COUNTER32 to NUMERICID64, or STRING32."""

    def __init__(self, format, unit=None, usage=0):
        if format not in (*range(1, 9), STRING32):
            raise ValueError(f"{format} is no format of a metric")
        self.format, self.unit, self.usage = format, unit, usage


class Application:
    """An application and its instance in this process.

    ``properties`` tell it from others of its name; ``context`` is a dictionary of what is true for this instance.
    """

    def __init__(self, name, *, group=None, instance=None, properties=None, context=None):
        if not name:
            raise ValueError("an application needs a name")
        if max(len(properties or ()), len(context or ())) > types.MOST_PROPERTIES:
            raise ValueError(f"at most {types.MOST_PROPERTIES} properties and context values")
        self.name, self._id, self._handle = name, Id(), c_int64()
        names = list(context or ())
        told = types.buffer(types.identity(types.AppIdentity, properties, names))
        library.arm_register_application(text(name, types.NAME_CHARS), None, 0, told, byref(self._id))
        self._instance = (
            text(group, types.NAME_CHARS), text(instance, types.NAME_CHARS), 0,
            types.buffer(types.context(types.AppContext, names, context)),
        )
        self._start()
        _running.add(self)

    def _start(self):
        library.arm_start_application(byref(self._id), *self._instance, byref(self._handle))

    def transaction(self, name, *, uri=None, properties=None, context=(), metrics=None):
        """Names a transaction. ``context`` is a list of names, ``metrics`` a dictionary of names and formats."""
        return Transaction(self, name, uri, properties, list(context), dict(metrics or {}))

    def stop(self):
        """Ends the instance; its running transactions are discarded."""
        _running.discard(self)
        library.arm_stop_application(self._handle, 0, None)


_running = weakref.WeakSet()


def _start_again_in_a_child():
    # Handles belong to a process: a child has its own.
    for application in list(_running):
        application._start()


os.register_at_fork(after_in_child=_start_again_in_a_child)


class Transaction:
    """A kind of transaction, to be started as often as it happens."""

    def __init__(self, application, name, uri, properties, context, metrics):
        if not name:
            raise ValueError("a transaction needs a name")
        if max(len(properties or ()), len(context)) > types.MOST_PROPERTIES:
            raise ValueError(f"at most {types.MOST_PROPERTIES} properties and context values")
        self.name, self._application, self._context, self._id = name, application, context, Id()
        self._metrics = _slots(metrics)
        bindings = [(slot, self._register(metric, about)) for metric, (slot, about) in self._metrics.items()]
        array = (types.MetricBinding * len(bindings))(*bindings)
        told = types.buffer(
            types.identity(types.TranIdentity, properties, context, uri=text(uri, types.URI_CHARS)),
            types.MetricBindings(types.MetricBindings.NUMBER, len(bindings), array) if bindings else None,
        )
        library.arm_register_transaction(
            byref(application._id), text(name, types.NAME_CHARS), None, 0, told, byref(self._id)
        )

    def _register(self, name, metric):
        made = Id()
        library.arm_register_metric(
            byref(self._application._id), text(name, types.NAME_CHARS), metric.format, metric.usage,
            text(metric.unit, types.NAME_CHARS), None, 0, None, byref(made),
        )
        return made

    def start(self, parent=None, *, user=None, context=None, metrics=None, uri=None, arrival=None,
              correlator=False, trace=False, bind=False):
        """Begins one; to be used with ``with``, or ended by its ``stop``.

        ``parent``: a correlator, a ``traceparent``, or a running transaction that has a correlator.
        ``arrival``: what :func:`Transaction.arrival` gave when it really began.
        ``correlator``: whether to make one, for those that it causes elsewhere. ``trace``: to keep this very one.
        """
        told = None
        if user is not None or context or metrics or uri or arrival is not None:
            told = types.buffer(
                None if user is None else types.User(types.User.NUMBER, text(user, types.NAME_CHARS), 0),
                types.context(types.TranContext, self._context, context, uri=text(uri, types.URI_CHARS)),
                self._values(metrics),
                None if arrival is None else types.ArrivalTime(types.ArrivalTime.NUMBER, arrival),
            )
        flags = (types.TRACE_REQUEST if trace else 0) | (types.BIND_THREAD if bind else 0)
        handle, own = c_int64(), types.CorrelatorBytes() if correlator else None
        library.arm_start_transaction(
            self._application._handle, byref(self._id), to_c(parent), flags, told, byref(handle), own
        )
        return Running(self, handle.value, own and of_c(own))

    def measured(self, function):
        """Makes each call of a function, or of an ``async`` one, a transaction."""
        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def call(*arguments, **named):
                with self.start():
                    return await function(*arguments, **named)
        else:
            @functools.wraps(function)
            def call(*arguments, **named):
                with self.start():
                    return function(*arguments, **named)
        return call

    def report(self, response_s, status=types.GOOD, *, stopped_s=None, parent=None, user=None, context=None,
               metrics=None):
        """Reports one that was measured elsewhere: seconds that it took, seconds since 1970 when it ended (now)."""
        told = types.buffer(
            None if user is None else types.User(types.User.NUMBER, text(user, types.NAME_CHARS), 0),
            types.context(types.TranContext, self._context, context),
            self._values(metrics),
        )
        stopped_ms = -1 if stopped_s is None else int(stopped_s * 1e3)
        library.arm_report_transaction(
            self._application._handle, byref(self._id), status, int(response_s * 1e9), stopped_ms, to_c(parent), None,
            0, told,
        )

    @staticmethod
    def arrival():
        """The present time, for ``start``'s ``arrival``."""
        now = c_int64()
        library.arm_get_arrival_time(byref(now))
        return now.value

    def _values(self, given):
        """The values of metrics that this transaction has; others, and values of a wrong type, are left out."""
        values = []
        for name, value in (given or {}).items():
            if name in self._metrics:
                slot, metric = self._metrics[name]
                try:
                    values.append((slot, metric.format, metric.usage, 1, _value(metric.format, value)))
                except (TypeError, ValueError):
                    continue
        if not values:
            return None
        array = (types.MetricValue * len(values))(*values)
        made = types.MetricValues(types.MetricValues.NUMBER, len(values), array)
        made.kept = values
        return made


def _slots(metrics):
    """Each metric's slot: texts take the seventh, the others the first six."""
    given = {name: about if isinstance(about, Metric) else Metric(about) for name, about in metrics.items()}
    numbers = [name for name, metric in given.items() if metric.format != STRING32]
    strings = [name for name in given if name not in numbers]
    if len(numbers) > STRING_SLOT or len(strings) > 1:
        raise ValueError("a transaction carries at most six numbers and one text")
    places = [*enumerate(numbers), *((STRING_SLOT, name) for name in strings)]
    return {name: (slot, given[name]) for slot, name in places}


def _value(format, value):
    if format == STRING32:
        return types.Value(string32=text(value, types.STRING32_CHARS))
    if format in (types.CNTRDIVR32, types.GAUGEDIVR32):
        return types.Value(divided=types.Divided(*value))
    if format in (types.COUNTER64, types.GAUGE64, types.NUMERICID64):
        return types.Value(int64=value)
    return types.Value(int32=value)
