//! One run by several processes, on one host or many: what they say to each other, and how their parts become one report.
//!
//! An orchestrator has the run's options, the names of its workers and a connection to each; a worker makes its part.
//! [`Orchestrator`] and [`Worker`] are state machines without a clock or a socket: they take what came and the time, and
//! give what is to be sent and done. `LIFECYCLE.md` beside this file tells the life of both.
//!
//! Each worker has each so many'th arrival of the one schedule, so the union of all is the schedule itself; what loops
//! hand out in each interval goes to the orchestrator at once, and the whole tally at the end.

mod bounds;
mod clock;
mod decoder;
mod error;
mod frame;
mod lost;
mod orchestrator;
mod prepared;
mod seat;
#[cfg(test)]
mod tests;
mod worker;

pub use crate::counts::OwnSlice;
pub use crate::run::Made;
pub use bounds::{
    FILES_BYTES_MAX, FRAME_BYTES_MAX, ORPHANED_NS, PIECE_BYTES_MAX, PROTOCOL, RECORD_BYTES_MAX, SILENT_NS, WORKERS_MAX,
};
pub use clock::ClockFilter;
pub use decoder::{Decoder, FrameError, encoded, greeting};
pub use error::{PartError, WorkersError};
pub use frame::{FilePiece, FromWorker, Hello, Job, Message, ToWorker};
pub use orchestrator::{Asked, Orchestrator, Phase, Recorded};
pub use prepared::{Prepared, check_split};
pub use worker::{Act, Worker};
