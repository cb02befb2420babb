//! Why moves fail, in words of a bounded set, for figures.

use super::mover::{IntakeError, MoveError};
use super::parts::{KeeperFault, SessionError, TransportError};

/// The new node says no, or the director does: in its words.
pub(super) const DECLINED: &str = "declined";
/// The record is of an epoch that is over.
pub(super) const OLD_EPOCH: &str = "old_epoch";
/// This node stops.
pub(super) const STOPS: &str = "stops";

impl MoveError {
    /// Its word.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::UnderWay => "under_way",
            Self::TooSoon(_) => "too_soon",
            Self::TooMany(_) => "too_many",
            Self::Itself(_) => "itself",
            Self::TooLarge(_) => "too_large",
            Self::Session(error) => of_session(error),
            Self::Keeper(error) => of_keeper(error),
            Self::Transport(TransportError::NotSent { .. }) => "not_reached",
            Self::Transport(TransportError::Refused { .. }) => DECLINED,
            Self::Transport(TransportError::NoAnswer { .. }) => "no_answer",
            Self::CameBack(_) => "came_back",
            Self::Undecided(_) => STOPS,
        }
    }
}

impl IntakeError {
    /// Its word.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Session(error) => of_session(error),
            Self::Keeper(error) => of_keeper(error),
            Self::OtherLength { .. } => "other_length",
            Self::NoSocket => "no_socket",
        }
    }
}

fn of_session(error: &SessionError) -> &'static str {
    match error {
        SessionError::NoSession => "no_session",
        SessionError::NotMovable(_) => "not_movable",
        SessionError::OtherContent => "other_content",
        SessionError::NotUnderstood(_) => "not_understood",
        SessionError::Full(_) => "full",
    }
}

fn of_keeper(error: &KeeperFault) -> &'static str {
    match error {
        KeeperFault::Refused(_) => "keeper_refused",
        KeeperFault::Gone(_) => "keeper_gone",
    }
}
