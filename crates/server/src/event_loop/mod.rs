//! The loop of one core: waits for readiness and gives each connection its turn.

mod adopted_contents;
mod binding;
pub(crate) mod client;
mod connected;
mod driver;
mod eviction;
mod followed;
mod passed_on;
mod refusal;
mod relays;
pub(crate) mod ring_turns;
mod role;
mod role_changes;
pub(crate) mod server;
mod session_answer;
mod session_copies;
mod session_turns;
mod sessions;
pub(crate) mod slab;
mod spare;
mod start;
mod stopping;
mod supervision;
mod tokens;

pub(crate) use driver::EventLoop;
pub(crate) use role::LoopRole;
