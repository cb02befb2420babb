//! Users: sessions, each over a connection of its own, on whose streams the requests of a burst go side by side.
//!
//! A session is at one burst at a time. Requests of it for which the connection has no stream wait, in their order; when
//! all are over the user thinks, and the next burst begins. A request that fails ends the session, when the others of
//! its burst are over.

use super::connection::{Exchange, Phase};
use super::engine::Engine;
use super::failing::NO_STREAM;
use crate::cookies::CookieJar;
use crate::engine::NEVER;
use crate::plan::Plan;
use crate::sessions::SessionTally;
use crate::sessions::course::{Courses, End, Step};
use std::cmp::Reverse;
use std::collections::VecDeque;
use weir_wire::client::Outcome;

/// The sessions of one loop.
#[derive(Debug)]
pub(super) struct Users {
    courses: Box<Courses>,
    /// The burst that each session under way is at.
    bursts: Vec<Burst>,
}

/// A burst under way.
#[derive(Debug, Default)]
struct Burst {
    /// Requests of it that have no stream yet, or none any more.
    waiting: VecDeque<Exchange>,
    /// Requests of it that are not over.
    left: u32,
    has_failed: bool,
}

impl Users {
    /// The sessions of loop `lane` of `lanes`, at most `most` at a time; `None` where there are none.
    pub(super) fn new(plan: &Plan, lane: u32, lanes: u32, most: u32) -> Option<Box<Self>> {
        let courses = Courses::new(plan, lane, lanes, most)?;
        let bursts = std::iter::repeat_with(Burst::default).take(most as usize).collect();
        Some(Box::new(Self { courses, bursts }))
    }

    /// How many sessions are under way.
    pub(super) fn under_way(&self) -> usize {
        self.courses.under_way()
    }

    /// How many requests of a session wait for a stream.
    pub(super) fn waiting(&self, session: u32) -> usize {
        session.checked_sub(1).map_or(0, |id| self.bursts[id as usize].waiting.len())
    }

    /// What became of them, those under way included.
    pub(super) fn tally(self) -> SessionTally {
        let under_way = self.under_way() as u64;
        let mut tally = self.courses.tally;
        tally.unfinished += under_way;
        tally
    }
}

impl Engine<'_> {
    /// When the first of the users that think goes on.
    #[inline]
    pub(super) fn next_wake_ns(&self) -> u64 {
        self.users.as_ref().map_or(NEVER, |users| users.courses.next_wake_ns())
    }

    /// An arrival of a session: it begins, waits, or finds no room.
    pub(super) fn session_arrives(&mut self, intended_ns: u64) {
        let has_room = self.users.as_ref().is_some_and(|users| !users.courses.free.is_empty());
        if has_room && self.now_ns >= self.hold_until_ns && self.queue.is_empty() {
            self.begin_session(intended_ns);
        } else if self.queue.len() < self.queue_max {
            self.queue.push_back(intended_ns);
            self.tally.queued += 1;
        } else {
            // It would have been this one's turn: those after it have theirs.
            self.choose_session();
            self.tally.dropped += 1;
            self.events.dropped(self.now_ns, 1, intended_ns);
        }
        self.tally.taken_up(intended_ns, self.now_ns);
    }

    fn choose_session(&mut self) -> u32 {
        let sessions = self.plan.session_count();
        self.users.as_mut().map_or(0, |users| users.courses.choose(sessions))
    }

    /// Begins sessions as long as there is one to begin and room for it.
    pub(super) fn begin_sessions(&mut self) {
        // Each turn takes a place or, where a connection cannot be made, gives it back: so many turns are enough.
        for _ in 0..self.users.as_ref().map_or(0, |users| users.courses.free.len()) {
            if self.fatal.is_some() || self.now_ns < self.hold_until_ns {
                return;
            }
            let intended_ns = if self.arrivals.is_some() {
                let Some(intended_ns) = self.queue.pop_front() else { return };
                intended_ns
            } else {
                if self.issued >= self.limit || self.now_ns >= self.end_ns {
                    return;
                }
                self.issued += 1;
                self.now_ns
            };
            self.begin_session(intended_ns);
        }
    }

    fn begin_session(&mut self, intended_ns: u64) {
        let session = self.choose_session();
        let Some(users) = &mut self.users else { return };
        let Some(id) = users.courses.begin(session, intended_ns) else { return };
        users.bursts[id as usize] = Burst::default();
        self.send_burst(id, intended_ns);
    }

    /// Sends the burst that a session is at, over the connection that it has or a new one.
    fn send_burst(&mut self, id: u32, intended_ns: u64) {
        let Some(users) = &mut self.users else { return };
        let (course, burst) = (&users.courses.running[id as usize], &mut users.bursts[id as usize]);
        let asks = &self.plan.session(course.session).bursts()[course.burst as usize].asks;
        let exchange = Exchange { intended_ns, started_ns: self.now_ns, ..Exchange::default() };
        burst.waiting.extend(asks.iter().map(|ask| Exchange { ask: *ask, ..exchange }));
        burst.left = asks.len() as u32;
        self.outstanding += asks.len() as u64;
        match course.connection {
            Some(slot) => self.go_on(slot as usize),
            None => self.open(id + 1),
        }
    }

    /// The next request of a session for a stream of its connection.
    #[inline]
    pub(super) fn next_of_session(&mut self, session: u32) -> Option<Exchange> {
        let id = session.checked_sub(1)?;
        self.users.as_mut()?.bursts[id as usize].waiting.pop_front()
    }

    /// A request of a session is to be sent again, before those that were not sent at all.
    pub(super) fn hold_for_session(&mut self, session: u32, exchange: Exchange) {
        if let (Some(users), Some(id)) = (&mut self.users, session.checked_sub(1)) {
            users.bursts[id as usize].waiting.push_front(exchange);
        }
    }

    /// A connection is opened, for a session if it is one's.
    pub(super) fn session_opens(&mut self, session: u32, slot: usize) {
        if let (Some(users), Some(id)) = (&mut self.users, session.checked_sub(1)) {
            users.courses.tally.connections += 1;
            users.courses.running[id as usize].connection = Some(slot as u32);
        }
    }

    /// The connection of a session is closed; its cookies are kept for the next one.
    pub(super) fn session_closes(&mut self, session: u32, jar: CookieJar) {
        if let Some(users) = &mut self.users {
            users.courses.lose_connection(session);
            users.courses.keep_jar(session, jar);
        }
    }

    /// The cookies of a session, if it has some from former connections.
    pub(super) fn jar_of_session(&mut self, session: u32) -> Option<CookieJar> {
        self.users.as_mut()?.courses.take_jar(session)
    }

    /// A response of a session is whole.
    pub(super) fn session_answered(&mut self, slot: usize, session: u32, status: u16) {
        if let (Some(users), Some(id)) = (&mut self.users, session.checked_sub(1)) {
            users.courses.running[id as usize].answered(self.plan.expected.contains(status));
            users.bursts[id as usize].left -= 1;
        }
        if self.end_burst(session) {
            self.begin_sessions();
        } else {
            self.go_on(slot);
        }
    }

    /// A request failed, and with it its session, if it is of one.
    pub(super) fn session_failed(&mut self, session: u32) {
        if let (Some(users), Some(id)) = (&mut self.users, session.checked_sub(1)) {
            let burst = &mut users.bursts[id as usize];
            burst.left -= 1;
            burst.has_failed = true;
        }
    }

    /// A session's connection is closed: what is left of its burst goes over another.
    pub(super) fn session_goes_on(&mut self, session: u32) {
        let has_more = self.users.as_ref().is_some_and(|users| users.waiting(session) > 0);
        if has_more && self.fatal.is_none() {
            self.open(session);
        } else {
            self.end_burst(session);
        }
    }

    /// Goes on with a session if its burst is over, and tells whether it was.
    pub(super) fn end_burst(&mut self, session: u32) -> bool {
        let is_over = self.stopped || self.now_ns >= self.end_ns;
        let (Some(users), Some(id)) = (&mut self.users, session.checked_sub(1)) else { return false };
        let burst = &mut users.bursts[id as usize];
        // One that thinks has nothing left, either.
        if burst.left > 0 || users.courses.running[id as usize].thinks {
            return false;
        }
        let step = match std::mem::take(&mut burst.has_failed) {
            true => Step::End(End::Failed),
            false => users.courses.next_burst(id, self.plan, is_over),
        };
        let slot = users.courses.running[id as usize].connection;
        match step {
            Step::Go { think_ns: 0, .. } => self.send_burst(id, self.now_ns),
            Step::Go { think_ns, .. } => {
                users.courses.running[id as usize].thinks = true;
                users.courses.wakes.push(Reverse((self.now_ns.saturating_add(think_ns), id)));
                if let Some(slot) = slot
                    && self.connections[slot as usize].phase == Phase::Leaving
                {
                    self.close(slot as usize);
                }
            }
            Step::End(end) => self.end_session(id, end),
        }
        true
    }

    /// A session is over, and its connection is closed, since no other user may use it.
    fn end_session(&mut self, id: u32, end: End) {
        let Some(users) = &mut self.users else { return };
        if let Some(slot) = users.courses.running[id as usize].connection {
            self.close(slot as usize);
        }
        let in_time = end == End::Completed && self.now_ns <= self.end_ns;
        if let Some(users) = &mut self.users {
            users.courses.end(id, end, self.now_ns, in_time);
        }
    }

    /// Goes on with the sessions that have thought long enough.
    pub(super) fn wake_sessions(&mut self) {
        while let Some(users) = &mut self.users
            && let Some(Reverse((wake_ns, id))) = users.courses.wakes.peek().copied()
            && wake_ns <= self.now_ns
        {
            users.courses.wakes.pop();
            users.courses.running[id as usize].thinks = false;
            self.send_burst(id, wake_ns);
        }
        self.flush_touched();
    }

    /// What of the sessions is overdue: requests that found no stream, and after the end of the run those that think.
    pub(super) fn look_at_sessions(&mut self, now_ns: u64, timeout_ns: u64) {
        let count = self.users.as_ref().map_or(0, |users| users.bursts.len()) as u32;
        for session in 1..=count {
            while let Some(users) = &self.users
                && let Some(exchange) = users.bursts[session as usize - 1].waiting.front().copied()
                && now_ns.saturating_sub(exchange.started_ns) >= timeout_ns
            {
                self.next_of_session(session);
                self.tally.reasons.note(Outcome::TimedOut, NO_STREAM, 1);
                self.count_failure(0, &exchange, Outcome::TimedOut);
                self.session_failed(session);
                self.end_burst(session);
            }
        }
        while (self.stopped || now_ns >= self.end_ns)
            && let Some(users) = &mut self.users
            && let Some(Reverse((_, id))) = users.courses.wakes.pop()
        {
            users.courses.running[id as usize].thinks = false;
            self.end_session(id, End::Unfinished);
        }
    }
}
