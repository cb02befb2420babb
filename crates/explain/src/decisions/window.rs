//! When a run was recorded, by the clocks that a recording of decisions may tell its times in.

use anyhow::Context;
use weir_adapt::log::ClockPair;
use weir_trace::{Entry, RunReader, Source, block_places};

const NS_PER_MS: u64 = 1_000_000;

/// From a run's first moment to its last.
#[derive(Debug)]
pub(super) struct Window {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub(super) from_ns: u64,
    /// The same.
    pub(super) to_ns: u64,
    /// Which start of the host the times count from.
    boot_id: String,
    /// The same moment by CLOCK_MONOTONIC and by the time of day, nanoseconds.
    pair: (u64, u64),
}

/// By what times of a recording are those of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Both are of the same clock.
    Exact,
    /// The recording does not say: by the time of day.
    Untold,
    /// It is of another start of a host: by the time of day.
    Elsewhere,
}

impl Window {
    /// Of what a run's sources noted and recorded; what was put into it later does not count.
    pub(super) fn of(reader: &RunReader) -> anyhow::Result<Self> {
        let decisions = Source::Decisions.name();
        let (mut from_ns, mut to_ns, mut origin) = (u64::MAX, 0, None);
        let mut spans = |first_ns: u64, last_ns: u64| (from_ns, to_ns) = (from_ns.min(first_ns), to_ns.max(last_ns));
        for entry in &reader.entries {
            match entry {
                Entry::Source { source, host, monotonic_ns, realtime_ns, .. } if source != decisions => {
                    spans(*monotonic_ns, *monotonic_ns);
                    origin.get_or_insert_with(|| (host.boot_id.clone(), (*monotonic_ns, *realtime_ns)));
                }
                Entry::End { source, monotonic_ns, .. } if source != decisions => spans(*monotonic_ns, *monotonic_ns),
                _ => {}
            }
        }
        let is_own = |name: &str| name.starts_with(&format!("{decisions}-"));
        for path in reader.streams().iter().flatten() {
            if path.file_name().is_some_and(|name| is_own(&name.to_string_lossy())) {
                continue;
            }
            for place in block_places(path)?.iter().filter(|place| place.records > 0) {
                spans(place.base_ns, place.end_ns);
            }
        }
        let (boot_id, pair) = origin.with_context(|| {
            let run = reader.directory().display();
            format!("the manifest of {run} does not say when it was recorded, so that no decision can be placed in it")
        })?;
        Ok(Self { from_ns, to_ns, boot_id, pair })
    }

    /// A time of a recording by the run's clock; before all that it counts it is 0.
    pub(super) fn place(&self, clock: Option<&ClockPair>, at_ms: u64) -> (u64, Fit) {
        let fit = match clock {
            Some(clock) if clock.boot_id == self.boot_id => {
                return (clock.monotonic_ns(at_ms).unwrap_or(0), Fit::Exact);
            }
            Some(_) => Fit::Elsewhere,
            None => Fit::Untold,
        };
        let (monotonic_ns, realtime_ns) = self.pair;
        let at_ns = i128::from(at_ms) * i128::from(NS_PER_MS) - i128::from(realtime_ns) + i128::from(monotonic_ns);
        (u64::try_from(at_ns.max(0)).unwrap_or(u64::MAX), fit)
    }

    /// Its end by the time of day, milliseconds since 1970.
    pub(super) fn end_unix_ms(&self) -> u64 {
        let (monotonic_ns, realtime_ns) = self.pair;
        realtime_ns.saturating_add(self.to_ns).saturating_sub(monotonic_ns) / NS_PER_MS
    }

    pub(super) fn holds(&self, at_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&at_ns)
    }
}
