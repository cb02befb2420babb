//! Why requests failed, in words: what an outcome's name alone does not tell.

use crate::carried::{Carried, CarriedError, Reader};
use weir_wire::client::Outcome;

/// The most different texts that are kept apart; further ones are counted with their outcome only.
const TEXTS_MAX: usize = 32;
/// What others said is cut to this length.
const TEXT_BYTES_MAX: usize = 300;

/// A reason for which requests failed, and how many did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The outcome that it explains.
    pub outcome: Outcome,
    /// What was wrong.
    pub words: String,
    /// Connections that failed for it.
    pub count: u64,
}

/// The reasons of a loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons(Vec<Reason>);

impl Reasons {
    /// Counts a reason, if anything failed for it.
    pub(crate) fn note(&mut self, outcome: Outcome, words: &str, count: u64) {
        if count == 0 {
            return;
        }
        let end = words.char_indices().map(|(at, _)| at).find(|at| *at >= TEXT_BYTES_MAX).unwrap_or(words.len());
        let words = &words[..end];
        if let Some(known) = self.0.iter_mut().find(|known| known.outcome == outcome && known.words == words) {
            known.count += count;
        } else if self.0.len() < TEXTS_MAX {
            self.0.push(Reason { outcome, words: words.to_owned(), count });
        }
    }

    /// Adds another loop's reasons.
    pub(crate) fn merge(&mut self, other: &Self) {
        for reason in &other.0 {
            self.note(reason.outcome, &reason.words, reason.count);
        }
    }

    /// The most frequent first.
    pub(crate) fn sorted(mut self) -> Vec<Reason> {
        self.0.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.words.cmp(&other.words)));
        self.0
    }
}

impl Carried for Reasons {
    fn put(&self, to: &mut Vec<u8>) {
        let reasons: Vec<_> =
            self.0.iter().map(|reason| (reason.outcome as u16, (reason.words.clone(), reason.count))).collect();
        reasons.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let mut reasons = Self::default();
        for (outcome, (words, count)) in Vec::<(u16, (String, u64))>::take(from)? {
            let outcome = Outcome::ALL.get(usize::from(outcome)).ok_or(CarriedError::Number)?;
            reasons.note(*outcome, &words, count);
        }
        Ok(reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_bounded() {
        let mut reasons = Reasons::default();
        for number in 0..100 {
            reasons.note(Outcome::Tls, &format!("reason {}", number % 40), 1);
        }
        reasons.note(Outcome::Tls, &"ü".repeat(1000), 1);
        let mut whole = Reasons::default();
        whole.note(Outcome::Tls, "reason 5", 7);
        whole.merge(&reasons);
        let sorted = whole.sorted();
        assert_eq!((sorted.len(), sorted[0].count, sorted[0].words.as_str()), (TEXTS_MAX, 10, "reason 5"));
        let mut long = Reasons::default();
        long.note(Outcome::Tls, &"ü".repeat(1000), 1);
        assert_eq!(long.sorted()[0].words, "ü".repeat(150));
    }
}
