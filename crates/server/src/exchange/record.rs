//! What is said elsewhere of a request: its line in the log, its business transaction, the advice it was answered by,
//! and the place that it holds within a bound.

use crate::policy::advised::Advised;
use crate::policy::leased::Again;
use crate::policy::throttle::Place;
use crate::telemetry::access_log::LogLine;
use crate::telemetry::arm_requests::{self, Outcome, Owed, Told};
use crate::telemetry::watching::Underway;

/// The record of a request; each part is told at the end of the response.
#[derive(Debug, Default)]
pub(crate) struct RequestRecord {
    pub(crate) log: LogLine,
    /// The business transaction that it is.
    pub(crate) arm: Told,
    /// What the adviser said about it, and the source of a response that is made piece by piece.
    pub(crate) advised: Option<Advised>,
    /// The same where it was answered by a lease, and is over at once.
    pub(crate) again: Option<Again>,
    /// Its place among those that may be under way.
    pub(crate) place: Option<Place>,
    /// What those are told of it who watch it.
    pub(crate) watched: Option<Box<Underway>>,
}

impl RequestRecord {
    /// Makes it free for the next request; what rules and watchers were to be told was told before.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.log.clear();
        self.arm = Told::default();
        if self.place.is_some() {
            self.place = None;
        }
    }

    /// Some bytes of the response were taken: tells the transaction of the first, and the adviser how the link does.
    pub(super) fn sent_some(&mut self) {
        self.arm.sent_some();
        if let Some(again) = self.again.take() {
            self.advised = Some(again.advised());
        }
        if let Some(advised) = &mut self.advised {
            advised.look();
        }
    }

    /// Tells the adviser of the response's end.
    #[inline(never)]
    pub(super) fn finish_advised(&mut self, sent_bytes: u64, is_finished: bool) {
        if let Some(advised) = &mut self.advised {
            advised.finish(sent_bytes, is_finished);
        }
        // In its place: it tells as it is dropped.
        self.advised = None;
    }

    /// Ends the business transaction that it is.
    #[inline]
    pub(super) fn end_told(&mut self, outcome: Outcome) {
        arm_requests::end(&mut self.arm, outcome);
    }

    /// Takes the end of its business transaction off it, to be told once the bytes have gone.
    pub(super) fn owe_told(&mut self, outcome: Outcome) -> Owed {
        Owed::of(&mut self.arm, outcome)
    }

    /// Whether it may be another one for another client.
    pub(crate) fn is_chosen(&self) -> bool {
        self.advised.as_ref().is_some_and(|advised| advised.is_chosen)
            || self.again.as_ref().is_some_and(Again::is_chosen)
    }
}
