//! HTTP/3 (RFC 9114) over QUIC (RFC 9000): many requests under way over each connection, none waiting for another's
//! packets.
//!
//! `frames`, `inbound` and `qpack` read what comes and know no socket; `wire` is what goes out, built once; `transport`
//! is QUIC itself, by quinn-proto, which owns neither clock nor socket. Each connection has a UDP socket of its own, as
//! each stands for a user.
//!
//! A request's way: `exchange` puts it on a stream; `sending` has QUIC make datagrams of all that is ready and gives
//! them to the kernel in one go; `receiving` takes what one call brought and finishes the responses that are whole.
//! `handshake` makes a connection, with 0-RTT where that is asked for; `moving` changes its port; `line` and `slow` are the
//! line of a slow client, `stopping` the patience of users; `failing` and `lifecycle` hold what happens rarely; `protocol` is what
//! the loop asks of a version of HTTP.

mod drive;
mod exchange;
mod failing;
mod following;
pub mod frames;
mod handshake;
pub mod inbound;
mod integers;
mod lifecycle;
mod line;
mod malformed;
mod moving;
mod next;
mod protocol;
pub mod qpack;
mod receiving;
mod sending;
mod slow;
mod state;
mod static_table;
mod stopping;
mod streams;
mod transport;
mod wire;

pub(crate) use drive::drive;
pub use malformed::Malformed;
pub(crate) use state::engine;
pub(crate) use wire::Wire;
