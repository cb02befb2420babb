//! Users: sessions, each over a connection of its own, on whose streams the requests of a burst go side by side.
//!
//! A session is at one burst at a time. Requests of it for which the connection has no stream wait, in their order; when
//! all are over the user thinks, and the next burst begins. A request that fails ends the session, when the others of
//! its burst are over.

use crate::connect::connection::Phase;
use crate::counts::answered::Answered;
use crate::engine::protocol::TakenUp;
use crate::engine::sessions::{End, Step};
use crate::engine::state::Engine;
use crate::engine::wanted::Wanted;
use crate::http2::failing::NO_STREAM;
use crate::http2::state::Http2;
use crate::http2::stopping::patience_us;
use crate::http2::streams::Exchange;
use crate::http2::users::Burst;
use crate::requests::cookies::CookieJar;
use std::cmp::Reverse;
use weir_wire::client::Outcome;

impl Engine<'_, Http2<'_>> {
    /// An arrival of a session: it begins, waits, or finds no room.
    pub(crate) fn session_arrives(&mut self, intended_ns: u64) -> TakenUp {
        let has_room = self.http.users.as_ref().is_some_and(|users| !users.sessions.free.is_empty());
        if has_room && self.connector.may_open(self.now_ns) && self.http.queue.is_empty() {
            self.begin_session(intended_ns, 0);
            TakenUp::Begun
        } else if self.http.queue.len() < self.scheduler.queue_max {
            self.http.queue.push_back(Wanted::at(intended_ns, self.now_ns));
            TakenUp::Queued
        } else {
            // It would have been this one's turn: those after it have theirs.
            self.choose_session();
            TakenUp::Dropped
        }
    }

    fn choose_session(&mut self) -> u32 {
        let sessions = self.plan.session_count();
        self.http.users.as_mut().map_or(0, |users| users.sessions.choose(sessions))
    }

    /// Begins sessions as long as there is one to begin and room for it.
    pub(crate) fn begin_sessions(&mut self) {
        // Each turn takes a place or, where a connection cannot be made, gives it back: so many turns are enough.
        for _ in 0..self.http.users.as_ref().map_or(0, |users| users.sessions.free.len()) {
            if self.fatal.is_some() || !self.connector.may_open(self.now_ns) {
                return;
            }
            let (intended_ns, held_us) = if self.scheduler.is_open_loop() {
                let Some(wanted) = self.http.queue.pop_front() else { return };
                (wanted.intended_ns, wanted.held_us(self.now_ns))
            } else {
                if self.scheduler.is_used_up(self.now_ns) {
                    return;
                }
                self.scheduler.issued += 1;
                (self.now_ns, 0)
            };
            self.begin_session(intended_ns, held_us);
        }
    }

    fn begin_session(&mut self, intended_ns: u64, held_us: u32) {
        let session = self.choose_session();
        let Some(users) = &mut self.http.users else { return };
        let Some(id) = users.sessions.begin(session, intended_ns) else { return };
        users.bursts[id as usize] = Burst::default();
        self.send_burst(id, intended_ns, held_us);
    }

    /// Sends the burst that a session is at, over the connection that it has or a new one.
    fn send_burst(&mut self, id: u32, intended_ns: u64, held_us: u32) {
        let Some(users) = &mut self.http.users else { return };
        let (active, burst) = (&users.sessions.running[id as usize], &mut users.bursts[id as usize]);
        let requests = &self.plan.session(active.session).bursts()[active.burst as usize].requests;
        let mut exchange = Exchange { intended_ns, started_ns: self.now_ns, held_us, ..Exchange::default() };
        if let Some(patience) = &mut self.http.patience {
            // It is one user's, who waits for all of them.
            exchange.patience_us = patience_us(patience.draw_ns());
            patience.hold(exchange.stops_ns());
        }
        burst.waiting.extend(requests.iter().map(|request| Exchange { request: *request, ..exchange }));
        burst.left = requests.len() as u32;
        self.scheduler.outstanding += requests.len() as u64;
        match active.connection {
            Some(slot) => self.go_on(slot as usize),
            None => self.open(id + 1),
        }
    }

    /// The next request of a session for a stream of its connection.
    #[inline]
    pub(crate) fn next_of_session(&mut self, session: u32) -> Option<Exchange> {
        let id = session.checked_sub(1)?;
        self.http.users.as_mut()?.bursts[id as usize].waiting.pop_front()
    }

    /// A request of a session is to be sent again, before those that were not sent at all.
    pub(crate) fn hold_for_session(&mut self, session: u32, exchange: Exchange) {
        if let (Some(users), Some(id)) = (&mut self.http.users, session.checked_sub(1)) {
            users.bursts[id as usize].waiting.push_front(exchange);
        }
    }

    /// A connection is opened, for a session if it is one's.
    pub(crate) fn session_opens(&mut self, session: u32, slot: usize) {
        if let (Some(users), Some(id)) = (&mut self.http.users, session.checked_sub(1)) {
            users.sessions.tally.connections += 1;
            users.sessions.running[id as usize].connection = Some(slot as u32);
        }
    }

    /// The connection of a session is closed; its cookies are kept for the next one.
    pub(crate) fn session_closes(&mut self, session: u32, jar: CookieJar) {
        if let Some(users) = &mut self.http.users {
            users.sessions.lose_connection(session);
            users.sessions.keep_jar(session, jar);
        }
    }

    /// The cookies of a session, if it has some from former connections.
    pub(crate) fn jar_of_session(&mut self, session: u32) -> Option<CookieJar> {
        self.http.users.as_mut()?.sessions.take_jar(session)
    }

    /// A response of a session is whole.
    pub(crate) fn session_answered(&mut self, slot: usize, session: u32, answered: Answered) {
        let is_success = self.plan.is_success(answered);
        if let (Some(users), Some(id)) = (&mut self.http.users, session.checked_sub(1)) {
            users.sessions.running[id as usize].answered(is_success);
            users.bursts[id as usize].left -= 1;
        }
        if self.end_burst(session) {
            self.begin_sessions();
        } else {
            self.go_on(slot);
        }
    }

    /// A request failed, and with it its session, if it is of one.
    pub(crate) fn session_failed(&mut self, session: u32) {
        self.session_ends(session, End::Failed);
    }

    /// A request is not answered, with which its session ends, if it is of one.
    pub(crate) fn session_ends(&mut self, session: u32, end: End) {
        if let (Some(users), Some(id)) = (&mut self.http.users, session.checked_sub(1)) {
            let burst = &mut users.bursts[id as usize];
            burst.left -= 1;
            burst.ends.get_or_insert(end);
        }
    }

    /// A session's connection is closed: what is left of its burst goes over another.
    pub(crate) fn session_goes_on(&mut self, session: u32) {
        let has_more = self.http.users.as_ref().is_some_and(|users| users.waiting(session) > 0);
        if has_more && self.fatal.is_none() {
            self.open(session);
        } else {
            self.end_burst(session);
        }
    }

    /// Goes on with a session if its burst is over, and tells whether it was.
    pub(crate) fn end_burst(&mut self, session: u32) -> bool {
        let is_over = self.scheduler.is_past_end(self.now_ns);
        let (Some(users), Some(id)) = (&mut self.http.users, session.checked_sub(1)) else { return false };
        let burst = &mut users.bursts[id as usize];
        // One that thinks has nothing left, either.
        if burst.left > 0 || users.sessions.running[id as usize].thinks {
            return false;
        }
        let step = match burst.ends.take() {
            Some(end) => Step::End(end),
            None => users.sessions.next_burst(id, self.plan, is_over),
        };
        let slot = users.sessions.running[id as usize].connection;
        match step {
            Step::Go { think_ns: 0, .. } => self.send_burst(id, self.now_ns, 0),
            Step::Go { think_ns, .. } => {
                users.sessions.running[id as usize].thinks = true;
                users.sessions.wakes.push(Reverse((self.now_ns.saturating_add(think_ns), id)));
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
        let Some(users) = &mut self.http.users else { return };
        if let Some(slot) = users.sessions.running[id as usize].connection {
            self.close(slot as usize);
        }
        let in_time = end == End::Completed && self.now_ns <= self.scheduler.end_ns;
        if let Some(users) = &mut self.http.users {
            users.sessions.end(id, end, self.now_ns, in_time);
        }
    }

    /// Goes on with the sessions that have thought long enough.
    pub(crate) fn wake_sessions(&mut self) {
        while let Some(users) = &mut self.http.users
            && let Some(Reverse((wake_ns, id))) = users.sessions.wakes.peek().copied()
            && wake_ns <= self.now_ns
        {
            users.sessions.wakes.pop();
            users.sessions.running[id as usize].thinks = false;
            self.send_burst(id, wake_ns, 0);
        }
        self.flush_touched();
    }

    /// What of the sessions is overdue: requests that found no stream, and after the end of the run those that think.
    pub(crate) fn look_at_sessions(&mut self, now_ns: u64, timeout_ns: u64) {
        let count = self.http.users.as_ref().map_or(0, |users| users.bursts.len()) as u32;
        for session in 1..=count {
            while let Some(users) = &self.http.users
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
        while (self.scheduler.is_stopped() || now_ns >= self.scheduler.end_ns)
            && let Some(users) = &mut self.http.users
            && let Some(Reverse((_, id))) = users.sessions.wakes.pop()
        {
            users.sessions.running[id as usize].thinks = false;
            self.end_session(id, End::Unfinished);
        }
    }
}
