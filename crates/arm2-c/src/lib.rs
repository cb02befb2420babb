//! libarm: the six functions of ARM 2.0, for programs that were written against it (`native/include/arm.h`).
//!
//! What they tell goes the same way as ARM 4.0's, by `weir-arm`. Here is only what is ARM 2.0's own: ids and handles of
//! 32 bits, data of three formats, and the user of an application.
//!
//! Callers on 64-bit systems may have been built with `long` where the standard has 32 bits: of what comes in only the
//! low half counts, and what goes out is extended with its sign.

mod data;
mod login;
mod registered;

use data::{Data, Values};
use registered::Problem;
use std::ffi::{CStr, c_char, c_long};
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_arm::{ARM_2, Begin, CORRELATED, Handle, TRACE};

/// Bytes of a name with its NUL.
const NAME_BYTES: usize = 128;
/// ARM 4.0's status of a transaction that ended in a way that ARM 2.0 does not know.
const STATUS_UNKNOWN: u32 = 3;

/// Names an application and its user; gives its id.
///
/// # Safety
/// The names are NULL or end with a NUL. Nothing is read by way of `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_init(
    appl_name: *const c_char,
    appl_user_id: *const c_char,
    _flags: c_long,
    _data: *mut c_char,
    _data_size: c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let (name, user) = unsafe { (text(appl_name), text(appl_user_id)) };
    answer(|| {
        let login = (user == Some(b"*".as_slice())).then(login::name);
        registered::application(name.ok_or(Problem::NoName)?, login.as_deref().or(user))
    })
}

/// Names a transaction of an application; gives its id, the same for the same name and data.
///
/// # Safety
/// The names are NULL or end with a NUL; `data` is NULL or points to `data_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_getid(
    appl_id: c_long,
    tran_name: *const c_char,
    tran_detail: *const c_char,
    _flags: c_long,
    data: *mut c_char,
    data_size: c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let (name, detail, data) = unsafe { (text(tran_name), text(tran_detail), bytes(data, data_size)) };
    answer(|| match appl_id as i32 {
        nothing if nothing < 0 => Ok(nothing),
        application => registered::transaction(application, name.ok_or(Problem::NoName)?, detail, data),
    })
}

/// Begins a transaction; gives its handle, 0 while no agent listens.
///
/// # Safety
/// `data` is NULL or points to `data_size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_start(tran_id: c_long, _flags: c_long, data: *mut c_char, data_size: c_long) -> c_long {
    let mut wanted = None;
    // SAFETY: the caller's promise.
    let told = Data::of(unsafe { bytes(data, data_size) });
    let answer = answer(|| {
        let id = tran_id as i32;
        if id < 0 {
            return Ok(id);
        }
        let transaction = registered::running(id)?;
        let values = told.values();
        let parent = values.and_then(Values::parent);
        let correlated = values.is_some_and(Values::wants_correlator);
        let traced = values.is_some_and(Values::traced);
        let begin = Begin {
            transaction: transaction.number,
            instance: transaction.instance,
            flags: ARM_2 | if correlated { CORRELATED } else { 0 } | if traced { TRACE } else { 0 },
            parent,
            ..Begin::default()
        };
        let handle = weir_arm::start_with(&begin, |telling| told.tell(transaction.types, telling));
        if correlated {
            wanted = Some(weir_arm::identity(handle, parent, traced).correlator());
        }
        let short = weir_arm::shorten(handle);
        registered::remember_types(short, transaction.types);
        Ok(short)
    });
    if let Some(correlator) = wanted {
        // SAFETY: the caller's promise; `Data` has seen that the place for a correlator lies within `data_size`.
        unsafe { data::write_correlator(data.cast(), &correlator) };
    }
    answer
}

/// Says that a transaction is still running.
///
/// # Safety
/// `data` is NULL or points to `data_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_update(
    start_handle: c_long,
    _flags: c_long,
    data: *mut c_char,
    data_size: c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let told = Data::of(unsafe { bytes(data, data_size) });
    answer(|| {
        let short = start_handle as i32;
        let types = registered::types_of(short);
        known(short, weir_arm::lengthen(short), |handle| {
            weir_arm::update_with(handle, |telling| told.tell(types, telling))
        })
    })
}

/// Ends a transaction.
///
/// # Safety
/// `data` is NULL or points to `data_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_stop(
    start_handle: c_long,
    tran_status: c_long,
    _flags: c_long,
    data: *mut c_char,
    data_size: c_long,
) -> c_long {
    // SAFETY: the caller's promise.
    let told = Data::of(unsafe { bytes(data, data_size) });
    answer(|| {
        let short = start_handle as i32;
        let types = registered::types_of(short);
        let status = u32::try_from(tran_status as i32).unwrap_or(STATUS_UNKNOWN).min(STATUS_UNKNOWN);
        known(short, weir_arm::release(short), |handle| {
            weir_arm::stop_with(handle, status, |telling| told.tell(types, telling))
        })
    })
}

/// Ends an application: nothing new begins for it, what runs may still be stopped.
///
/// # Safety
/// Nothing is read by way of `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_end(appl_id: c_long, _flags: c_long, _data: *mut c_char, _data_size: c_long) -> c_long {
    answer(|| match appl_id as i32 {
        nothing if nothing < 0 => Ok(0),
        application => registered::end(application).map(|()| 0),
    })
}

/// What the caller gets. Nothing that goes wrong here may go on into a program that is not written in Rust.
fn answer(act: impl FnOnce() -> Result<i32, Problem>) -> c_long {
    let result = catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Problem::Broken));
    c_long::from(result.unwrap_or_else(|problem| problem as i32))
}

/// Carries out what is asked of a handle: 0 and negative ones are nothing to do, others must be known.
fn known(short: i32, handle: Handle, act: impl FnOnce(Handle) -> bool) -> Result<i32, Problem> {
    if short <= 0 {
        return Ok(0);
    }
    let is_known = handle.0 != 0 && act(handle);
    if is_known { Ok(0) } else { Err(Problem::NotKnown) }
}

/// A name without its NUL, cut where the standard ends it.
///
/// # Safety
/// NULL, or it ends with a NUL.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a [u8]> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    Some(&name[..name.len().min(NAME_BYTES - 1)])
}

/// The bytes of data, none where there are none, and no more than the longest format has.
///
/// # Safety
/// NULL, or it points to `size` bytes.
unsafe fn bytes<'a>(data: *const c_char, size: c_long) -> &'a [u8] {
    let size = usize::try_from(size as i32).unwrap_or(0).min(data::MOST_BYTES);
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; char has no alignment.
    unsafe { std::slice::from_raw_parts(data.cast(), size) }
}
