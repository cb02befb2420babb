//! The last minutes, a sample each second: the page shows them at once when it is opened.

use super::status::View;
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

/// Samples, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Sample>);

impl History {
    pub(super) fn sample(&mut self, view: &View) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        let counts = view.counters.read();
        self.0.push_back(Sample {
            uptime_ms: view.uptime_ms(),
            classes: counts.classes(),
            bytes: counts.bytes_sent,
            open: view.open(),
            refused: counts.refused_by_choice(),
        });
    }

    /// A list for each sample: milliseconds since the start, the four classes, bytes, open connections, and
    /// those of the 5xx that rules or bounds wanted.
    pub(super) fn json(&self) -> String {
        let mut text = String::from("[");
        for (number, Sample { uptime_ms, classes: [c2, c3, c4, c5], bytes, open, refused }) in self.0.iter().enumerate()
        {
            let comma = if number == 0 { "" } else { "," };
            // Writing to memory does not fail.
            let _ = write!(text, "{comma}[{uptime_ms},{c2},{c3},{c4},{c5},{bytes},{open},{refused}]");
        }
        text.push(']');
        text
    }
}
