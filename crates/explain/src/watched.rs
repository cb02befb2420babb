//! What the optional sources tell of the whole: how `run` divides, what they cost, and what no source observed.

use super::stacks::Modes;
use weir_capture::Watched;
use weir_measure::part::Part;
use weir_report::{Explanation, SourceCost};
use weir_timeline::Statistics;

/// Fewer samples do not divide `run`: at a half, a hundred have a standard error of 5 %.
const FEWEST_SAMPLES: u64 = 100;

/// Adds it to an explanation; `recorded_s` is how long the kernel's events were recorded, seconds.
pub(super) fn add(explanation: &mut Explanation, statistics: &Statistics, modes: Modes, recorded_s: f64) {
    let run_ns = explanation.parts_ns[Part::Run as usize];
    let division = statistics.run;
    let mut observed = Vec::new();
    if division.watched_ns > 0 {
        // Of the time in which interrupts were recorded, which in windows is a sample of the whole.
        let share = division.interrupt_ns as f64 / division.watched_ns as f64;
        explanation.run_parts_ns.insert("run_interrupt".to_owned(), run_ns * share);
        observed.push("run_interrupt");
        if division.stolen_ns > 0 {
            let share = division.stolen_ns as f64 / division.watched_ns as f64;
            explanation.run_parts_ns.insert("steal".to_owned(), run_ns * share);
            observed.push("steal");
        }
    } else {
        why(explanation, "run_interrupt", "interrupts were not recorded: `--watch interrupts` records them");
    }
    let Modes { user, kernel } = modes;
    if user.samples + kernel.samples >= FEWEST_SAMPLES {
        for (part, seen) in [("run_user", user), ("run_kernel", kernel)] {
            let share = seen.ns as f64 / (user.ns + kernel.ns).max(1) as f64;
            explanation.run_parts_ns.insert(part.to_owned(), run_ns * share);
            observed.push(part);
        }
    } else {
        let by_samples = match user.samples + kernel.samples {
            0 => "`--stacks` samples which of both it is; telling each system call would cost a server 15 to 20 % of its CPU time"
                .to_owned(),
            samples => format!("{samples} samples are too few to divide it, {FEWEST_SAMPLES} would do: measure longer"),
        };
        why(explanation, "run_user", &by_samples);
        why(explanation, "run_kernel", &by_samples);
    }
    match statistics.stolen_ns {
        (0, time_ns) if time_ns > 0 => observed.push("steal"),
        _ if division.stolen_ns > 0 => {}
        (stolen_ns, time_ns) if time_ns > 0 => {
            let share = 100.0 * stolen_ns as f64 / time_ns as f64;
            let text = format!(
                "the hypervisor took {share:.2} % of the CPUs' time and does not tell when: it is in `run` and `wait_cpu`; `--watch interrupts` tells what of `run`"
            );
            why(explanation, "steal", &text);
        }
        _ => why(explanation, "steal", "the recording is too short for a second look at the kernel's counter"),
    }
    explanation.not_observed.retain(|part| !observed.contains(&part.as_str()));
    let sources = Watched::ALL.into_iter().filter_map(|source| {
        let cost = statistics.sources.iter().find(|cost| cost.source == source as u8)?;
        Some(SourceCost {
            name: source.name().to_owned(),
            events: cost.events,
            attached_share: if recorded_s > 0.0 { (cost.attached_ns as f64 / 1e9 / recorded_s).min(1.0) } else { 0.0 },
            cpu_share: (cost.measured_ns > 0).then(|| cost.cpu_ns as f64 / cost.measured_ns as f64),
        })
    });
    explanation.observer_cost.sources = sources.collect();
}

fn why(explanation: &mut Explanation, part: &str, reason: &str) {
    explanation.not_observed_why.insert(part.to_owned(), reason.to_owned());
}
