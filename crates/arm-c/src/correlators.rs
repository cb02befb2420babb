//! Correlators, and what is measured elsewhere.

use crate::buffer::Buffers;
use crate::outcome::{Outcome, Verdict, guarded};
use crate::subject::{FLAG_TRACE, Subject, details, known_status};
use crate::types::{Buffer, Id};
use weir_arm::{Begin, Handle, Identity, Report, State, TRACE};

/// The most bytes of a correlator.
const MOST: usize = 512;
/// Where a correlator's flags stand, and the two that ARM 4.0 names.
const FLAGS_AT: usize = 3;
const APPLICATION_TRACE: u8 = 0x80;
const AGENT_TRACE: u8 = 0x40;
/// `ARM_USE_CURRENT_TIME`.
const NOW: i64 = -1;

/// A parent as the application gave it.
#[derive(Clone, Copy)]
pub(crate) struct Parent<'a> {
    bytes: &'a [u8],
    pub(crate) identity: Identity,
}

/// The bytes of a correlator, and no more of them than it says it has; `None` = it is null, or its length is impossible.
///
/// # Safety
/// `correlator` is null, or has as many bytes as its first two say.
unsafe fn bytes<'a>(correlator: *const u8) -> Option<&'a [u8]> {
    if correlator.is_null() {
        return None;
    }
    // SAFETY: as the caller promises: two bytes at least, and then as many as they say.
    unsafe {
        let length = usize::from(u16::from_be_bytes([*correlator, *correlator.add(1)]));
        (4..=MOST).contains(&length).then(|| std::slice::from_raw_parts(correlator, length))
    }
}

/// The parent of a transaction. An invalid correlator is noted as an error and otherwise ignored.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn parent<'a>(correlator: *const u8, verdict: &mut Verdict) -> Option<Parent<'a>> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes(correlator) };
    if bytes.is_none() && !correlator.is_null() {
        verdict.note(Outcome::NoCorrelator);
    }
    let bytes = bytes?;
    Some(Parent { bytes, identity: Identity::of_correlator(bytes)? })
}

/// Writes the correlator that was asked for.
///
/// A transaction that is not recorded gets the correlator of its parent, in the parent's own format. So a child that is
/// recorded finds the parent.
///
/// # Safety
/// `current` is null or has room for 512 bytes.
pub(crate) unsafe fn answer(current: *mut u8, handle: Handle, parent: Option<Parent<'_>>, asked: bool) {
    if current.is_null() {
        return;
    }
    let own = weir_arm::identity(handle, parent.map(|parent| parent.identity), asked);
    let made = own.correlator();
    let bytes = parent.filter(|_| handle.0 == 0).map_or(&made[..], |parent| parent.bytes);
    // SAFETY: as the caller promises; the parent may be the very same buffer.
    unsafe {
        std::ptr::copy(bytes.as_ptr(), current, bytes.len());
        if handle.0 == 0 && asked {
            *current.add(FLAGS_AT) |= APPLICATION_TRACE;
        }
    }
}

/// Makes a correlator for a transaction that will be measured elsewhere.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_generate_correlator(
    app_handle: i64,
    tran_id: *const Id,
    parent_correlator: *const u8,
    flags: i32,
    buffer4: *const Buffer,
    current_correlator: *mut u8,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let (what, parent, buffers) =
            unsafe { (Subject::of(app_handle, tran_id), parent(parent_correlator, verdict), Buffers::new(buffer4)) };
        what.judge(verdict);
        if current_correlator.is_null() {
            verdict.note(Outcome::Null);
            return;
        }
        let asked = flags & FLAG_TRACE != 0;
        let begin = Begin {
            transaction: what.transaction,
            instance: what.instance,
            flags: if asked { TRACE } else { 0 },
            parent: parent.map(|parent| parent.identity),
            arrival_ns: 0,
        };
        let own = if what.state == State::Live {
            weir_arm::generate(&begin, |telling| details(buffers, telling, verdict))
        } else {
            weir_arm::identity(Handle(0), begin.parent, asked)
        };
        // What is not recorded has the parent's identity, and then the parent's bytes, in the parent's own format.
        let is_parents = begin.parent.is_some_and(|parent| parent.span == own.span);
        // SAFETY: as the caller promises.
        unsafe {
            match parent.filter(|_| is_parents) {
                Some(_) => answer(current_correlator, Handle(0), parent, asked),
                None => {
                    let made = own.correlator();
                    std::ptr::copy_nonoverlapping(made.as_ptr(), current_correlator, made.len());
                }
            }
        }
    })
}

/// Reports a transaction that was measured elsewhere.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_report_transaction(
    app_handle: i64,
    tran_id: *const Id,
    tran_status: i32,
    response_time: i64,
    stop_time: i64,
    parent_correlator: *const u8,
    current_correlator: *const u8,
    _flags: i32,
    buffer4: *const Buffer,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let (what, parent, own, buffers) = unsafe {
            (
                Subject::of(app_handle, tran_id),
                parent(parent_correlator, verdict),
                parent(current_correlator, verdict),
                Buffers::new(buffer4),
            )
        };
        what.judge(verdict);
        if response_time < 0 || stop_time < NOW {
            verdict.note(Outcome::Number);
            return;
        }
        if what.state != State::Live {
            return;
        }
        let report = Report {
            transaction: what.transaction,
            instance: what.instance,
            status: known_status(tran_status, verdict),
            response_ns: response_time as u64,
            // -1 is u64::MAX: now.
            stopped_realtime_ms: stop_time as u64,
            parent: parent.map(|parent| parent.identity),
            own: own.map(|own| own.identity),
        };
        let _ = weir_arm::report_with(&report, |telling| details(buffers, telling, verdict));
    })
}

/// The length of a correlator in bytes; 0 = it is none.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_get_correlator_length(correlator: *const u8, length: *mut i16) -> i32 {
    // SAFETY: as the caller promises.
    let (bytes, length) = unsafe { (bytes(correlator), length.as_mut()) };
    let Some(length) = length else { return Outcome::Null as i32 };
    *length = bytes.map_or(0, |bytes| bytes.len() as i16);
    match bytes {
        Some(_) => Outcome::Done as i32,
        None => Outcome::NoCorrelator as i32,
    }
}

/// A flag of a correlator; one that is not known is false.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_get_correlator_flags(correlator: *const u8, corr_flag_num: i32, flag: *mut i32) -> i32 {
    // SAFETY: as the caller promises.
    let (bytes, flag) = unsafe { (bytes(correlator), flag.as_mut()) };
    let Some(flag) = flag else { return Outcome::Null as i32 };
    *flag = 0;
    let Some(bytes) = bytes else { return Outcome::NoCorrelator as i32 };
    let mask = match corr_flag_num {
        1 => APPLICATION_TRACE,
        2 => AGENT_TRACE,
        // ARM 4.1's: asynchronous and independent; our correlators never set them.
        3 => 0x20,
        4 => 0x10,
        _ => return Outcome::Number as i32,
    };
    *flag = i32::from(bytes[FLAGS_AT] & mask != 0);
    Outcome::Done as i32
}

/// The time of now, for [`crate::types::format::ARRIVAL_TIME`].
///
/// # Safety
/// `opaque_time` is null or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_get_arrival_time(opaque_time: *mut i64) -> i32 {
    // SAFETY: as the caller promises.
    match unsafe { opaque_time.as_mut() } {
        Some(time) => {
            *time = weir_arm::now_ns() as i64;
            Outcome::Done as i32
        }
        None => Outcome::Null as i32,
    }
}
