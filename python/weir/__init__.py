"""Drives a web server and says what its users felt, request by request, in microseconds.

    import weir

    result = weir.load("http://127.0.0.1:8080/", connections=100, requests=10_000)
    print(result)
    for sample in result.samples:
        print(sample.start_us, sample.total_us, sample.status, sample.outcome)

load() makes a run and gives its Result. start() begins one and gives its samples while it goes on. execute() makes
several Runs one after the other. The options of all of them are those of Options.

Times that are called latency count from the moment that the schedule intended for a request, so that an open loop
(rate=...) tells what users would have felt; all others count from the moment that the generator began.

A Ctrl-C ends a run early and its Result still comes, with interrupted = True.
"""

from ._native import OUTCOMES, LoadError, Times, __version__
from .asking import Options, Request
from .result import Generator, Point, Result, Sessions
from .running import Progress, Run, Running, execute, load, start
from .samples import Sample, Samples

__all__ = [
    "OUTCOMES",
    "Generator",
    "LoadError",
    "Options",
    "Point",
    "Progress",
    "Request",
    "Result",
    "Run",
    "Running",
    "Sample",
    "Samples",
    "Sessions",
    "Times",
    "__version__",
    "execute",
    "load",
    "start",
]
