//! What the server did, minute by minute, in a file that outlives it: requests, errors, bytes, times, and marks of what
//! was done to it.
//!
//! `format` is the file's form, `reading` takes a whole file apart, `file` writes into one, `recorder` makes figures of
//! counts, and `keeper` is the thread that does so each second.

pub(crate) mod durations;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod keeper;
pub(crate) mod reading;
pub(crate) mod recorder;
pub(crate) mod shown;
