//! Makes figures of counts: it is told the counts and the time, and gives what is to be added to the file. It has neither
//! a clock nor a file.

use super::durations::DurationSums;
use super::format::{Figures, Span};
use crate::counters::Counts;
use std::collections::VecDeque;

/// Minutes that wait for a file that cannot be written; older ones are lost, and counted.
const WAITING_MAX: usize = 24 * 60;

/// What a server has done until a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    pub(crate) counts: Counts,
    /// Connections that are open.
    pub(crate) open: u64,
    pub(crate) durations: DurationSums,
}

/// Figures on their way into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) figures: Figures,
    /// They are in the record of their minute, and are to be added to that of their hour.
    pub(crate) is_in_minute: bool,
}

/// The present minute, and what waits to be written.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    before: Reading,
    before_unix_s: u64,
    /// The times until the beginning of the present minute.
    durations_before: DurationSums,
    current: Figures,
    waiting: VecDeque<Waiting>,
    lost: u64,
}

impl Recorder {
    /// Begins to record.
    pub(crate) fn new(now_unix_s: u64, reading: Reading) -> Self {
        Self {
            durations_before: reading.durations.clone(),
            before: reading,
            before_unix_s: now_unix_s,
            current: Figures { begin_unix_s: Span::Minute.begin(now_unix_s), ..Figures::default() },
            ..Self::default()
        }
    }

    /// Takes note of what was done since the last time, which counts to the minute of the last time. Returns whether a
    /// minute is over.
    pub(crate) fn tick(&mut self, now_unix_s: u64, reading: Reading) -> bool {
        let (now, before) = (&reading.counts, &self.before.counts);
        let refused = |counts: &Counts| counts.refused_by_choice();
        let connections = now.connections.saturating_sub(before.connections);
        // Those that came and went between two looks were open one at a time at least.
        let open = reading.open.max(u64::from(connections > 0));
        self.current.add(&Figures {
            // A clock that was set back, or far on, is no time in which the server ran.
            up_s: u32::try_from(now_unix_s.saturating_sub(self.before_unix_s).min(Span::Minute.seconds())).unwrap_or(0),
            open_peak: u32::try_from(open).unwrap_or(u32::MAX),
            requests: now.requests.saturating_sub(before.requests),
            redirections: now.redirections.saturating_sub(before.redirections),
            client_errors: now.client_errors.saturating_sub(before.client_errors),
            server_errors: now.server_errors.saturating_sub(before.server_errors),
            refused_by_choice: refused(now).saturating_sub(refused(before)),
            sent_bytes: now.bytes_sent.saturating_sub(before.bytes_sent),
            connections,
            broken: now.connections_broken.saturating_sub(before.connections_broken),
            ..Figures::default()
        });
        (self.before, self.before_unix_s) = (reading, now_unix_s);
        let begin_unix_s = Span::Minute.begin(now_unix_s);
        if begin_unix_s == self.current.begin_unix_s {
            return false;
        }
        self.end_minute();
        self.current.begin_unix_s = begin_unix_s;
        true
    }

    /// Has everything so far wait to be written; the times of a minute come with its end.
    pub(crate) fn flush(&mut self) {
        let begin_unix_s = self.current.begin_unix_s;
        let figures = std::mem::replace(&mut self.current, Figures { begin_unix_s, ..Figures::default() });
        if figures.is_nothing() {
            return;
        }
        if let Some(last) = self.waiting.back_mut()
            && last.figures.begin_unix_s == begin_unix_s
            && !last.is_in_minute
        {
            return last.figures.add(&figures);
        }
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.waiting.push_back(Waiting { figures, is_in_minute: false });
    }

    /// The present minute is over, or the server.
    pub(crate) fn end_minute(&mut self) {
        let times = self.before.durations.since(&self.durations_before);
        self.durations_before.clone_from(&self.before.durations);
        let timed = times.count();
        if timed > 0 {
            let [p50_us, p99_us, max_us] = [0.5, 0.99, 1.0].map(|share| times.quantile_us(share));
            self.current.add(&Figures { timed, p50_us, p99_us, max_us, ..Figures::default() });
        }
        self.flush();
    }

    /// The oldest that waits.
    pub(crate) fn next(&mut self) -> Option<&mut Waiting> {
        self.waiting.front_mut()
    }

    /// It is written.
    pub(crate) fn written(&mut self) {
        self.waiting.pop_front();
    }

    /// Minutes that wait, and those that were lost.
    pub(crate) fn state(&self) -> (usize, u64) {
        (self.waiting.len(), self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(requests: u64) -> Reading {
        Reading { counts: Counts { requests, ..Counts::default() }, open: requests % 7, ..Reading::default() }
    }

    proptest::proptest! {
        #[test]
        fn every_request_is_in_one_minute_while_there_is_room(
            steps in proptest::collection::vec((0_u64..200, 0_u64..90, proptest::bool::ANY), 1..200),
        ) {
            let (mut now_s, mut requests) = (1_000_000_020, 0);
            let mut recorder = Recorder::new(now_s, reading(0));
            for (more, later_s, flushes) in steps {
                (requests, now_s) = (requests + more, now_s + later_s);
                recorder.tick(now_s, reading(requests));
                if flushes {
                    recorder.flush();
                }
            }
            recorder.end_minute();
            let sum: u64 = recorder.waiting.iter().map(|waiting| waiting.figures.requests).sum();
            proptest::prop_assert_eq!(sum, requests);
            let minutes = recorder.waiting.iter().map(|waiting| waiting.figures.begin_unix_s);
            proptest::prop_assert!(minutes.clone().is_sorted_by(|one, other| one < other));
            proptest::prop_assert!(minutes.into_iter().all(|begin| begin.is_multiple_of(60)));
        }
    }

    #[test]
    fn connections_between_two_looks_were_open_one_at_a_time_at_least() {
        let accepted =
            |connections| Reading { counts: Counts { connections, ..Counts::default() }, ..Reading::default() };
        let mut recorder = Recorder::new(0, accepted(3));
        recorder.tick(2, accepted(3));
        assert_eq!(recorder.current.open_peak, 0);
        recorder.tick(4, accepted(5));
        recorder.tick(6, accepted(5));
        assert_eq!((recorder.current.open_peak, recorder.current.connections), (1, 2));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut recorder = Recorder::new(0, reading(0));
        for minute in 1..=WAITING_MAX as u64 + 5 {
            recorder.tick(minute * 60, reading(minute));
        }
        assert_eq!(recorder.state(), (WAITING_MAX, 5));
    }
}
