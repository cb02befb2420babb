//! A session that is copied while it goes on: another process makes the same records of its response, to the byte, and
//! goes on behind them. From then on the session itself makes these records and no others, so that no number of a record
//! is ever used for other bytes, also where its process stands still meanwhile and goes on later.

use super::layout::Cuts;
use super::moving::{Stays, TlsSession};
use super::own_records::{OwnRecords, RECORDS_OF_KEY_MAX};
use super::promise::{Fixed, Promise, Then};
use super::records::{APPLICATION_DATA, Direction};

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
    own.promise_rest(fixed.then(Then::Nothing));
    let bytes = layout.sealed_bytes(end, expansion);
    Ok(FixedRecords { session: TlsSession(copy.write_down()), sent, bytes })
}

/// Keeps where the records of the response under way are, of which so many bytes of all were sealed, for the process that
/// goes on with the session: it makes those again that the client has not got. Nothing where it is not known.
pub(super) fn keep(own: &mut OwnRecords, cuts: &Cuts, (taken, end): (u64, u64)) {
    let layout = cuts.layout(taken, end).filter(|layout| layout.is_sound(taken));
    let Some(layout) = layout.filter(|_| matches!(own.promise(), Promise::Free)) else { return };
    let (_, transmit, _) = own.directions();
    // Else the records are not of one key.
    let first = transmit.sequence().checked_sub(layout.records(taken));
    if first.is_some_and(|first| first + layout.records(end) < RECORDS_OF_KEY_MAX) {
        own.promise_rest(Fixed::new(layout, taken).then(Then::Anything));
    }
}

/// A session that was written down in the middle of a response of which it knows the records.
struct Known {
    own: OwnRecords,
    fixed: Fixed,
    /// Bytes of these records that were given to the kernel.
    given: u64,
    /// The number of the first one.
    first: u64,
}

impl Known {
    /// Of a response of which so many bytes of all were taken; none for a session that knows the records of another one.
    fn of(TlsSession(bytes): &TlsSession, response: (u64, u64)) -> Option<Self> {
        let own = OwnRecords::read_back(bytes)?;
        let Promise::Response(fixed) = own.promise() else { return None };
        let (fixed, (suite, transmit, _)) = (Fixed::clone(fixed), own.directions());
        if (fixed.taken(), fixed.layout().end) != response {
            return None;
        }
        let sealed = fixed.layout().sealed_bytes(fixed.at(), suite.expansion() as u64) + fixed.skip() as u64;
        let given = sealed.checked_sub(own.held_bytes() as u64)?;
        let first = transmit.sequence().checked_sub(fixed.layout().records(fixed.at()))?;
        let last = first.checked_add(fixed.layout().records(fixed.layout().end))?;
        (last < RECORDS_OF_KEY_MAX).then_some(Self { own, fixed, given, first })
    }
}

impl TlsSession {
    /// How many bytes of the records that were given to the kernel last can be made again: those of the response under
    /// way, of which so many bytes of all were taken. 0 where nothing is known of them.
    pub(crate) fn known_bytes(&self, response: (u64, u64)) -> u64 {
        Known::of(self, response).map_or(0, |known| known.given)
    }

    /// The session as it was before the last `bytes` of these were given to the kernel, and the first byte of the response
    /// that it is to be given then; none if it does not know as many.
    pub(crate) fn rewound(&self, bytes: u64, response: (u64, u64)) -> Option<(Self, u64)> {
        let Known { mut own, fixed, given, first } = Known::of(self, response)?;
        let expansion = own.directions().0.expansion() as u64;
        let found = fixed.layout().find(given.checked_sub(bytes)?, expansion)?;
        let went = own.go_back(first + found.record, fixed.placed(found));
        went.then(|| (Self(own.write_down()), found.at))
    }

    /// Makes bytes of these records again, from byte `from` on; `read` appends so many bytes of the response from a place
    /// on. None if they are not all known, or `read` gives less.
    pub(crate) fn seal_again(
        &self,
        response: (u64, u64),
        (from, len): (u64, u64),
        mut read: impl FnMut(u64, u64, &mut Vec<u8>) -> Option<()>,
    ) -> Option<Vec<u8>> {
        let Known { own, fixed, given, first } = Known::of(self, response)?;
        let (layout, (suite, transmit, _)) = (fixed.layout(), own.directions());
        if from.checked_add(len).is_none_or(|end| end > given) {
            return None;
        }
        let found = layout.find(from, suite.expansion() as u64)?;
        let sequence = first + found.record;
        let mut sealing = Direction::new(suite, transmit.secret(), transmit.generation(), sequence)?;
        let (mut out, mut at) = (Vec::new(), found.at);
        // Both are below the bound of what is asked for, and some.
        let (skip, wanted) = (found.skip as usize, (found.skip + len) as usize);
        let mut plain = Vec::new();
        while out.len() < wanted {
            let bytes = layout.record_bytes(at);
            plain.clear();
            read(at, bytes, &mut plain).filter(|()| plain.len() as u64 == bytes && bytes > 0)?;
            sealing.seal(APPLICATION_DATA, plain.len(), &mut out, |out| out.extend_from_slice(&plain));
            at += bytes;
        }
        out.truncate(wanted);
        out.drain(..skip);
        Some(out)
    }

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
