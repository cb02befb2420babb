//! Processes that run scripts for `weir serve`, outside the confined server.
//!
//! A runner (`runner.rs`) is a process that answers FastCGI on one connection at a time, one request after the other. It
//! starts a script anew for each request (CGI), or keeps processes that answer one request after the other
//! (CGIplus and what is built on it, `persistent.rs`). A supervisor ([`supervise`]) starts the runners of each pool, watches them, and ends them
//! with the server.
//!
//! All descendants of a script belong to its runner (`PR_SET_CHILD_SUBREAPER` of prctl(2)): when the script has ended,
//! the runner ends what is left of them until the kernel says that it has no children (`children.rs`).

mod account;
mod children;
mod descriptor;
mod engine;
mod environment;
mod exchange;
pub mod fastcgi;
mod first_output;
mod fork;
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod limits;
mod marks;
mod messages;
mod owner;
mod persistent;
mod pool;
mod program;
mod runner;
mod runs;
mod sentinel;
mod signals;
mod spawn;
mod start;
mod steps;
mod supervisor;
mod telling;
mod trouble;
mod variables;

pub use messages::{PoolTold, StuckTold, ToServer, ToSupervisor, Wanted};
pub use pool::{Pool, Way};
pub use supervisor::supervise;
