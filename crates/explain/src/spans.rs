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
pub use otlp::otlp;
pub use read::{ForeignSpan, SpansError, read};
pub(crate) use real_time::RealTime;
pub(crate) use sample::Chooser;
pub use sample::{OTHERS, SLOWEST, Sample, Sampled};
