//! A response under way: the value, the content it is taken from, and what is logged at its end.

use crate::files::atom::{Atom, Content};
use crate::http::response::Response;
use crate::policy::leased::Again;
use crate::policy::policy_client::Advised;
use crate::policy::throttle::Place;
use crate::telemetry::access_log::LogLine;
use crate::telemetry::arm_requests::{self, Outcome, Owed, Told};
use std::io;
use std::rc::Rc;

/// Content up to this size is put behind its head: it would be copied anyway, see [`crate::exchange::send::COPIED_BYTES_MAX`].
const JOINED_BYTES_MAX: usize = 3072;

/// A response that is being sent. The handle to the content is here and not in the value.
#[derive(Debug, Default)]
pub(crate) struct OutgoingResponse {
    pub(crate) response: Response,
    pub(crate) atom: Option<Rc<Atom>>,
    /// The status code, for counts and the log.
    pub(crate) status: u16,
    /// Bytes of the head proper: what follows in the stream is the body.
    pub(crate) head_bytes: u64,
    pub(crate) log: LogLine,
    /// The business transaction that it is.
    pub(crate) arm: Told,
    /// What the adviser said about it, and the source of a response that is made piece by piece.
    pub(crate) advised: Option<Advised>,
    /// The same where it was answered by a lease, and is over at once.
    pub(crate) again: Option<Again>,
    /// Its place among those that may be under way.
    pub(crate) place: Option<Place>,
}

impl OutgoingResponse {
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.response.reset();
        self.atom = None;
        self.status = 0;
        self.head_bytes = 0;
        self.log.clear();
        self.arm = Told::default();
        if self.advised.is_some() {
            self.advised = None;
        }
        if self.again.is_some() {
            self.again = None;
        }
        if self.place.is_some() {
            self.place = None;
        }
    }

    /// Puts content of a few bytes behind the head, so that one piece of memory is sent in place of two.
    #[inline]
    pub(crate) fn join_small(&mut self) {
        let Self { response, atom, .. } = self;
        if let ([part], Some(Content::Memory(bytes))) =
            (response.parts.as_slice(), atom.as_ref().map(|atom| &atom.content))
            && bytes.len() <= JOINED_BYTES_MAX
            && (part.start, part.end, part.head_end) == (0, bytes.len() as u64, response.head.len() as u64)
        {
            response.head.extend_from_slice(bytes);
            response.parts.clear();
            response.atom = None;
            *atom = None;
        }
    }

    /// Whether all of it is a piece of memory of at most so many bytes, of which nothing was sent yet.
    #[inline]
    pub(crate) fn is_one_piece(&self, bytes_max: usize) -> bool {
        let Response { head, parts, offset, .. } = &self.response;
        *offset == 0 && parts.is_empty() && (1..=bytes_max).contains(&head.len()) && !self.continues()
    }

    /// Some of the responses were sent; tells this one, if it is told, of its first bytes.
    pub(crate) fn sent_some(&mut self) {
        if self.response.offset > 0 {
            self.arm.sent_some();
            if let Some(again) = self.again.take() {
                self.advised = Some(again.advised());
            }
            if let Some(advised) = &mut self.advised {
                advised.look();
            }
        }
    }

    /// Whether everything was taken, and nothing more is to be made.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.response.is_finished() && !self.continues()
    }

    /// Whether more is made once the sink has taken what there is.
    #[inline]
    pub(crate) fn continues(&self) -> bool {
        self.advised.as_ref().is_some_and(Advised::continues)
    }

    /// Makes the next piece in the place of what was taken.
    ///
    /// # Errors
    ///
    /// What the file system answers, and `StaleNetworkFileHandle` if the file has changed.
    #[cold]
    pub(crate) fn refill(&mut self) -> io::Result<()> {
        let Some(advised) = &mut self.advised else { return Ok(()) };
        advised.released_bytes += self.response.offset;
        self.response.offset = 0;
        self.response.head.clear();
        advised.fill(&mut self.response.head)
    }

    /// Tells the adviser of its end.
    #[inline(never)]
    pub(crate) fn settle_advised(&mut self) {
        let (bytes, is_finished) = (self.sent_bytes(), self.is_finished());
        if let Some(advised) = &mut self.advised {
            advised.settle(bytes, is_finished);
        }
        // In its place: it tells as it is dropped.
        self.advised = None;
    }

    /// The same where that is a lease.
    #[inline]
    pub(crate) fn settle_again(&mut self) {
        if self.again.is_some() {
            let is_finished = self.is_finished();
            self.again.iter_mut().for_each(|again| again.settle(is_finished));
        }
    }

    /// Ends the business transaction that it is.
    #[inline]
    pub(crate) fn end_told(&mut self) {
        let outcome = self.outcome();
        arm_requests::end(&mut self.arm, outcome);
    }

    /// Takes the end of its business transaction off it, to be told once the bytes have gone.
    pub(crate) fn owe_told(&mut self) -> Owed {
        let outcome = self.outcome();
        Owed::of(&mut self.arm, outcome)
    }

    #[inline]
    fn outcome(&self) -> Outcome {
        Outcome { status: self.status, is_finished: self.is_finished(), body_bytes: self.body_sent_bytes() }
    }

    /// Whether it may be another one for another client.
    pub(crate) fn is_chosen(&self) -> bool {
        self.advised.as_ref().is_some_and(|advised| advised.is_chosen)
            || self.again.as_ref().is_some_and(Again::is_chosen)
    }

    /// Bytes that the socket has taken, the head's included.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.response.offset + self.advised.as_ref().map_or(0, |advised| advised.released_bytes)
    }

    /// Whether the content is still what the head has said of it.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.atom.as_ref().is_none_or(|atom| atom.is_unchanged())
    }

    /// Bytes of the body that the socket has taken.
    pub(crate) fn body_sent_bytes(&self) -> u64 {
        self.sent_bytes().saturating_sub(self.head_bytes)
    }
}
