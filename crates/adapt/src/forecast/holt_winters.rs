//! Level, trend and season, each smoothed (Holt 1957, Winters 1960; the additive form).

use super::fit::Forecast;
use serde::{Deserialize, Serialize};

/// Steps of a period: hours of a day would be few, minutes more than are seen well.
const STEPS: usize = 96;
/// How fast level, trend and season follow; the middle of what is usual for each.
const LEVEL: f64 = 0.3;
const TREND: f64 = 0.05;
const SEASON: f64 = 0.2;
/// How fast the measure of fit forgets.
const FORGET: f64 = 0.02;

/// A series that repeats with a period. It takes a value at a time, and its size stays the same. It forecasts once two
/// periods are over: the first shapes the season, the second shows how well it fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoltWinters {
    step_ms: u64,
    /// The step that values are being gathered for, their sum and number.
    step: Option<u64>,
    #[serde(with = "crate::exact")]
    sum: f64,
    #[serde(with = "crate::exact")]
    count: f64,
    /// Steps that are over.
    steps: u64,
    #[serde(with = "crate::exact")]
    level: f64,
    #[serde(with = "crate::exact")]
    trend: f64,
    #[serde(with = "crate::exact::list")]
    season: Vec<f64>,
    /// Squares of the errors one step ahead, and of the distance from the mean: smoothed alike.
    #[serde(with = "crate::exact")]
    error: f64,
    #[serde(with = "crate::exact")]
    spread: f64,
    #[serde(with = "crate::exact")]
    mean: f64,
    judged: u64,
}

impl HoltWinters {
    /// With a period in milliseconds, at least 96.
    pub fn new(period_ms: u64) -> Self {
        Self {
            step_ms: (period_ms / STEPS as u64).max(1),
            step: None,
            sum: 0.0,
            count: 0.0,
            steps: 0,
            level: 0.0,
            trend: 0.0,
            season: vec![0.0; STEPS],
            error: 0.0,
            spread: 0.0,
            mean: 0.0,
            judged: 0,
        }
    }

    /// Whether it can be one that values made: what was written down may have been changed.
    pub(crate) fn is_sound(&self) -> bool {
        let numbers = [self.sum, self.count, self.level, self.trend, self.error, self.spread, self.mean];
        let are_counts = self.steps < 1 << 53 && self.judged < 1 << 53;
        self.step_ms > 0
            && self.season.len() == STEPS
            && are_counts
            && self.count >= f64::from(u8::from(self.step.is_some()))
            && numbers.iter().chain(&self.season).all(|number| number.is_finite())
    }

    /// Whether the other one has the same period.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.step_ms == other.step_ms
    }

    /// Takes a value; one older than those before it is passed over.
    pub fn push(&mut self, at_ms: u64, value: f64) {
        let step = at_ms / self.step_ms;
        match self.step {
            Some(current) if step < current => return,
            Some(current) if step > current => {
                let mean = self.sum / self.count;
                self.over(current, mean);
                // What was not seen is taken for what was expected, but not for longer than two periods.
                let missing = (step - current - 1).min(2 * STEPS as u64);
                for passed in 0..missing {
                    let at = step - missing + passed;
                    let expected = self.expected(1, at);
                    self.over(at, if self.steps < STEPS as u64 { mean } else { expected });
                }
                (self.sum, self.count) = (0.0, 0.0);
            }
            _ => {}
        }
        self.step = Some(step);
        self.sum += value;
        self.count += 1.0;
    }

    /// What is expected at a step so many steps behind the last.
    fn expected(&self, ahead: u64, step: u64) -> f64 {
        self.level + self.trend * ahead as f64 + self.season[(step % STEPS as u64) as usize]
    }

    /// A step is over.
    fn over(&mut self, step: u64, value: f64) {
        let place = (step % STEPS as u64) as usize;
        if self.steps < STEPS as u64 {
            // The first period: the level is its mean so far, the season what stands off from it at the end.
            self.season[place] = value;
            self.steps += 1;
            if self.steps == STEPS as u64 {
                self.level = self.season.iter().sum::<f64>() / STEPS as f64;
                self.mean = self.level;
                self.season.iter_mut().for_each(|season| *season -= self.level);
            }
            return;
        }
        let expected = self.expected(1, step);
        let (error, off) = (value - expected, value - self.mean);
        let rate = (1.0 / (self.judged as f64 + 1.0)).max(FORGET);
        self.error += rate * (error * error - self.error);
        self.spread += rate * (off * off - self.spread);
        self.mean += FORGET * off;
        self.judged += 1;
        let before = self.level;
        self.level = LEVEL * (value - self.season[place]) + (1.0 - LEVEL) * (self.level + self.trend);
        self.trend = TREND * (self.level - before) + (1.0 - TREND) * self.trend;
        self.season[place] = SEASON * (value - self.level) + (1.0 - SEASON) * self.season[place];
        self.steps += 1;
    }

    /// What is expected at a time; `None` before two periods are over, or for a time that is over.
    pub fn forecast(&self, at_ms: u64) -> Option<Forecast> {
        let current = self.step?;
        let step = at_ms / self.step_ms;
        if self.steps < 2 * STEPS as u64 || step < current {
            return None;
        }
        let fit = if self.spread > 1e-12 { 1.0 - self.error / self.spread } else { 1.0 };
        // The last step that is over is the one before the current.
        Some(Forecast { value: self.expected(step - current + 1, step).max(0.0), fit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    fn daily(at_ms: u64) -> f64 {
        let phase = at_ms as f64 / DAY_MS as f64 * std::f64::consts::TAU;
        500.0 + 300.0 * phase.sin()
    }

    #[test]
    fn what_repeats_is_foreseen() {
        let mut series = HoltWinters::new(DAY_MS);
        let minutes = |days: u64| (0..days * 1440).map(|minute| minute * 60_000);
        for at in minutes(1) {
            series.push(at, daily(at));
        }
        assert_eq!(series.forecast(DAY_MS + 1), None, "after one period there is nothing to compare it with");
        for at in minutes(4) {
            series.push(at, daily(at));
        }
        let ahead = 4 * DAY_MS + 6 * 3_600_000;
        let forecast = series.forecast(ahead).expect("four periods");
        assert!((forecast.value - daily(ahead)).abs() < 40.0, "{forecast:?} {}", daily(ahead));
        assert!(forecast.fit > 0.95, "{forecast:?}");
        assert_eq!(series.forecast(3 * DAY_MS), None);
    }

    #[test]
    fn holes_of_any_length_take_bounded_time() {
        let mut series = HoltWinters::new(96);
        series.push(0, 5.0);
        series.push(u64::MAX, 7.0);
        series.push(u64::MAX, 7.0);
        assert!(series.forecast(u64::MAX).is_some_and(|forecast| forecast.value.is_finite()));
    }
}
