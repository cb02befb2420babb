//! What a reader has seen.

use crate::event::shortened;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Names of events that are counted each for itself; what is beyond is counted together.
const NAMES_MAX: usize = 4096;

/// Why an event was read but has no meaning here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// No rule maps an event of this name.
    NotMapped,
    /// Its format was not told by the trace.
    FormatNotTold,
    /// A field that its meaning needs is missing or cut.
    FieldMissing,
    /// A line that is no event.
    NoEvent,
    /// A record that describes files, threads or the recording itself.
    Describing,
    /// It has no time.
    NoTime,
    /// It is earlier than what was told by far.
    Late,
    /// Something that its meaning needs was told before the trace begins, or is damaged.
    Unreferenced,
}

impl Skipped {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotMapped => "no rule maps it",
            Self::FormatNotTold => "the trace does not tell its format",
            Self::FieldMissing => "a field is missing or cut",
            Self::NoEvent => "the line is no event",
            Self::Describing => "it describes the recording",
            Self::NoTime => "it has no time",
            Self::Late => "it comes too late behind later ones",
            Self::Unreferenced => "what it refers to is not in the trace",
        }
    }
}

/// What a trace held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events by name, mapped or not.
    pub events: BTreeMap<String, u64>,
    /// Events of names beyond the bound on names.
    pub of_further_names: u64,
    /// Events that the source says were lost.
    pub lost: u64,
    /// What has no meaning here, by its reason.
    pub skipped: BTreeMap<Skipped, u64>,
    /// The clock of the times, as the trace names it; none where it does not.
    pub clock: Option<String>,
    /// The host, as the trace names it; none where it does not.
    pub host: Option<String>,
    /// CPUs that events came from.
    pub cpus: u32,
    /// Events by name while a reader counts: a look into `events` for each event would cost as much as reading it.
    pub(crate) counting: FxHashMap<Box<str>, u64>,
}

impl Counts {
    pub(crate) fn event(&mut self, name: &str) {
        self.events_of(name, 1);
    }

    /// So many events have a name.
    pub(crate) fn events_of(&mut self, name: &str, events: u64) {
        let name = shortened(name);
        if let Some(count) = self.counting.get_mut(name) {
            *count += events;
        } else if self.counting.len() < NAMES_MAX {
            self.counting.insert(name.into(), events);
        } else {
            self.of_further_names += events;
        }
    }

    /// What a reader hands back at the end of its trace.
    pub(crate) fn told(mut self) -> Self {
        self.events.extend(std::mem::take(&mut self.counting).into_iter().map(|(name, count)| (name.into(), count)));
        self
    }

    pub(crate) fn skip(&mut self, why: Skipped) {
        *self.skipped.entry(why).or_default() += 1;
    }

    pub(crate) fn on_cpu(&mut self, cpu: u32) {
        self.cpus = self.cpus.max(cpu.saturating_add(1));
    }
}
