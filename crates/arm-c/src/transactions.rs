//! Transactions. The first three functions are the hot ones: all that is rare is told apart at once.

use crate::buffer::Buffers;
use crate::correlators::{answer, parent};
use crate::outcome::{Outcome, Verdict, guarded};
use crate::subject::{FLAG_TRACE, Subject, UNKNOWN, details, known_status};
use crate::types::{Buffer, Id, format};
use weir_arm::{BOUND, Begin, CORRELATED, Handle, Sort, State, TRACE};

/// `ARM_FLAG_BIND_THREAD`.
const FLAG_BIND: i32 = 2;
/// Begins a transaction.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_start_transaction(
    app_handle: i64,
    tran_id: *const Id,
    parent_correlator: *const u8,
    flags: i32,
    buffer4: *const Buffer,
    tran_handle: *mut i64,
    current_correlator: *mut u8,
) -> i32 {
    let more = flags as usize | buffer4 as usize;
    // SAFETY: as the caller promises.
    if let (0, Some(id), Some(place)) = (more, unsafe { tran_id.as_ref() }, unsafe { tran_handle.as_mut() }) {
        let transaction = weir_arm::live_number_of(Sort::Transaction, &id.0);
        let instance = weir_arm::running_instance(app_handle);
        if transaction != 0 && instance != 0 {
            if parent_correlator as usize | current_correlator as usize == 0 {
                *place = weir_arm::start(transaction, instance).0 as i64;
                return 0;
            }
            // SAFETY: as the caller promises.
            return unsafe { start_related(transaction, instance, parent_correlator, place, current_correlator) };
        }
    }
    // SAFETY: as the caller promises.
    unsafe { start_more(app_handle, tran_id, parent_correlator, flags, buffer4, tran_handle, current_correlator) }
}

/// Begins one that has relatives, and of which nothing else is told.
///
/// # Safety
/// The correlators are null or as `arm4.h` declares.
#[inline(never)]
unsafe fn start_related(
    transaction: u16,
    instance: u16,
    parent_correlator: *const u8,
    tran_handle: &mut i64,
    current_correlator: *mut u8,
) -> i32 {
    let mut verdict = Verdict::new();
    // SAFETY: as the caller promises.
    let parent = unsafe { parent(parent_correlator, &mut verdict) };
    let begin = Begin {
        transaction,
        instance,
        flags: if current_correlator.is_null() { 0 } else { CORRELATED },
        parent: parent.map(|parent| parent.identity),
        arrival_ns: 0,
    };
    let handle = weir_arm::start_with(&begin, |_| {});
    *tran_handle = handle.0 as i64;
    // SAFETY: as the caller promises.
    unsafe { answer(current_correlator, handle, parent, false) };
    verdict.code()
}

/// Ends a transaction.
///
/// # Safety
/// The pointer is null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_stop_transaction(
    tran_handle: i64,
    tran_status: i32,
    _flags: i32,
    buffer4: *const Buffer,
) -> i32 {
    let is_plain = buffer4.is_null() && tran_status as u32 <= UNKNOWN;
    if is_plain && (tran_handle == 0 || weir_arm::stop(Handle(tran_handle as u64), tran_status as u32)) {
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { stop_more(tran_handle, tran_status, buffer4) }
}

/// # Safety
/// As for [`arm_start_transaction`].
#[cold]
#[inline(never)]
unsafe fn start_more(
    app_handle: i64,
    tran_id: *const Id,
    parent_correlator: *const u8,
    flags: i32,
    buffer4: *const Buffer,
    tran_handle: *mut i64,
    current_correlator: *mut u8,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let (what, buffers, parent_bytes, place) = unsafe {
            let what = Subject::of(app_handle, tran_id);
            (what, Buffers::new(buffer4), parent(parent_correlator, verdict), tran_handle.as_mut())
        };
        what.judge(verdict);
        let asked = flags & FLAG_TRACE != 0;
        let begin = Begin {
            transaction: what.transaction,
            instance: what.instance,
            flags: if asked { TRACE } else { 0 }
                | if flags & FLAG_BIND != 0 { BOUND } else { 0 }
                | if current_correlator.is_null() { 0 } else { CORRELATED },
            parent: parent_bytes.map(|parent| parent.identity),
            arrival_ns: buffers.arrival_ns(),
        };
        // Without a place for its handle, the program could not stop the transaction.
        let is_wanted =
            place.is_some() && what.state == State::Live && !buffers.is_unwanted(format::INSTANCE_CONTROL, verdict);
        let handle = if is_wanted {
            weir_arm::start_with(&begin, |telling| details(buffers, telling, verdict))
        } else {
            Handle(0)
        };
        match place {
            Some(place) => *place = handle.0 as i64,
            None => verdict.note(Outcome::Null),
        }
        // SAFETY: as the caller promises.
        unsafe { answer(current_correlator, handle, parent_bytes, asked) };
    })
}

/// # Safety
/// As for [`arm_stop_transaction`].
#[cold]
#[inline(never)]
unsafe fn stop_more(tran_handle: i64, tran_status: i32, buffer4: *const Buffer) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let buffers = unsafe { Buffers::new(buffer4) };
        let status = known_status(tran_status, verdict);
        let is_ours = weir_arm::stop_with(Handle(tran_handle as u64), status, |telling| {
            details(buffers, telling, verdict);
        });
        note_handle(is_ours, verdict);
    })
}

fn note_handle(is_ours: bool, verdict: &mut Verdict) {
    if !is_ours {
        verdict.note(Outcome::UnknownHandle);
    }
}

/// A sign of life of a transaction, with what there is to tell.
///
/// # Safety
/// The pointer is null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_update_transaction(tran_handle: i64, _flags: i32, buffer4: *const Buffer) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let buffers = unsafe { Buffers::new(buffer4) };
        let is_ours = weir_arm::update_with(Handle(tran_handle as u64), |telling| details(buffers, telling, verdict));
        note_handle(is_ours, verdict);
    })
}

/// A transaction is not to be counted.
#[unsafe(no_mangle)]
pub extern "C" fn arm_discard_transaction(tran_handle: i64, _flags: i32, _buffer4: *const Buffer) -> i32 {
    guarded(|verdict| note_handle(weir_arm::discard(Handle(tran_handle as u64)), verdict))
}

/// The running thread works for a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn arm_bind_thread(tran_handle: i64, _flags: i32, _buffer4: *const Buffer) -> i32 {
    guarded(|verdict| note_handle(weir_arm::bind(Handle(tran_handle as u64), true), verdict))
}

/// The running thread no longer works for a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn arm_unbind_thread(tran_handle: i64, _flags: i32, _buffer4: *const Buffer) -> i32 {
    guarded(|verdict| note_handle(weir_arm::bind(Handle(tran_handle as u64), false), verdict))
}

/// A transaction begins to wait for something outside.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_block_transaction(
    tran_handle: i64,
    _flags: i32,
    buffer4: *const Buffer,
    block_handle: *mut i64,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let (buffers, place) = unsafe { (Buffers::new(buffer4), block_handle.as_mut()) };
        let block = weir_arm::block(Handle(tran_handle as u64), |telling| details(buffers, telling, verdict));
        note_handle(block.is_some(), verdict);
        match place {
            Some(place) => *place = block.unwrap_or(0) as i64,
            None => verdict.note(Outcome::Null),
        }
    })
}

/// That wait is over.
#[unsafe(no_mangle)]
pub extern "C" fn arm_unblock_transaction(
    tran_handle: i64,
    block_handle: i64,
    _flags: i32,
    _buffer4: *const Buffer,
) -> i32 {
    guarded(|verdict| {
        note_handle(weir_arm::unblock(Handle(tran_handle as u64), block_handle as u64), verdict);
    })
}
