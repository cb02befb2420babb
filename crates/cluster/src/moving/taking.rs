//! The new node's side of a move, without clock and socket.

use super::giving::backoff;
use crate::message::{Decline, Owner};
use std::time::Duration;
use weir_keeper::Seen;

/// What the new node learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakingInput {
    /// The content is there.
    Prepared,
    /// Packets are held.
    Held,
    /// The director steers, declines, or says nothing (`None`).
    Steered(Result<Option<Seen>, Option<Decline>>),
    /// The socket is restored.
    Restored,
    /// The director confirms, declines, or says nothing (`None`).
    Confirmed(Result<(), Option<Decline>>),
    /// The session goes on.
    Activated,
    /// The step failed, and why.
    Failed(String),
    /// Whose the flow is after it was given back; `None` if the director says nothing.
    Reclaimed(Option<Owner>),
}

/// What the new node does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakingStep {
    /// It makes the unacknowledged bytes.
    Prepare,
    /// It holds packets of the flow.
    Hold,
    /// It asks the director for the packets.
    Steer,
    /// It restores the socket, with what the director saw of the client.
    Restore(Option<Seen>),
    /// It asks the director to go on, after this time.
    Confirm(Duration),
    /// It lets the socket go on, and gives it to the server.
    Activate,
    /// It has the director send packets to the giver again.
    Reclaim,
    /// It removes what it has made, and answers the giver.
    End(Answer),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The session goes on here.
    Done,
    /// It does not.
    Refused {
        /// Whether packets go to the giver for certain.
        is_settled: bool,
        /// Why.
        why: String,
    },
    /// It was confirmed and does not go on: the connection is lost.
    Lost {
        /// Why.
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Preparing,
    Holding,
    Steering,
    Restoring,
    Confirming { times: u32 },
    Activating,
    Reclaiming { why: String },
    Ended,
}

/// A session that is taken in.
#[derive(Debug)]
pub struct Taking {
    state: State,
}

impl Taking {
    /// The record has arrived: the first step is [`TakingStep::Prepare`].
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::Preparing }
    }

    /// Takes in what the last step led to; `None` if it is not what this state waits for.
    pub fn learn(&mut self, input: TakingInput) -> Option<TakingStep> {
        let (state, step) = match (&self.state, input) {
            (State::Preparing, TakingInput::Prepared) => (State::Holding, TakingStep::Hold),
            (State::Holding, TakingInput::Held) => (State::Steering, TakingStep::Steer),
            (State::Preparing | State::Holding, TakingInput::Failed(why)) => {
                end(Answer::Refused { is_settled: true, why })
            }
            (State::Steering, TakingInput::Steered(steered)) => after_steering(steered),
            (State::Restoring, TakingInput::Restored) => {
                (State::Confirming { times: 0 }, TakingStep::Confirm(Duration::ZERO))
            }
            (State::Restoring, TakingInput::Failed(why)) => (State::Reclaiming { why }, TakingStep::Reclaim),
            (State::Confirming { times }, TakingInput::Confirmed(confirmed)) => after_asking(*times, confirmed),
            (State::Activating, TakingInput::Activated) => end(Answer::Done),
            // The giver may have been told already that the session is here.
            (State::Activating, TakingInput::Failed(why)) => end(Answer::Lost { why }),
            (State::Reclaiming { why }, TakingInput::Reclaimed(owner)) => {
                end(Answer::Refused { is_settled: owner == Some(Owner::Giver), why: why.clone() })
            }
            _ => return None,
        };
        self.state = state;
        Some(step)
    }

    /// Whether it asked the director to go on and has no answer: it must keep asking, as the giver may be told yes.
    pub fn is_unsure(&self) -> bool {
        matches!(self.state, State::Confirming { times } if times > 0)
    }
}

impl Default for Taking {
    fn default() -> Self {
        Self::new()
    }
}

fn end(answer: Answer) -> (State, TakingStep) {
    (State::Ended, TakingStep::End(answer))
}

fn after_steering(steered: Result<Option<Seen>, Option<Decline>>) -> (State, TakingStep) {
    match steered {
        Ok(seen) => (State::Restoring, TakingStep::Restore(seen)),
        // Others leave open what an earlier director did, so that the giver asks this one.
        Err(Some(decline)) => {
            let is_settled = decline == Decline::Closed;
            end(Answer::Refused { is_settled, why: decline.to_string() })
        }
        // The director may have done it.
        Err(None) => {
            let why = "the director does not answer; see that it runs and can be reached".to_owned();
            (State::Reclaiming { why }, TakingStep::Reclaim)
        }
    }
}

fn after_asking(times: u32, confirmed: Result<(), Option<Decline>>) -> (State, TakingStep) {
    match confirmed {
        Ok(()) => (State::Activating, TakingStep::Activate),
        Err(
            None
            | Some(Decline::Unknown | Decline::Epoch(_) | Decline::Table(_) | Decline::NotDown(_) | Decline::Unfit(_)),
        ) => {
            let times = times.saturating_add(1);
            (State::Confirming { times }, TakingStep::Confirm(backoff(times)))
        }
        Err(Some(decline @ (Decline::Closed | Decline::OtherOwner(_) | Decline::NotAllowed))) => {
            end(Answer::Refused { is_settled: true, why: decline.to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored() -> Taking {
        let mut taking = Taking::new();
        assert_eq!(taking.learn(TakingInput::Prepared), Some(TakingStep::Hold));
        assert_eq!(taking.learn(TakingInput::Held), Some(TakingStep::Steer));
        assert_eq!(taking.learn(TakingInput::Steered(Ok(None))), Some(TakingStep::Restore(None)));
        assert_eq!(taking.learn(TakingInput::Restored), Some(TakingStep::Confirm(Duration::ZERO)));
        taking
    }

    #[test]
    fn it_goes_on_only_when_confirmed() {
        let mut taking = restored();
        for _ in 0..50 {
            let step = taking.learn(TakingInput::Confirmed(Err(None)));
            assert!(matches!(step, Some(TakingStep::Confirm(_))) && taking.is_unsure());
        }
        assert_eq!(taking.learn(TakingInput::Confirmed(Ok(()))), Some(TakingStep::Activate));
        assert_eq!(taking.learn(TakingInput::Confirmed(Ok(()))), None);
        assert_eq!(taking.learn(TakingInput::Activated), Some(TakingStep::End(Answer::Done)));
        let mut refused = restored();
        let step = refused.learn(TakingInput::Confirmed(Err(Some(Decline::Closed))));
        assert!(matches!(step, Some(TakingStep::End(Answer::Refused { is_settled: true, .. }))));
    }

    #[test]
    fn a_failure_behind_steering_gives_the_flow_back() {
        for (owner, is_settled) in [(Some(Owner::Giver), true), (None, false), (Some(Owner::Unknown), false)] {
            let mut taking = Taking::new();
            taking.learn(TakingInput::Prepared);
            taking.learn(TakingInput::Held);
            taking.learn(TakingInput::Steered(Ok(None)));
            assert_eq!(taking.learn(TakingInput::Failed("no".to_owned())), Some(TakingStep::Reclaim));
            let answer = Answer::Refused { is_settled, why: "no".to_owned() };
            assert_eq!(taking.learn(TakingInput::Reclaimed(owner)), Some(TakingStep::End(answer)));
        }
    }
}
