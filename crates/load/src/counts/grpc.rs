//! What is counted of calls of gRPC.

use crate::counts::histogram::{Histogram, histogram};

/// The most different words of statuses that are kept apart; further ones are counted without words.
const WORDS_MAX: usize = 32;

/// Counts of a loop; loops' tallies add up.
#[derive(Debug, Clone)]
pub(crate) struct GrpcTally {
    /// Messages of calls that ended with a status, and all that came.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) details: Details,
    pub(crate) first_message: Histogram,
    pub(crate) between: Histogram,
    pub(crate) messages_per_call: Histogram,
}

/// What servers said of statuses other than OK.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details(Vec<GrpcDetail>);

/// What a server said of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcDetail {
    /// The code of the status.
    pub status: u16,
    /// Its message; empty where it has none, or where there are too many different ones.
    pub words: String,
    /// Calls that ended so.
    pub count: u64,
}

/// What a run found of calls of gRPC; durations are in nanoseconds.
#[derive(Debug, Clone)]
pub struct GrpcReport {
    /// What servers said of statuses other than OK, the most frequent first.
    pub details: Vec<GrpcDetail>,
    /// Messages that were sent in calls that ended with a status.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
    /// Bytes of them, without their prefixes.
    pub received_bytes: u64,
    /// From the intended time to the end of the first message, of successes that had one.
    pub first_message: Histogram,
    /// Between each two neighbouring messages of a call; 0 where one reception brought both.
    pub between: Histogram,
    /// How many messages came in each success.
    pub messages_per_call: Histogram,
}

impl Details {
    /// Counts calls with this status and these words.
    pub(crate) fn note(&mut self, status: u16, words: &str, count: u64) {
        let known = self.0.iter().position(|known| known.status == status && known.words == words);
        match known {
            Some(place) => self.0[place].count += count,
            // As many again have room for the statuses whose words are too many.
            None if self.0.len() < WORDS_MAX || words.is_empty() && self.0.len() < 2 * WORDS_MAX => {
                self.0.push(GrpcDetail { status, words: words.to_owned(), count });
            }
            None if !words.is_empty() => self.note(status, "", count),
            None => {}
        }
    }

    /// The most frequent first.
    pub(crate) fn sorted(&self) -> Vec<GrpcDetail> {
        let mut sorted = self.0.clone();
        sorted.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.words.cmp(&other.words)));
        sorted
    }
}

impl GrpcTally {
    pub(crate) fn new() -> Self {
        Self {
            sent: 0,
            received: 0,
            received_bytes: 0,
            details: Details::default(),
            first_message: histogram(),
            between: histogram(),
            messages_per_call: histogram(),
        }
    }

    /// Adds another loop's.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        for detail in &other.details.0 {
            self.details.note(detail.status, &detail.words, detail.count);
        }
        for (histogram, more) in [
            (&mut self.first_message, &other.first_message),
            (&mut self.between, &other.between),
            (&mut self.messages_per_call, &other.messages_per_call),
        ] {
            // All have the same bounds, so adding cannot fail.
            histogram.add(more).expect("histograms of the same bounds");
        }
    }

    pub(crate) fn report(&self) -> GrpcReport {
        GrpcReport {
            details: self.details.sorted(),
            sent: self.sent,
            received: self.received,
            received_bytes: self.received_bytes,
            first_message: self.first_message.clone(),
            between: self.between.clone(),
            messages_per_call: self.messages_per_call.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bounded_and_nothing_is_lost() {
        let (mut one, mut whole) = (GrpcTally::new(), GrpcTally::new());
        for number in 0..100 {
            one.details.note(5, &format!("no item {}", number % 50), 1);
        }
        whole.merge(&one);
        let details = whole.details.sorted();
        assert_eq!(details.iter().map(|detail| detail.count).sum::<u64>(), 100);
        assert_eq!((details.len(), details[0].words.as_str(), details[0].count), (WORDS_MAX + 1, "", 36));
    }
}
