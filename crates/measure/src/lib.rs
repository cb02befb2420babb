//! Formulas, each a bounded fold: parts of a response, histograms, comparisons.
//!
//! A fold takes values one by one, can be asked at any time, and merges with another of its sort; whether it is fed
//! from a file or from a running server makes no difference to what it says.
//! This crate knows no file, socket or clock.

pub mod account;
pub mod binomial;
pub mod burn;
pub mod capacity;
pub mod class;
pub mod client_phases;
pub mod comparison;
pub mod course;
pub mod curve;
pub mod duration_text;
pub mod durations;
pub mod examples;
pub mod family;
pub mod holders;
pub mod mann_whitney;
pub mod objective;
pub mod part;
pub mod participants;
pub mod phase;
pub mod power;
pub mod question;
pub mod queueing;
pub mod regression;
pub mod response;
pub mod shift;
pub mod signed_rank;
pub mod slices;
pub mod stacks;
pub mod summary;
pub mod threshold;
pub mod trend;
pub mod usage;
pub mod wakeups;
