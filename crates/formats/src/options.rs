//! What the user says of a trace that the trace does not say itself.

use crate::{LinePattern, Markers};

/// What the user says of a trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where requests begin and end.
    pub markers: Markers,
    /// The name of the tasks whose connections are served ones; without it all that are accepted.
    pub server: Option<String>,
    /// The forms of the lines of a text that no other format has.
    pub lines: Option<LinePattern>,
}
