//! Looks for what is well-formed and wrong: names that lead nowhere, conditions that never hold, rules that undo
//! each other.

mod boxes;
mod checker;
mod level;
mod names;
mod opposite;
mod rule;

pub(crate) use checker::read;
pub use checker::{Checked, NO_RULES, check_policy};
pub(crate) use level::{Level, level, scope};
pub(crate) use names::Variants;
