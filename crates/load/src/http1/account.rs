//! What is counted and told of requests that are over.

use crate::counts::answered::Answered;
use crate::counts::durations::Durations;
use crate::counts::scopes::Unanswered;
use crate::engine::following::count_unanswered;
use crate::engine::state::Engine;
use crate::http1::connection::Batch;
use crate::http1::state::Http1;
use weir_wire::client::{ClientRequest, Outcome};

/// What is known of a request whose response is whole, or that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Over {
    pub(crate) connection: u64,
    pub(crate) connect_start_ns: u64,
    pub(crate) batch: Batch,
    pub(crate) done_ns: u64,
    pub(crate) response_end: u64,
    pub(crate) request_bytes: u32,
    pub(crate) answered: Answered,
    pub(crate) encrypted: bool,
}

impl Over {
    #[inline]
    pub(crate) fn durations(&self) -> Durations {
        let batch = &self.batch;
        let from_ns = if batch.opened { self.connect_start_ns } else { batch.sent_ns };
        Durations {
            latency_ns: self.done_ns.saturating_sub(batch.intended_ns),
            uncorrected_ns: self.done_ns.saturating_sub(from_ns),
            first_byte_ns: batch.first_byte_ns.saturating_sub(batch.sent_ns),
        }
    }
}

impl Engine<'_, Http1> {
    #[inline]
    pub(crate) fn count_answer(&mut self, over: &Over) {
        self.tally.answered(over.answered, over.done_ns <= self.scheduler.end_ns, over.durations());
        self.tally.last_done_ns = over.done_ns;
        if self.events.wanted() {
            self.tell(over, Outcome::Done);
        }
    }

    /// Counts the requests of a batch that will have no response.
    pub(crate) fn count_failures(&mut self, slot: usize, outcome: Outcome) {
        let connection = &mut self.connections[slot];
        let batch = connection.http.batch;
        let (sent, received) = connection.stream.as_ref().map_or((0, 0), |stream| (stream.sent, stream.received));
        let mut over = Over {
            connection: connection.number,
            connect_start_ns: connection.connect_start_ns,
            batch,
            done_ns: self.now_ns,
            response_end: received,
            request_bytes: 0,
            answered: Answered::fit(0),
            encrypted: connection.encrypted,
        };
        if self.plan.followed.is_some() {
            let why = if outcome == Outcome::Stopped { Unanswered::Stopped } else { Unanswered::Failed };
            self.count_scopes(slot, why);
        }
        self.scheduler.outstanding -= u64::from(batch.left);
        self.tally.failed(outcome, u64::from(batch.left), self.now_ns.saturating_sub(batch.intended_ns));
        self.tally.last_done_ns = self.now_ns;
        while self.events.wanted() && over.batch.left > 0 {
            if over.batch.first_byte_ns == 0 {
                over.batch.response_offset = received;
            }
            let connection = &mut self.connections[slot];
            let bytes = connection.awaited_bytes(self.plan.requests.entry(connection.http.batch.request));
            over.request_bytes = sent.saturating_sub(over.batch.request_offset).min(u64::from(bytes)) as u32;
            self.tell(&over, outcome);
            let connection = &mut self.connections[slot];
            connection.http.batch.left -= 1;
            connection.http.batch.answered += 1;
            connection.http.batch.first_byte_ns = 0;
            if connection.http.batch.left > 0 {
                connection.await_next(&self.plan.requests);
            }
            over.batch = connection.http.batch;
        }
        // The batch is put back as it was: the code that closes the connection may still read it.
        self.connections[slot].http.batch = batch;
    }

    /// Counts the requests of a batch that have no whole response in their scopes.
    pub(crate) fn count_scopes(&mut self, slot: usize, why: Unanswered) {
        let http = &self.connections[slot].http;
        for number in http.batch.answered..http.batch.answered + http.batch.left {
            let request = http.burst.get(number as usize).map_or(http.batch.request, |piece| piece.request);
            count_unanswered(self.plan, &mut self.tally, request, why);
        }
    }

    fn tell(&mut self, over: &Over, outcome: Outcome) {
        let batch = &over.batch;
        self.events.request(ClientRequest {
            connection: over.connection,
            intended_ns: batch.intended_ns,
            started_ns: batch.started_ns,
            sent_ns: batch.sent_ns,
            first_byte_ns: batch.first_byte_ns,
            done_ns: over.done_ns,
            request_offset: batch.request_offset,
            request_bytes: over.request_bytes,
            response_offset: batch.response_offset,
            response_bytes: over.response_end.saturating_sub(batch.response_offset),
            status: over.answered.status(),
            name: self.plan.requests.entry(batch.request).name,
            outcome,
            opened_connection: batch.opened,
            encrypted: over.encrypted,
            retried: batch.retried,
            http_version: 1,
            stream: 0,
        });
    }
}
