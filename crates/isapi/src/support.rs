//! `ServerSupportFunction`: what an extension asks for besides reading and writing.

use crate::abi::{self, Bool, FileInfo, HeaderInfo, IoCompletion, MapInfo, ResponseVector, answer, error, request};
use crate::callbacks::{bytes_of, copy_text, read_to};
use crate::exchange::{Completion, Exchange, queue, wake, with};
use crate::{head, log, paths};
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::RawFd;

/// Numbers of unsupported functions that the log has once each, at most.
const TOLD_MAX: usize = 64;

/// The function of the control block.
///
/// # Safety
/// The pointers are what the interface says for this function.
pub(crate) unsafe extern "C" fn server_support_function(
    connection: *mut c_void,
    function: u32,
    buffer: *mut c_void,
    size: *mut u32,
    data: *mut u32,
) -> Bool {
    // SAFETY: by this function's contract.
    answer(unsafe {
        match function {
            request::SEND_RESPONSE_HEADER => {
                let (status, fields) = (text(buffer), text(data.cast()).unwrap_or_default());
                with(connection, |exchange| exchange.response.send_head(status, fields))
            }
            request::SEND_RESPONSE_HEADER_EX => send_header_ex(connection, buffer.cast()),
            request::SEND_URL_REDIRECT_RESP => send_url(connection, text(buffer), Some(b"302 Found")),
            request::SEND_URL => send_url(connection, text(buffer), None),
            request::DONE_WITH_SESSION => done(connection, buffer.cast()),
            request::MAP_URL_TO_PATH => map_to_path(connection, buffer.cast(), size),
            request::MAP_URL_TO_PATH_EX => map_to_info(connection, text(buffer), data.cast()),
            request::APPEND_LOG_PARAMETER => append_log(connection, text(buffer)),
            request::IO_COMPLETION => set_completion(connection, buffer, data.cast()),
            request::TRANSMIT_FILE => transmit_file(connection, buffer.cast()),
            request::VECTOR_SEND => send_vector(connection, buffer.cast()),
            request::ASYNC_READ_CLIENT => read_async(connection, buffer.cast(), size),
            request::IS_KEEP_CONN => tell(connection, buffer.cast(), |exchange| {
                exchange.variables.get(b"SERVER_PROTOCOL") != Some(b"HTTP/1.0")
            }),
            request::IS_CONNECTED => tell(connection, buffer.cast(), |exchange| exchange.response.is_connected()),
            _ => unknown(connection, function),
        }
    })
}

/// The bytes of a NUL-terminated text.
///
/// # Safety
/// The pointer is null, or leads to such a text that lives as long as the bytes are used.
unsafe fn text<'t>(from: *const c_void) -> Option<&'t [u8]> {
    // SAFETY: by this function's contract.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from.cast()) }.to_bytes())
}

/// The bytes of a text with its length; with the length 0 it ends with a zero byte.
///
/// # Safety
/// The pointer is null, or leads to so many bytes, or to such a text.
unsafe fn text_of<'t>(from: *const c_char, length: u32) -> Option<&'t [u8]> {
    // SAFETY: by this function's contract.
    unsafe { if length == 0 { text(from.cast()) } else { Some(bytes_of(from.cast(), length)) } }
}

/// Has the head sent that the structure describes.
///
/// # Safety
/// The pointer is null or that of an `HSE_SEND_HEADER_EX_INFO`.
unsafe fn send_header_ex(connection: *mut c_void, info: *const HeaderInfo) -> Result<(), u32> {
    // SAFETY: by this function's contract.
    let info = unsafe { info.as_ref() }.ok_or(error::INVALID_PARAMETER)?;
    // SAFETY: likewise.
    let (status, fields) =
        unsafe { (text_of(info.status, info.status_bytes), text_of(info.header, info.header_bytes)) };
    // A length may count the zero byte.
    let status = status.map(|status| status.strip_suffix(b"\0").unwrap_or(status));
    let fields = fields.map_or(&b""[..], |fields| fields.strip_suffix(b"\0").unwrap_or(fields));
    with(connection, |exchange| exchange.response.send_head(status, fields))
}

/// Sends the client to a URL, or, without a status, has the server answer with a path of its own.
fn send_url(connection: *mut c_void, url: Option<&[u8]>, status: Option<&[u8]>) -> Result<(), u32> {
    let url = url.filter(|url| head::is_url(url)).ok_or(error::INVALID_PARAMETER)?;
    // Only a path of this server can be answered in place of the request.
    let is_local = url.starts_with(b"/") && !url.starts_with(b"//");
    let status = status.or(if is_local { None } else { Some(b"302 Found") });
    with(connection, |exchange| exchange.response.send_location(status, url))
}

/// The extension is done, with an optional status.
///
/// # Safety
/// The pointer is null or that of a DWORD.
unsafe fn done(connection: *mut c_void, status: *const u32) -> Result<(), u32> {
    // SAFETY: by this function's contract.
    let status = unsafe { status.as_ref() }.copied().unwrap_or_default();
    with(connection, |exchange| {
        exchange.set_done(status);
        Ok(())
    })?;
    wake();
    Ok(())
}

/// The file of a URL's path, in the place of that path.
///
/// # Safety
/// `buffer` is null or has a NUL-terminated text and `*size` bytes.
unsafe fn map_to_path(connection: *mut c_void, buffer: *mut u8, size: *mut u32) -> Result<(), u32> {
    if size.is_null() {
        return Err(error::INVALID_PARAMETER);
    }
    // SAFETY: by this function's contract. The path is a copy, so writing over the text is no conflict.
    unsafe {
        let path = map(connection, text(buffer.cast()))?;
        copy_text(&path, buffer, size)
    }
}

/// The same into a structure, cut if it does not fit.
///
/// # Safety
/// The pointer is null or that of an `HSE_URL_MAPEX_INFO`.
unsafe fn map_to_info(connection: *mut c_void, url: Option<&[u8]>, info: *mut MapInfo) -> Result<(), u32> {
    let path = map(connection, url)?;
    // SAFETY: by this function's contract.
    let info = unsafe { info.as_mut() }.ok_or(error::INVALID_PARAMETER)?;
    let length = path.len().min(abi::PATH_BYTES - 1);
    for (place, &byte) in info.path.iter_mut().zip(path[..length].iter().chain(&[0])) {
        *place = byte;
    }
    info.flags = abi::MAY_READ;
    info.path_bytes = u32::try_from(length).unwrap_or_default();
    info.url_bytes = url.and_then(|url| u32::try_from(url.len()).ok()).unwrap_or_default();
    info.reserved = [0; 2];
    if length < path.len() { Err(error::INSUFFICIENT_BUFFER) } else { Ok(()) }
}

fn map(connection: *mut c_void, url: Option<&[u8]>) -> Result<Vec<u8>, u32> {
    with(connection, |exchange| {
        let root = exchange.variables.get(b"DOCUMENT_ROOT").unwrap_or_default();
        url.and_then(|url| paths::mapped(root, url)).ok_or(error::INVALID_PARAMETER)
    })
}

fn append_log(connection: *mut c_void, text: Option<&[u8]>) -> Result<(), u32> {
    let text = text.ok_or(error::INVALID_PARAMETER)?;
    with(connection, |exchange| {
        log::line(exchange.script(), text);
        Ok(())
    })
}

/// What is called when a read or write is over; null for nothing.
///
/// # Safety
/// The pointer is null or that of such a function.
unsafe fn set_completion(connection: *mut c_void, call: *mut c_void, context: *mut c_void) -> Result<(), u32> {
    let call = (!call.is_null()).then(|| {
        // SAFETY: by this function's contract.
        unsafe { std::mem::transmute::<*mut c_void, IoCompletion>(call) }
    });
    with(connection, |exchange| {
        exchange.completion = call.map(|call| Completion { call, context });
        Ok(())
    })
}

/// Reads at once, and has the callback told.
///
/// # Safety
/// `buffer` is valid for writes of `*size` bytes.
unsafe fn read_async(connection: *mut c_void, buffer: *mut u8, size: *mut u32) -> Result<(), u32> {
    let completion = with(connection, |exchange| {
        exchange.completion.filter(|_| exchange.has_room()).ok_or(error::INVALID_PARAMETER)
    })?;
    // SAFETY: by this function's contract.
    let count = unsafe { read_to(connection, buffer, size) }?;
    queue(connection, completion, count)
}

/// Sends a file, what stands before and behind it, and perhaps a head.
///
/// # Safety
/// The pointer is null or that of an `HSE_TF_INFO`.
unsafe fn transmit_file(connection: *mut c_void, info: *const FileInfo) -> Result<(), u32> {
    // SAFETY: by this function's contract.
    let info = unsafe { info.as_ref() }.ok_or(error::INVALID_PARAMETER)?;
    // SAFETY: likewise.
    let (status, before, behind) = unsafe {
        (text(info.status.cast()), bytes_of(info.head, info.head_bytes), bytes_of(info.tail, info.tail_bytes))
    };
    let (completion, sent) = with(connection, |exchange| {
        let own = info.completion.map(|call| Completion { call, context: info.context });
        let completion = own.or(exchange.completion).filter(|_| info.flags & abi::io::ASYNC != 0);
        if completion.is_some() && !exchange.has_room() {
            return Err(error::INVALID_PARAMETER);
        }
        let default = exchange.status();
        let response = &mut exchange.response;
        if info.flags & abi::io::SEND_HEADERS != 0 {
            response.send_head(status, before.strip_suffix(b"\0").unwrap_or(before))?;
        } else {
            response.write(before, default)?;
        }
        let bytes = (info.bytes > 0).then_some(u64::from(info.bytes));
        let sent = match descriptor(info.file) {
            Some(file) => response.send_file(file, u64::from(info.offset), bytes, default)?,
            None => 0,
        };
        response.write(behind, default)?;
        if info.flags & abi::io::DISCONNECT_AFTER_SEND != 0 {
            response.close();
        }
        Ok((completion, sent + before.len() as u64 + behind.len() as u64))
    })?;
    match completion {
        Some(completion) => queue(connection, completion, u32::try_from(sent).unwrap_or(u32::MAX)),
        None => Ok(()),
    }
}

/// The descriptor that stands in the place of a handle; `None` of a null or negative one.
fn descriptor(handle: *mut c_void) -> Option<RawFd> {
    RawFd::try_from(handle.addr()).ok().filter(|&file| file > 0)
}

/// Sends a head, memory and parts of files.
///
/// # Safety
/// The pointer is null or that of an `HSE_RESPONSE_VECTOR`.
unsafe fn send_vector(connection: *mut c_void, vector: *const ResponseVector) -> Result<(), u32> {
    // SAFETY: by this function's contract.
    let vector = unsafe { vector.as_ref() }.ok_or(error::INVALID_PARAMETER)?;
    if vector.count > abi::ELEMENTS_MAX || vector.elements.is_null() && vector.count > 0 {
        return Err(error::INVALID_PARAMETER);
    }
    // SAFETY: likewise.
    let (status, fields) = unsafe { (text(vector.status.cast()), text(vector.header.cast())) };
    let (completion, sent) = with(connection, |exchange| {
        let completion = exchange.completion.filter(|_| vector.flags & abi::io::ASYNC != 0);
        if completion.is_some() && !exchange.has_room() {
            return Err(error::INVALID_PARAMETER);
        }
        if vector.flags & abi::io::SEND_HEADERS != 0 {
            exchange.response.send_head(status, fields.unwrap_or_default())?;
        }
        let mut sent = 0;
        for at in 0..vector.count as usize {
            // SAFETY: the vector has so many elements.
            sent += unsafe { send_element(exchange, vector, at) }?;
        }
        if vector.flags & (abi::io::DISCONNECT_AFTER_SEND | abi::io::FINAL_SEND) != 0 {
            exchange.response.close();
        }
        Ok((completion, sent))
    })?;
    match completion {
        Some(completion) => queue(connection, completion, u32::try_from(sent).unwrap_or(u32::MAX)),
        None => Ok(()),
    }
}

/// Sends an element of a vector, and returns how many bytes it was.
///
/// # Safety
/// The vector has an element there, and what it leads to is valid.
unsafe fn send_element(exchange: &mut Exchange, vector: &ResponseVector, at: usize) -> Result<u64, u32> {
    let default = exchange.status();
    // SAFETY: by this function's contract.
    let element = unsafe { &*vector.elements.add(at) };
    match element.kind {
        abi::ELEMENT_MEMORY => {
            let count = u32::try_from(element.bytes).map_err(|_| error::INVALID_PARAMETER)?;
            // SAFETY: likewise.
            let data = unsafe { bytes_of(element.from.cast(), count) };
            exchange.response.write(data, default)?;
            Ok(data.len() as u64)
        }
        abi::ELEMENT_FILE => {
            let file = descriptor(element.from).ok_or(error::INVALID_HANDLE)?;
            let bytes = (element.bytes > 0).then_some(element.bytes);
            exchange.response.send_file(file, element.offset, bytes, default)
        }
        _ => Err(error::INVALID_PARAMETER),
    }
}

/// Writes TRUE or FALSE to where the extension says.
///
/// # Safety
/// The pointer is null or that of a BOOL.
unsafe fn tell(connection: *mut c_void, to: *mut Bool, ask: impl FnOnce(&Exchange) -> bool) -> Result<(), u32> {
    if to.is_null() {
        return Err(error::INVALID_PARAMETER);
    }
    let said = with(connection, |exchange| Ok(ask(exchange)))?;
    // SAFETY: by this function's contract.
    unsafe { *to = Bool::from(said) };
    Ok(())
}

/// A function that is not supported: the log names its number once.
fn unknown(connection: *mut c_void, function: u32) -> Result<(), u32> {
    with(connection, |exchange| {
        if exchange.told.len() < TOLD_MAX && !exchange.told.contains(&function) {
            exchange.told.push(function);
            let words = format!("ServerSupportFunction {function} is not supported: it returns FALSE");
            log::line(exchange.script(), words.as_bytes());
        }
        Err(error::INVALID_PARAMETER)
    })
}
