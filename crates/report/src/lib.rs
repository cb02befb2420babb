//! Views of measures: terminal, HTML and JSON.
//!
//! [`Explanation`] is what `weir explain` found, in the words of the JSON; the views show it and compute nothing new.
//! This crate does not know how the measures were made.
//!
//! # Example
//!
//! ```
//! use weir_report::{Loaded, load_html, nanoseconds};
//!
//! let loaded = Loaded {
//!     subject: "http://127.0.0.1:8080/".to_owned(),
//!     manner: "a closed loop of 10 connections".to_owned(),
//!     requests: 1000,
//!     successes: 1000,
//!     rate_per_s: 500.0,
//!     ..Loaded::default()
//! };
//! let page = load_html(&loaded);
//! assert!(page.starts_with("<!doctype html>") && page.contains("a closed loop of 10 connections"));
//! assert_eq!(nanoseconds(1_234_567.0), "1.23 ms");
//! ```

mod clocks;
mod compared;
mod culprit;
mod explanation;
pub mod github;
mod html;
pub mod junit;
mod loaded;
mod planned;
mod terminal;
mod units;

pub use compared::{Compared, ComparedCase, ComparedPoint, ComparedResult, ComparedSeries, ComparedSubject};
pub use explanation::{
    Asked, Cause, Course, CourseSlice, CpuSpell, Decided, Example, ExampleStep, Explanation, HeldBy, HolderSpell,
    Holding, HostRun, LongLived, MessageFigures, Moved, Moves, ObjectiveResult, Observer, PercentileShares, Phase,
    ProcessShare, Query, Ratio, ServerCpu, SlowCause, SourceCost, Stack, Stages, Transaction, WaitingEdge, Wakeups,
};
pub use html::{colour, compared_html, html, load_html, planned_html};
pub use loaded::{Loaded, LoadedPoint, LoadedRate};
pub use planned::{Planned, PlannedCurve, PlannedPoint, PlannedRow};
pub use terminal::{Style, clean, hanging, terminal};
pub use units::{bytes, count, nanoseconds, percent};
