//! What every client of ours holds of servers: heads of responses as servers write them, and whom `--ca` trusts.
//!
//! It owns no socket, clock or file: bytes come from its callers.

mod alike;
pub mod anchored;
mod der;
pub mod head;
mod key_bits;
pub mod oddity;
pub mod other;
pub mod tls_words;
mod validity;

pub use alike::Alike;
pub use anchored::Anchored;
pub use head::{EndOfHead, HEAD_BYTES_MAX, StatusLine, judge, rewrite, status_line};
pub use key_bits::key_bits;
pub use oddity::{Oddities, Oddity};
pub use other::Unlike;
