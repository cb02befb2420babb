//! The language of policies: from text to what the checker looks at, and back.

mod action;
mod condition;
mod cursor;
mod format;
mod hint;
pub(crate) mod interval;
pub(crate) mod mistake;
mod parse;
pub(crate) mod syntax;
mod token;
mod units;

pub(crate) use condition::SCOPES;
pub use format::format_policy;
pub use parse::POLICY_BYTES_MAX;
pub(crate) use parse::parse;
pub(crate) use units::value_with_unit;
pub use units::{Dimension, show_ms};
