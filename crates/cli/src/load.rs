//! The `weir load` command.

mod args;
mod asked;
mod baseline;
mod beside;
mod blocks;
mod fault;
mod fileset;
mod find_max;
mod find_max_words;
mod finding;
mod found;
mod gate;
mod gate_files;
mod hdr;
mod heading;
mod json;
mod judge;
mod live;
mod load_args;
mod outputs;
mod page;
mod prometheus;
mod protocol;
mod reach;
mod remote_write;
mod replayed;
mod run;
mod screen;
mod slo;
mod slow;
mod stream;
#[cfg(test)]
mod tests;
mod usage;
mod whole_file;
mod workload;

pub(crate) use args::Args;
pub(crate) use fault::{as_json as whose_fault_json, words as whose_fault};
pub(crate) use live::{Watch, watched};
pub(crate) use load_args::LoadArgs;
pub(crate) use run::run;
pub(crate) use usage::Usage;
