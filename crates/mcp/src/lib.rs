//! The Model Context Protocol (revisions 2024-11-05, 2025-03-26 and 2025-06-18) as a server of tools speaks it.
//!
//! [`read`] takes a line apart, [`Session`] says what is to be done for a message, [`Plan`] is what a tool runs, and
//! [`Plan::told`] what it tells of that. This crate starts no process and reads no clock.

pub mod answer;
mod judged;
mod message;
mod place;
mod run_name;
mod session;
mod tool;

pub use message::{DEPTH_MAX, Id, LINE_BYTES_MAX, Message, MessageError, read};
pub use place::{Place, PlaceError};
pub use run_name::{run_name, run_uri};
pub use session::{Action, Session, contents, resources, tables};
pub use tool::{Done, Plan, Step, Told, Tool, ToolError};
