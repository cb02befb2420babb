//! Answers that come bit by bit: what of their bodies is an event, and when each event came. No socket, no clock.

pub(crate) mod answer;
// Open to the tests and fuzz targets of its readers only.
#[doc(hidden)]
pub mod event_stream;
mod form;
#[doc(hidden)]
pub mod json_lines;

pub use form::{Form, FormError, Streaming};
