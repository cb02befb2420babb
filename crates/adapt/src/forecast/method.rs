//! How forecasts are made.

use serde::{Deserialize, Serialize};

/// How forecasts of rules are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The straight line of least squares, as Patia's rules have it.
    #[default]
    LeastSquares,
    /// The median of the slopes: a few wild values do not turn the line.
    Robust,
    /// Level, trend and what repeats with a period of so many milliseconds.
    Seasonal {
        /// The period, in milliseconds.
        period_ms: u64,
    },
}

impl Method {
    /// The word for it, without its period.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeastSquares => "least-squares",
            Self::Robust => "robust",
            Self::Seasonal { .. } => "seasonal",
        }
    }
}
