//! Values one by one into files: `--out json=FILE` and `--out csv=FILE`.
//!
//! `points` takes each value as it is counted and writes it down in the `form` of its file; `file` writes that in a
//! thread of its own, so that no user waits for a disk.

mod file;
mod form;
mod points;

pub(crate) use file::Writing;
pub(crate) use form::Output;
pub(crate) use points::{OfRun, open};
