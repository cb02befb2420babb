//! One self-contained HTML file.

mod bars;
mod budget;
mod chart;
mod distribution;
mod escape;
mod evidence;
mod examples;
mod flame;
mod graph;
pub(crate) mod headline;
mod page;
pub(crate) mod palette;
mod rows;
mod tables;
mod work;

use crate::Explanation;
use weir_measure::part::Part;

/// The report as one HTML file that loads nothing.
///
/// It reads without JavaScript, which adds zooming, search, hints and highlights, and prints. It has at most 10 MB: what
/// does not fit is left out with a word about it.
#[must_use]
pub fn html(explanation: &Explanation) -> String {
    page::page(explanation)
}

/// The colour of a part in every view, as CSS writes it: `#00974d`.
#[must_use]
pub fn colour(part: Part) -> String {
    palette::colour(part).hex()
}
