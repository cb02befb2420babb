//! Requests of servers, beyond the standard: what `weir_arm.h` declares.

use crate::correlators::{answer, parent};
use crate::outcome::Verdict;
use crate::subject::{Subject, known_status};
use crate::text::{LONG, NAME, VALUE, text};
use crate::types::{Id, Request};
use std::ffi::c_char;
use std::slice::from_raw_parts;
use weir_arm::{Begin, CORRELATED, Field, Handle, Metric, Pieces, Room, State, Telling};

/// Begins a request that came at a real time, in microseconds since 1970; gives its handle, 0 = it is not recorded.
///
/// # Safety
/// The pointers are null or as `weir_arm.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_arm_start_request(
    app_handle: i64,
    tran_id: *const Id,
    parent_correlator: *const u8,
    arrived_us: i64,
    arrived_ns: *mut i64,
) -> i64 {
    // SAFETY: as the caller promises.
    let (what, arrived_place) = unsafe { (Subject::of(app_handle, tran_id), arrived_ns.as_mut()) };
    let Some(arrived_place) = arrived_place.filter(|_| what.state == State::Live) else { return 0 };
    // SAFETY: as the caller promises.
    let parent = unsafe { parent(parent_correlator, &mut Verdict::new()) };
    let begin = Begin {
        transaction: what.transaction,
        instance: what.instance,
        flags: CORRELATED,
        parent: parent.map(|parent| parent.identity),
        arrival_ns: 0,
    };
    let (handle, arrived_ns) = weir_arm::start_request(&begin, arrived_us);
    *arrived_place = arrived_ns as i64;
    handle.0 as i64
}

/// The correlator of a request that was begun with this parent.
///
/// # Safety
/// The pointers are null or as `weir_arm.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_arm_request_correlator(
    tran_handle: i64,
    parent_correlator: *const u8,
    current_correlator: *mut u8,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let parent = parent(parent_correlator, &mut Verdict::new());
        answer(current_correlator, Handle(tran_handle as u64), parent, false);
    }
}

/// Ends a request, with all that there is to tell.
///
/// # Safety
/// The pointers are null or as `weir_arm.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_arm_stop_request(tran_handle: i64, tran_status: i32, told: *const Request) {
    // SAFETY: as the caller promises.
    let Some(told) = (unsafe { told.as_ref() }) else { return };
    let status = known_status(tran_status, &mut Verdict::new());
    let at_length = |telling: &mut Telling<'_>, ended_ns| {
        let _ = tell(told, ended_ns, telling);
    };
    let _ = weir_arm::stop_request(
        Handle(tran_handle as u64),
        status,
        |room: &mut Room, ended_ns| tell(told, ended_ns, room),
        at_length,
    );
}

/// Formats of the standard's: a number that names something, a gauge of 64 bits.
const NUMERIC_ID: u8 = 7;
const GAUGE: u8 = 5;
/// Usages of the standard's: the transaction's status, its size, and a general one.
const OF_STATUS: u8 = 2;
const OF_SIZE: u8 = 1;
const GENERAL: u8 = 0;

/// Tells what a request has, in the order in which sub-buffers are told; `None` = there is no room for it.
#[inline(always)]
fn tell(told: &Request, ended_ns: u64, to: &mut impl Pieces) -> Option<()> {
    let passed_us = |at_ns: u64| at_ns.saturating_sub(told.arrived_ns as u64) / 1000;
    let number = |format, usage, value| Metric { format, usage, value };
    tell_text(Field::User, 0, told.user, NAME, to)?;
    tell_text(Field::ContextValue, 0, told.method, VALUE, to)?;
    tell_text(Field::ContextValue, 1, told.host, VALUE, to)?;
    tell_text(Field::Uri, 0, told.path, LONG, to)?;
    let code = number(NUMERIC_ID, OF_STATUS, i64::from(told.code) as u64);
    let bytes = number(GAUGE, OF_SIZE, told.bytes as u64);
    let last_byte = number(GAUGE, GENERAL, passed_us(ended_ns));
    if told.answered_ns == 0 {
        to.numbers(0, [code, bytes])?;
        to.numbers(3, [last_byte])?;
    } else {
        let first_byte = number(GAUGE, GENERAL, passed_us(told.answered_ns as u64));
        to.numbers(0, [code, bytes, first_byte, last_byte])?;
    }
    tell_text(Field::Diagnosis, 0, told.diagnosis, LONG, to)?;
    if told.address_length > 0 && !told.address.is_null() {
        // SAFETY: the address has so many bytes.
        to.address(told.address_format, unsafe { from_raw_parts(told.address, told.address_length as usize) })?;
    }
    Some(())
}

/// Tells a text up to its NUL, cut where it has more than so many characters; nothing for null.
#[inline(always)]
fn tell_text(field: Field, index: u8, told: *const c_char, most: usize, to: &mut impl Pieces) -> Option<()> {
    if told.is_null() {
        return Some(());
    }
    // SAFETY: a text of C, of which no more is looked at than there is.
    let bytes = unsafe {
        let length = libc::strlen(told);
        from_raw_parts(told.cast::<u8>(), if length > most { cut_length(told, most) } else { length })
    };
    to.piece(field, index, bytes)
}

/// Bytes of a text up to the bound.
#[cold]
#[inline(never)]
fn cut_length(told: *const c_char, most: usize) -> usize {
    // SAFETY: a text of C.
    unsafe { text(told, most, &mut Verdict::new()) }.map_or(0, <[u8]>::len)
}
