//! The access log. Each loop collects lines and a separate thread writes them, so that no full disk and no slow reader
//! ever blocks a loop. Lines for which there is no room are dropped and counted.

mod block;
mod buffer;
pub(crate) mod format;
mod line;
mod queue;
mod room;
pub(crate) mod settings;
mod writer;

pub(crate) use buffer::LogBuffer;
pub(crate) use line::{LineText, LogLine};
pub(crate) use writer::LogWriter;
