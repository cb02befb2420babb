"""The part of the package that is written in Rust."""

from typing import Any, Mapping, Optional

__version__: str
OUTCOMES: list[str]

class LoadError(Exception):
    """The run could not be made, or could not go on."""

class Times:
    """A distribution of times in microseconds, exact to three digits; all figures are None where there are no values."""

    count: int
    min_us: Optional[float]
    mean_us: Optional[float]
    stdev_us: Optional[float]
    p50_us: Optional[float]
    p90_us: Optional[float]
    p99_us: Optional[float]
    p99_9_us: Optional[float]
    max_us: Optional[float]
    def percentile(self, percent: float) -> Optional[float]:
        """What this percentage of the values, 0 to 100, does not exceed."""
    def buckets(self) -> list[tuple[float, int]]:
        """The buckets that hold values: the highest time of each, and how many values it holds."""
    def __len__(self) -> int: ...

class Running:
    def stop(self) -> None: ...
    def wait(self, seconds: float) -> bool: ...
    def batch(self, most: int, seconds: float) -> bytes: ...
    def is_streamed(self) -> bool: ...
    def lost(self) -> int: ...
    def samples(self) -> tuple[bytes, int]: ...
    def asked(self) -> list[tuple[str, str]]: ...
    def progress(self) -> tuple[int, int, int, int, int]: ...
    def report(self) -> dict[str, Any]: ...

def start(wanted: Mapping[str, Any]) -> Running: ...
