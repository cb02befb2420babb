//! WebSockets (RFC 6455) for tests: an upstream that sends frames back, and clients that check each echo. Thousands of
//! sockets take one thread on either side.

mod clients;
mod echo;
mod frame;
mod poll;

pub use clients::{Clients, Counts, Plan};
pub use echo::Echo;
