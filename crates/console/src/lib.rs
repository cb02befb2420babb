//! The console: a page over recorded runs and over a running server, and the JSON API that it asks.
//!
//! [`Console::begin`] finds the runs below some directories and serves the page on this host alone.
//! `guard.rs` decides who may ask, `site.rs` which call a target is, `opened.rs` what was read of a run.
//! All figures come from the libraries of the commands: `weir explain` (`weir_explain`), `weir sql` (`weir_query`) and
//! `weir view` (`weir_tiles`); the page draws them and computes none.
//! What a load does now it tells in a file of its run (`now.rs` reads it, `loads.rs` finds it).
//! A running server is asked by a [`LiveServer`], which the caller gives (`server.rs`; `live.rs` has the calls): its token is not known here.
//! Within a server's own admin address the console is a [`Mounted`].
//! So are the member of a cluster (`cluster.rs`) and the agent of business transactions (`transactions.rs`) that it was given.
//! This crate knows neither options nor signals.

mod admission;
mod bundle;
mod cluster;
mod difference;
mod figures;
mod filter;
mod guard;
mod live;
mod loads;
mod mounted;
mod now;
mod opened;
mod parameters;
mod places;
mod questions;
mod refusal;
mod replay;
mod requests;
mod runs;
mod server;
mod serving;
mod site;
mod transactions;

pub use cluster::{ClusterQuestion, LiveCluster};
pub use loads::running_load;
pub use mounted::Mounted;
pub use now::{NOW_FILE, NOW_POINTS_MAX, NOW_SCHEMA};
pub use refusal::ConsoleError;
pub use replay::{LiveReplay, Replayed};
pub use server::{Ended, LiveError, LiveServer, Question};
pub use serving::{Console, Settings};
pub use transactions::{AgentQuestion, LiveAgent, TopOrder};
