//! The turns of a loop: what is due, what happened, what is overdue.

use crate::LoadError;
use crate::connect::connection::Phase;
use crate::connect::kernel::monotonic_ns;
use crate::counts::tally::Tally;
use crate::engine::protocol::{ProtocolLoop, TakenUp};
use crate::engine::state::{Engine, Version};
use crate::engine::streaming::Watch;
use crate::schedule::scheduler::{NEVER, Progress};

/// Events taken in one wait.
const EVENTS: usize = 256;
/// How often timeouts and the stop flag are looked at, and the live counters brought up to date.
const SWEEP_NS: u64 = 100_000_000;

impl<V: Version> Engine<'_, V>
where
    Self: ProtocolLoop,
{
    /// Runs until the stop rule is met and what is under way is over; gives the counts and when nothing more was begun.
    pub(crate) fn run(mut self, start_ns: u64) -> Result<(Tally, u64), LoadError> {
        self.events.begins(start_ns);
        self.begins(start_ns);
        // The loop was made before the common start: a clock read then would lengthen the first latencies.
        self.now_ns = monotonic_ns();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let is_timed = self.scheduler.is_open_loop() || self.is_timed();
        self.sweep();
        while self.fatal.is_none() && !self.is_over() {
            let mut next_ns = self.scheduler.next_arrival_ns;
            if is_timed {
                self.now_ns = monotonic_ns();
                self.issue_due();
                self.wake();
                next_ns = self.scheduler.next_arrival_ns.min(self.next_wake_ns());
            }
            let until_ns = if self.unread.is_empty() { next_ns.min(self.scheduler.next_sweep_ns) } else { 0 };
            self.turn(&mut events, until_ns)?;
            self.read_on();
            if self.now_ns >= self.scheduler.next_sweep_ns {
                self.sweep();
            }
        }
        self.finish()
    }

    /// Waits for events, and deals with them.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "each turn of the loop is one call of it")]
    pub(crate) fn turn_of_epoll(&mut self, events: &mut [libc::epoll_event], timeout_ns: u64) -> Result<(), LoadError> {
        let count = self
            .connector
            .kernel
            .wait(events, timeout_ns)
            .map_err(|cause| LoadError::System { what: "waiting for events (epoll_pwait2)", cause })?;
        if count == 0 {
            self.now_ns = monotonic_ns();
        }
        let holds_back = self.holds_events_back();
        for event in &events[..count] {
            if holds_back && self.hold_back(event.u64, event.events) {
                continue;
            }
            self.on_event(event.u64, event.events);
            if self.now_ns >= self.scheduler.next_arrival_ns {
                self.issue_due();
            }
        }
        Ok(())
    }

    /// Goes on with the connections that were left with more to read.
    #[inline]
    fn read_on(&mut self) {
        self.unread.begin();
        while let Some(token) = self.unread.next() {
            self.on_event(token, libc::EPOLLIN as u32);
        }
    }

    /// Issues every arrival whose time has come.
    pub(crate) fn issue_due(&mut self) {
        while self.scheduler.next_arrival_ns <= self.now_ns {
            let intended_ns = self.scheduler.take_arrival();
            match self.take_up(intended_ns) {
                TakenUp::Begun => {}
                TakenUp::Queued => self.tally.queued += 1,
                TakenUp::Dropped => {
                    self.tally.dropped += 1;
                    self.events.dropped(self.now_ns, 1, intended_ns);
                }
                TakenUp::Elsewhere => continue,
            }
            self.tally.taken_up(intended_ns, self.now_ns);
        }
        self.took_up();
    }

    /// Looks at everything that no event tells of.
    fn sweep(&mut self) {
        let now_ns = self.now_ns;
        let successes = self.tally.successes();
        self.tally.slow.relax(successes);
        self.slices.hand_out(&mut self.tally, self.connector.live, now_ns);
        let between_max_ns = Watch::of(self.plan).map_or(NEVER, |watch| watch.between_max_ns);
        let patience_ns = self.plan.timeout_ns.min(self.plan.connect_timeout_ns).min(between_max_ns);
        self.scheduler.next_sweep_ns = (now_ns + SWEEP_NS.min(patience_ns / 10 + 1)).min(self.slices.next_ns());
        if now_ns < self.scheduler.give_up_ns {
            self.scheduler.sweep_by(self.scheduler.give_up_ns);
        }
        if self.control.is_stopped() && !self.scheduler.is_stopped() {
            self.scheduler.stop(now_ns, self.plan.timeout_ns);
            self.abandon_queued();
        }
        if now_ns >= self.scheduler.give_up_ns {
            self.abandon_queued();
        }
        self.look_at_held(now_ns);
        for slot in 0..self.connections.len() {
            self.look_at_slot(slot, now_ns);
        }
        self.begin_more(now_ns);
        // What began in time was given its time above: what is left began too late for it.
        if now_ns >= self.scheduler.give_up_ns {
            self.scheduler.progress = Progress::GivenUp;
        }
        self.publish();
    }

    /// What of a connection is overdue.
    fn look_at_slot(&mut self, slot: usize, now_ns: u64) {
        match self.connections[slot].phase {
            Phase::Closed | Phase::Idle => {}
            Phase::Connecting | Phase::Handshaking => {
                let waits_ns = now_ns.saturating_sub(self.waits_since_ns(slot));
                if waits_ns >= self.plan.connect_timeout_ns {
                    self.connect_timed_out(slot);
                } else if self.connections[slot].stream.is_none() {
                    self.connect_again(slot);
                }
            }
            Phase::Open | Phase::Leaving => self.look_at(slot, now_ns),
        }
    }

    /// Whether nothing is under way and nothing more will be, or is waited for.
    fn is_over(&self) -> bool {
        self.scheduler.progress == Progress::GivenUp
            || self.scheduler.is_over(self.now_ns, self.queued()) && self.sessions_under_way() == 0
    }

    /// Hands out the tally and when nothing more was begun; what is open is closed with the loop.
    fn finish(mut self) -> Result<(Tally, u64), LoadError> {
        self.tally.abandoned += self.scheduler.outstanding;
        self.connector.live = 0;
        self.publish();
        if let Some(error) = self.fatal.take() {
            return Err(error);
        }
        self.finished();
        for connection in &self.connections {
            if let Some(stream) = &connection.stream {
                self.tally.clients.add(connection.client, stream.received, connection.responses);
            }
        }
        self.slices.close(&mut self.tally, self.now_ns);
        self.tally.over_ns = self.now_ns;
        self.tally.events_lost = self.events.lost;
        self.tally.calls = self.connector.kernel.calls;
        Ok((self.tally, self.scheduler.end_ns))
    }
}
