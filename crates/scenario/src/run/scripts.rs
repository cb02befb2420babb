//! How long behaviours took for themselves, and how much of a request's time that is.
//!
//! While the loop is in a behaviour, answers wait to be read. So of a request's time is taken what behaviours took since
//! the loop could have read its answer: the begin of the turn before, or, where the loop had to wait since, the end of
//! that wait; not before the request went out. Whether it had to wait is asked only behind turns with much time in
//! behaviours, as the question costs a system call.

/// From so much time in behaviours on it is asked whether the loop then had to wait, in nanoseconds.
const MUCH_NS: u64 = 50_000;
/// With more connections than these a turn of the loop may not read all that came.
const READ_IN_A_TURN: usize = 256;

/// The time of behaviours.
#[derive(Debug, Default)]
pub(crate) struct ScriptTime {
    /// All of it so far, the longest time at once, and how often they were asked.
    pub(crate) all_ns: u64,
    pub(crate) longest_ns: u64,
    pub(crate) calls: u64,
    /// How much of it was taken out of requests' times.
    pub(crate) taken_out_ns: u64,
    turn_ns: u64,
    last_turn_ns: u64,
    /// How often the loop had waited at the begin of this turn, until its first answer, if that is asked.
    waits: Option<i64>,
}

impl ScriptTime {
    pub(crate) fn took(&mut self, time_ns: u64) {
        self.all_ns += time_ns;
        self.longest_ns = self.longest_ns.max(time_ns);
        self.calls += 1;
    }

    /// The loop has looked at all that came.
    pub(crate) fn turns(&mut self) {
        (self.last_turn_ns, self.turn_ns) = (self.turn_ns, self.all_ns);
        self.waits = (self.turn_ns - self.last_turn_ns > MUCH_NS).then(waits);
    }

    /// How much of a request's time it may be, if so much time had been taken when that went out; `links` are under way.
    pub(crate) fn within(&mut self, sent_ns: u64, links: usize) -> u64 {
        if self.waits.take().is_some_and(|before| waits() > before) {
            // Nothing was there at the begin of this turn.
            self.last_turn_ns = self.turn_ns;
        }
        let since_ns = if links > READ_IN_A_TURN { sent_ns } else { sent_ns.max(self.last_turn_ns) };
        self.all_ns.saturating_sub(since_ns)
    }

    /// How much of a delay before now may be behaviours'.
    pub(crate) fn lately(&self) -> u64 {
        self.all_ns - self.last_turn_ns
    }
}

/// How often the calling thread has waited for something so far.
fn waits() -> i64 {
    // SAFETY: an all-zero `rusage` is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for the result; asked for this thread, the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
