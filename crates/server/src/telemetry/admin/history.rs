//! The last minutes, a sample each second: the page shows them at once when it is opened.

use super::status::View;
use super::times::{SAMPLES_MAX as TIMES_MAX, Times};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Samples that are kept: five minutes.
const SAMPLES_MAX: usize = 301;

/// Counts at some moment; their differences are the rates.
#[derive(Debug, Clone, Copy)]
struct Sample {
    uptime_ms: u64,
    /// Responses with 2xx, 3xx, 4xx, 5xx.
    classes: [u64; 4],
    bytes: u64,
    /// Connections that are open.
    open: u64,
    /// Responses with 503 because rules or bounds said so.
    refused: u64,
}

impl Sample {
    fn of(view: &View) -> Self {
        let counts = view.counters.read();
        Self {
            uptime_ms: view.uptime_ms(),
            classes: counts.classes(),
            bytes: counts.bytes_sent,
            open: view.open(),
            refused: counts.refused_by_choice(),
        }
    }

    /// What came a second since a sample of before; 5xx that rules or bounds wanted are no errors.
    fn since(&self, before: &Self) -> Value {
        let over_s = self.uptime_ms.saturating_sub(before.uptime_ms) as f64 / 1000.0;
        let each_s =
            |now: u64, before: u64| if over_s > 0.0 { now.saturating_sub(before) as f64 / over_s } else { 0.0 };
        let class = |at: usize| self.classes[at].saturating_sub(before.classes[at]);
        let refused = self.refused.saturating_sub(before.refused);
        json!({
            "over_s": over_s,
            "requests_per_s": each_s(self.classes.iter().sum(), before.classes.iter().sum()),
            "client_errors_per_s": each_s(class(2), 0),
            "server_errors_per_s": each_s(class(3).saturating_sub(refused), 0),
            "refused_per_s": each_s(refused, 0),
            "sent_bytes_per_s": each_s(self.bytes, before.bytes),
            "connections": self.open,
        })
    }
}

/// Samples, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    times: Times,
}

impl History {
    pub(super) fn sample(&mut self, view: &View) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample::of(view));
        self.times.sample(view);
    }

    /// The last ten seconds: what came a second, and how long 99 % of the successes took at most.
    pub(super) fn now(&self, view: &View) -> Value {
        let sample = Sample::of(view);
        let before = self.samples.iter().rev().take(TIMES_MAX).next_back().copied().unwrap_or(sample);
        let mut told = sample.since(&before);
        let times = self.times.asked(view);
        told["timed"] = times.map(|(timed, _)| timed).into();
        told["p99_us"] = times.and_then(|(timed, p99_us)| (timed > 0).then_some(p99_us)).into();
        told
    }

    /// A list for each sample: milliseconds since the start, the four classes, bytes, open connections, and
    /// those of the 5xx that rules or bounds wanted.
    pub(super) fn json(&self) -> String {
        let mut text = String::from("[");
        for (number, Sample { uptime_ms, classes: [c2, c3, c4, c5], bytes, open, refused }) in
            self.samples.iter().enumerate()
        {
            let comma = if number == 0 { "" } else { "," };
            // Writing to memory does not fail.
            let _ = write!(text, "{comma}[{uptime_ms},{c2},{c3},{c4},{c5},{bytes},{open},{refused}]");
        }
        text.push(']');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(uptime_ms: u64, classes: [u64; 4], refused: u64) -> Sample {
        Sample { uptime_ms, classes, bytes: uptime_ms * 7, open: 3, refused }
    }

    #[test]
    fn what_came_a_second_is_told_and_what_was_refused_by_choice_is_no_error() {
        let told = sample(14_000, [500, 10, 20, 40], 30).since(&sample(4_000, [100, 10, 0, 0], 0));
        let number = |name: &str| told[name].as_f64().expect("a number");
        assert_eq!((number("over_s"), number("requests_per_s"), number("sent_bytes_per_s")), (10.0, 46.0, 7000.0));
        assert_eq!((number("client_errors_per_s"), number("server_errors_per_s")), (2.0, 1.0));
        assert_eq!((number("refused_per_s"), number("connections")), (3.0, 3.0));
    }

    proptest::proptest! {
        #[test]
        fn figures_are_finite_and_not_negative(before in 0_u64..1 << 40, now in 0_u64..1 << 40, count in 0_u64..1 << 40) {
            let told = sample(now, [count; 4], count).since(&sample(before, [now; 4], now));
            for (name, value) in told.as_object().expect("an object") {
                proptest::prop_assert!(value.as_f64().is_some_and(|value| value >= 0.0), "{name}: {value}");
            }
        }
    }
}
