//! What a server and its node process say about content that lies on other nodes, over a socket of its own: frames as
//! those of [`super::gate`].

use serde::{Deserialize, Serialize};

/// Pieces of a part that may be on their way to the server.
pub(super) const PIECES_AHEAD: u32 = 2;
/// Parts that a server has open at a time.
pub(super) const PARTS_MAX: usize = 1_024;

/// What the server says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    /// Begin with a part of some content.
    Begin {
        /// What it is called from here on.
        part: u64,
        /// The path that a client has asked for, without what is no UTF-8 in it.
        path: String,
        digest: String,
        bytes: u64,
        from: u64,
        to: u64,
    },
    /// A piece has gone on to the client: one more may come.
    More { part: u64 },
    /// Nothing wants it any more.
    Leave { part: u64 },
}

/// What the node process says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Given {
    /// The next piece, as bytes.
    Piece { part: u64 },
    /// No more comes.
    Away { part: u64, why: String },
}
