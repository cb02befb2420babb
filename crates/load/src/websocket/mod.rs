//! WebSockets (RFC 6455): messages over connections that HTTP/1.1 opened, each answered before the next.
//!
//! `exchange` is the way of a message, `lifecycle` how connections are opened and closed, `protocol` what the loop asks
//! of a protocol. `frames`, `utf8` and `handshake` read what comes and know no socket.

mod drive;
mod exchange;
mod failing;
// Open to the tests and fuzz targets of its readers only.
#[doc(hidden)]
pub mod frames;
#[doc(hidden)]
pub mod handshake;
mod lifecycle;
mod protocol;
mod state;
mod utf8;

pub(crate) use drive::drive;
pub(crate) use exchange::{PONGS_BYTES_MAX, SWITCHED};
pub(crate) use handshake::Opening;
pub(crate) use lifecycle::{NO_CLOSE_FRAME, NO_CODE};
pub(crate) use state::{Ask, Echo, Wanted, engine};
