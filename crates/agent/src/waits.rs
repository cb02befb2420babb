//! What threads did and waited for while their transactions ran, as the kernel tells it rather than the application.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use weir_measure::account::Reading;
use weir_measure::part::{Part, PartTimes};

/// The source of this: the kernel, by probes. Called by the agent's own thread, so nothing here may wait.
pub trait Waits: Send {
    /// A client's process has come: from now on its threads are watched, until it ends.
    fn follow(&mut self, process: u32);

    /// Takes in what has happened; called at each pass.
    fn look(&mut self);

    /// What a thread of a process had done and waited for up to a time (CLOCK_MONOTONIC, nanoseconds); `None` = that is
    /// not known.
    fn read(&mut self, process: u32, thread: u32, at_ns: u64) -> Option<Reading>;

    /// How it is.
    fn status(&self) -> CaptureStatus;
}

/// How the capture of waits is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureStatus {
    /// Threads that are watched.
    pub threads: u64,
    /// Events that were taken in.
    pub events: u64,
    /// Events that were lost: the agent did not read them in time. Their time counts as `unattributed`.
    pub lost: u64,
    /// Threads that are not watched, as there are too many.
    pub refused: u64,
    /// Transactions whose waits were measured.
    pub measured: u64,
    /// Transactions whose waits were not: they, or their thread, had begun before it was watched.
    pub not_measured: u64,
}

impl CaptureStatus {
    /// What it could not take in, in words.
    pub(crate) fn in_words(&self) -> Option<String> {
        let Self { lost, refused, .. } = self;
        (lost + refused > 0).then(|| {
            format!("--capture: {lost} events of the kernel's were lost, {refused} threads are not watched (too many)")
        })
    }
}

/// What a thread did and waited for between a transaction's start and its stop: the parts add up to that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// The thread's number.
    pub thread: u32,
    /// Nanoseconds of each part, by the names that `weir explain` has for them; in JSON those that are not 0.
    #[serde(serialize_with = "parts_to_map", deserialize_with = "parts_of_map")]
    pub parts: PartTimes,
}

impl ThreadTime {
    /// Those parts that are not 0, the longest first.
    #[must_use]
    pub fn each(&self) -> Vec<(Part, u64)> {
        let mut each: Vec<(Part, u64)> = Part::ALL.into_iter().zip(self.parts).filter(|(_, ns)| *ns > 0).collect();
        each.sort_by_key(|(part, ns)| (std::cmp::Reverse(*ns), *part));
        each
    }
}

fn parts_to_map<S: Serializer>(parts: &PartTimes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(Part::ALL.iter().zip(parts).filter(|(_, ns)| **ns > 0).map(|(part, ns)| (part.name(), ns)))
}

fn parts_of_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PartTimes, D::Error> {
    let told = BTreeMap::<String, u64>::deserialize(deserializer)?;
    // A part that only another version has is ignored.
    Ok(Part::ALL.map(|part| told.get(part.name()).copied().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_their_names_and_read_back() {
        let mut parts = [0; Part::COUNT];
        (parts[Part::Run as usize], parts[Part::WaitLock as usize]) = (20, 30);
        let told = ThreadTime { thread: 7, parts };
        let json = serde_json::to_string(&told).expect("text");
        assert_eq!(json, r#"{"thread":7,"parts":{"run":20,"wait_lock":30}}"#);
        assert_eq!(serde_json::from_str::<ThreadTime>(&json).expect("just written"), told);
        let other = serde_json::from_str::<ThreadTime>(r#"{"thread":7,"parts":{"run":20,"wait_moon":3}}"#);
        assert_eq!(other.expect("of a later version").each(), [(Part::Run, 20)]);
        assert_eq!(told.each(), [(Part::WaitLock, 30), (Part::Run, 20)]);
    }
}
