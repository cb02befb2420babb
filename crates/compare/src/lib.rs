//! Experiments that hold: interleaving, pairing, verdict.
//!
//! A [`Plan`] says what is held against what; an [`Experiment`] carries it out and gives an
//! [`Outcome`] with every raw block; [`verdicts`] and [`warnings`] are pure functions of that.
//! Nothing here knows how a server or a load is made: both are command lines.
//!
//! What makes the result hold: A and B are measured in pairs, one right after the other, in an
//! order drawn for each block; servers and load are kept to CPUs of their own; a subject's CPU
//! time is that of its whole process tree; and A is held against itself in between, which tells
//! what the machine alone makes of no difference at all.
//!
//! # The way of a comparison
//!
//! 1. `plan_file.rs` reads a plan, `pair.rs` makes one of two commands; both give the value of `plan.rs`.
//!    `plan_subject.rs` reads a subject's entry; `ready_made.rs` fills in a ready-made server (`studies/subjects/`), on
//!    a port of `ports.rs`; `workplace.rs` writes and removes its files, and for TLS a certificate (`certificate.rs`).
//! 2. `schedule.rs` draws the order: rounds of one block a case, each order reversed in the next block.
//! 3. `experiment.rs` starts servers (`server.rs`, `process.rs`), measures slices (`slice.rs`), begins a block anew
//!    whose slice failed, and ends every process at the end, also after a failure (`guardian.rs`).
//! 4. `results.rs` keeps each complete block and observed slice and locks its folder; `left_behind.rs` ends what a
//!    server leaves, `listener.rs` names the process that holds its port. After the last block `observing.rs` observes
//!    a few slices more, which are in no figure of the blocks.
//! 5. `verdict.rs` judges the metrics of `metric.rs` by the formulas of `weir-measure` (`comparison`, `signed_rank`,
//!    `family`, `power`).
//! 6. `facts.rs` sums up what each subject used and how it served (`observed.rs`, `fairness.rs`, `curve.rs`), and
//!    `reasons.rs` says why one is slower: the parts of observed responses that differ by more than their noise.
//! 7. `terminal.rs`, `details.rs`, `markdown.rs`, `json.rs` and `junit.rs` show the outcome, and `page.rs` puts it into
//!    the words of the page of `weir-report` (`html/compare_page.rs`).
//! 8. `conclusion.rs` keeps the end for later reports, `history.rs` keeps it with earlier results, and
//!    `history/trend.rs` tells what has shifted by the formulas of `weir-measure` (`shift`, `mann_whitney`).
//!
//! # Example
//!
//! A plan names what is compared, and the schedule draws the order:
//!
//! ```
//! use std::path::Path;
//! use weir_compare::{Defaults, Pinning, PlannedBlock, Role, Schedule, read_plan};
//!
//! let text = r#"
//!     [[subject]]
//!     name = "old"
//!     command = "old-server --port 8081"
//!     url = "http://127.0.0.1:8081/"
//!     [[subject]]
//!     name = "new"
//!     command = "new-server --port 8082"
//!     url = "http://127.0.0.1:8082/"
//! "#;
//! let pinning = Pinning { server: None, load: None, beside: None };
//! let defaults = Defaults { load: "weir load {url}".parse()?, pinning, seed: 1, weir: "weir".to_owned() };
//! let plan = read_plan(text, Path::new("plan.toml"), &defaults)?;
//! let mut schedule = Schedule::new(&plan);
//! let subjects = |block: &PlannedBlock| -> Vec<Role> {
//!     block.order.iter().copied().filter(|role| *role != Role::Again).collect()
//! };
//! let (first, second) = (subjects(&schedule.round()[0]), subjects(&schedule.round()[0]));
//! // Each subject comes first equally often.
//! assert!(first.iter().eq(second.iter().rev()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An experiment carries the plan out:
//!
//! ```no_run
//! use weir_compare::{Experiment, ExperimentError, Interrupt, Plan, terminal_report};
//!
//! fn compare(plan: Plan) -> Result<(), ExperimentError> {
//!     let outcome = Experiment::new(plan, Interrupt::default()).run(&mut |_progress| {})?;
//!     println!("{}", terminal_report(&outcome, "weir compare ...", false));
//!     Ok(())
//! }
//! ```
mod accounting;
mod bench;
mod certificate;
mod command_line;
mod conclusion;
mod control_group;
mod cpu_time;
mod cpus;
mod curve;
mod details;
mod error;
mod experiment;
mod facts;
mod fairness;
mod false_verdicts;
mod gate;
mod guardian;
mod history;
mod host;
mod interrupt;
mod json;
mod junit;
mod left_behind;
mod listener;
mod load_output;
mod machine;
mod markdown;
mod measured_slice;
mod metric;
mod observed;
mod observing;
mod outcome;
mod output_tail;
mod page;
mod pair;
mod plan;
mod plan_file;
mod plan_mistake;
mod plan_subject;
mod ports;
mod process;
mod process_tree;
mod program;
mod quantity;
mod ready_made;
mod reasons;
mod request_errors;
mod resources;
mod results;
mod sample_site;
mod schedule;
mod server;
mod slice;
mod target;
mod terminal;
mod verdict;
mod warning;
mod workplace;

pub use accounting::CpuAccounting;
pub use command_line::{CommandLine, CommandLineError};
pub use conclusion::Conclusion;
pub use cpus::{CpuSet, CpuSetError};
pub use curve::Curve;
pub use details::terminal_details;
pub use error::{ExperimentError, LoadError, MissingPrograms, PlanError, ServerError};
pub use experiment::{Complete, Experiment, Progress};
pub use facts::{CurvePoints, SubjectFacts, subject_facts};
pub use fairness::{Fairness, TypicalFairness};
pub use false_verdicts::{FALSE_VERDICTS, blocks_for_a_verdict};
pub use gate::{GateKind, GateReason, gate};
pub use guardian::Guardian;
pub use history::{Figure, Fingerprint, History, HistoryError, KeptResult, KeptResultError, Trend, TrendPoint, Trends};
pub use host::Host;
pub use interrupt::Interrupt;
pub use json::json_report;
pub use junit::junit_report;
pub use load_output::{Latency, LoadCounts, LoadDetails, LoadOutputError, LoadTool, parse_load_output};
pub use markdown::markdown_report;
pub use measured_slice::{Memory, Slice};
pub use metric::{Measured, Metric};
pub use observed::{Observed, PartMean, Parts};
pub use observing::Observer;
pub use outcome::{Block, BlockSlice, Ending, FailedSlice, Outcome};
pub use page::{PageContext, html_report};
pub use pair::Pair;
pub use plan::{
    Asked, Case, CpuAccountingChoice, LOAD_TIMEOUT_S, Need, PartsChoice, Pinning, Plan, Readiness, Repetitions,
    SMALLEST_EFFECT, SUBJECTS_MAX, ServerSpec, Subject, UNTIMED_LOAD_TIMEOUT_S,
};
pub use plan_file::{Defaults, PlanFileError, read_plan};
pub use plan_mistake::PlanMistake;
pub use ports::{NoFreePort, Ports};
pub use quantity::{CpuWord, Fraction, FractionError, Seconds};
pub use ready_made::{Filling, ReadyMade, ReadyMadeError, ready_made};
pub use reasons::{PartDifference, Reasons, ResponseDifference, reasons};
pub use request_errors::{Errors, errors};
pub use results::{Results, ResultsError, Resumed};
pub use sample_site::SAMPLE_FILES;
pub use schedule::{PlannedBlock, Role, Schedule};
pub use target::{Target, TargetError};
pub use terminal::terminal_report;
pub use verdict::{Judgement, judged, verdicts};
pub use warning::warnings;
