//! What a response must be to count as a success, beside its status: checks, and what they look at.

mod check;
mod error;
mod json_path;
mod schema;
mod seen;
mod test;

pub use check::{CHECKS_MAX, Check};
pub use error::CheckError;
pub use json_path::JsonPath;
pub use seen::BODY_KEPT_MAX;
pub(crate) use seen::{Keeps, Seen};
pub(crate) use test::{Answer, Parsed};
