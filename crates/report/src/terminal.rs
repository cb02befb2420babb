//! The first screen.

use crate::Explanation;

/// How a terminal wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours, as on a terminal without NO_COLOR.
    pub colours: bool,
    /// Columns.
    pub width: usize,
}

/// The report as text.
#[must_use]
pub fn terminal(explanation: &Explanation, _style: Style) -> String {
    format!("{explanation:#?}\n")
}
