//! Users: sessions of requests with pauses between them, each over a connection of its own.

mod list;
pub(crate) mod session;

pub use list::{SessionListError, SessionListProblem, parse_sessions};
pub use session::{BURST_MAX, Session, Sessions, Think};
