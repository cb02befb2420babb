//! The tables of a recorded run in the formats of other tools: CSV, Perfetto, Chrome, CTF, pprof.
//!
//! Rows come from [`weir_query::Queries`] one after the other and are written as they come, so that memory does not
//! grow with the run. This crate knows no segments, and no kinds of events but in `ctf.rs`: what it tells is what the tables tell.

mod charts;
mod chrome;
mod csv;
mod ctf;
mod error;
mod perfetto;
mod pprof;
mod protobuf;
mod rows;

pub use charts::{Chart, Charted};
pub use chrome::chrome;
pub use csv::{Written, csv};
pub use ctf::{Traced, ctf};
pub use error::ExportError;
pub use perfetto::perfetto;
pub use pprof::{Profiled, pprof};
pub use rows::{csv_head, csv_row, json_row};
