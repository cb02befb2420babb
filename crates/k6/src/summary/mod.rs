//! The data of a run as a text, and as the file of `--summary-export`.

mod export;
mod figures;
mod text;

pub(crate) use export::export;
pub(crate) use figures::humanized;
pub(crate) use text::text;
