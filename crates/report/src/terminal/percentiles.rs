//! Whose time the responses around each percentile were.

use super::text::Screen;
use crate::clocks::words;
use crate::units::{nanoseconds, percent};
use crate::{Explanation, PercentileShares};

/// Writes them, where they are known.
pub(super) fn write(screen: &mut Screen, explanation: &Explanation) {
    if explanation.percentiles.is_empty() {
        return;
    }
    screen.heading("Whose time it is");
    let ink = screen.ink;
    let header =
        format!("{:<8}{:>10}{:>12}{:>10}{:>9}{:>11}", "", "response", "generator", "network", "server", "not known");
    screen.line(&ink.dim(&header));
    for shares in &explanation.percentiles {
        screen.line(&row(shares));
    }
    if let Some(words) = words(explanation) {
        screen.paragraph("", "", &words, |line| ink.dim(line));
    }
}

fn row(shares: &PercentileShares) -> String {
    let PercentileShares { percentile, response_ns, generator, network, server, unattributed } = *shares;
    let [generator, network, server, unknown] = [generator, network, server, unattributed].map(percent);
    let name = format!("p{percentile}");
    format!("{name:<8}{:>10}{generator:>12}{network:>10}{server:>9}{unknown:>11}", nanoseconds(response_ns))
}
