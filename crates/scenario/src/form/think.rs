//! Times that users think.

use std::time::Duration;
use weir_measure::duration_text::parse_duration;

/// The longest time that is drawn.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How long a user thinks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Think {
    /// Always so long.
    Fixed(Duration),
    /// Evenly between two times.
    Uniform(Duration, Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
    /// Its logarithm normally distributed: the median, and the deviation of the logarithm.
    Lognormal(Duration, f64),
    /// A Pareto distribution: the least time and the exponent.
    Pareto(Duration, f64),
    /// A normal distribution: the mean and the deviation; what would be below zero is zero.
    Normal(Duration, Duration),
}

impl Think {
    /// Reads `2s`, `1s..3s`, `exp 2s`, `normal 2s 500ms`, `lognormal 2s 0.5`, `pareto 1s 1.5`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let time = |text: &str| parse_duration(text.trim()).ok().filter(|time| *time <= LONGEST);
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (time(from)?, time(to)?);
            return (from <= to).then_some(Self::Uniform(from, to));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let shape = |text: &str| text.parse::<f64>().ok().filter(|shape| *shape > 0.0 && *shape <= 100.0);
        match *words.as_slice() {
            [fixed] => Some(Self::Fixed(time(fixed)?)),
            ["exp", mean] => Some(Self::Exponential(time(mean)?)),
            ["normal", mean, deviation] => Some(Self::Normal(time(mean)?, time(deviation)?)),
            ["lognormal", median, deviation] => Some(Self::Lognormal(time(median)?, shape(deviation)?)),
            ["pareto", least, exponent] => Some(Self::Pareto(time(least)?, shape(exponent)?)),
            _ => None,
        }
    }

    /// A time, at most a day.
    pub fn draw(&self, random: &mut fastrand::Rng) -> Duration {
        // In (0, 1], so that its logarithm is finite.
        let unit = 1.0 - random.f64();
        let seconds = match *self {
            Self::Fixed(time) => return time,
            Self::Uniform(from, to) => from.as_secs_f64() + (to - from).as_secs_f64() * unit,
            Self::Exponential(mean) => -mean.as_secs_f64() * unit.ln(),
            Self::Lognormal(median, deviation) => median.as_secs_f64() * (deviation * normal(unit, random)).exp(),
            Self::Normal(mean, deviation) => {
                (mean.as_secs_f64() + deviation.as_secs_f64() * normal(unit, random)).max(0.0)
            }
            Self::Pareto(least, exponent) => least.as_secs_f64() * unit.powf(-1.0 / exponent),
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
    }
}

/// A number of the standard normal distribution, of one in (0, 1] and another one (Box and Muller 1958).
fn normal(unit: f64, random: &mut fastrand::Rng) -> f64 {
    (-2.0 * unit.ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_that_were_asked_for() {
        let mut random = fastrand::Rng::with_seed(7);
        for (text, mean_s) in [
            ("2s", 2.0),
            ("1s..3s", 2.0),
            ("exp 2s", 2.0),
            ("lognormal 2s 0.5", 2.0 * 0.125_f64.exp()),
            ("pareto 1s 3", 1.5),
            ("normal 2s 500ms", 2.0),
        ] {
            let think = Think::parse(text).expect(text);
            let all: f64 = (0..20_000).map(|_| think.draw(&mut random).as_secs_f64()).sum();
            assert!((all / 20_000.0 / mean_s - 1.0).abs() < 0.05, "{text}: {}", all / 20_000.0);
        }
        for text in ["", "3s..1s", "exp", "lognormal 2s 0", "gauss 1s", "normal 1s", "1s 2s", "999999h"] {
            assert_eq!(Think::parse(text), None, "{text}");
        }
    }
}
