//! What of a loop's share is due next, and when the loop is over.

use crate::schedule::arrivals::Arrivals;

/// The time of what never comes.
pub(crate) const NEVER: u64 = u64::MAX;
/// How long requests under way may still take after the user ended the run.
const STOP_GRACE_NS: u64 = 1_000_000_000;

/// How far a loop's run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The stop rule decides how long it goes on.
    Running,
    /// The user ended it: what is under way has a moment to finish.
    Stopped,
    /// The loop waits for nothing more.
    GivenUp,
}

/// Decides for one loop when requests begin; knows no connection.
#[derive(Debug)]
pub(crate) struct Scheduler {
    /// When requests arrive in an open loop; `None` in a closed one.
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) next_arrival_ns: u64,
    /// The most arrivals that may wait for a connection.
    pub(crate) queue_max: usize,
    /// Requests begun or queued so far, and the most that may be.
    pub(crate) issued: u64,
    pub(crate) limit: u64,
    /// When nothing more is begun.
    pub(crate) end_ns: u64,
    /// Requests begun that are not over.
    pub(crate) outstanding: u64,
    /// When waiting for what is under way is given up.
    pub(crate) give_up_ns: u64,
    pub(crate) progress: Progress,
    /// When the loop looks again at everything that no event tells of.
    pub(crate) next_sweep_ns: u64,
}

impl Scheduler {
    /// The scheduler of a loop that begins at most `limit` requests until `end_ns`.
    pub(crate) fn new(arrivals: Option<Arrivals>, queue_max: usize, limit: u64, end_ns: u64, patience_ns: u64) -> Self {
        let first_ns = arrivals.as_ref().map_or(NEVER, |arrivals| arrivals.next_before(end_ns));
        Self {
            arrivals,
            next_arrival_ns: if limit == 0 { NEVER } else { first_ns },
            queue_max,
            issued: 0,
            limit,
            end_ns,
            outstanding: 0,
            give_up_ns: end_ns.saturating_add(patience_ns),
            progress: Progress::Running,
            next_sweep_ns: 0,
        }
    }

    /// Whether arrivals come at times of their own.
    #[inline]
    pub(crate) fn is_open_loop(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Takes the arrival that is due, and goes on to the next one.
    #[inline]
    pub(crate) fn take_arrival(&mut self) -> u64 {
        let intended_ns = self.next_arrival_ns;
        self.issued += 1;
        self.next_arrival_ns = match &mut self.arrivals {
            Some(arrivals) if self.issued < self.limit => arrivals.following(self.end_ns),
            _ => NEVER,
        };
        intended_ns
    }

    /// Whether a closed loop has begun all that it may.
    #[inline]
    pub(crate) fn is_used_up(&self, now_ns: u64) -> bool {
        self.issued >= self.limit || now_ns >= self.end_ns
    }

    /// Whether the user ended the run.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.progress != Progress::Running
    }

    /// Whether sessions and users must not begin another step.
    pub(crate) fn is_past_end(&self, now_ns: u64) -> bool {
        self.is_stopped() || now_ns >= self.end_ns
    }

    /// Begins nothing more; what is under way goes on.
    pub(crate) fn begin_no_more(&mut self) {
        self.limit = self.issued;
        self.next_arrival_ns = NEVER;
    }

    /// The user ends the run.
    pub(crate) fn stop(&mut self, now_ns: u64, patience_ns: u64) {
        self.progress = Progress::Stopped;
        self.end_ns = self.end_ns.min(now_ns);
        self.begin_no_more();
        // An end that was said before is kept.
        self.give_up_ns = self.give_up_ns.min(now_ns + STOP_GRACE_NS.min(patience_ns));
    }

    /// Looks again at this time, if not sooner.
    pub(crate) fn sweep_by(&mut self, time_ns: u64) {
        self.next_sweep_ns = self.next_sweep_ns.min(time_ns);
    }

    /// Whether nothing is under way and nothing more will be, or is waited for; `queued` arrivals wait.
    pub(crate) fn is_over(&self, now_ns: u64, queued: usize) -> bool {
        let is_exhausted = match self.arrivals {
            Some(_) => self.next_arrival_ns == NEVER && queued == 0,
            None => self.is_used_up(now_ns),
        };
        is_exhausted && self.outstanding == 0
    }
}
