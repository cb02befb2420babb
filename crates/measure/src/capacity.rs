//! The highest rate of arrivals that a server holds an objective at, from trials at several rates.
//!
//! The share of requests that miss the objective never falls with the rate, so that the shares of the rates are made
//! to rise by isotonic regression (pool adjacent violators; Barlow et al., 1972), and the rate is where they cross what
//! the objective allows, interpolated between the two rates around it.
//! The interval is a bootstrap over trials, not over requests: requests of one trial wait behind each other and tell
//! less than their number.

mod highest;
mod search;

pub use highest::{Highest, Trial, highest, knee};
pub use search::{Search, TRIALS_MAX};
