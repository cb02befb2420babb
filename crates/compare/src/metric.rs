//! What is compared.
use serde::{Deserialize, Serialize};
use weir_measure::comparison::Direction;

use crate::measured_slice::Slice;

/// Of what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// Of the servers.
    Server,
    /// Of the load commands: generators are compared.
    Generator,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// CPU time for each request, in nanoseconds; less is better.
    CpuNsPerRequest,
    /// Requests answered each second; more is better.
    RatePerS,
    /// The median of the times of responses, in nanoseconds; less is better.
    P50Ns,
    /// Their 99th percentile, in nanoseconds; less is better.
    P99Ns,
    /// Mean memory of the server, in bytes; less is better.
    MemoryBytes,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::CpuNsPerRequest, Self::RatePerS, Self::P50Ns, Self::P99Ns, Self::MemoryBytes];

    /// Those that say something of what is measured: of load generators only what they cost and how fast they are.
    pub(crate) fn concerning(measured: Measured) -> &'static [Self] {
        match measured {
            Measured::Server => &Self::ALL,
            Measured::Generator => &Self::ALL[..2],
        }
    }

    /// For reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuNsPerRequest => "CPU per request",
            Self::RatePerS => "throughput",
            Self::P50Ns => "median response",
            Self::P99Ns => "99th percentile",
            Self::MemoryBytes => "memory",
        }
    }

    /// Which way is good.
    #[must_use]
    pub fn direction(self) -> Direction {
        match self {
            Self::RatePerS => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        }
    }

    /// The metric's value in a slice; `None` where it was not measured.
    #[must_use]
    pub fn of(self, slice: &Slice) -> Option<f64> {
        match self {
            Self::CpuNsPerRequest => Some(slice.cpu_ns_per_request),
            Self::RatePerS => Some(slice.rate_per_s),
            Self::P50Ns => Some(slice.latency?.p50_ns),
            Self::P99Ns => Some(slice.latency?.p99_ns),
            Self::MemoryBytes => Some(slice.memory?.mean_bytes),
        }
    }

    /// Whether it is that of a start of the server, and the slices of one start tell it again and again: its ratios are
    /// those of lives, not of blocks.
    pub(crate) fn is_of_a_life(self) -> bool {
        matches!(self, Self::MemoryBytes)
    }

    /// Whether it depends on how fast the generator can ask.
    pub(crate) fn depends_on_the_generator(self) -> bool {
        matches!(self, Self::RatePerS | Self::P50Ns | Self::P99Ns)
    }

    /// A value in three to four digits with its unit.
    #[must_use]
    pub fn with_unit(self, value: f64) -> String {
        let units: &[(f64, &str)] = match self {
            Self::CpuNsPerRequest | Self::P50Ns | Self::P99Ns => {
                &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")]
            }
            Self::RatePerS => &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")],
            Self::MemoryBytes => &[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")],
        };
        let (scale, unit) = units.iter().find(|(scale, _)| value >= *scale).unwrap_or(&units[units.len() - 1]);
        let scaled = value / scale;
        let decimals = if scaled < 10.0 {
            2
        } else if scaled < 1000.0 {
            1
        } else {
            0
        };
        format!("{scaled:.decimals$}{unit}")
    }

    /// A ratio of this metric in words: `takes 3.1 % more CPU for a request`.
    pub(crate) fn difference(self, ratio: f64) -> String {
        let percent = format!("{:.1} %", (ratio - 1.0).abs() * 100.0);
        let is_less = ratio < 1.0;
        let less = if is_less { "less" } else { "more" };
        match self {
            Self::CpuNsPerRequest => format!("takes {percent} {less} CPU for a request"),
            Self::RatePerS => {
                format!("answers {percent} {} requests a second", if is_less { "fewer" } else { "more" })
            }
            Self::P50Ns => format!("answers {percent} {} in the median", if is_less { "sooner" } else { "later" }),
            Self::P99Ns => {
                format!("has a 99th percentile {percent} {}", if is_less { "shorter" } else { "longer" })
            }
            Self::MemoryBytes => format!("takes {percent} {less} memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_units() {
        let cpu = |value| Metric::CpuNsPerRequest.with_unit(value);
        assert_eq!(
            [cpu(812.0), cpu(5_213.0), cpu(29_300.0), cpu(1.2e6), cpu(0.0)],
            ["812.0 ns", "5.21 us", "29.3 us", "1.20 ms", "0.00 ns"]
        );
        let rate = |value| Metric::RatePerS.with_unit(value);
        assert_eq!([rate(977.0), rate(169_234.0), rate(2.5e6)], ["977.0/s", "169.2k/s", "2.50M/s"]);
        assert_eq!(Metric::MemoryBytes.with_unit(24.3e6), "24.3 MB");
    }
}
