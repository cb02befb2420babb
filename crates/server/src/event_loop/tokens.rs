//! What the events of a loop belong to.

use crate::quic::QUIC_MAX;

/// The token of the waker; those of the listening sockets are below it.
pub(super) const WAKER: u64 = u64::MAX;

/// The token of what tells of changed files.
pub(super) const WATCHES: u64 = u64::MAX - 4095;

/// The token of the first socket of QUIC; those of the others are above it, far below those of listening sockets.
pub(super) const QUIC: u64 = WATCHES + 1;

/// The token of what is handed on to the first socket of QUIC; those of the others are above it.
pub(super) const HANDED: u64 = QUIC + QUIC_MAX as u64;

/// Tokens from here up are listening sockets, of which there can be as many as these leave.
pub(super) const LISTENERS: u64 = HANDED + QUIC_MAX as u64 - 1;

/// Tokens from here up are not connections.
pub(super) const RESERVED: u64 = u64::MAX - 4096;

/// Which socket of QUIC a token is of, counted from the first one.
pub(super) fn index_of(token: u64, first: u64) -> Option<usize> {
    usize::try_from(token.checked_sub(first)?).ok().filter(|&index| index < QUIC_MAX)
}

pub(super) fn listener_token(index: usize) -> u64 {
    WAKER - 1 - index as u64
}

pub(super) fn listener_index(token: u64) -> usize {
    usize::try_from(WAKER - 1 - token).unwrap_or(usize::MAX)
}
