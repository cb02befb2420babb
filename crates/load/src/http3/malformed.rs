//! What breaks the protocol.

use crate::heads::head::NotAHead;
use crate::heads::prefixed::NotABlock;

/// Codes of RFC 9114 8.1 and RFC 9204 6 by which this client ends streams and connections.
pub(crate) mod code {
    pub(crate) const NO_ERROR: u64 = 0x100;
    pub(crate) const STREAM_CREATION_ERROR: u64 = 0x103;
    pub(crate) const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    pub(crate) const FRAME_UNEXPECTED: u64 = 0x105;
    pub(crate) const FRAME_ERROR: u64 = 0x106;
    pub(crate) const EXCESSIVE_LOAD: u64 = 0x107;
    pub(crate) const ID_ERROR: u64 = 0x108;
    pub(crate) const SETTINGS_ERROR: u64 = 0x109;
    pub(crate) const MISSING_SETTINGS: u64 = 0x10a;
    pub(crate) const REQUEST_REJECTED: u64 = 0x10b;
    pub(crate) const REQUEST_CANCELLED: u64 = 0x10c;
    pub(crate) const MESSAGE_ERROR: u64 = 0x10e;
    pub(crate) const DECOMPRESSION_FAILED: u64 = 0x200;
    pub(crate) const ENCODER_STREAM_ERROR: u64 = 0x201;
    pub(crate) const DECODER_STREAM_ERROR: u64 = 0x202;
}

/// Why a connection of HTTP/3, or one response on it, cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not HTTP/3: {what}")]
pub struct Malformed {
    /// The code that the other side is told (RFC 9114 8.1, RFC 9204 6).
    pub code: u64,
    /// What is wrong, in words.
    pub what: &'static str,
}

impl Malformed {
    pub(crate) const fn new(code: u64, what: &'static str) -> Self {
        Self { code, what }
    }

    pub(crate) const fn compression(what: &'static str) -> Self {
        Self { code: code::DECOMPRESSION_FAILED, what }
    }

    /// A response that is none; the connection is sound (RFC 9114 4.1.2).
    pub(crate) const fn message(what: &'static str) -> Self {
        Self { code: code::MESSAGE_ERROR, what }
    }

    /// Whether only the response is wrong.
    pub(crate) fn is_of_message(self) -> bool {
        self.code == code::MESSAGE_ERROR
    }
}

impl From<NotAHead> for Malformed {
    fn from(error: NotAHead) -> Self {
        Self::message(error.0)
    }
}

impl From<NotABlock> for Malformed {
    fn from(error: NotABlock) -> Self {
        Self::compression(error.0)
    }
}
