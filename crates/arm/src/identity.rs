//! The identity of a transaction: correlators, and transactions that are measured elsewhere.

use crate::hot::{Begin, is_of, listener, now_ns, switch};
use crate::lane;
use crate::place::Telling;
use crate::process::process;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_wire::Kind;
use weir_wire::arm::{HAS_OWN, HAS_PARENT, Handle, Identity, SWITCH_OFF, SWITCH_ON, TRACE, Token};

/// Counts the identities of what is not recorded, so that they differ.
static UNRECORDED: AtomicU64 = AtomicU64::new(0);

/// The identity of a started transaction, for its correlator; `asked` = its application asked for tracing.
///
/// One that is not recorded passes its parent's identity on, so that a child that is recorded finds a parent that was.
#[inline]
#[must_use]
pub fn identity(handle: Handle, parent: Option<Identity>, asked: bool) -> Identity {
    let process = process();
    let token = Token(process.token.load(Ordering::Relaxed));
    let asked = if asked { Identity::ASKED } else { 0 };
    if handle.0 != 0 && is_of(handle, process.generation.load(Ordering::Relaxed)) {
        let span = token.span(handle);
        let trace = parent.map_or_else(|| token.trace(span), |parent| parent.trace);
        return Identity { trace, span, flags: Identity::RECORDED | asked, format: Identity::FORMAT };
    }
    if let Some(parent) = parent {
        return Identity { flags: parent.flags | asked, ..parent };
    }
    unrecorded(token, asked)
}

/// The identity of what is not recorded and has no parent.
#[inline(never)]
fn unrecorded(token: Token, asked: u8) -> Identity {
    let count = UNRECORDED.fetch_add(1, Ordering::Relaxed);
    let span = token.span(Handle(now_ns() ^ count.rotate_right(16)));
    Identity { trace: token.trace(span), span, flags: asked, format: Identity::FORMAT }
}

/// Makes an identity for a transaction that will be measured elsewhere, and tells the agent of it.
#[must_use]
pub fn generate(begin: &Begin, tell: impl FnOnce(&mut Telling<'_>)) -> Identity {
    let mut handle = Handle(0);
    let process = process();
    if let Some(head) = listener(process)
        && switch(head, begin.transaction) == SWITCH_ON
    {
        let of = u64::from(begin.transaction) | u64::from(begin.instance) << 16;
        let flags = begin.flags & TRACE | if begin.parent.is_some() { HAS_PARENT } else { 0 };
        let parent = begin.parent.map(Identity::slot);
        let written = lane::write(process, head, |place| {
            let own = place.handle();
            let time_ns = now_ns();
            let is_written = place.record(time_ns, Kind::ArmCorrelator, flags, own.0, of, parent.as_slice());
            if is_written {
                let mut telling = Telling::new(place, own, time_ns);
                tell(&mut telling);
                telling.flush();
            }
            is_written.then_some(own)
        });
        handle = written.flatten().unwrap_or(Handle(0));
    }
    identity(handle, begin.parent, begin.flags & TRACE != 0)
}

/// A transaction that was measured elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// The number of its definition, 0 = unknown.
    pub transaction: u16,
    /// The number of its application's instance, 0 = unknown.
    pub instance: u16,
    /// 0 = good, 1 = aborted, 2 = failed, 3 = unknown.
    pub status: u32,
    /// How long it took, nanoseconds.
    pub response_ns: u64,
    /// When it ended, milliseconds since 1970; `u64::MAX` = now.
    pub stopped_realtime_ms: u64,
    /// Its parent.
    pub parent: Option<Identity>,
    /// The identity that was made for it by [`generate`].
    pub own: Option<Identity>,
}

/// Reports it; `false` = not recorded.
pub fn report_with(report: &Report, tell: impl FnOnce(&mut Telling<'_>)) -> bool {
    let process = process();
    let Some(head) = listener(process) else { return false };
    // What was measured elsewhere is not sampled: the record has no room for how many it would stand for.
    if switch(head, report.transaction) == SWITCH_OFF {
        return false;
    }
    let of = u64::from(report.transaction) | u64::from(report.instance) << 16;
    let flags = if report.parent.is_some() { HAS_PARENT } else { 0 } | if report.own.is_some() { HAS_OWN } else { 0 };
    let facts = [report.response_ns, stopped_realtime_ms(report), u64::from(report.status), 0];
    let mut slots = [facts, [0; 4], [0; 4]];
    let mut used = 1;
    for identity in [report.parent, report.own].into_iter().flatten() {
        slots[used] = identity.slot();
        used += 1;
    }
    let written = lane::write(process, head, |place| {
        let handle = place.handle();
        let time_ns = now_ns();
        let mut telling = Telling::new(place, handle, time_ns);
        tell(&mut telling);
        telling.flush();
        place.record(time_ns, Kind::ArmReport, flags, handle.0, of, &slots[..used])
    });
    written == Some(true)
}

/// When it ended, in milliseconds since 1970.
fn stopped_realtime_ms(report: &Report) -> u64 {
    if report.stopped_realtime_ms != u64::MAX {
        return report.stopped_realtime_ms;
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is this function's own.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
