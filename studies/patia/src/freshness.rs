//! The flash crowd with a policy whose readings are told more and less often: how much later it acts, and what that costs.

use crate::firing::Firing;
use crate::flood::{ONSET_S, Run, range};
use std::fmt::Write;

/// The runs of one tick, of several seeds.
pub(crate) struct Told {
    /// From one reading to the next, seconds.
    pub(crate) tick_s: f64,
    pub(crate) runs: Vec<(Run, Option<Firing>)>,
}

pub(crate) fn page(told: &[Told], policy: &str, surroundings: &str) -> String {
    let seeds = told.iter().map(|told| told.runs.len()).max().unwrap_or(0);
    let of_seeds = match seeds {
        1 => "of one seed".to_owned(),
        _ => format!("of {seeds} seeds the middle one, and behind it the smallest and the largest where they differ"),
    };
    let mut out = String::from("# What the freshness of readings gives: the Patia paper's open question\n\n");
    let _ = write!(
        out,
        "{}\n\n`make study-flood-ticks` repeats it, as root, and writes this page.\n\n\
         The flash crowd of [FLOOD.md](FLOOD.md), with the policy, whose readings come and whose rules for all are looked at once in each interval (`--tick`); sessions are decided for as they begin, by the last readings.\n\
         What such readings cost is in [MONITORS.md](MONITORS.md).\n\
         Seconds count from the onset, {of_seeds}.\n\
         A forecast takes five readings of the last 20 s, so that there is none where readings come each 5 s or less often, and only the plain threshold is left.\n\n```text\n{}\n```\n\n\
         | readings told every | to the first decision | of them by the forecast | to the first effective action (smaller answers) | to the first second that misses | useful answers |\n\
         |---|---|---|---|---|---|\n",
        surroundings.trim(),
        policy.trim(),
    );
    let at = |at_s: f64| format!("{at_s:.1} s");
    let whole = |at_s: f64| format!("{at_s:.0} s");
    for Told { tick_s, runs } in told {
        let of = |of: &dyn Fn(&Run, Option<&Firing>) -> Option<f64>| {
            runs.iter().map(|(run, first)| of(run, first.as_ref())).collect::<Vec<_>>()
        };
        let forecast = runs.iter().flat_map(|(_, first)| first).filter(|first| first.is_of_forecast()).count();
        let _ = writeln!(
            out,
            "| {tick_s} s | {} | {forecast} of {} | {} | {} | {} |",
            range(of(&|_, first| Some(first?.at_s - ONSET_S)), &at, "never"),
            runs.len(),
            range(of(&|run, _| run.acted_s()), &whole, "never"),
            range(of(&|run, _| run.saturated_s()), &whole, "never"),
            range(of(&|run, _| Some(run.useful_share())), &|share| format!("{share:.2} %"), ""),
        );
    }
    out
}
