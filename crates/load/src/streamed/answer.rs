//! One answer under way: its events, and when they came.

use crate::counts::streams::StreamTally;
use crate::streamed::event_stream::{EventStream, Found};
use crate::streamed::form::Form;
use crate::streamed::json_lines::JsonLines;

/// What has come of an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streamed {
    reader: Reader,
    /// Whether its status is one of successes: only times of such answers are told.
    is_expected: bool,
    first_ns: u64,
    last_ns: u64,
    /// The longest time between two of its events.
    longest_ns: u64,
    events: u64,
    bytes: u64,
}

/// What reads it.
#[derive(Debug, Clone, Default)]
enum Reader {
    /// Its head has not come.
    #[default]
    None,
    Events(EventStream),
    Lines(JsonLines),
    Pieces,
}

impl Streamed {
    /// The head of an answer came.
    pub(crate) fn begin(&mut self, form: Form, is_expected: bool) {
        let reader = match form {
            Form::Events => Reader::Events(EventStream::default()),
            Form::Lines => Reader::Lines(JsonLines::default()),
            Form::Pieces => Reader::Pieces,
        };
        *self = Self { reader, is_expected, ..Self::default() };
    }

    /// Nothing is under way.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes a piece of its body, which came at this time.
    pub(crate) fn content(&mut self, piece: &[u8], now_ns: u64, tally: &mut StreamTally) {
        self.bytes += piece.len() as u64;
        let found = match &mut self.reader {
            Reader::None => return,
            Reader::Events(events) => events.feed(piece),
            Reader::Lines(lines) => Found { events: lines.feed(piece), behind: 0 },
            // What came at one time is one.
            Reader::Pieces => Found { events: u64::from(!piece.is_empty() && self.last_ns != now_ns), behind: 0 },
        };
        tally.behind += found.behind;
        self.came(found.events, now_ns, tally);
    }

    /// So many events came.
    fn came(&mut self, events: u64, now_ns: u64, tally: &mut StreamTally) {
        if events == 0 {
            return;
        }
        let mut together = events - 1;
        if self.last_ns == 0 {
            self.first_ns = now_ns;
        } else {
            let gap_ns = now_ns.saturating_sub(self.last_ns);
            self.longest_ns = self.longest_ns.max(gap_ns);
            if self.is_expected {
                tally.between.saturating_record(gap_ns);
            }
        }
        if !self.is_expected {
            together = 0;
        }
        tally.between.saturating_record_n(0, together);
        tally.events += events;
        self.last_ns = now_ns;
        self.events += events;
    }

    /// Whether more than `between_max_ns` has passed between two of its events, or since the last one by now.
    pub(crate) fn is_stalled(&self, between_max_ns: u64, now_ns: u64) -> bool {
        let waits = self.last_ns != 0 && !self.is_done();
        self.longest_ns > between_max_ns || waits && now_ns.saturating_sub(self.last_ns) > between_max_ns
    }

    /// When it will have stalled, if nothing comes.
    pub(crate) fn stalls_ns(&self, between_max_ns: u64) -> Option<u64> {
        (self.last_ns != 0 && !self.is_done()).then(|| self.last_ns.saturating_add(between_max_ns).saturating_add(1))
    }

    fn is_done(&self) -> bool {
        matches!(&self.reader, Reader::Events(events) if events.is_done())
    }

    /// The answer is whole, or was ended by this side; counts it if it is a success.
    pub(crate) fn finish(&mut self, intended_ns: u64, is_success: bool, now_ns: u64, tally: &mut StreamTally) {
        // A last line needs no end.
        if matches!(&self.reader, Reader::Lines(lines) if lines.is_unfinished()) {
            self.came(1, now_ns, tally);
        }
        if is_success {
            let (form, is_unfinished) = match &self.reader {
                Reader::Events(events) => (Form::Events, events.is_unfinished()),
                Reader::Lines(_) => (Form::Lines, false),
                Reader::Pieces | Reader::None => (Form::Pieces, false),
            };
            tally.forms[form as usize] += 1;
            tally.done += u64::from(self.is_done());
            tally.unfinished += u64::from(is_unfinished);
            tally.events_per_answer.saturating_record(self.events);
            tally.bytes_per_answer.saturating_record(self.bytes);
            if self.events > 0 {
                tally.first_event.saturating_record(self.first_ns.saturating_sub(intended_ns));
            }
        }
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_events() {
        let (mut answer, mut tally) = (Streamed::default(), StreamTally::new());
        answer.begin(Form::Events, true);
        answer.content(b"data: a\n", 1_000, &mut tally);
        answer.content(b"\ndata: b\n\n", 2_000, &mut tally);
        assert_eq!(answer.stalls_ns(500), Some(2_501));
        assert!(!answer.is_stalled(500, 2_500) && answer.is_stalled(500, 2_501));
        answer.content(b"data: c\n\ndata: [DONE]\n\n", 5_000, &mut tally);
        assert!(!answer.is_stalled(3_000, 90_000) && answer.is_stalled(2_999, 5_000), "{answer:?}");
        answer.finish(400, true, 6_000, &mut tally);
        assert_eq!((tally.events, tally.done, tally.forms), (3, 1, [1, 0, 0]));
        assert_eq!((tally.between.len(), tally.between.min(), tally.first_event.max()), (2, 0, 1_600));
        assert!(tally.between.max() >= 3_000 && tally.between.max() < 3_010);
    }

    #[test]
    fn what_came_at_one_time_is_one_piece() {
        let (mut answer, mut tally) = (Streamed::default(), StreamTally::new());
        answer.begin(Form::Pieces, true);
        for (piece, now_ns) in [(&b"a"[..], 10), (b"b", 10), (b"", 20), (b"c", 30)] {
            answer.content(piece, now_ns, &mut tally);
        }
        answer.finish(0, true, 40, &mut tally);
        assert_eq!((tally.events, tally.between.len(), tally.bytes_per_answer.max()), (2, 1, 3));
        // Of an answer that is no success nothing is told but that events came.
        answer.begin(Form::Lines, false);
        answer.content(b"1\n2\n", 10, &mut tally);
        answer.finish(0, false, 40, &mut tally);
        assert_eq!((tally.events, tally.between.len(), tally.events_per_answer.len()), (4, 1, 1));
    }
}
