//! Sessions that moved between nodes of a cluster: how many requests that met, and the first moves.

use super::text::{Screen, fit};
use crate::units::{count, decimal, nanoseconds};
use crate::{Explanation, Moved};

/// Moves that are told one by one.
const MOST: usize = 3;
/// Columns that a label takes.
const LABEL: usize = 12;

/// Writes them, if events of a cluster were given.
pub(super) fn write(screen: &mut Screen, explanation: &Explanation) {
    let Some(told) = &explanation.moves else { return };
    screen.blank();
    let still = told.moves.iter().filter_map(|moved| moved.stood_still_ns).max_by(f64::total_cmp);
    let still = still.map_or_else(String::new, |ns| format!(", stood still {} at most", nanoseconds(ns)));
    let sessions = if told.moves.len() == 1 { "session" } else { "sessions" };
    let summary = format!(
        "{} of {} requests moved between nodes; {} {sessions}{still}{}",
        count(told.requests),
        count(explanation.requests),
        count(told.moves.len() as u64),
        certainty(&told.moves)
    );
    screen.labelled("moved", &summary, str::to_owned);
    for moved in told.moves.iter().take(MOST) {
        let room = screen.width.saturating_sub(LABEL);
        screen.labelled("", &fit(&words(moved), room), str::to_owned);
    }
    if told.moves.len() > MOST {
        screen.labelled("", &format!("{} more moves", count((told.moves.len() - MOST) as u64)), str::to_owned);
    }
}

/// How much the times are to be believed.
fn certainty(moves: &[Moved]) -> String {
    if moves.is_empty() {
        return String::new();
    }
    let errors: Option<Vec<f64>> = moves.iter().map(|moved| moved.error_ns).collect();
    match errors.and_then(|errors| errors.into_iter().max_by(f64::total_cmp)) {
        Some(most) => format!("; times are right within {}", nanoseconds(most)),
        None => "; how far its times are right is not known, as clocks were not compared".to_owned(),
    }
}

/// A move in a line.
fn words(moved: &Moved) -> String {
    let still = moved.stood_still_ns.map_or_else(String::new, |ns| format!(", stood still {}", nanoseconds(ns)));
    let request = match (&moved.request, moved.requests) {
        (Some(name), 0 | 1) => format!("{name} "),
        (Some(name), more) => format!("{name} and {} more ", count(more - 1)),
        (None, _) => "a session without a request of this run ".to_owned(),
    };
    format!("{} s: {request}moved from {} to {}{still}", decimal(moved.at_s, 3), moved.from, moved.to)
}
