//! One self-contained HTML file.

mod bars;
mod distribution;
mod escape;
mod evidence;
mod examples;
pub(crate) mod headline;
mod page;
pub(crate) mod palette;
mod tables;

use crate::Explanation;
use weir_measure::part::Part;

/// The report as one HTML file that loads nothing.
///
/// It reads without JavaScript, which only adds hints and highlights, and prints.
#[must_use]
pub fn html(explanation: &Explanation) -> String {
    page::page(explanation)
}

/// The colour of a part in every view, as CSS writes it: `#00974d`.
#[must_use]
pub fn colour(part: Part) -> String {
    palette::colour(part).hex()
}
