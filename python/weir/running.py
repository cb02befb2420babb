"""Runs: made, started, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _native
from .asking import SAMPLES, Options, Request, What, requests, wanted
from .result import Result
from .samples import Sample, unpack

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: How often Python has its turn while a run goes on, for signals and other threads.
_TURN_S = 0.1
#: Samples that are unpacked in one go.
_BATCH = 4096


def load(what: What, **options: Unpack[Options]) -> Result:
    """Makes a run and gives what it found; `what` is a URL, a Request, or several of them.

    The options are those of weir.Options, by their names. The interpreter's lock is not held meanwhile. A Ctrl-C ends the
    run early: its Result then has interrupted = True.

    Raises ValueError where the options make no sense, and LoadError where the run cannot be made at all; requests that
    fail are counted instead.
    """
    return _load(what, options)


def _load(what: What, options: Mapping[str, Any]) -> Result:
    return Running(what, {"samples": SAMPLES, **options}).result()


def start(what: What, *, buffer: int = 50_000, **options: Unpack[Options]) -> Running:
    """Begins a run; iterating over it gives samples while it goes on.

    At most about `buffer` samples wait to be taken (128 bytes each); one that finds no room is lost and counted: the
    load never waits for the script.

        with weir.start("http://127.0.0.1:8080/", rate=1000, duration=60) as running:
            for sample in running:
                if sample.latency_us > 100_000:
                    running.stop()
        print(running.result(), running.lost)
    """
    if buffer < 1:
        raise ValueError("buffer: a stream holds at least one sample")
    if "samples" in options:
        raise TypeError("samples of a run that is started are streamed: leave out samples, or use load()")
    return Running(what, {**options}, buffer)


@dataclass(frozen=True)
class Run:
    """A run to be made by execute(): what is asked, and options by their names."""

    what: What
    options: Options = field(default_factory=lambda: Options())


def execute(runs: Iterable[Run], **common: Unpack[Options]) -> list[Result]:
    """Makes runs one after the other, and gives what each found; options given here hold for runs without their own.

    A Ctrl-C ends the run that is under way; its Result is the last one.
    """
    results: list[Result] = []
    for run in runs:
        results.append(_load(run.what, {**common, **run.options}))
        if results[-1].interrupted:
            break
    return results


class Progress(NamedTuple):
    """How far a run is, as of the last tenth of a second."""

    #: Whole responses, whatever their status.
    requests: int
    failures: int
    #: Arrivals that found the generator's queue full.
    dropped: int
    #: Connections that are open now.
    connections: int
    #: Whole responses so far with a status that is no success.
    unexpected: int


class Running:
    """A run that goes on; see start()."""

    def __init__(self, what: What, options: dict[str, Any], buffer: int = 0) -> None:
        self.asked: list[Request] = requests(what, options)
        self._native = _native.start({**wanted(self.asked, options), "buffer": buffer})
        if options.get("sessions") is not None or options.get("mix") is not None:
            self.asked = [Request(url, method) for url, method in self._native.asked()]
        self._result: Optional[Result] = None

    def __iter__(self) -> Iterator[Sample]:
        """The samples, each once, until the run is over."""
        while True:
            is_over = self._native.is_streamed()
            batch = self._native.batch(_BATCH, _TURN_S)
            if not batch and is_over:
                return
            yield from unpack(batch)

    def stop(self) -> None:
        """Ends the run: nothing more is begun, what is under way has a second to finish."""
        self._native.stop()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._native.wait(0)

    @property
    def lost(self) -> int:
        """Samples so far that found no room in the stream."""
        return self._native.lost()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress(*self._native.progress())

    def result(self) -> Result:
        """Waits for the end and gives what the run found; a Ctrl-C meanwhile ends it early."""
        if self._result is None:
            try:
                self._wait()
            except KeyboardInterrupt:
                self.stop()
                self._wait()
            report = self._native.report()
            packed, left_out = self._native.samples()
            self._result = Result.of(report, self.asked, packed, left_out + self.lost)
        return self._result

    def _wait(self) -> None:
        # Between two waits Python runs the handlers of signals.
        while not self._native.wait(_TURN_S):
            pass

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<a run, {'over' if self.is_over else 'under way'}: {self.progress}>"
