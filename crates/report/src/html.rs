//! One self-contained HTML file.

mod bars;
mod budget;
mod chart;
mod compare_curves;
mod compare_history;
mod compare_page;
mod compare_pieces;
mod compare_ratios;
mod course;
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
mod plan_page;
mod plot;
mod rows;
mod tables;
mod ticks;
mod work;

use crate::{Compared, Explanation, Loaded, Planned};
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

/// What an experiment found, as one HTML file that loads nothing; it reads without JavaScript, which adds cursors. It has
/// at most 10 MB, as [`html`] has.
#[must_use]
pub fn compared_html(compared: &Compared) -> String {
    compare_page::page(compared)
}

/// A plan, as one HTML file that loads nothing; it reads without JavaScript, which adds cursors.
#[must_use]
pub fn planned_html(planned: &Planned) -> String {
    plan_page::page(planned)
}

/// The colour of a part in every view, as CSS writes it: `#00974d`.
#[must_use]
pub fn colour(part: Part) -> String {
    palette::colour(part).hex()
}
