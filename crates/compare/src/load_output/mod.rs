//! How many requests a load command did, read from what it printed.
mod ab;
mod counts;
mod h2load;
mod hey;
mod httperf;
mod parse;
mod text;
mod weir;
mod wrk;

pub use counts::{Latency, LoadCounts, LoadDetails, LoadTool};
pub use parse::{LoadOutputError, parse_load_output};
