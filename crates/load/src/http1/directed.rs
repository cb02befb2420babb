//! The loop's side of a director: tells it what happens and carries out what it orders.

use crate::connect::connection::Phase;
use crate::directed::director::{Asks, Order};
use crate::engine::protocol::TakenUp;
use crate::engine::stage::Stage;
use crate::engine::state::Engine;
use crate::http1::connection::Batch;
use crate::http1::state::Http1;
use crate::schedule::scheduler::NEVER;
use rustls::ClientConfig;
use std::cmp::Reverse;
use std::sync::Arc;
use weir_wire::client::Outcome;

/// Arrivals of the closed loop that begin in one turn, at most: a director whose arrivals are over as they begin holds up
/// neither what else happens nor the end of the run.
const BEGUN_MAX: u32 = 1024;

impl Engine<'_, Http1> {
    pub(crate) fn stage(&mut self) -> Option<&mut Stage> {
        self.http.sessions.as_mut()?.stage.as_mut()
    }

    /// How a connection is encrypted, if not as all others to its host: its user's sessions are its own.
    pub(crate) fn encryption_of_user(&mut self, slot: usize) -> Option<Arc<ClientConfig>> {
        if !self.is_directed() {
            return None;
        }
        let connection = &self.connections[slot];
        let (link, host) = (connection.http.batch.session.checked_sub(1)?, connection.host);
        let (common, _) = self.plan.hosts[host as usize].route.tls.as_ref()?;
        self.stage()?.encryption(link, host, common)
    }

    /// Whether a director decides what is asked.
    pub(crate) fn is_directed(&self) -> bool {
        self.plan.directed
    }

    /// An arrival of the open loop.
    pub(crate) fn directed_arrives(&mut self, intended_ns: u64) -> TakenUp {
        self.tally.taken_up(intended_ns, self.now_ns);
        let Some(stage) = self.stage() else { return TakenUp::Elsewhere };
        stage.under_way += 1;
        stage.given.director.arrives(intended_ns, &mut stage.orders);
        self.carry_out();
        // It counts before what is ordered for it goes out.
        TakenUp::Elsewhere
    }

    /// Begins arrivals of the closed loop, as many as may be under way.
    pub(crate) fn begin_directed(&mut self) {
        while !self.scheduler.is_open_loop()
            && self.scheduler.issued < self.scheduler.limit
            && self.now_ns < self.scheduler.end_ns.min(self.scheduler.give_up_ns)
            && self.connector.may_open(self.now_ns)
            && self.fatal.is_none()
        {
            let now_ns = self.now_ns;
            let Some(stage) = self.stage() else { return };
            if stage.under_way >= stage.given.at_a_time as usize {
                return;
            }
            if stage.begun >= BEGUN_MAX {
                // The next turn comes at once, and goes on with it.
                return self.scheduler.sweep_by(now_ns);
            }
            stage.begun += 1;
            stage.under_way += 1;
            stage.given.director.arrives(now_ns, &mut stage.orders);
            self.scheduler.issued += 1;
            if !self.carry_out() {
                return;
            }
        }
    }

    /// All of a link's batch is answered; `usable` if the connection can carry more.
    pub(crate) fn link_answered(&mut self, slot: usize, usable: bool) {
        let link = self.connections[slot].http.batch.session - 1;
        let is_switched = usable && self.is_switched(slot);
        let generation = self.connections[slot].generation;
        self.connections[slot].phase = Phase::Idle;
        if !usable {
            self.retire(slot);
        }
        let Some(stage) = self.stage() else { return };
        let place = &mut stage.orders.links[link as usize];
        if !usable {
            place.slot = None;
        }
        if !place.pieces.is_empty() {
            stage.orders.queue.push_back(Order::Send(link));
        }
        stage.given.director.idle(link, usable, &mut stage.orders);
        self.carry_out();
        if is_switched && self.connections[slot].generation == generation {
            self.switched(slot, link);
        }
    }

    /// The requests under way on a link will have no answer; its connection is closed.
    pub(crate) fn link_failed(&mut self, session: u32, outcome: Outcome) {
        let Some(link) = session.checked_sub(1) else { return };
        let Some(stage) = self.stage() else { return };
        let place = &mut stage.orders.links[link as usize];
        place.slot = None;
        place.pieces.clear();
        place.bytes.clear();
        place.raw.clear();
        stage.given.director.ended(link, outcome, &mut stage.orders);
        self.carry_out();
    }

    /// A director is told of each turn of the loop.
    pub(crate) fn directed_turns(&mut self) {
        if let Some(stage) = self.stage() {
            stage.begun = 0;
            stage.given.director.turns();
        }
    }

    /// A director's time to wait is over.
    pub(crate) fn directed_wakes(&mut self, token: u32) {
        let Some(stage) = self.stage() else { return };
        stage.given.director.wakes(token, &mut stage.orders);
        self.carry_out();
    }

    /// Carries out what was ordered, and what that leads to; `false` if that is being done already.
    pub(crate) fn carry_out(&mut self) -> bool {
        match self.stage() {
            Some(stage) if !stage.busy => stage.busy = true,
            _ => return false,
        }
        while self.fatal.is_none()
            && let Some(stage) = self.stage()
            && let Some(order) = stage.orders.queue.pop_front()
        {
            match order {
                Order::Send(link) => self.send_link(link),
                Order::Close(link) => self.close_link(link),
                Order::Raw(link) => self.send_raw(link),
                Order::Wake(after, token) => {
                    let after_ns = u64::try_from(after.as_nanos()).unwrap_or(NEVER);
                    let at_ns = self.now_ns.saturating_add(after_ns).min(NEVER - 1);
                    if let (Some(sessions), false) = (&mut self.http.sessions, self.scheduler.is_stopped()) {
                        sessions.wakes.push(Reverse((at_ns, token)));
                    }
                }
                Order::Forget(link) => {
                    let hosts = self.plan.hosts.len() as u32;
                    if let Some(stage) = self.stage() {
                        stage.forget(link, hosts);
                    }
                }
                Order::Over => {
                    stage.under_way = stage.under_way.saturating_sub(1);
                    self.begin_directed();
                }
                Order::Stop => {
                    self.scheduler.limit = self.scheduler.issued;
                    self.scheduler.next_arrival_ns = NEVER;
                }
            }
        }
        if let Some(stage) = self.stage() {
            stage.busy = false;
        }
        true
    }

    /// Sends what waits for a link, over its connection or a new one.
    fn send_link(&mut self, link: u32) {
        let is_over = self.scheduler.is_past_end(self.now_ns);
        let may_open = self.connector.may_open(self.now_ns);
        let live_max = self.connector.live_max;
        let now_ns = self.now_ns;
        let Some(stage) = self.http.sessions.as_mut().and_then(|sessions| sessions.stage.as_mut()) else { return };
        let place = &mut stage.orders.links[link as usize];
        let Some(first) = place.pieces.first().map(|piece| piece.request) else { return };
        if is_over {
            place.pieces.clear();
            place.bytes.clear();
            return;
        }
        let host = self.plan.requests.entry(first).host as usize;
        let slot = match place.slot {
            Some(slot) if self.connections[slot as usize].phase == Phase::Idle => slot,
            // It goes out when all before it is answered.
            Some(_) => return,
            None if may_open && self.http.pools[host].live < live_max => match self.connector.free.last() {
                // The one that `open` takes.
                Some(slot) => *slot,
                None => return self.link_failed(link + 1, Outcome::NoDescriptors),
            },
            None => return self.link_failed(link + 1, Outcome::NoDescriptors),
        };
        let is_open = place.slot.is_some();
        place.slot = Some(slot);
        self.http.chosen.clear();
        std::mem::swap(&mut self.http.chosen, &mut place.pieces);
        let composed = &mut self.connections[slot as usize].http.composed;
        composed.clear();
        std::mem::swap(composed, &mut place.bytes);
        self.connections[slot as usize].http.parser.expect_switch(place.asks == Asks::Switch);
        place.asks = Asks::Answers;
        let left = self.http.chosen.len() as u32;
        self.scheduler.outstanding += u64::from(left);
        let batch = Batch { left, request: first, session: link + 1, intended_ns: now_ns, ..Batch::default() };
        if is_open { self.begin(slot as usize, batch) } else { self.open(batch) }
    }

    fn close_link(&mut self, link: u32) {
        let Some(stage) = self.stage() else { return };
        let Some(place) = stage.orders.links.get_mut(link as usize) else { return };
        let Some(slot) = place.slot.take().map(|slot| slot as usize) else { return };
        if self.connections[slot].phase != Phase::Idle {
            self.note(slot, Outcome::Closed, "this side closed the connection before the answer");
            self.count_failures(slot, Outcome::Closed);
        }
        self.close(slot);
    }
}
