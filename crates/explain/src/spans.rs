//! Explained requests as spans of OpenTelemetry: each with its parts as children.
//!
//! Not all are handed on: the slowest, whole, and as many of the others, drawn evenly, each with the number of requests
//! that it stands for.

mod beside;
mod contexts;
mod otlp;
mod read;
mod real_time;
mod sample;

pub(crate) use beside::Laying;
pub use beside::{Beside, BesideClass};
pub(crate) use contexts::Contexts;
pub use otlp::{Origin, body, otlp};
pub use read::{ForeignSpan, SpansError, read};
pub use real_time::RealTime;
pub(crate) use sample::{Chooser, id_of, key_of};
pub use sample::{OTHERS, SLOWEST, Sample, Sampled};
