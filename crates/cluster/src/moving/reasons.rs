//! Why moves fail, in words of a bounded set, for figures.

use super::parts::{KeeperFault, SessionError, TransportError};

/// The new node says no, or the director does: in its words.
pub(super) const DECLINED: &str = "declined";
/// The record is of an epoch that is over.
pub(super) const OLD_EPOCH: &str = "old_epoch";
/// This node stops.
pub(super) const STOPS: &str = "stops";

pub(super) fn of_session(error: &SessionError) -> &'static str {
    match error {
        SessionError::NoSession => "no_session",
        SessionError::NotMovable(_) => "not_movable",
        SessionError::OtherContent => "other_content",
        SessionError::NotUnderstood(_) => "not_understood",
        SessionError::Full(_) => "full",
    }
}

pub(super) fn of_keeper(error: &KeeperFault) -> &'static str {
    match error {
        KeeperFault::Refused(_) | KeeperFault::HoldIsOver(_) => "keeper_refused",
        KeeperFault::Gone(_) => "keeper_gone",
    }
}

pub(super) fn of_transport(error: &TransportError) -> &'static str {
    match error {
        TransportError::NotSent { .. } => "not_reached",
        TransportError::Refused { .. } => DECLINED,
        TransportError::NoAnswer { .. } => "no_answer",
    }
}
