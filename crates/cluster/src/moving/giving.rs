//! The old node's side of a move, without clock and socket.

use crate::message::{Owner, Timings};
use std::time::Duration;

const ASK_FIRST: Duration = Duration::from_millis(5);
const ASK_MAX: Duration = Duration::from_secs(1);

/// What the old node hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The record was never sent.
    NotSent,
    /// The new node goes on with the session.
    Done(Timings),
    /// The new node never will.
    Refused {
        /// Whether packets come here for certain.
        is_settled: bool,
    },
    /// The link broke, or the time is over: it may have arrived or not.
    Nothing,
    /// What the director said.
    Owner(Owner),
    /// The director does not answer.
    DirectorSilent,
}

/// What the old node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivingStep {
    /// It asks the director for the flow, after this time.
    Ask(Duration),
    /// It sends the record to the new node again, after this time: the director does not know, and the new node does.
    SendAgain(Duration),
    /// The other node has the session: it closes the socket without a word to the client.
    Discard,
    /// The move did not happen: it goes on.
    GoOn,
    /// It has decided already.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The record is on its way.
    Sent,
    /// The director was asked so often.
    Asking {
        times: u32,
    },
    Given,
    Back,
}

/// A session that is given away. It goes on here only at the word of the new node or of the director, never because
/// time has passed.
#[derive(Debug)]
pub struct Giving {
    state: State,
    is_refused: bool,
}

impl Giving {
    /// The record is about to be sent.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Sent, is_refused: false }
    }

    /// Takes in what was heard.
    pub fn hear(&mut self, heard: &Heard) -> GivingStep {
        let times = match self.state {
            State::Given | State::Back => return GivingStep::Rest,
            State::Sent => 0,
            State::Asking { times } => times,
        };
        self.is_refused |= matches!(heard, Heard::Refused { .. });
        match heard {
            Heard::Done(_) | Heard::Owner(Owner::Taker) => {
                self.state = State::Given;
                GivingStep::Discard
            }
            Heard::Refused { is_settled: true } | Heard::Owner(Owner::Giver) => {
                self.state = State::Back;
                GivingStep::GoOn
            }
            Heard::NotSent if self.state == State::Sent => {
                self.state = State::Back;
                GivingStep::GoOn
            }
            Heard::Refused { is_settled: false } | Heard::NotSent | Heard::Nothing | Heard::DirectorSilent => {
                self.state = State::Asking { times: times.saturating_add(1) };
                GivingStep::Ask(backoff(times))
            }
            Heard::Owner(Owner::Unknown) => {
                self.state = State::Asking { times: times.saturating_add(1) };
                GivingStep::SendAgain(backoff(times))
            }
        }
    }

    /// How often the director was asked.
    pub fn asked(&self) -> u32 {
        if let State::Asking { times } = self.state { times } else { 0 }
    }

    /// Whether the new node has said that it never goes on.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether the other node has the session for certain.
    pub fn is_given(&self) -> bool {
        self.state == State::Given
    }
}

impl Default for Giving {
    fn default() -> Self {
        Self::new()
    }
}

/// The first time at once, then later and later.
pub(super) fn backoff(times: u32) -> Duration {
    if times == 0 { Duration::ZERO } else { ASK_FIRST.saturating_mul(1 << (times - 1).min(10)).min(ASK_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_on_by_time() {
        let mut giving = Giving::new();
        for times in 0..1_000 {
            let heard = if times % 2 == 0 { Heard::Nothing } else { Heard::DirectorSilent };
            assert!(matches!(giving.hear(&heard), GivingStep::Ask(after) if after <= ASK_MAX));
        }
        assert_eq!(giving.asked(), 1_000);
        assert_eq!(giving.hear(&Heard::Owner(Owner::Unknown)), GivingStep::SendAgain(ASK_MAX));
        assert_eq!(giving.hear(&Heard::NotSent), GivingStep::Ask(ASK_MAX));
        assert_eq!(giving.hear(&Heard::Owner(Owner::Taker)), GivingStep::Discard);
        assert_eq!(giving.hear(&Heard::Refused { is_settled: true }), GivingStep::Rest);
        assert!(giving.is_given());
    }

    #[test]
    fn only_a_settled_refusal_needs_no_director() {
        let mut giving = Giving::new();
        assert_eq!(giving.hear(&Heard::Refused { is_settled: false }), GivingStep::Ask(Duration::ZERO));
        assert_eq!(giving.hear(&Heard::Refused { is_settled: true }), GivingStep::GoOn);
        assert_eq!(giving.hear(&Heard::Done(Timings::default())), GivingStep::Rest);
        assert!(!giving.is_given());
    }
}
