//! Takes requests for scripts from web servers of other hosts: FastCGI over TCP with TLS, where both sides show
//! certificates.
//!
//! A connection has a thread of its own (`connection.rs`). It takes the handshake (`channel.rs`, `trust.rs`), reads a
//! request's variables, finds the script below the directories of this host (`mounts.rs`), writes the variables anew
//! (`parameters.rs`), and passes body and response between the connection and a runner of `weir-scripts` (`relay.rs`). Nothing that
//! the peer says of files is believed. Connections, requests and lines of the log have bounds, and what is turned away
//! is counted (`counts.rs`, `journal.rs`). Another configuration holds from the next request on (`shared.rs`).

mod channel;
mod connection;
mod counts;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod intake;
mod journal;
mod mounts;
mod parameters;
mod refusal;
mod relay;
mod server;
mod settings;
mod shared;
mod trust;

pub use counts::Counts;
pub use error::ServerError;
pub use server::{Prepared, Reloader, Running};
pub use settings::{Mount, Settings, TlsFiles};
pub use trust::TrustError;
