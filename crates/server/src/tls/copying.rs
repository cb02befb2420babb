//! A session that is copied while it goes on: another process makes the same records of its response, to the byte, and
//! goes on behind them. From then on the session itself makes these records and no others, so that no number of a record
//! is ever used for other bytes, also where its process stands still meanwhile and goes on later.

use super::layout::Cuts;
use super::moving::{Stays, TlsSession};
use super::own_records::{OwnRecords, RECORDS_OF_KEY_MAX};
use super::promise::{Fixed, Promise};
use super::records::Direction;

/// A response of which the records are fixed.
#[derive(Debug)]
pub(crate) struct FixedRecords {
    /// The session at the first of its records that are known; [`TlsSession::placed`] says where it goes on.
    pub(crate) session: TlsSession,
    /// Bytes of these records that were given to the kernel.
    pub(crate) sent: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
}

/// Why the records of a response are not fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotFixed {
    /// The keys stay here.
    Stays,
    /// The client has said more than what is answered.
    Asked,
    /// It has not acknowledged records of which the ends are not known any more.
    Earlier,
    /// Other keys come before the end of the response.
    Keys,
}

impl From<Stays> for NotFixed {
    fn from(_: Stays) -> Self {
        Self::Stays
    }
}

/// Fixes the records of the response under way of a session that has left rustls; see `Session::fix_records`.
pub(super) fn fix(
    own: &mut OwnRecords,
    cuts: &Cuts,
    (taken, end): (u64, u64),
    unacknowledged: u64,
) -> Result<FixedRecords, NotFixed> {
    if own.holds_input() {
        return Err(NotFixed::Asked);
    }
    let fixed = match own.promise() {
        Promise::Free => Fixed::new(cuts.layout(taken, end).ok_or(NotFixed::Earlier)?, taken),
        Promise::Response(fixed) if (fixed.taken(), fixed.layout().end) == (taken, end) => Fixed::clone(fixed),
        // A response is answered only once the client has asked for it.
        Promise::Response(_) | Promise::Spent => return Err(NotFixed::Keys),
    };
    let (layout, at) = (*fixed.layout(), fixed.at());
    let (suite, transmit, receive) = own.directions();
    let (expansion, sealed_records) = (suite.expansion() as u64, layout.records(at));
    let sequence = transmit.sequence().checked_sub(sealed_records).ok_or(NotFixed::Keys)?;
    if sequence + layout.records(end) >= RECORDS_OF_KEY_MAX {
        return Err(NotFixed::Keys);
    }
    // The client may have more than was sealed here, from where the session was before.
    let sealed = layout.sealed_bytes(at, expansion) + fixed.skip() as u64;
    let sent = sealed.checked_sub(own.held_bytes() as u64).ok_or(NotFixed::Earlier)?;
    if unacknowledged > sent {
        return Err(NotFixed::Earlier);
    }
    let again = |direction: &Direction, sequence: u64| {
        Direction::new(suite, direction.secret(), direction.generation(), sequence).ok_or(NotFixed::Stays)
    };
    let first = Promise::Response(Box::new(Fixed::new(layout, layout.known_from)));
    let copy = OwnRecords::new(suite, again(transmit, sequence)?, again(receive, receive.sequence())?).promised(first);
    if matches!(own.promise(), Promise::Free) {
        own.promise_rest(fixed);
    }
    let bytes = layout.sealed_bytes(end, expansion);
    Ok(FixedRecords { session: TlsSession(copy.write_down()), sent, bytes })
}

impl TlsSession {
    /// One of [`FixedRecords`] as it goes on from a byte of its records on, and the first byte of the response that it is
    /// to be given then. None for another session, or where the response of so many bytes has no such byte.
    pub(crate) fn placed(&self, offset: u64, response_bytes: u64) -> Option<(Self, u64)> {
        let own = OwnRecords::read_back(&self.0)?;
        let Promise::Response(fixed) = own.promise() else { return None };
        let is_first = **fixed == Fixed::new(*fixed.layout(), fixed.layout().known_from);
        if !is_first || fixed.layout().end != response_bytes || own.holds_input() || own.holds_output() {
            return None;
        }
        let (suite, transmit, receive) = own.directions();
        let found = fixed.layout().find(offset, suite.expansion() as u64)?;
        let sequence = transmit.sequence().checked_add(found.record)?;
        let transmit = Direction::new(suite, transmit.secret(), transmit.generation(), sequence)?;
        let receive = Direction::new(suite, receive.secret(), receive.generation(), receive.sequence())?;
        let placed = Promise::Response(Box::new(fixed.placed(found)));
        Some((Self(OwnRecords::new(suite, transmit, receive).promised(placed).write_down()), found.at))
    }
}

/// Whether a session may seal the rest of this response; see `Session::may_seal`.
pub(super) fn may_seal(own: &OwnRecords, response: Option<(u64, u64)>) -> bool {
    match (own.promise(), response) {
        (Promise::Free, _) | (Promise::Spent, None) => true,
        (Promise::Response(fixed), Some(of)) => (fixed.taken(), fixed.layout().end) == of,
        (Promise::Spent, Some(_)) | (Promise::Response(_), None) => false,
    }
}

/// Where the records of a session end that was written down.
pub(super) fn cuts_of(own: &OwnRecords) -> Cuts {
    match own.promise() {
        Promise::Response(fixed) => Cuts::within(fixed.layout(), fixed.at()),
        Promise::Free | Promise::Spent => Cuts::default(),
    }
}
