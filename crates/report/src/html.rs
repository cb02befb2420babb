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
mod load_page;
mod page;
pub(crate) mod palette;
mod plot;
mod rows;
mod tables;
mod work;

use crate::{Explanation, Loaded};
use weir_measure::part::Part;

/// The report as one HTML file that loads nothing.
///
/// It reads without JavaScript, which adds zooming, search, hints and highlights, and prints. It has at most 10 MB: what
/// does not fit is left out with a word about it.
#[must_use]
pub fn html(explanation: &Explanation) -> String {
    page::page(explanation)
}

/// What a load found, as one HTML file that loads nothing; it reads without JavaScript, which adds cursors.
#[must_use]
pub fn load_html(loaded: &Loaded) -> String {
    load_page::page(loaded)
}

/// The colour of a part in every view, as CSS writes it: `#00974d`.
#[must_use]
pub fn colour(part: Part) -> String {
    palette::colour(part).hex()
}
