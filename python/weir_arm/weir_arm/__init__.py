"""Business transactions by the standard of Application Response Measurement (ARM 4.0).

    import weir_arm as arm

    shop = arm.Application("Shop")
    checkout = shop.transaction("checkout")
    with checkout.start(user="ann"):
        ...

What is wrong when something is named raises an exception. Measuring raises none: what cannot be told is left out, and
where the C library cannot be loaded (``problem`` says why) nothing is recorded.
"""

from .application import Application, Metric, Transaction
from .correlator import Correlator
from .library import problem
from .running import Running
from .types import (
    ABORTED,
    CNTRDIVR32,
    COUNTER32,
    COUNTER64,
    FAILED,
    GAUGE32,
    GAUGE64,
    GAUGEDIVR32,
    GOOD,
    NUMERICID32,
    NUMERICID64,
    STRING32,
    UNKNOWN,
)

__version__ = "0.2.0"

__all__ = [
    "ABORTED", "Application", "CNTRDIVR32", "COUNTER32", "COUNTER64", "Correlator", "FAILED", "GAUGE32", "GAUGE64",
    "GAUGEDIVR32", "GOOD", "Metric", "NUMERICID32", "NUMERICID64", "Running", "STRING32", "Transaction", "UNKNOWN",
    "problem",
]
