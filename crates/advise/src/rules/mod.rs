//! The rules: each looks at an explanation and the servers' configurations, and gives findings or none.
//!
//! A rule needs both: a part of the response that is worth its reader's time, and something in the configuration or
//! the running system that makes it so. Large parts that no setting changes are listed apart.

mod accept_mutex;
mod case;
mod connections;
mod content;
mod cpu;
mod database;
mod findings;
mod logs;
mod names;
mod php;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
mod workers;

pub(crate) use case::Case;
pub(crate) use findings::{beyond_settings, findings};
