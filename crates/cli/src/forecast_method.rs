//! The option that says how forecasts are made.

use anyhow::bail;
use weir_adapt::forecast::Method;
use weir_terminal::units;

/// Reads `least-squares`, `robust` or `seasonal:24h`.
pub(crate) fn method(text: &str) -> anyhow::Result<Method> {
    match text.split_once(':') {
        None if text == "least-squares" => Ok(Method::LeastSquares),
        None if text == "robust" => Ok(Method::Robust),
        Some(("seasonal", period)) => {
            let period_ms = units::duration(period)?.as_millis();
            match u64::try_from(period_ms) {
                Ok(period_ms @ 96..=31_622_400_000) => Ok(Method::Seasonal { period_ms }),
                _ => bail!("a season lasts from 96ms to a year"),
            }
        }
        _ => bail!("write least-squares, robust or seasonal:24h"),
    }
}
