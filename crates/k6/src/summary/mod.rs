//! The end of a run: its data as scripts get it, its text, and the file of `--summary-export`.

mod data;
mod export;
mod figures;
mod text;

pub(crate) use data::{About, Kept, data};
pub(crate) use export::export;
pub(crate) use figures::humanized;
pub(crate) use text::text;
