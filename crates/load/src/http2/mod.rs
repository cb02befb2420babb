//! HTTP/2 (RFC 9113): many requests under way over each connection.
//!
//! `frames` and `hpack` read what comes and know no socket; `wire` is what goes out, built once; `engine` is the loop of
//! one thread and in it the way of a request; `control` answers what servers say of the connection itself; `lifecycle`
//! holds what happens rarely; `users` are the sessions, each on a connection of its own.
//!
//! A request's way: `engine` puts the frames of all requests that are ready behind each other and writes them in one go;
//! one read takes the frames of many responses.
//! Nothing is allocated for a request once as many were under way as ever will be.

mod connection;
mod control;
mod engine;
mod failing;
pub mod frames;
pub mod hpack;
mod huffman;
mod lifecycle;
mod next;
mod sending;
#[cfg(test)]
mod used_up;
mod users;
mod wire;

pub(crate) use engine::Engine;
pub(crate) use wire::Wire;

/// The name and the number of a code (RFC 9113 7).
pub(crate) fn code_words(code: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    match NAMES.get(code as usize) {
        Some(name) => format!("{name} ({code})"),
        None => format!("the unknown code {code}"),
    }
}

/// Why a connection of HTTP/2 cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not HTTP/2: {what}")]
pub struct Malformed {
    /// The code that the other side is told (RFC 9113 7).
    pub code: u32,
    /// What is wrong, in words.
    pub what: &'static str,
}

impl Malformed {
    pub(crate) const fn protocol(what: &'static str) -> Self {
        Self { code: 0x1, what }
    }

    pub(crate) const fn flow_control(what: &'static str) -> Self {
        Self { code: 0x3, what }
    }

    pub(crate) const fn frame_size(what: &'static str) -> Self {
        Self { code: 0x6, what }
    }

    pub(crate) const fn compression(what: &'static str) -> Self {
        Self { code: 0x9, what }
    }

    pub(crate) const fn too_much(what: &'static str) -> Self {
        Self { code: 0xb, what }
    }
}
