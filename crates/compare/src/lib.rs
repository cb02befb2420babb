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
//! ```no_run
//! use weir_compare::{Experiment, Interrupt, Plan, terminal_report};
//! # fn plan() -> Plan { panic!("only to compile") }
//! let plan: Plan = plan();
//! let outcome = Experiment::new(plan, Interrupt::default()).run(&mut |_progress| {})?;
//! println!("{}", terminal_report(&outcome, "weir compare ...", false));
//! # Ok::<(), weir_compare::ExperimentError>(())
//! ```
mod accounting;
mod bench;
mod command_line;
mod control_group;
mod cpus;
mod error;
mod experiment;
mod guardian;
mod interrupt;
mod json;
mod load_output;
mod machine;
mod outcome;
mod output_tail;
mod plan;
mod process;
mod process_tree;
mod program;
mod schedule;
mod server;
mod slice;
mod target;
mod terminal;
mod verdict;
mod warning;

pub use accounting::CpuAccounting;
pub use command_line::{CommandLine, CommandLineError};
pub use cpus::{CpuSet, CpuSetError};
pub use error::{ExperimentError, LoadError, MissingPrograms, PlanError, ServerError};
pub use experiment::{Experiment, Progress};
pub use guardian::Guardian;
pub use interrupt::Interrupt;
pub use json::json_report;
pub use load_output::{LoadCounts, LoadOutputError, LoadTool, parse_load_output};
pub use outcome::{Block, Outcome, Slice};
pub use plan::{Case, CpuAccountingChoice, Pinning, Plan, Repetitions, ServerSpec, Subjects};
pub use schedule::{BlockKind, PlannedBlock, Side, schedule};
pub use target::{Target, TargetError};
pub use terminal::terminal_report;
pub use verdict::{Judgement, Metric, verdicts};
pub use warning::warnings;
