//! Registering applications, transactions and metrics; instances of applications; questions to the library.

use crate::buffer::{Buffers, is_supported};
use crate::outcome::{Outcome, Verdict, guarded};
use crate::text::{NAME, text};
use crate::types::{Buffer, Id, format};
use std::ffi::c_char;
use weir_arm::{Field, Sort};

const STANDARD: u8 = 4;
/// Bytes of the message buffer.
const MESSAGE: usize = 255 * 3 + 1;

/// Makes a definition: its name, the id that the application chose, and what its sub-buffers tell.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
unsafe fn register(
    (sort, belongs_to): (Sort, u16),
    (name, chosen, output): (*const c_char, *const Id, *mut Id),
    verdict: &mut Verdict,
    more: impl FnOnce(&mut dyn FnMut(Field, u8, &[u8]), &mut Verdict),
) -> u16 {
    // SAFETY: as the caller promises.
    let (name, chosen) = unsafe { (text(name, NAME, verdict), chosen.as_ref()) };
    let mut number = 0;
    match name {
        None => verdict.note(Outcome::Null),
        Some(name) => {
            let mut is_whole = true;
            number = weir_arm::define(sort, STANDARD, belongs_to, |writer| {
                let mut tell = |field, index, bytes: &[u8]| is_whole &= writer.piece(field, index, bytes);
                tell(Field::Name, 0, name);
                if let Some(chosen) = chosen {
                    tell(Field::Id, 0, &chosen.0);
                }
                more(&mut tell, verdict);
            });
            if number == 0 {
                verdict.note(Outcome::NoRoom);
            }
            if !is_whole {
                verdict.note(Outcome::LeftOut);
            }
        }
    }
    if let Some(chosen) = chosen
        && !weir_arm::adopt(sort, &chosen.0, number)
    {
        verdict.note(Outcome::IdRefused);
    }
    // SAFETY: as the caller promises.
    if let Some(output) = unsafe { output.as_mut() } {
        output.0 = weir_arm::id_of(number);
    }
    number
}

/// The application that an id stands for; 0 = none, which is noted.
///
/// # Safety
/// `id` is null or points to an id.
unsafe fn application(id: *const Id, verdict: &mut Verdict) -> u16 {
    // SAFETY: as the caller promises.
    let Some(id) = (unsafe { id.as_ref() }) else {
        verdict.note(Outcome::Null);
        return 0;
    };
    let number = weir_arm::number_of(Sort::Application, &id.0);
    if !weir_arm::is_live(number) {
        verdict.note(Outcome::UnknownId);
    }
    number
}

/// Registers an application.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_register_application(
    app_name: *const c_char,
    input_app_id: *const Id,
    _flags: i32,
    buffer4: *const Buffer,
    output_app_id: *mut Id,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        unsafe {
            let buffers = Buffers::new(buffer4);
            buffers.charset(verdict);
            register((Sort::Application, 0), (app_name, input_app_id, output_app_id), verdict, |tell, verdict| {
                buffers.application(tell, verdict);
            });
        }
    })
}

/// Gives an application up, with its transactions and metrics.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_destroy_application(app_id: *const Id, _flags: i32, _buffer4: *const Buffer) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        let number = unsafe { application(app_id, verdict) };
        weir_arm::forget(number);
    })
}

/// Registers a transaction of an application.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_register_transaction(
    app_id: *const Id,
    tran_name: *const c_char,
    input_tran_id: *const Id,
    _flags: i32,
    buffer4: *const Buffer,
    output_tran_id: *mut Id,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        unsafe {
            let belongs_to = application(app_id, verdict);
            let buffers = Buffers::new(buffer4);
            let given = (tran_name, input_tran_id, output_tran_id);
            let number = register((Sort::Transaction, belongs_to), given, verdict, |tell, verdict| {
                buffers.transaction(tell, verdict);
            });
            if buffers.is_unwanted(format::TRAN_CONTROL, verdict) {
                weir_arm::mute(number);
            }
        }
    })
}

/// Registers a metric of an application.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_register_metric(
    app_id: *const Id,
    metric_name: *const c_char,
    metric_format: u8,
    metric_usage: i16,
    metric_unit: *const c_char,
    input_metric_id: *const Id,
    _flags: i32,
    _buffer4: *const Buffer,
    output_metric_id: *mut Id,
) -> i32 {
    guarded(|verdict| {
        if !matches!(metric_format, 1..=8 | 10) {
            verdict.note(Outcome::Number);
        }
        // SAFETY: as the caller promises.
        unsafe {
            let belongs_to = application(app_id, verdict);
            let given = (metric_name, input_metric_id, output_metric_id);
            register((Sort::Metric, belongs_to), given, verdict, |tell, verdict| {
                tell(Field::MetricFormat, 0, &[metric_format, u8::try_from(metric_usage).unwrap_or(0)]);
                if let Some(unit) = text(metric_unit, NAME, verdict) {
                    tell(Field::MetricUnit, 0, unit);
                }
            });
        }
    })
}

/// Begins an instance of an application.
///
/// # Safety
/// The pointers are null or as `arm4.h` declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_start_application(
    app_id: *const Id,
    app_group: *const c_char,
    app_instance: *const c_char,
    _flags: i32,
    buffer4: *const Buffer,
    app_handle: *mut i64,
) -> i32 {
    guarded(|verdict| {
        // SAFETY: as the caller promises.
        unsafe {
            let belongs_to = application(app_id, verdict);
            let buffers = Buffers::new(buffer4);
            let names = [(Field::Group, app_group), (Field::Instance, app_instance)];
            let number = weir_arm::define(Sort::Instance, STANDARD, belongs_to, |writer| {
                let mut tell = |field, index, bytes: &[u8]| {
                    let _ = writer.piece(field, index, bytes);
                };
                for (field, name) in names {
                    if let Some(name) = text(name, NAME, verdict) {
                        tell(field, 0, name);
                    }
                }
                buffers.instance(&mut tell, verdict);
            });
            if number == 0 {
                verdict.note(Outcome::NoRoom);
            }
            let handle = weir_arm::begin_instance(number);
            if let Some(place) = app_handle.as_mut() {
                *place = handle;
            } else {
                verdict.note(Outcome::Null);
            }
        }
    })
}

/// Ends an instance of an application; its running transactions are discarded.
#[unsafe(no_mangle)]
pub extern "C" fn arm_stop_application(app_handle: i64, _flags: i32, _buffer4: *const Buffer) -> i32 {
    guarded(|verdict| {
        if !weir_arm::end_instance(app_handle) {
            verdict.note(Outcome::UnknownHandle);
        }
    })
}

/// The text for what a call has returned.
///
/// # Safety
/// `msg` is null or has room for `ARM_MSG_BUFFER_LENGTH` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_get_error_message(charset: i32, code: i32, msg: *mut c_char) -> i32 {
    guarded(|verdict| {
        if !is_supported(charset) {
            verdict.note(Outcome::Charset);
        }
        if msg.is_null() {
            verdict.note(Outcome::Null);
            return;
        }
        let text = Outcome::text(code).unwrap_or_else(|| {
            verdict.note(Outcome::Number);
            "not a number that this ARM library returns"
        });
        let length = text.len().min(MESSAGE - 1);
        // SAFETY: the caller promises the room; all texts are ASCII, so that every supported encoding has them.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), msg.cast(), length);
            *msg.add(length) = 0;
        }
    })
}

/// Whether texts may be in an encoding.
///
/// # Safety
/// `supported` is null or points to a boolean.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arm_is_charset_supported(charset: i32, supported: *mut i32) -> i32 {
    // SAFETY: as the caller promises.
    match unsafe { supported.as_mut() } {
        Some(supported) => {
            *supported = i32::from(is_supported(charset));
            Outcome::Done as i32
        }
        None => Outcome::Null as i32,
    }
}
