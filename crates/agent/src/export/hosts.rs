//! Transactions across hosts: agents pass on what belongs to a trace of another host.
//!
//! ```text
//! receiver   magic 8 | its random bytes 32
//! sender     its random bytes 32 | proof 32
//! receiver   proof 32
//! sender     length 4 | proof 32 | a transaction as JSON, or nothing as a sign of life      again and again
//! receiver   how many it has taken, 8 bytes                                                 after each of them
//! ```
//!
//! Numbers have their highest byte first. A proof is HMAC-SHA256 with the hosts' common key over a word, both sides'
//! random bytes, the number of the frame and its content: so both know that the other has the key, nothing can be
//! changed, left out or said again. It is not secret: over networks that are not trusted it needs a tunnel.

mod acceptor;
mod frames;
mod peer;
mod queue;

pub(crate) use acceptor::Acceptor;
pub(crate) use frames::{Key, MOST_PEERS, frame};
pub(crate) use peer::Peer;

#[cfg(test)]
mod tests;
