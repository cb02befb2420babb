//! What was tried, as a table.

use super::planned::Planned;
use super::words;
use weir_plan::{Policy, Tried};
use weir_report::{bytes, nanoseconds, percent};

/// The rows that tell something: of plans that differ only in how many objects lie on several nodes the one with the
/// least storage that meets the objective, or that comes nearest to it.
pub(super) fn rows<'a>(planned: &'a Planned<'_>) -> Vec<&'a Tried> {
    let tried = &planned.found.tried;
    if planned.limits.is_none()
        || tried.iter().all(|one| one.nodes == tried[0].nodes && !matches!(one.policy, Policy::Top { .. }))
    {
        return tried.iter().collect();
    }
    let Some(best) = planned.best() else { return tried.iter().collect() };
    let is_alike = |one: &Tried, other: &Tried| match (one.policy, other.policy) {
        (Policy::Top { copies, .. }, Policy::Top { copies: others, .. }) => {
            one.nodes == other.nodes && copies == others
        }
        _ => false,
    };
    // Sorted by storage: the first that meets it, else the last.
    let tells = |at: usize| {
        let one = &tried[at];
        let mut alike = tried.iter().enumerate().filter(|(_, other)| is_alike(one, other));
        let first_met = alike.clone().find(|(_, other)| other.is_met).map(|(at, _)| at);
        !matches!(one.policy, Policy::Top { .. })
            || first_met.or_else(|| alike.next_back().map(|(at, _)| at)) == Some(at)
    };
    let is_near = |one: &Tried| one.nodes + 1 >= best.nodes;
    (0..tried.len()).filter(|at| is_near(&tried[*at]) && tells(*at)).map(|at| &tried[at]).collect()
}

/// The table for a terminal.
pub(super) fn of(planned: &Planned<'_>) -> String {
    let share = planned.limits.map_or(0.95, |limits| limits.share);
    let asked = words::name_of(share);
    let rows: Vec<[String; 8]> = rows(planned)
        .into_iter()
        .map(|one| {
            let figures = &one.figures;
            let response = if planned.limits.is_some() { figures.response_asked_ns } else { figures.response_p95_ns };
            let met = match planned.limits {
                None => "",
                Some(_) if one.is_met => "met",
                Some(_) => "missed",
            };
            [
                one.nodes.to_string(),
                one.policy.to_string(),
                nanoseconds(figures.waiting_mean_ns.mean),
                percent(figures.waiting_share.mean),
                nanoseconds(response.mean),
                percent(figures.utilisation_max.mean),
                bytes(figures.storage.mean as u64),
                if figures.rejected.high > 0.0 { format!("{met} rejects") } else { met.to_owned() },
            ]
        })
        .collect();
    let head = ["nodes", "policy", "queueing", "of it", &asked, "busiest", "storage", ""].map(str::to_owned);
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            // Words begin at the left, figures end at the right.
            1 | 7 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    [&head].into_iter().chain(&rows).map(line).collect()
}
