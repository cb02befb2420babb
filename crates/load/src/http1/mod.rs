//! HTTP/1: one request at a time on a connection, or a pipeline.
//!
//! `exchange` is the way of a request, `lifecycle` what happens to connections beside it, `protocol` what the loop
//! asks of a version of HTTP. `response`, `framing` and `chunked` read what comes and know no socket.

mod account;
mod chunked;
mod connection;
mod directed;
mod drive;
mod exchange;
mod failing;
mod following;
mod framing;
mod lifecycle;
mod malformed;
mod protocol;
// Open to the tests and fuzz targets of its readers only.
#[doc(hidden)]
pub mod response;
mod ring;
mod sessions;
mod slow;
mod state;
mod streamed;
mod switched;
mod through_ring;

pub(crate) use drive::drive;
pub(crate) use state::engine;
