//! What breaks the protocol.

use crate::heads::head::NotAHead;
use crate::heads::prefixed::NotABlock;

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

impl From<NotAHead> for Malformed {
    fn from(error: NotAHead) -> Self {
        Self::protocol(error.0)
    }
}

impl From<NotABlock> for Malformed {
    fn from(error: NotABlock) -> Self {
        Self::compression(error.0)
    }
}
