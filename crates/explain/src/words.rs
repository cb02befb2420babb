//! Causes in words with figures.

use std::collections::{BTreeMap, BTreeSet};
use weir_measure::part::Part;
use weir_measure::response::{Profile, ResponseFold};
use weir_report::{Cause, SlowCause, nanoseconds};
use weir_timeline::FULL_BACKLOG;

/// A share below this is not worth a sentence.
const WORTH_SAYING: f64 = 0.01;
/// Of a culprit whose share of a part is below this no word is said.
const WORTH_NAMING: f64 = 0.05;
/// How many culprits are named.
const MOST_NAMED: usize = 3;

/// The largest parts of the mean response, largest first.
pub(super) fn causes(all: &Profile, labels: &[String]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Part::ALL
        .iter()
        .map(|part| {
            let mean_ns = all.parts_ns[*part as usize];
            let share = mean_ns / all.response_ns.max(1.0);
            let who = blamed(all, *part, labels);
            let text = format!(
                "{:.0} % {}: {} of {} ({}){}",
                100.0 * share,
                part.words(),
                nanoseconds(mean_ns),
                nanoseconds(all.response_ns),
                part.name(),
                named(*part, &who)
            );
            Cause { part: part.name().to_owned(), mean_ns, share, who, held_by: Vec::new(), requests: Vec::new(), text }
        })
        .filter(|cause| cause.share >= WORTH_SAYING)
        .collect();
    causes.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
    causes
}

/// Adds to the server's own running for which classes of requests that was; a fold for each class.
pub(super) fn name_requests(causes: &mut [Cause], classes: &[String], folds: &[ResponseFold]) {
    let Some(cause) = causes.iter_mut().find(|cause| cause.part == Part::Run.name()) else { return };
    let ran = folds.iter().map(|fold| fold.all().parts_ns[Part::Run as usize] * fold.count() as f64);
    let ran: Vec<f64> = ran.collect();
    let total = ran.iter().sum::<f64>().max(1.0);
    let shares = classes.iter().zip(&ran).map(|(class, ns)| (class.clone(), ns / total));
    cause.requests = shares.filter(|(_, share)| *share >= WORTH_NAMING).collect();
    cause.requests.sort_by(|a, b| b.1.total_cmp(&a.1));
    cause.requests.truncate(MOST_NAMED);
    let list: Vec<String> =
        cause.requests.iter().map(|(class, share)| format!("{class} {:.0} %", 100.0 * share)).collect();
    if !list.is_empty() {
        cause.text.push_str(&format!("; for {}", list.join(", ")));
    }
}

/// What the slowest wait for that the others do not, largest first.
pub(super) fn slow_causes(slow: &Profile, rest: &Profile, labels: &[String]) -> Vec<SlowCause> {
    let difference = (slow.response_ns - rest.response_ns).max(1.0);
    let mut causes: Vec<SlowCause> = Part::ALL
        .iter()
        .map(|part| {
            let (of_slow, of_rest) = (slow.parts_ns[*part as usize], rest.parts_ns[*part as usize]);
            let (excess_ns, who) = (of_slow - of_rest, blamed(slow, *part, labels));
            let share = excess_ns / difference;
            let text = format!(
                "{:.0} % of the difference {}: {} against {} ({}){}",
                100.0 * share,
                part.words(),
                nanoseconds(of_slow),
                nanoseconds(of_rest),
                part.name(),
                named(*part, &who)
            );
            SlowCause { part: part.name().to_owned(), excess_ns, share, who, text }
        })
        .filter(|cause| cause.share >= WORTH_SAYING)
        .collect();
    causes.sort_by(|a, b| b.excess_ns.total_cmp(&a.excess_ns));
    causes
}

/// Who was to blame for a part, with their shares of it.
fn blamed(profile: &Profile, part: Part, labels: &[String]) -> Vec<(String, f64)> {
    let total = profile.parts_ns[part as usize];
    // Processes of one name are one culprit: a prefork server's workers differ in nothing but their number.
    let mut by_name: BTreeMap<&str, (f64, BTreeSet<&str>)> = BTreeMap::new();
    for ((of, detail), ns) in &profile.details_ns {
        if *of == part
            && let Some(label) = labels.get(*detail as usize).filter(|label| !label.is_empty())
        {
            let name = label.rsplit_once(" (").map_or(label.as_str(), |(name, _)| name);
            let (sum, members) = by_name.entry(name).or_default();
            *sum += ns;
            members.insert(label);
        }
    }
    let mut who: Vec<(String, f64)> = by_name
        .into_iter()
        .map(|(name, (ns, members))| {
            let label = match members.first() {
                Some(only) if members.len() == 1 => (*only).to_owned(),
                _ => format!("{name} ({} processes)", members.len()),
            };
            (label, ns / total.max(1.0))
        })
        .filter(|(_, share)| *share >= WORTH_NAMING)
        .collect();
    who.sort_by(|a, b| b.1.total_cmp(&a.1));
    who.truncate(MOST_NAMED);
    who
}

/// Those to blame, in words that fit the part.
fn named(part: Part, who: &[(String, f64)]) -> String {
    if who.is_empty() {
        return String::new();
    }
    let verb = match part {
        Part::WaitCpu if who.iter().any(|(label, _)| label.starts_with("the CPU quota")) => "kept from it by",
        Part::WaitCpu => "the CPU was taken by",
        Part::WaitLock if who.iter().any(|(label, _)| label.contains(" held by ") || label.contains(" ended by ")) => {
            "for"
        }
        Part::WaitLock => "ended by",
        Part::WaitProcess | Part::WaitNetwork => "waited for",
        Part::Connect => "spent on",
        Part::Generator => "behind",
        Part::Stopped => "held was",
        Part::ResponseTransit => "held back by",
        Part::AcceptQueue if who.iter().any(|(label, _)| label.starts_with(FULL_BACKLOG)) => "behind",
        Part::AcceptQueue | Part::WorkerQueue => "behind other requests of",
        Part::Run => "in",
        _ => "with",
    };
    let list: Vec<String> = who.iter().map(|(label, share)| format!("{label} {:.0} %", 100.0 * share)).collect();
    format!("; {verb} {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::response::Piece;

    #[test]
    fn processes_of_one_name_are_one_culprit() {
        let labels = ["", "apache2 (11)", "apache2 (12)", "hog (9)"].map(str::to_owned);
        let mut fold = ResponseFold::new();
        let piece = |part, detail, ns| Piece { part, detail, ns };
        fold.push(
            1000,
            &[
                piece(Part::WaitCpu, 1, 300),
                piece(Part::WaitCpu, 2, 400),
                piece(Part::WaitCpu, 3, 200),
                piece(Part::Run, 0, 100),
            ],
        );
        let causes = causes(&fold.all(), &labels);
        assert_eq!(causes[0].part, "wait_cpu");
        assert_eq!(causes[0].who[0].0, "apache2 (2 processes)");
        assert_eq!(causes[0].who[1].0, "hog (9)");
        assert!(
            causes[0].text.starts_with("90 % waiting for a CPU: 900 ns of 1.00 us (wait_cpu); the CPU was taken by")
        );
        assert_eq!(causes[1].part, "run");
    }

    #[test]
    fn running_is_told_with_the_requests_that_it_was_for() {
        let labels = ["", "shop (11)"].map(str::to_owned);
        let (mut all, mut folds) = (ResponseFold::new(), vec![ResponseFold::new(), ResponseFold::new()]);
        // Three in four are of the first class; the second runs nine times as long.
        for (class, ns) in [(0, 100), (0, 100), (0, 100), (1, 900)] {
            let pieces = [Piece { part: Part::Run, detail: 1, ns }];
            for fold in [&mut all, &mut folds[class]] {
                fold.push(ns, &pieces);
            }
        }
        let mut told = causes(&all.all(), &labels);
        name_requests(&mut told, &["GET /".to_owned(), "GET /report".to_owned()], &folds);
        assert_eq!(told[0].requests[0], ("GET /report".to_owned(), 0.75));
        assert!(told[0].text.ends_with("; in shop (11) 100 %; for GET /report 75 %, GET / 25 %"), "{}", told[0].text);
    }

    /// Most responses run longer than they wait, and the slow ones run longer than the others, too. The text names what
    /// the slow ones have more of than the others, and the culprit.
    #[test]
    fn what_sets_the_slow_ones_apart_is_told_largest_first() {
        let labels = ["", "mysqld (11)", "backup (12)"].map(str::to_owned);
        let piece = |part, detail, ns| Piece { part, detail, ns };
        let mut fold = ResponseFold::new();
        for _ in 0..98 {
            fold.push(
                1_000,
                &[piece(Part::Run, 0, 800), piece(Part::WaitDisk, 1, 100), piece(Part::RequestTransit, 0, 100)],
            );
        }
        for _ in 0..2 {
            fold.push(
                11_000,
                &[
                    piece(Part::Run, 0, 2_800),
                    piece(Part::WaitDisk, 2, 8_100),
                    piece(Part::RequestTransit, 0, 50),
                    piece(Part::WaitLock, 0, 50),
                ],
            );
        }
        let told = slow_causes(&fold.slowest(0.02), &fold.rest(0.02), &labels);
        let parts: Vec<&str> = told.iter().map(|cause| cause.part.as_str()).collect();
        // A part that is smaller than in the others, or a negligible one, is no cause.
        assert_eq!(parts, ["wait_disk", "run"]);
        for (cause, excess_ns) in told.iter().zip([8_000.0, 2_000.0]) {
            assert!((cause.excess_ns - excess_ns).abs() < 1e-6, "{cause:?}");
            assert!((cause.share - excess_ns / 10_000.0).abs() < 1e-9, "{cause:?}");
        }
        assert_eq!(told[0].who[0].0, "backup (12)", "whom the slow ones waited for, not the others");
        assert!(told[0].text.starts_with("80 % of the difference "), "{}", told[0].text);
        assert!(
            told[0].text.contains(": 8.10 us against 100 ns (wait_disk); with backup (12) 100 %"),
            "{}",
            told[0].text
        );
        assert!(told[1].text.contains(": 2.80 us against 800 ns (run)"), "{}", told[1].text);
    }
}
