//! The truth of each request, from what the world's tasks did: independent of any record.
//!
//! The names follow the definitions; where they cannot see what truly happened, the truth here is theirs:
//! * A task is at a request from its first dealing with the request's connection or downstream to its last one; CPU
//!   time before the first and after the last belongs to the request that is looked at (`Plan::tail_ns` is what they
//!   cannot see).
//! * Before the pick-up, the task that picks up is the one that the request waits for, and before it those that woke
//!   it for the request, hop by hop.
//! * An answer of a downstream is known to be missing up to the end of the last idle wait of an event loop before the
//!   answer is taken; after that, others' work is a queue.

use super::engine::{Change, Doing, Tid, Want, World};
use super::network::Request;
use super::plan::Model;
use weir_measure::part::{Part, PartTimes};

/// What truly became of a request.
#[derive(Clone)]
pub struct Truth {
    pub connection: u64,
    pub offset: u64,
    pub arrived: u64,
    pub picked: u64,
    pub sent: u64,
    pub parts: PartTimes,
}

/// The truth of every request that was answered.
pub fn of(world: &World) -> Vec<Truth> {
    let requests = world.network.requests.iter().enumerate().filter(|(_, request)| request.done > 0);
    requests.map(|(number, request)| Teller { world, request, parts: PartTimes::default() }.tell(number)).collect()
}

struct Teller<'a> {
    world: &'a World,
    request: &'a Request,
    parts: PartTimes,
}

/// A stretch of a task's time.
#[derive(Clone, Copy)]
struct Stretch {
    from: u64,
    to: u64,
    change: Change,
}

impl Teller<'_> {
    fn tell(mut self, number: usize) -> Truth {
        let request = self.request;
        let connection = &self.world.network.connections[request.connection];
        let before =
            self.world.network.requests[..number].iter().rev().find(|one| one.connection == request.connection);
        let begun = request.picked.max(before.map_or(0, |one| one.answered));
        if request.opened {
            self.add(Part::Generator, request.intended, connection.connect_start);
            self.add(Part::Connect, connection.connect_start, connection.connected);
            self.add(Part::Generator, connection.connected, request.sent);
        } else {
            self.add(Part::Generator, request.intended, request.sent);
        }
        self.add(Part::RequestTransit, request.sent, request.arrived);
        self.before_pick_up();
        self.add(Part::WorkerQueue, request.picked, begun);
        // Handed over before its turn came, it was the other thread's from the beginning.
        let handed = request.handed.map_or(begun, |handed| handed.max(begun));
        if handed > begun {
            self.at_work(request.picker, begun, handed);
        }
        self.at_work(request.answerer, handed, request.answered);
        for stretch in self.stretches(self.world.client.task, request.answered, request.done) {
            let blocked = matches!(stretch.change.doing, Doing::Blocked(_) | Doing::Absent);
            self.add(if blocked { Part::ResponseTransit } else { Part::ClientWakeup }, stretch.from, stretch.to);
        }
        Truth {
            connection: request.connection as u64,
            offset: request.offset,
            arrived: request.arrived,
            picked: request.picked,
            sent: request.answered,
            parts: self.parts,
        }
    }

    fn add(&mut self, part: Part, from: u64, to: u64) {
        self.parts[part as usize] += to.saturating_sub(from);
    }

    /// What a task did within a window, in order.
    fn stretches(&self, task: Tid, from: u64, to: u64) -> Vec<Stretch> {
        let history = &self.world.tasks[task].history;
        let absent = Change { at: 0, doing: Doing::Absent, connection: None, woken_by: None, touched: false };
        let ends = history.iter().map(|change| change.at).chain([u64::MAX]);
        // A stretch without length stays: a task may be woken at the moment it blocks.
        let all = [&absent].into_iter().chain(history).zip(ends);
        let within = all.filter(|(change, end)| change.at < to && *end > from);
        within.map(|(change, end)| Stretch { from: change.at.max(from), to: end.min(to), change: *change }).collect()
    }

    /// When a task was last at another connection's request within a window; 0 if it was not.
    fn last_foreign(&self, task: Tid, from: u64, to: u64) -> u64 {
        let history = &self.world.tasks[task].history;
        let mut last = 0;
        for (index, change) in history.iter().enumerate() {
            if change.connection.is_none_or(|connection| connection == self.request.connection) {
                continue;
            }
            let end = history.get(index + 1).map_or(u64::MAX, |next| next.at);
            if end >= from && change.at < to {
                last = last.max(end.min(to));
            }
        }
        last
    }

    fn before_pick_up(&mut self) {
        let (mut task, from, mut to) = (self.request.picker, self.request.arrived, self.request.picked);
        let queue = if self.request.not_accepted { Part::AcceptQueue } else { Part::WorkerQueue };
        let idle = if self.request.not_accepted { Part::AcceptQueue } else { Part::RequestTransit };
        loop {
            let busy = self.last_foreign(task, from, to);
            let stretches = self.stretches(task, from, to);
            let mut hop = None;
            for (index, Stretch { from: begin, to: end, change }) in stretches.iter().enumerate().rev() {
                match change.doing {
                    Doing::Ready => self.add(Part::WaitCpu, *begin, *end),
                    Doing::Running => {
                        let turn = busy.clamp(*begin, *end);
                        self.add(queue, *begin, turn);
                        self.add(Part::Run, turn, *end);
                    }
                    Doing::Absent => self.add(Part::Unattributed, *begin, *end),
                    Doing::Blocked(_) if *begin < busy => self.add(queue, *begin, *end),
                    Doing::Blocked(_) => {
                        let next = stretches.get(index + 1).map(|next| next.change);
                        let next = next.or_else(|| self.next_change(task, *end));
                        match next.and_then(|next| next.woken_by).filter(|waker| self.world.tasks[*waker].traced) {
                            Some(waker) => {
                                hop = Some((waker, *end));
                                break;
                            }
                            None => self.add(idle, *begin, *end),
                        }
                    }
                }
            }
            match hop {
                Some(found) => (task, to) = found,
                None => return,
            }
        }
    }

    fn next_change(&self, task: Tid, at: u64) -> Option<Change> {
        self.world.tasks[task].history.iter().find(|change| change.at >= at).copied()
    }

    /// While a task has it, between its turn and its last send.
    fn at_work(&mut self, task: Tid, begun: u64, end: u64) {
        let request = self.request;
        let own = Some(request.connection);
        let stretches = self.stretches(task, begun, end);
        let peer = if self.world.plan.far { Part::WaitNetwork } else { Part::WaitProcess };
        let idle = |stretch: &Stretch| {
            matches!(stretch.change.doing, Doing::Blocked(Want::Poll | Want::Answer | Want::Data(_)))
        };
        // Between two dealings with others, without an own one or an idle wait between them, it is at others.
        let foreign = |index: usize| {
            let at_others =
                |stretch: &&Stretch| stretch.change.connection.is_some() && stretch.change.connection != own;
            let ends = |stretch: &&Stretch| stretch.change.connection == own || idle(stretch);
            let here = &stretches[index];
            let before = stretches[..=index].iter().rev().take_while(|one| !ends(one)).any(|one| at_others(&one));
            let after = stretches[index..].iter().take_while(|one| !ends(one)).any(|one| at_others(&one));
            !idle(here) && (at_others(&here) || before && after)
        };
        for (index, stretch) in stretches.iter().enumerate() {
            let Stretch { from, to, change } = *stretch;
            let asked = request.asked.iter().find(|(asked, heard)| *asked <= from && to <= *heard);
            let unanswered_until =
                asked.filter(|_| self.world.plan.model == Model::Events).map_or(0, |(asked, heard)| {
                    let waits = stretches.iter().filter(|one| idle(one) && one.from >= *asked && one.to <= *heard);
                    waits.map(|one| one.to).max().unwrap_or(0)
                });
            let part = match change.doing {
                Doing::Ready => Part::WaitCpu,
                Doing::Absent => Part::Unattributed,
                Doing::Running | Doing::Blocked(Want::Timer | Want::Lock(_)) if foreign(index) => {
                    if to <= unanswered_until { peer } else { Part::WorkerQueue }
                }
                Doing::Running => Part::Run,
                Doing::Blocked(Want::Lock(_)) => Part::WaitLock,
                Doing::Blocked(Want::Timer) => Part::WaitTimer,
                Doing::Blocked(Want::Answer) => peer,
                Doing::Blocked(Want::Data(_)) => Part::RequestTransit,
                Doing::Blocked(Want::Poll) if asked.is_some() => peer,
                Doing::Blocked(Want::Poll) => Part::RequestTransit,
                Doing::Blocked(_) => Part::Unattributed,
            };
            self.add(part, from, to);
        }
    }
}
