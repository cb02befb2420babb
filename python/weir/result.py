"""What a run found."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, fields
from typing import Any, Optional

from ._native import Times
from .asking import Request
from .samples import Samples


@dataclass(frozen=True)
class Generator:
    """How the generator itself fared."""

    #: Share of the time that its busiest thread ran, 0 to 1.
    cpu_share: float
    #: Share of the time that this thread could have run but waited for the CPU, 0 to 1.
    runnable_share: float
    #: Arrivals that went out more than 1 ms after their time although a connection was free.
    late: int
    #: Whether the generator rather than the server may have set the figures.
    bottleneck: bool
    #: How bytes came and went: "epoll" or "io_uring".
    io: str


@dataclass(frozen=True)
class Sessions:
    """What became of the users of a run with `repeat` or `sessions`, and of the pages of `mix="surge"`."""

    #: All was answered, whatever the statuses; with a status that is no success somewhere; ended by a failed request.
    completed: int
    unexpected: int
    failed: int
    #: Ended by their users' click on stop.
    stopped: int
    #: Under way when the run ended.
    unfinished: int
    #: Connections that all of them opened.
    connections: int
    #: From a user's begin to the last byte of the last response, where all statuses were a success.
    lifetime: Times


@dataclass(frozen=True)
class Point:
    """What happened in one interval of a run."""

    start_s: float
    length_s: float
    #: Whole responses, whatever their status, and how many a second.
    requests: int
    rate_per_s: float
    #: Those of them whose status is a success, and the others; the share of successes of all requests that ended.
    successes: int
    unexpected: int
    success_rate: Optional[float]
    #: Failed requests by the name of the error.
    errors: dict[str, int]
    bytes: int
    #: Connections that were open at its end.
    connections: int
    #: count, min_us, mean_us, stdev_us, p50_us, p90_us, p99_us, p99_9_us, max_us of
    #: successes; None where there was none.
    latency: Optional[dict[str, float]]


@dataclass(frozen=True)
class Result:
    """What a run found; the distributions are those of successes, where they are not named otherwise."""

    #: What was asked; Sample.request is a place in it.
    asked: list[Request]
    #: Whole responses, whatever their status.
    requests: int
    #: Those of them whose status is a success (Options.ok), and the others.
    successes: int
    unexpected: int
    #: The share of successes, 0 to 1, of all requests that were answered, failed, were dropped or cut by the run's end.
    success_rate: Optional[float]
    #: Failed requests, and how many of each kind.
    failures: int
    errors: dict[str, int]
    #: Why, in words where there is more to say: (kind, words, how often).
    reasons: list[tuple[str, str, int]]
    #: Requests whose users clicked stop, which are no failures.
    stopped: int
    #: Whole responses by status code.
    status: dict[int, int]
    #: Bytes received: heads and bodies.
    bytes: int
    #: From the start to the end of the duration that was asked for, or to the last response.
    duration_s: float
    #: Until nothing was under way any more.
    took_s: float
    #: Whole responses within duration_s, a second; successes and bytes within the same time.
    rate_per_s: float
    successes_per_s: float
    bytes_per_s: float
    #: Arrivals that found the generator's queue full; those that waited in it.
    dropped: int
    queued: int
    #: Requests that were not over when the run ended.
    abandoned: int
    #: Kept connections that the server closed under requests, and requests that were sent again.
    reconnects: int
    resent: int
    #: From the intended time to the last byte.
    latency: Times
    #: The same of responses with a status that is no success, and until requests failed.
    latency_unexpected: Times
    latency_failed: Times
    #: From just before the request was written (from the connect call, if it opened its connection) to the last byte.
    total: Times
    #: From just before the request was written to the first byte.
    first_byte: Times
    #: Making connections, TLS included.
    connect: Times
    #: Requests one by one; those of a run that was streamed are not kept.
    samples: Samples
    #: Requests beyond those that the samples hold: drawn out of them, or lost because the stream was full.
    left_out: int
    #: The run over time.
    series: list[Point]
    generator: Generator
    #: What makes the figures mean something else than they seem to, in words.
    warnings: list[str]
    #: Whether the run was ended early.
    interrupted: bool
    #: What became of users, if those were run.
    sessions: Optional[Sessions]

    @classmethod
    def of(cls, report: dict[str, Any], asked: list[Request], packed: builtins.bytes, left_out: int) -> Result:
        """The result of a report of the native part."""
        values = dict(report, asked=asked, samples=Samples(packed, asked), left_out=left_out)
        values["generator"] = Generator(**report["generator"])
        values["series"] = [Point(**point) for point in report["series"]]
        sessions = report.get("sessions")
        values["sessions"] = Sessions(**sessions) if sessions else None
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        share = "-" if self.success_rate is None else f"{100 * self.success_rate:.2f} %"
        lines = [
            f"success       {share}: {self.successes} requests, {self.successes_per_s:.1f} a second",
            f"requests      {self.requests} in {self.duration_s:.3f} s: {self.rate_per_s:.1f} a second"
            + (", interrupted" if self.interrupted else ""),
            f"received      {self.bytes} bytes: {self.bytes_per_s:.0f} a second",
        ]
        if self.status:
            lines.append("status        " + ", ".join(f"{code}: {count}" for code, count in self.status.items()))
        if self.failures:
            lines.append("failed        " + ", ".join(f"{name}: {count}" for name, count in self.errors.items()))
        if self.latency.count or self.latency_unexpected.count or self.latency_failed.count:
            lines.append("times in us          min       mean        p50        p90        p99        max")
            for name in ("latency", "total", "first_byte", "connect", "latency_unexpected", "latency_failed"):
                times: Times = getattr(self, name)
                figures = (times.min_us, times.mean_us, times.p50_us, times.p90_us, times.p99_us, times.max_us)
                if times.count:
                    lines.append(f"{name.replace('latency_', ''):<13}" + "".join(f"{figure:>11.1f}" for figure in figures))
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"<{self.requests} requests, {self.unexpected} with another status, {self.failures} failed, "
            f"{self.rate_per_s:.1f} a second>"
        )
