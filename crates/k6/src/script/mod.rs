//! A user's script: its sources, its own JavaScript runtime in a coroutine, and what the runtime is given.
//!
//! ```text
//! Begins -> default() -> http.get -> [Ask] .. Answered -> sleep -> [Sleep] .. Woke -> [Over] .. Begins
//! ```
//!
//! Scripts of k6 are synchronous, so that a request suspends the coroutine in the middle of the script.

mod builtin;
mod cut;
mod host;
mod hosts;
mod loading;
#[cfg(test)]
mod socket_tests;
mod sources;
mod stack;
mod state;
#[cfg(test)]
mod tests;
mod user;
mod world;

pub(crate) use hosts::Hosts;
pub(crate) use sources::Sources;
pub(crate) use user::{ScriptUser, Session, Told};
pub(crate) use world::{Bounds, ScenarioOf, Settings, World};
