//! Results of one experiment after another, kept in a folder, a file each.
//!
//! A file is whole or not there: it is written beside, and linked to its name when it is on the disk. Results of other
//! subjects, cases or machines may be in the same folder; they are told apart by what the files say. What cannot be read
//! is named and passed over.
mod kept;
mod time;
mod trend;

pub use kept::{Figure, Fingerprint, History, HistoryError, KeptResult, KeptResultError};
pub(crate) use time::utc;
pub use trend::{Trend, TrendPoint, Trends};
