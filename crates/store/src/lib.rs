//! What happened minute by minute, and some of it whole, kept within bounds of age and bytes in one SQLite file.
//!
//! A *minute* of a *series* holds how often each outcome came and a histogram of the durations; minutes merge exactly,
//! so frequent writes and rare writes leave the same behind. A *record* is one event whole, as a text that the store
//! does not look into. A *setting* is a text with a name.
//!
//! The file survives its writer's `kill -9` at any time, and a full disk: what is written is written whole or not at
//! all, and the error says which. The store knows no clock: the caller says what time it is.
//!
//! # Example
//!
//! ```
//! use weir_store::{Batch, Fold, Limits, Minute, Outcome, Select, Series, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let mut store = Store::open(&folder.path().join("kept.sqlite"), Limits::default())?;
//! let series = Series { source: "shop".to_owned(), class: "checkout".to_owned(), ..Series::default() };
//! let mut fold = Fold::default();
//! fold.outcomes[Outcome::Good as usize] += 1;
//! fold.durations.push(3_000_000);
//! let minute = 29_000_000;
//! let batch = Batch { minutes: vec![Minute { minute, series, fold }], ..Batch::default() };
//! // What is written twice is counted twice: minutes merge.
//! store.write(&batch, minute * 60_000)?;
//! store.write(&batch, minute * 60_000)?;
//! let sums = store.reader()?.summed(&Select::default(), |series| series.class.clone())?;
//! assert_eq!(sums["checkout"].count(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod fold;
mod reading;
mod retention;
mod schema;
mod series;
mod store;
mod writing;

pub use error::StoreError;
pub use fold::{Fold, Outcome};
pub use reading::Reader;
pub use schema::check_store;
pub use series::{Minute, Record, Select, Series};
pub use store::{Limits, Store, Written};
pub use writing::Batch;
