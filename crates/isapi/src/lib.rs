//! Runs extensions with ISAPI's C interface: shared libraries with `GetExtensionVersion` and `HttpExtensionProc`.
//!
//! [`run`] is the whole life of a persistent script process that speaks CGIplus in struct mode:
//!
//! 1. `streams.rs` moves the descriptors away from where an extension writes or reads by accident.
//! 2. `request_stream.rs` reads the variables of a request, `body.rs` the first part of its body.
//! 3. `library.rs` loads the library that SCRIPT_FILENAME names, or finds it loaded.
//! 4. `host.rs` calls it with a control block (`abi.rs`), whose functions stand in `callbacks.rs` and `support.rs`.
//! 5. `response.rs` collects what it writes, and ends the response with the sentinel.
//!
//! An extension that crashes ends the process: its parent answers that one request and starts another process.

mod abi;
mod body;
mod callbacks;
mod exchange;
mod head;
mod host;
mod library;
mod log;
mod paths;
#[doc(hidden)]
pub mod request_stream;
mod response;
mod server_variables;
mod streams;
mod support;

pub use host::run;
