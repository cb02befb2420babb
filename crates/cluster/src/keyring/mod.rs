//! Keys that the members have in common, and how they change without a restart.
//!
//! The secret of datagrams, the keys of TLS session tickets and the list of revoked certificates are each a value of
//! which the largest counts: members ask each other in turn, and take what is newer (`held.rs`). What they say is in
//! `word.rs`; `answers.rs` answers it, and signs certificates again at the node with the authority.

mod answers;
mod held;
mod word;

pub use answers::{KeyringAnswers, RenewError, renew, show_newest};
pub use held::Keyring;
pub use word::{KeysWord, Shared, TICKETS_MAX, TicketKey};
