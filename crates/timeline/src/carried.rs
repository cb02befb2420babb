//! Waits of what a runtime's threads carry: goroutines, as probes in their runtime tell of them.
//!
//! A thread takes up any goroutine that is ready, so what it sleeps in says nothing of a request. The probes tell which
//! goroutine begins to wait, for a lock or for time to pass, and which one's wait is over. For whose request it waits is
//! known where its thread has just dealt with a client and carried nothing else since; and from then on until that request
//! is answered, wherever the goroutine goes. Of other waits it is not known, and they are counted.

use crate::step::{Detail, Step};
use crate::tasks::{State, Tasks};
use crate::texts::Texts;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use weir_measure::part::Part;

/// Goroutines and clients that are remembered; where there are more all are forgotten, and are known anew by their next
/// request.
const MOST_KNOWN: usize = 1 << 16;
/// Waits that are kept for requests that are not told yet; the oldest go first.
const MOST_KEPT: usize = 1 << 18;
/// Waits that are looked through for those of a request.
const MOST_LOOKED: usize = 1 << 12;

/// For what something waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Lock,
    Sleep,
}

/// What is carried: its process, and its number there.
type Carried = (u32, u64);

/// A wait that has begun.
#[derive(Debug, Clone, Copy)]
struct Begun {
    sort: Sort,
    /// The client's connection for whose request it waits.
    owner: u32,
    from_ns: u64,
    /// The runtime's number.
    server: u32,
}

/// A wait that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wait {
    sort: Sort,
    owner: u32,
    from_ns: u64,
    to_ns: u64,
    server: u32,
    /// The task that ended it: it had the lock.
    ended_by: u32,
}

/// A probe that was hit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) at_ns: u64,
    /// On this task.
    pub(crate) pid: u32,
    /// What is meant.
    pub(crate) carried: u64,
    pub(crate) sort: Sort,
    pub(crate) server: u32,
}

/// All waits of what is carried.
#[derive(Debug, Default)]
pub(crate) struct CarriedWaits {
    /// For whose request something is carried, and since when that is known.
    owners: FxHashMap<Carried, (u32, u64)>,
    /// When a client was last given a piece of its response.
    answered_ns: FxHashMap<u32, u64>,
    /// When a thread last told that what it carried begins to wait: what it carries since is another.
    left_ns: FxHashMap<u32, u64>,
    begun: FxHashMap<Carried, Begun>,
    over: VecDeque<Wait>,
    told: u64,
    unknown: u64,
}

impl CarriedWaits {
    /// How many waits were told, and of how many it is not known for whose request.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.told, self.unknown)
    }

    /// A client was given a piece of its response.
    pub(crate) fn answers(&mut self, at_ns: u64, client: u32) {
        if self.left_ns.is_empty() {
            return;
        }
        if self.answered_ns.len() >= MOST_KNOWN {
            self.answered_ns.clear();
            self.owners.clear();
        }
        self.answered_ns.insert(client, at_ns);
    }

    /// What a task carries begins to wait.
    pub(crate) fn begins(&mut self, hit: Hit, tasks: &Tasks) {
        let Hit { at_ns, pid, .. } = hit;
        self.told += 1;
        let carried = (process(tasks, pid), hit.carried);
        let fresh = self.just_dealt_with(pid, at_ns, tasks);
        let told = self.owners.get(&carried).filter(|(client, since_ns)| {
            self.answered_ns.get(client).is_none_or(|answered_ns| answered_ns <= since_ns)
        });
        let owner = fresh.or(told.map(|(client, _)| *client));
        if self.owners.len().max(self.left_ns.len()).max(self.begun.len()) >= MOST_KNOWN {
            self.owners.clear();
            self.left_ns.clear();
            self.begun.clear();
        }
        self.left_ns.insert(pid, at_ns);
        let Some(owner) = owner else {
            self.unknown += 1;
            self.begun.remove(&carried);
            return;
        };
        if fresh.is_some() {
            self.owners.insert(carried, (owner, at_ns));
        }
        // An earlier wait of which no end was told did not come to be one.
        self.begun.insert(carried, Begun { sort: hit.sort, owner, from_ns: at_ns, server: hit.server });
    }

    /// The wait of what is meant is over; `pid` is the task that ended it.
    pub(crate) fn ends(&mut self, hit: Hit, tasks: &Tasks) {
        let carried = (process(tasks, hit.pid), hit.carried);
        let Some(begun) = self.begun.get(&carried).filter(|begun| begun.sort == hit.sort).copied() else { return };
        self.begun.remove(&carried);
        let Begun { sort, owner, from_ns, server } = begun;
        if self.over.len() >= MOST_KEPT {
            self.over.pop_front();
        }
        // Two CPUs' clocks may differ by nanoseconds: the ends ascend.
        let to_ns = hit.at_ns.max(self.over.back().map_or(from_ns, |last| last.to_ns)).max(from_ns);
        self.over.push_back(Wait { sort, owner, from_ns, to_ns, server, ended_by: hit.pid });
    }

    /// The client with which a task has dealt without having slept or carried anything else since.
    fn just_dealt_with(&self, pid: u32, at_ns: u64, tasks: &Tasks) -> Option<u32> {
        let last = tasks.touches(pid, 0, at_ns.saturating_add(1)).next_back()?;
        let known = last.owner != 0 && last.owner != crate::in_hand::SEVERAL;
        let left = self.left_ns.get(&pid).is_some_and(|left_ns| *left_ns >= last.at_ns);
        let slept =
            || tasks.spells_back(pid, last.at_ns, at_ns).any(|spell| matches!(spell.state, State::Blocked { .. }));
        (known && !left && !slept()).then_some(last.owner)
    }

    /// Puts the waits for a request of a client's, since its turn, in the place of what threads seemed to do for it
    /// meanwhile, from an index on.
    pub(crate) fn put(
        &self,
        steps: &mut Vec<Step>,
        from: usize,
        (client, begin_ns): (u32, u64),
        known: (&Tasks, &[String]),
        texts: &mut Texts,
    ) {
        if self.over.is_empty() || from >= steps.len() {
            return;
        }
        let end_ns = steps[steps.len() - 1].to_ns;
        let first = self.over.partition_point(|wait| wait.to_ns <= begin_ns);
        let after = self.over.range(first..).take(MOST_LOOKED);
        let ours = after.filter(|wait| wait.owner == client && wait.from_ns < end_ns && wait.from_ns >= begin_ns);
        for wait in ours {
            let to_ns = wait.to_ns.min(end_ns);
            let detail = named(wait, known, texts);
            let rest = steps.split_off(from);
            for step in rest {
                let (cut_ns, on_ns) =
                    (wait.from_ns.clamp(step.from_ns, step.to_ns), to_ns.clamp(step.from_ns, step.to_ns));
                let part = if wait.sort == Sort::Lock { Part::WaitLock } else { Part::WaitTimer };
                let within = Step { from_ns: cut_ns, to_ns: on_ns, part, detail: detail(step.pid), waiter: 0, ..step };
                let pieces = [Step { to_ns: cut_ns, ..step }, within, Step { from_ns: on_ns, ..step }];
                steps.extend(pieces.into_iter().filter(|piece| piece.to_ns > piece.from_ns));
            }
        }
    }

    /// Forgets what was over before a time.
    pub(crate) fn trim(&mut self, before_ns: u64) {
        let old = self.over.partition_point(|wait| wait.to_ns < before_ns);
        self.over.drain(..old);
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.owners.len() + self.answered_ns.len() + self.left_ns.len() + self.begun.len() + self.over.len()
    }
}

fn process(tasks: &Tasks, pid: u32) -> u32 {
    tasks.named(pid).map_or(pid, |name| name.tgid)
}

/// Whom a wait was for, by the task at which it shows.
fn named(wait: &Wait, (tasks, servers): (&Tasks, &[String]), texts: &mut Texts) -> impl Fn(u32) -> Detail + use<> {
    let by = tasks
        .named_at(wait.ended_by, wait.to_ns)
        .map_or_else(String::new, |holder| format!(" held by {}", holder.name));
    let server = servers.get(wait.server as usize).map_or("", String::as_str);
    let (sort, holder, text) = (wait.sort, wait.ended_by, texts.number(&format!("a lock of {server}{by}")));
    move |pid| if sort == Sort::Lock { Detail::Lock(text, holder) } else { Detail::Task(pid) }
}
