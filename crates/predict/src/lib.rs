//! From what requests did in a trace to what they would do elsewhere: at another rate, with more workers, on other
//! CPUs, or with a part of their work made faster.
//!
//! A [`Trace`] holds the requests as chains of [`Visit`]s: CPU time of a pool's tasks, work of disks, and delays. The waits for CPUs,
//! workers and connections are left out of it, because [`predict`] makes them anew.
//! Everything is made from seeds: the same trace, change and seed give the same figures.
//! This crate opens no file and knows no clock.
//!
//! # The way of a prediction
//!
//! 1. `trace.rs` says what requests did, `check.rs` refuses a trace that supports no prediction.
//! 2. `change.rs` reads what is to be different and applies it.
//! 3. `demand.rs` adds up service demands, and finds the bottleneck and the saturation point.
//! 4. `mva.rs` has the exact and approximate solutions of closed networks, `layers.rs` uses them for pools above CPUs.
//! 5. `program.rs` makes operations of visits, and `simulator.rs` carries them out; `found.rs` chooses the requests.
//! 6. `prediction.rs` repeats the simulation with resampled requests and puts the answer together.
//! 7. `effect.rs` says what a proposed change does to the mean response.
//! 8. `usl.rs` fits the universal scalability law beside it, `jmt.rs` writes the model for Java Modelling Tools.

mod change;
mod check;
mod demand;
mod effect;
mod found;
mod jmt;
mod layers;
pub mod mva;
mod prediction;
mod program;
mod simulator;
mod trace;
mod usl;

pub use change::{Change, ChangeError, Speed, time_of};
pub use check::{Unsupported, check};
pub use demand::{Bottleneck, Demand, MOST_OBJECTS, OfClass, OfObject, Station, demand};
pub use effect::{Effect, NoEffect, less, others, workers};
pub use found::found;
pub use jmt::jsimg;
pub use layers::Solved;
pub use prediction::{Figures, Interval, Prediction, Refusal, WhatIf, predict, what_if};
pub use simulator::{Arrivals, Outcome, simulate};
pub use trace::{Disk, Pool, Request, Service, Trace, Visit, Work};
pub use usl::{Usl, UslError};
