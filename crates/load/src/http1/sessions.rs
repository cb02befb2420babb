//! The session driver: begins sessions, sends their bursts, and ends them.

use crate::connect::connection::Phase;
use crate::engine::protocol::TakenUp;
use crate::engine::sessions::{ActiveSession, End, Step};
use crate::engine::slowest::{held_us, micros};
use crate::engine::state::Engine;
use crate::http1::account::Over;
use crate::http1::connection::Batch;
use crate::http1::state::{Http1, Wanted};
use crate::requests::piece::Piece;
use crate::workload::crowd_clients::Client;
use std::cmp::Reverse;
use weir_wire::client::Outcome;

impl Engine<'_, Http1> {
    /// An arrival of a session: it begins, waits, or finds no room.
    pub(crate) fn session_arrives(&mut self, intended_ns: u64) -> TakenUp {
        if self.is_directed() {
            return self.directed_arrives(intended_ns);
        }
        let count = self.plan.session_count();
        let Some(sessions) = &mut self.http.sessions else { return TakenUp::Elsewhere };
        let session = sessions.choose(count);
        if !sessions.free.is_empty() && self.connector.may_open(self.now_ns) {
            self.begin_session(session, intended_ns, 0);
            TakenUp::Begun
        } else if self.http.queued < self.scheduler.queue_max {
            let late_us = micros(self.now_ns.saturating_sub(intended_ns));
            self.http.pools[0].queue.push_back(Wanted { intended_ns, late_us, request: session });
            self.http.queued += 1;
            TakenUp::Queued
        } else {
            TakenUp::Dropped
        }
    }

    /// Begins sessions as long as there is one to begin and room for it.
    pub(crate) fn begin_sessions(&mut self) {
        if self.is_directed() {
            return self.begin_directed();
        }
        let Some(sessions) = &self.http.sessions else { return };
        for _ in 0..sessions.free.len() {
            if self.fatal.is_some() || !self.connector.may_open(self.now_ns) {
                return;
            }
            let Some((session, intended_ns, held_us)) = self.next_session() else { return };
            self.begin_session(session, intended_ns, held_us);
        }
    }

    /// A session, its intended time, and how long it waited for its turn, in microseconds.
    fn next_session(&mut self) -> Option<(u32, u64, u32)> {
        if self.scheduler.is_open_loop() {
            let Wanted { intended_ns, late_us, request } = self.http.pools[0].queue.pop_front()?;
            self.http.queued -= 1;
            return Some((request, intended_ns, held_us(intended_ns, late_us, self.now_ns)));
        }
        if self.scheduler.is_used_up(self.now_ns) {
            return None;
        }
        self.scheduler.issued += 1;
        let count = self.plan.session_count();
        Some((self.http.sessions.as_mut()?.choose(count), self.now_ns, 0))
    }

    /// Begins a session that waited so long for its turn; there is a free place for it.
    fn begin_session(&mut self, session: u32, intended_ns: u64, held_us: u32) {
        let Some(sessions) = &mut self.http.sessions else { return };
        let Some(id) = sessions.free.pop() else { return };
        let (parts, client) = match &mut sessions.users {
            Some(users) => (users.parts(), users.come(intended_ns)),
            None => (0, Client::default()),
        };
        sessions.running[id as usize] =
            ActiveSession { session, begin_ns: intended_ns, parts, client, ..ActiveSession::default() };
        self.send_burst(id, intended_ns, held_us);
    }

    /// Sends the burst that a session is at.
    fn send_burst(&mut self, id: u32, intended_ns: u64, held_us: u32) {
        let Some(sessions) = &mut self.http.sessions else { return };
        let active = &mut sessions.running[id as usize];
        self.http.chosen.clear();
        let file;
        let requests = match &mut sessions.users {
            Some(users) => {
                file = [users.file(active.client)];
                &file[..]
            }
            None => self.plan.session(active.session).bursts()[active.burst as usize].requests.as_slice(),
        };
        if requests.len() > 1 {
            self.http.chosen.extend(requests.iter().map(|request| Piece { request: *request, bytes: 0 }));
        }
        self.scheduler.outstanding += requests.len() as u64;
        let batch = Batch {
            left: requests.len() as u32,
            request: requests[0],
            session: id + 1,
            intended_ns,
            held_us,
            ..Batch::default()
        };
        match active.connection.take() {
            Some(slot) => self.begin(slot as usize, batch),
            None => self.open(batch),
        }
    }

    /// All of a burst is answered by a response that counts; `usable` if the connection can carry more.
    pub(crate) fn burst_over(&mut self, slot: usize, usable: bool, over: &Over) {
        if self.is_directed() {
            // A director knows the times of a request when it decides on the next.
            self.count_answer(over);
            return self.burst_answered(slot, usable);
        }
        self.burst_answered(slot, usable);
        self.count_answer(over);
    }

    /// All of a burst is answered; `usable` if the connection can carry more.
    pub(crate) fn burst_answered(&mut self, slot: usize, usable: bool) {
        if self.is_directed() {
            return self.link_answered(slot, usable);
        }
        let id = self.connections[slot].http.batch.session - 1;
        let is_over = self.scheduler.is_past_end(self.now_ns);
        let Some(sessions) = &mut self.http.sessions else { return };
        let step = match sessions.users {
            Some(_) => sessions.next_part(
                id,
                self.now_ns,
                self.scheduler.end_ns,
                is_over || self.scheduler.issued >= self.scheduler.limit,
            ),
            None => sessions.next_burst(id, self.plan, is_over),
        };
        let end = match step {
            Step::End(end) => end,
            Step::Go { think_ns, begins } => {
                self.scheduler.issued += u64::from(begins);
                if usable {
                    sessions.running[id as usize].connection = Some(slot as u32);
                    self.connections[slot].phase = Phase::Idle;
                } else {
                    self.retire(slot);
                }
                if think_ns == 0 {
                    self.send_burst(id, self.now_ns, 0);
                } else if let Some(sessions) = &mut self.http.sessions {
                    sessions.wakes.push(Reverse((self.now_ns.saturating_add(think_ns), id)));
                }
                return;
            }
        };
        // A user who has all responses closes the connection, since no other user may use it.
        if usable {
            self.close(slot);
        } else {
            self.retire(slot);
        }
        if let Some(sessions) = &mut self.http.sessions {
            sessions.end(id, end, self.now_ns, self.now_ns <= self.scheduler.end_ns);
        }
        self.begin_sessions();
    }

    /// A request of a session failed, and with it the session, if it was one.
    pub(crate) fn session_failed(&mut self, session: u32, outcome: Outcome) {
        if self.is_directed() {
            return self.link_failed(session, outcome);
        }
        if let (Some(sessions), Some(id)) = (&mut self.http.sessions, session.checked_sub(1)) {
            sessions.end(id, End::Failed, self.now_ns, false);
        }
    }

    /// The user of a session clicked stop, which ends it, if it was one.
    pub(crate) fn session_stopped(&mut self, session: u32) {
        if let (Some(sessions), Some(id)) = (&mut self.http.sessions, session.checked_sub(1)) {
            sessions.end(id, End::Stopped, self.now_ns, false);
        }
    }

    /// Goes on with the sessions that have thought long enough.
    pub(crate) fn wake_sessions(&mut self) {
        while let Some(sessions) = &mut self.http.sessions
            && let Some(Reverse((wake_ns, id))) = sessions.wakes.peek().copied()
            && wake_ns <= self.now_ns
        {
            sessions.wakes.pop();
            match self.is_directed() {
                true => self.directed_wakes(id),
                false => self.send_burst(id, wake_ns, 0),
            }
        }
    }

    /// Ends the sessions that think: the run is over before they go on.
    pub(crate) fn cut_thinking(&mut self) {
        if let Some(sessions) = &mut self.http.sessions
            && let Some(stage) = &mut sessions.stage
        {
            stage.under_way = 0;
            sessions.wakes.clear();
            return;
        }
        while let Some(sessions) = &mut self.http.sessions
            && let Some(Reverse((_, id))) = sessions.wakes.pop()
        {
            let connection = sessions.running[id as usize].connection.take();
            sessions.end(id, End::Unfinished, self.now_ns, false);
            if let Some(slot) = connection {
                self.close(slot as usize);
            }
        }
    }
}
