//! When what is to be looked at next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a time is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A user sleeps until then; `epoch` tells whether it is still that sleep.
    Sleep { user: u32, epoch: u32 },
    /// A user waits for the address of a name.
    Names { user: u32, epoch: u32 },
    /// A socket of a user is to be open, or closed, by then.
    Socket { user: u32, socket: u32 },
    /// A scenario is to be looked at.
    Course { scenario: u32 },
    /// The times of requests are to be looked at.
    Overdue,
    /// What shows progress is to be brought up to date.
    Tick,
    /// Users that begin an iteration wait for their turn.
    Ready,
}

/// All times that are waited for.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Timer)>>,
    /// For when the loop was asked to wake, if it was.
    armed_ns: Option<u64>,
    /// Tells the wake that was asked for last.
    token: u32,
}

impl Timers {
    pub(crate) fn push(&mut self, at_ns: u64, timer: Timer) {
        self.heap.push(Reverse((at_ns, timer)));
    }

    /// Takes the next that is due.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Timer> {
        let Reverse((at_ns, timer)) = *self.heap.peek()?;
        (at_ns <= now_ns).then(|| {
            self.heap.pop();
            timer
        })
    }

    /// The loop woke; tells whether that is the wake that counts, and not one that a sooner one came before.
    pub(crate) fn woke(&mut self, token: u32) -> bool {
        let counts = token == self.token;
        if counts {
            self.armed_ns = None;
        }
        counts
    }

    /// For when the loop is to be asked to wake, and with which token, if that was not done.
    pub(crate) fn arm(&mut self) -> Option<(u64, u32)> {
        let Reverse((at_ns, _)) = *self.heap.peek()?;
        if self.armed_ns.is_some_and(|armed_ns| armed_ns <= at_ns) {
            return None;
        }
        Some(self.arm_at(at_ns))
    }

    /// The loop is asked to wake at this time.
    pub(crate) fn arm_at(&mut self, at_ns: u64) -> (u64, u32) {
        self.armed_ns = Some(at_ns);
        self.token = self.token.wrapping_add(1);
        (at_ns, self.token)
    }
}
