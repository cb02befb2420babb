//! The agent: takes in what ARM clients record, makes transactions of it, folds, keeps and hands them on.
//!
//! What clients write is not trusted: nothing of it is used before it was looked at, and everything that is kept of
//! it has a bound, beyond which it is counted.
//!
//! # Example
//!
//! ```
//! use weir_agent::protocol::{Answer, Ask};
//! use weir_agent::{Agent, Settings};
//!
//! let folder = tempfile::tempdir()?;
//! let settings = Settings { directory: folder.path().join("arm"), ..Settings::default() };
//! // Without a keeper, figures end with the agent; without an outlet, only those who ask get them.
//! let agent = Agent::start(settings, None, None)?;
//! let Answer::Status(status) = agent.ask(Ask::Status) else { panic!("the agent answers what it is asked") };
//! assert_eq!((status.processes, status.running), (0, 0));
//! agent.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accept;
pub mod agent;
mod agent_loop;
pub mod agent_state;
mod answers;
mod asker;
pub mod attributes;
pub mod classes;
pub mod client;
pub mod connection;
pub mod definitions;
pub mod directory;
pub mod export;
pub mod finished;
pub mod folds;
mod handover;
pub mod host;
mod intake;
pub mod journal;
pub mod keeper;
mod keeping;
pub mod keyed;
mod lane;
pub mod lane_records;
pub mod memory;
pub mod notes;
pub mod outlet;
mod pacing;
pub mod pairing;
pub mod protocol;
pub mod recent;
mod running;
mod settings;
pub mod socket;
pub mod spans;
pub mod subscription;
pub mod switches;

pub mod transaction;
pub mod tree;
pub mod users;
pub mod waits;
pub mod watch;

pub use agent::{Agent, Asker, Settings, StartError};
pub use outlet::Outlet;
pub use subscription::Subscription;
pub use waits::Waits;
