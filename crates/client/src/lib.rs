//! What every client of ours holds of servers: heads of responses as servers write them, and whom `--ca` trusts.
//!
//! It owns no socket, clock or file: bytes come from its callers.

pub mod anchored;
pub mod head;
pub mod oddity;
pub mod other;
pub mod tls_words;
mod validity;

pub use anchored::Anchored;
pub use head::{EndOfHead, HEAD_BYTES_MAX, StatusLine, judge, rewrite, status_line};
pub use oddity::{Oddities, Oddity};
pub use other::Unlike;
