//! Plays scenarios: a behaviour that follows a program, and what is counted of its steps.

mod judged;
mod player;
mod tallies;

pub use judged::{Judged, judge};
pub use player::Players;
pub use tallies::{Tallies, Tally};
