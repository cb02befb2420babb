//! What every client of ours holds of servers: heads of responses as servers write them, and whom `--ca` trusts.
//!
//! It owns no socket, clock or file: bytes come from its callers.
//!
//! # Example
//!
//! ```
//! use weir_client::{EndOfHead, status_line};
//!
//! let received = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
//! let mut end = EndOfHead::default();
//! assert_eq!(end.find(&received[..30]), None, "the rest is still to come");
//! let head = end.find(received).map(|end| &received[..end]).expect("the whole head has come");
//! assert_eq!(status_line(head)?.status, 404);
//! # Ok::<(), weir_client::Unlike>(())
//! ```

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
