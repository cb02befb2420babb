//! HTTP/2 (RFC 9113): many requests under way over each connection.
//!
//! `frames` and `hpack` read what comes and know no socket; `wire` is what goes out, built once; `exchange` is the way
//! of a request; `control` answers what servers say of the connection itself; `lifecycle` holds what happens rarely;
//! `slow` keeps the limits of lines, `stopping` the patience of users; `sessions` are users, each on a connection of its
//! own; `protocol` is what the loop asks of a version of HTTP.
//!
//! A request's way: `exchange` puts the frames of all requests that are ready behind each other and writes them in one
//! go; one read takes the frames of many responses. Nothing is allocated for a request once as many were under way as
//! ever will be.

mod called;
mod control;
mod drive;
mod exchange;
mod failing;
mod following;
pub mod frames;
pub mod hpack;
mod lifecycle;
mod malformed;
mod next;
mod protocol;
mod sending;
mod sessions;
mod slow;
mod state;
mod stopping;
mod streamed;
mod streams;
#[cfg(test)]
mod tests;
mod users;
mod wire;

pub(crate) use control::CANCEL;
pub(crate) use drive::drive;
pub use malformed::Malformed;
pub(crate) use state::engine;
pub(crate) use wire::{FIRST_WINDOW_BYTES, WINDOW_BYTES, Wire, frame, literal, preface};
