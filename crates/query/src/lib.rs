//! A recorded run as tables, and questions to them in SQL.
//!
//! [`TABLES`] describes the tables. Those that hold what the recording says as it is (`raw`) are read from the segments
//! while a question is answered, only the blocks of the time that it asks for. Those that must be made of the whole
//! recording (`derived`) are made once, group by group as questions need them, and kept in the folder `derived` of the
//! run, which may be removed at any time. [`Queries`] answers questions, and refuses what would change anything.
//! [`SAVED`] are questions that people ask.
//!
//! This crate knows neither how rows are shown nor the formats of other tools.

mod cell;
mod decisions;
mod derived;
mod error;
mod hosts;
mod names;
mod objects;
mod progress;
mod raw;
mod reference;
mod requests;
mod run_row;
mod saved;
mod schema;
mod session;
mod stacks;
mod stream;
mod tasks;
mod writer;

pub use cell::Cell;
pub use derived::MISSING_ARRIVALS;
pub use error::QueryError;
pub use progress::{Progress, Watch};
pub use reference::{TABLES_HEADING, reference};
pub use saved::{SAVED, Saved, saved};
pub use schema::{Column, ColumnKind, Group, Origin, TABLES, Table};
pub use session::{Ended, Queries};
