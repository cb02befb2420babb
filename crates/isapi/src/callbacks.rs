//! The functions of a control block that read and write.

use crate::abi::{self, Bool, answer, error};
use crate::exchange::{queue, read_body, with};
use crate::server_variables;
use std::ffi::{CStr, c_char, c_void};

/// `GetServerVariable`: the value with its zero byte, or how many bytes it needs.
///
/// # Safety
/// `name` is a NUL-terminated text or null; `buffer` is valid for writes of `*size` bytes or null, `size` is valid or
/// null.
pub(crate) unsafe extern "C" fn get_server_variable(
    connection: *mut c_void,
    name: *const c_char,
    buffer: *mut c_void,
    size: *mut u32,
) -> Bool {
    if name.is_null() || size.is_null() {
        return answer(Err(error::INVALID_PARAMETER));
    }
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    answer(with(connection, |exchange| {
        let value = server_variables::value(&exchange.variables, name).ok_or(error::INVALID_INDEX)?;
        // SAFETY: by this function's contract.
        unsafe { copy_text(&value, buffer.cast(), size) }
    }))
}

/// Copies a text and a zero byte, if there is room, and says how many bytes it is or needs.
///
/// # Safety
/// `to` is valid for writes of `*size` bytes or null, and `size` is valid.
pub(crate) unsafe fn copy_text(text: &[u8], to: *mut u8, size: *mut u32) -> Result<(), u32> {
    let needed = u32::try_from(text.len() + 1).map_err(|_| error::INSUFFICIENT_BUFFER)?;
    // SAFETY: by this function's contract; the text fits.
    unsafe {
        let room = *size;
        *size = needed;
        if to.is_null() || room < needed {
            return Err(error::INSUFFICIENT_BUFFER);
        }
        to.copy_from_nonoverlapping(text.as_ptr(), text.len());
        *to.add(text.len()) = 0;
    }
    Ok(())
}

/// `WriteClient`: a part of the response. With `HSE_IO_ASYNC` a callback is called, too.
///
/// # Safety
/// `buffer` is valid for reads of `*bytes` bytes, `bytes` valid or null.
pub(crate) unsafe extern "C" fn write_client(
    connection: *mut c_void,
    buffer: *const c_void,
    bytes: *mut u32,
    flags: u32,
) -> Bool {
    // SAFETY: by this function's contract.
    let count = if bytes.is_null() { 0 } else { unsafe { *bytes } };
    if bytes.is_null() || buffer.is_null() && count > 0 {
        return answer(Err(error::INVALID_PARAMETER));
    }
    // SAFETY: by this function's contract.
    let data = unsafe { bytes_of(buffer.cast(), count) };
    let written = with(connection, |exchange| {
        let status = exchange.status();
        let completion = exchange.completion.filter(|_| flags & abi::io::ASYNC != 0);
        if completion.is_some() && !exchange.has_room() {
            return Err(error::INVALID_PARAMETER);
        }
        exchange.response.write(data, status)?;
        Ok(completion)
    });
    answer(written.and_then(|completion| match completion {
        Some(completion) => queue(connection, completion, count),
        None => Ok(()),
    }))
}

/// The bytes of a pointer and a length; none of a null pointer.
///
/// # Safety
/// The pointer is null, or valid for reads of so many bytes as long as they are used.
pub(crate) unsafe fn bytes_of<'b>(from: *const u8, count: u32) -> &'b [u8] {
    if from.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(from, count as usize) }
}

/// `ReadClient`: the next bytes of the body; none at its end.
///
/// # Safety
/// `buffer` is valid for writes of `*size` bytes, `size` valid or null.
pub(crate) unsafe extern "C" fn read_client(connection: *mut c_void, buffer: *mut c_void, size: *mut u32) -> Bool {
    // SAFETY: by this function's contract.
    answer(unsafe { read_to(connection, buffer.cast(), size) }.map(|_| ()))
}

/// Reads what fits, and says how many bytes it was.
///
/// # Safety
/// As [`read_client`].
pub(crate) unsafe fn read_to(connection: *mut c_void, buffer: *mut u8, size: *mut u32) -> Result<u32, u32> {
    if buffer.is_null() || size.is_null() {
        return Err(error::INVALID_PARAMETER);
    }
    // SAFETY: by this function's contract.
    let to = unsafe { std::slice::from_raw_parts_mut(buffer, *size as usize) };
    // No more than the memory has, whose length is a u32.
    let count = u32::try_from(read_body(connection, to)?).unwrap_or(u32::MAX);
    // SAFETY: likewise.
    unsafe { *size = count };
    Ok(count)
}
