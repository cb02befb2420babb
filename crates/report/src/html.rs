//! One self-contained HTML file.

use crate::Explanation;

/// The report as one HTML file that loads nothing.
#[must_use]
pub fn html(explanation: &Explanation) -> String {
    format!("<!doctype html><title>{}</title>", explanation.subject)
}
