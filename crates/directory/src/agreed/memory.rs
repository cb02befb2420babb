//! The last known answers of the engine, within a bound.

use crate::engine::{Entry, Span};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of answers that are kept; the oldest go first.
const BYTES_MAX: usize = 32 << 20;
/// After the engine failed to answer, reads are answered from memory for twice the time that the failure took, within
/// these bounds: otherwise each of them would wait until its time is out.
const REST: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// What the engine answered last.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<(bool, String), Answer>,
    bytes: usize,
    /// Since when the engine has not answered.
    away_since: Option<Instant>,
    /// Until when reads are answered from memory.
    rests_until: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Answer {
    entries: Vec<Entry>,
    at: Instant,
    bytes: usize,
}

impl Memory {
    /// Takes up what the engine answered to a read that began at `asked`.
    pub(crate) fn learn(&self, span: Span<'_>, entries: &[Entry], asked: Instant) {
        let mut state = self.lock();
        state.away_since = None;
        state.rests_until = None;
        let size = |entry: &Entry| entry.key.len() + entry.value.len() + size_of::<Entry>();
        let bytes = entries.iter().map(size).sum::<usize>() + size_of::<Answer>();
        let key = key(span);
        // Two reads may end in another order than they began: the older one must not replace the newer.
        if bytes > BYTES_MAX || state.answers.get(&key).is_some_and(|answer| answer.at > asked) {
            return;
        }
        let answer = Answer { entries: entries.to_vec(), at: asked, bytes };
        let before = state.answers.insert(key, answer).map_or(0, |answer| answer.bytes);
        state.bytes = state.bytes + bytes - before;
        while state.bytes > BYTES_MAX {
            let oldest = state.answers.iter().min_by_key(|(_, answer)| answer.at).map(|(key, _)| key.clone());
            let Some(answer) = oldest.and_then(|key| state.answers.remove(&key)) else { break };
            state.bytes -= answer.bytes;
        }
    }

    /// Notes that the engine answered a change.
    pub(crate) fn note_there(&self) {
        let mut state = self.lock();
        state.away_since = None;
        state.rests_until = None;
    }

    /// Notes that the engine did not answer within this time.
    pub(crate) fn note_away(&self, took: Duration) {
        let mut state = self.lock();
        let now = Instant::now();
        state.away_since.get_or_insert(now);
        state.rests_until = Some(now + (took * 2).clamp(REST.0, REST.1));
    }

    /// The last answer to a read, and when it was asked for.
    pub(crate) fn recall(&self, span: Span<'_>) -> Option<(Vec<Entry>, Instant)> {
        self.lock().answers.get(&key(span)).map(|answer| (answer.entries.clone(), answer.at))
    }

    /// Whether the engine failed a moment ago, so that it is not asked again yet.
    pub(crate) fn rests(&self) -> bool {
        self.lock().rests_until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn away_since(&self) -> Option<Instant> {
        self.lock().away_since
    }

    /// No statement leaves the state half changed, so a panic of another thread does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(span: Span<'_>) -> (bool, String) {
    match span {
        Span::Key(key) => (false, key.to_owned()),
        Span::Prefix(prefix) => (true, prefix.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_never_older_than_what_was_there() {
        let memory = Memory::default();
        let entry = |bytes| Entry { key: "k".to_owned(), value: vec![0; bytes], revision: 1, lease: 0 };
        let start = Instant::now();
        memory.learn(Span::Key("a"), &[entry(20 << 20)], start);
        memory.learn(Span::Key("b"), &[entry(20 << 20)], start + Duration::from_millis(1));
        assert!(memory.recall(Span::Key("a")).is_none() && memory.recall(Span::Key("b")).is_some());
        assert!(memory.recall(Span::Prefix("b")).is_none());
        memory.learn(Span::Key("b"), &[], start);
        assert_eq!(memory.recall(Span::Key("b")).map(|(entries, _)| entries.len()), Some(1));
        assert!(memory.lock().bytes <= BYTES_MAX);
        memory.note_away(Duration::ZERO);
        assert!(memory.rests() && memory.away_since().is_some());
        memory.note_there();
        assert!(!memory.rests() && memory.away_since().is_none());
    }
}
