//! Which of two directors is active: a state machine without clock, socket and directory. Times are given to it.
//!
//! An epoch has one active director, the one that has begun it. Where a directory's lock gives the epochs, the one that
//! stands by takes the lock over at once if it has heard the active one in this epoch, and hears it no more; else it waits
//! until the lock is free. So two directors that do not hear each other do not depose each other in turn. Without a lock
//! only a command makes a director active.

use super::epoch::Seat;
use std::time::Duration;

/// How a pair decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutySettings {
    /// Which of the two this one is.
    pub seat: Seat,
    /// Whether a directory gives the epochs.
    pub has_lock: bool,
    /// How often the lock is asked for while it may be free.
    pub ask_pause: Duration,
    /// For how long the second one leaves a free lock to the first, and either one listens before it begins without a lock.
    pub listen: Duration,
}

/// What a director notices of the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noticed {
    /// Since this director's start.
    pub now: Duration,
    /// Whether heartbeats of the other one come.
    pub is_other_up: bool,
    /// Whether the other one has said that it ends.
    pub has_resigned: bool,
    /// The newest epoch that any member has told.
    pub newest: u64,
}

/// What a director is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nothing new.
    Rest,
    /// Ask for the lock, which may be free, or this one's own from before its start.
    Acquire,
    /// Take the lock over from the other one, which has begun this epoch and is gone.
    TakeOver(u64),
    /// Begin this epoch: no lock is needed.
    Begin,
    /// The other one has begun this epoch: stand by.
    StandBy(u64),
}

/// The state of a director of a pair.
#[derive(Debug)]
pub struct Duty {
    settings: DutySettings,
    active: Option<u64>,
    /// The newest epoch of the other one in which its heartbeats came.
    heard_in: u64,
    asked: Option<Duration>,
}

impl Duty {
    /// Begins standing by.
    pub fn new(settings: DutySettings) -> Self {
        Self { settings, active: None, heard_in: 0, asked: None }
    }

    /// The epoch in which this director is active.
    pub fn active(&self) -> Option<u64> {
        self.active
    }

    /// This director has begun an epoch.
    pub fn begun(&mut self, epoch: u64) {
        self.active = Some(epoch);
    }

    /// This director has stood by for another reason, as that it has lost the lock.
    pub fn stood_by(&mut self) {
        self.active = None;
    }

    /// Looks at what is to be done; to be called each few milliseconds.
    pub fn look(&mut self, noticed: Noticed) -> Wish {
        let Noticed { now, is_other_up, has_resigned, newest } = noticed;
        let DutySettings { seat, has_lock, ask_pause, listen } = self.settings;
        let is_of_other = newest > 0 && Seat::of(newest) != seat;
        if let Some(epoch) = self.active {
            if newest > epoch && is_of_other {
                self.active = None;
                return Wish::StandBy(newest);
            }
            return Wish::Rest;
        }
        if is_other_up && is_of_other {
            self.heard_in = newest;
        }
        if !has_lock {
            // The first one begins where none was active before, or only itself.
            let begins = (seat == Seat::First && !is_of_other && now >= listen) || (is_of_other && has_resigned);
            return if begins { Wish::Begin } else { Wish::Rest };
        }
        let is_gone = is_of_other && (has_resigned || !is_other_up && self.heard_in == newest);
        let pause = if is_gone { ask_pause / 10 } else { ask_pause };
        if self.asked.is_some_and(|asked| now < asked + pause) {
            return Wish::Rest;
        }
        if is_gone {
            self.asked = Some(now);
            return Wish::TakeOver(newest);
        }
        if seat == Seat::Second && now < listen {
            return Wish::Rest;
        }
        self.asked = Some(now);
        Wish::Acquire
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn duty(seat: Seat, has_lock: bool) -> Duty {
        Duty::new(DutySettings { seat, has_lock, ask_pause: 300 * MS, listen: 1_000 * MS })
    }

    fn at(ms: u32, is_other_up: bool, newest: u64) -> Noticed {
        Noticed { now: MS * ms, is_other_up, has_resigned: false, newest }
    }

    #[test]
    fn the_first_asks_for_the_lock_at_once_and_the_second_waits() {
        let (mut first, mut second) = (duty(Seat::First, true), duty(Seat::Second, true));
        assert_eq!(first.look(at(0, false, 0)), Wish::Acquire);
        assert_eq!(first.look(at(100, false, 0)), Wish::Rest);
        assert_eq!(first.look(at(300, false, 0)), Wish::Acquire);
        assert_eq!(second.look(at(900, true, 0)), Wish::Rest);
        assert_eq!(second.look(at(1_000, true, 0)), Wish::Acquire);
    }

    #[test]
    fn one_that_was_heard_and_is_gone_loses_its_lock_at_once() {
        let mut second = duty(Seat::Second, true);
        assert_eq!(second.look(at(2_000, true, 4)), Wish::Acquire);
        assert_eq!(second.look(at(2_010, true, 4)), Wish::Rest);
        // No pause stands between: the lock was asked for 30 ms ago.
        assert_eq!(second.look(at(2_030, false, 4)), Wish::TakeOver(4));
        assert_eq!(second.look(at(2_040, false, 4)), Wish::Rest);
        assert_eq!(second.look(at(2_060, false, 4)), Wish::TakeOver(4));
        second.begun(5);
        assert_eq!(second.look(at(2_100, false, 5)), Wish::Rest);
        // An epoch of its own, or an older one, does not depose it; the other's newer one does.
        assert_eq!(second.look(at(2_100, true, 7)), Wish::Rest);
        assert_eq!(second.look(at(2_100, true, 8)), Wish::StandBy(8));
        assert_eq!(second.active(), None);
    }

    #[test]
    fn two_that_do_not_hear_each_other_do_not_depose_each_other_in_turn() {
        let mut first = duty(Seat::First, true);
        assert_eq!(first.look(at(0, false, 0)), Wish::Acquire);
        first.begun(4);
        // The nodes tell of the other's epoch, whose heartbeats do not come.
        assert_eq!(first.look(at(500, false, 5)), Wish::StandBy(5));
        for ms in 501..10_000 {
            assert!(matches!(first.look(at(ms, false, 5)), Wish::Acquire | Wish::Rest), "{ms}");
        }
    }

    #[test]
    fn without_a_lock_only_the_first_begins_and_only_where_the_second_never_did() {
        let (mut first, mut second) = (duty(Seat::First, false), duty(Seat::Second, false));
        assert_eq!(first.look(at(999, false, 0)), Wish::Rest);
        assert_eq!(first.look(at(1_000, false, 0)), Wish::Begin);
        assert_eq!(first.look(at(1_000, false, 4)), Wish::Begin);
        assert_eq!(first.look(at(1_000, false, 5)), Wish::Rest);
        for ms in 0..10_000 {
            assert_eq!(second.look(at(ms, ms < 5_000, 4)), Wish::Rest);
        }
        assert_eq!(second.look(Noticed { has_resigned: true, ..at(10_000, true, 4) }), Wish::Begin);
    }
}
