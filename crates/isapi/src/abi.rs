//! The structures and numbers of ISAPI's C interface, laid out as in `native/isapi/httpext.h`.

use std::ffi::{c_char, c_int, c_void};

/// TRUE or FALSE.
pub(crate) type Bool = c_int;
pub(crate) const TRUE: Bool = 1;
pub(crate) const FALSE: Bool = 0;

/// The version of the interface in a control block: 6.0.
pub(crate) const VERSION: u32 = 6 << 16;
/// Bytes of the text for the log in a control block.
pub(crate) const LOG_BYTES: usize = 80;
/// Bytes of the description of an extension.
pub(crate) const DESCRIPTION_BYTES: usize = 256;
/// Bytes of the path in a [`MapInfo`].
pub(crate) const PATH_BYTES: usize = 260;

/// What `HttpExtensionProc` returns, and what `HSE_REQ_DONE_WITH_SESSION` is told.
pub(crate) mod status {
    pub(crate) const PENDING: u32 = 3;
    pub(crate) const ERROR: u32 = 4;
}

/// Numbers that `GetLastError` gives.
pub(crate) mod error {
    pub(crate) const INVALID_HANDLE: u32 = 6;
    pub(crate) const NOT_ENOUGH_MEMORY: u32 = 8;
    pub(crate) const READ_FAULT: u32 = 30;
    pub(crate) const HANDLE_EOF: u32 = 38;
    pub(crate) const NETNAME_DELETED: u32 = 64;
    pub(crate) const INVALID_PARAMETER: u32 = 87;
    pub(crate) const INSUFFICIENT_BUFFER: u32 = 122;
    pub(crate) const INVALID_INDEX: u32 = 1413;
}

/// Flags of writing and of sending files.
pub(crate) mod io {
    pub(crate) const ASYNC: u32 = 2;
    pub(crate) const DISCONNECT_AFTER_SEND: u32 = 4;
    pub(crate) const SEND_HEADERS: u32 = 8;
    pub(crate) const FINAL_SEND: u32 = 16;
}

/// What `ServerSupportFunction` is asked for.
pub(crate) mod request {
    pub(crate) const SEND_URL_REDIRECT_RESP: u32 = 1;
    pub(crate) const SEND_URL: u32 = 2;
    pub(crate) const SEND_RESPONSE_HEADER: u32 = 3;
    pub(crate) const DONE_WITH_SESSION: u32 = 4;
    pub(crate) const MAP_URL_TO_PATH: u32 = 1001;
    pub(crate) const APPEND_LOG_PARAMETER: u32 = 1003;
    pub(crate) const IO_COMPLETION: u32 = 1005;
    pub(crate) const TRANSMIT_FILE: u32 = 1006;
    pub(crate) const IS_KEEP_CONN: u32 = 1008;
    pub(crate) const ASYNC_READ_CLIENT: u32 = 1010;
    pub(crate) const MAP_URL_TO_PATH_EX: u32 = 1012;
    pub(crate) const SEND_RESPONSE_HEADER_EX: u32 = 1016;
    pub(crate) const IS_CONNECTED: u32 = 1018;
    pub(crate) const VECTOR_SEND: u32 = 1037;
}

/// `TerminateExtension` is told that the library goes in any case.
pub(crate) const MUST_UNLOAD: u32 = 2;
/// The file of a mapped path may be read.
pub(crate) const MAY_READ: u32 = 1;

/// `HSE_VERSION_INFO`.
#[repr(C)]
pub(crate) struct VersionInfo {
    pub(crate) version: u32,
    pub(crate) description: [u8; DESCRIPTION_BYTES],
}

/// `EXTENSION_CONTROL_BLOCK`.
#[repr(C)]
pub(crate) struct ControlBlock {
    pub(crate) size: u32,
    pub(crate) version: u32,
    pub(crate) connection: *mut c_void,
    pub(crate) http_status: u32,
    pub(crate) log_data: [u8; LOG_BYTES],
    pub(crate) method: *mut c_char,
    pub(crate) query_string: *mut c_char,
    pub(crate) path_info: *mut c_char,
    pub(crate) path_translated: *mut c_char,
    pub(crate) total_bytes: u32,
    pub(crate) available_bytes: u32,
    pub(crate) data: *mut u8,
    pub(crate) content_type: *mut c_char,
    pub(crate) get_server_variable: GetServerVariable,
    pub(crate) write_client: WriteClient,
    pub(crate) read_client: ReadClient,
    pub(crate) server_support_function: ServerSupportFunction,
}

pub(crate) type GetServerVariable = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, *mut u32) -> Bool;
pub(crate) type WriteClient = unsafe extern "C" fn(*mut c_void, *const c_void, *mut u32, u32) -> Bool;
pub(crate) type ReadClient = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut u32) -> Bool;
pub(crate) type ServerSupportFunction = unsafe extern "C" fn(*mut c_void, u32, *mut c_void, *mut u32, *mut u32) -> Bool;

/// `PFN_HSE_IO_COMPLETION`: block, context, bytes, error.
pub(crate) type IoCompletion = unsafe extern "C" fn(*mut ControlBlock, *mut c_void, u32, u32);
pub(crate) type GetExtensionVersion = unsafe extern "C" fn(*mut VersionInfo) -> Bool;
pub(crate) type HttpExtensionProc = unsafe extern "C" fn(*mut ControlBlock) -> u32;
pub(crate) type TerminateExtension = unsafe extern "C" fn(u32) -> Bool;

/// `HSE_SEND_HEADER_EX_INFO`.
#[repr(C)]
pub(crate) struct HeaderInfo {
    pub(crate) status: *const c_char,
    pub(crate) header: *const c_char,
    pub(crate) status_bytes: u32,
    pub(crate) header_bytes: u32,
    pub(crate) keeps_connection: Bool,
}

/// `HSE_TF_INFO`.
#[repr(C)]
pub(crate) struct FileInfo {
    pub(crate) completion: Option<IoCompletion>,
    pub(crate) context: *mut c_void,
    /// A file descriptor in place of a handle.
    pub(crate) file: *mut c_void,
    pub(crate) status: *const c_char,
    pub(crate) bytes: u32,
    pub(crate) offset: u32,
    pub(crate) head: *const u8,
    pub(crate) head_bytes: u32,
    pub(crate) tail: *const u8,
    pub(crate) tail_bytes: u32,
    pub(crate) flags: u32,
}

/// `HSE_URL_MAPEX_INFO`.
#[repr(C)]
pub(crate) struct MapInfo {
    pub(crate) path: [u8; PATH_BYTES],
    pub(crate) flags: u32,
    pub(crate) path_bytes: u32,
    pub(crate) url_bytes: u32,
    pub(crate) reserved: [u32; 2],
}

/// `HSE_RESPONSE_VECTOR`.
#[repr(C)]
pub(crate) struct ResponseVector {
    pub(crate) flags: u32,
    pub(crate) status: *const c_char,
    pub(crate) header: *const c_char,
    pub(crate) count: u32,
    pub(crate) elements: *const VectorElement,
}

/// `HSE_VECTOR_ELEMENT`: memory, or a part of a file.
#[repr(C)]
pub(crate) struct VectorElement {
    pub(crate) kind: u32,
    pub(crate) from: *mut c_void,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// A [`VectorElement`] of memory.
pub(crate) const ELEMENT_MEMORY: u32 = 0;
/// A [`VectorElement`] of a file, by its descriptor.
pub(crate) const ELEMENT_FILE: u32 = 1;
/// Elements of a vector, at most.
pub(crate) const ELEMENTS_MAX: u32 = 1024;

/// Sets what the macro `GetLastError` of the header reads in this thread: `errno`.
pub(crate) fn set_last_error(code: u32) {
    // SAFETY: the address of this thread's errno is valid as long as the thread.
    unsafe { *libc::__errno_location() = code.cast_signed() };
}

/// TRUE, or FALSE with the error for `GetLastError`.
pub(crate) fn answer(result: Result<(), u32>) -> Bool {
    match result {
        Ok(()) => TRUE,
        Err(code) => {
            set_last_error(code);
            FALSE
        }
    }
}
