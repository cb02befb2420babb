//! The options of a script and of the command line, and what they ask for.

mod executor;
mod given;
mod plan;
mod read;

pub(crate) use given::{Given, Named, OptionError};
pub(crate) use plan::{Plan, plan};
