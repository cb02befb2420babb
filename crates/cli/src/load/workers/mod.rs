//! `weir load --workers` and `weir worker`: one run by several processes, on one host or many.
//!
//! `weir_load::workers` has the state machines of both sides; here are the options, the connections, and the threads that
//! read and write them.

mod args;
mod child;
mod conduct;
mod limits;
mod own_record;
mod place;
mod reading;
mod records;
mod session;
mod tell;
mod tls;
mod words;
mod worker_args;

pub(super) use args::WorkersArgs;
pub(super) use conduct::{ByWorkers, Conducted, conduct};
pub(super) use tell::{as_json, lost_of, write as write_workers};
pub(crate) use worker_args::{Args as WorkerArgs, run as run_worker};
