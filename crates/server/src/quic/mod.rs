//! QUIC (RFC 9000) by quinn-proto, which does no input and output, within the event loops.
//!
//! `socket.rs` has a UDP socket for each loop and address, `ids.rs` leads a connection's datagrams back to its loop,
//! and `endpoint.rs` is what a loop does with one such socket: datagrams in, turns of the connections of `http3/`,
//! datagrams out, timers. There is no thread beside the loops, and no datagram goes from one loop to another.
//! `handover.rs` is for a server that takes the sockets of another one over: it hands the other one's datagrams on to
//! it.

mod endpoint;
mod handed;
mod handover;
mod ids;
pub(crate) mod predecessor;
mod settings;
mod socket;

pub(crate) use endpoint::Endpoint;
pub(crate) use handover::{Estate, Former};
pub(crate) use settings::{QUIC_MAX, config};
pub(crate) use socket::{Opened, QuicSocket, open};
