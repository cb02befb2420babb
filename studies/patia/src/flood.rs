//! A flash crowd behind a narrow link, with the policy and without it: what the runs of `flood` left behind becomes a page
//! and a picture.

use crate::firing::Firing;
use anyhow::Context;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// What the study promises its users: 99 of 100 have their picture within this time.
const OBJECTIVE_NS: f64 = 1e9;
/// The calm before the crowd, seconds: as `flood` asks of the generator.
pub(crate) const ONSET_S: f64 = 20.0;
/// When the crowd is at its largest for the last time, seconds.
const PEAK_END_S: f64 = 100.0;

/// A second of a run.
struct Point {
    at_s: f64,
    requests: f64,
    failed: f64,
    p99_ns: Option<f64>,
    bytes: f64,
}

/// One of the two runs, as its client saw it.
pub(crate) struct Run {
    points: Vec<Point>,
    arrivals: f64,
    answered: f64,
    /// Answers with 200 within the objective, from the intended time on.
    useful: f64,
    /// The 99th percentile over all arrivals, nanoseconds; none if more than one of a hundred had no answer.
    p99_ns: Option<f64>,
    p50_ns: f64,
    failed: f64,
}

impl Run {
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let load: Value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))?;
        let number = |path: &str| {
            load.pointer(path).and_then(Value::as_f64).with_context(|| format!("{}: no {path}", file.display()))
        };
        let (wanted, answered) =
            ((number("/rate_wanted_per_s")? * number("/duration_s")?).round(), number("/requests")?);
        let failed: f64 =
            load["errors"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_f64()).sum();
        // Chance may bring some more than were asked for.
        let arrivals = wanted.max(answered + failed);
        let good = load["status"]["200"].as_f64().unwrap_or(0.0);
        let curve: Vec<(f64, f64)> = load["latency_curve_ns"]
            .as_array()
            .context("no curve of latency")?
            .iter()
            .filter_map(|pair| Some((pair[0].as_f64()?, pair[1].as_f64()?)))
            .collect();
        // The curve is that of successes; older reports, which do not count them, have it of all answers. Answers that
        // are no 200 are then refusals, which are quick: they are taken off those within the objective.
        let told = load["successes"].as_f64().unwrap_or(answered);
        let within = share_within(&curve, OBJECTIVE_NS) * told;
        let points = load["series"]["points"].as_array().context("no series")?.iter().map(Point::of).collect();
        let missing = 100.0 * (1.0 - told / arrivals);
        Ok(Self {
            points,
            arrivals,
            answered,
            useful: (within - (told - good)).clamp(0.0, good),
            p99_ns: (missing < 1.0).then(|| at(&curve, 99.0 + missing)),
            p50_ns: number("/latency_ns/p50")?,
            // The sum of nothing is less than nothing as it is shown.
            failed: failed + 0.0,
        })
    }

    pub(crate) fn useful_share(&self) -> f64 {
        100.0 * self.useful / self.arrivals
    }

    /// The first second from the onset on in which one of a hundred missed the objective, or failed.
    pub(crate) fn saturated_s(&self) -> Option<f64> {
        let is_missed = |point: &&Point| {
            point.at_s >= ONSET_S && (point.failed > 0.0 || point.p99_ns.is_some_and(|p99| p99 > OBJECTIVE_NS))
        };
        self.points.iter().find(is_missed).map(|point| point.at_s - ONSET_S)
    }

    /// The first second from the onset on in which, as in the next, an answer has less than half of the bytes of the
    /// calm. A point counts bytes when they come and answers when they are whole, so a backlog that ends shows few
    /// bytes, too: seconds after the peak do not count.
    pub(crate) fn acted_s(&self) -> Option<f64> {
        let (calm_bytes, calm_requests) = self
            .points
            .iter()
            .filter(|point| point.at_s < ONSET_S)
            .fold((0.0, 0.0), |(bytes, requests), point| (bytes + point.bytes, requests + point.requests));
        let half = calm_bytes / calm_requests / 2.0;
        let is_smaller = |point: &Point| point.requests > 0.0 && point.bytes / point.requests < half;
        let crowd: Vec<&Point> =
            self.points.iter().filter(|point| (ONSET_S..PEAK_END_S).contains(&point.at_s)).collect();
        let two = crowd.windows(2).find(|two| two.iter().all(|point| is_smaller(point)))?;
        Some(two[0].at_s - ONSET_S)
    }
}

impl Point {
    fn of(point: &Value) -> Self {
        let number = |name: &str| point[name].as_f64().unwrap_or(0.0);
        Self {
            at_s: number("start_s"),
            requests: number("requests"),
            failed: point["errors"].as_object().map_or(0.0, |errors| errors.values().filter_map(Value::as_f64).sum()),
            p99_ns: point["latency_ns"]["p99"].as_f64(),
            bytes: number("bytes"),
        }
    }
}

/// The share of the answers up to a latency, 0 to 1, between the curve's percentiles by a straight line.
fn share_within(curve: &[(f64, f64)], limit_ns: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for &(percent, ns) in curve {
        if ns > limit_ns {
            let part = if ns > before.1 { (limit_ns - before.1) / (ns - before.1) } else { 0.0 };
            return (before.0 + (percent - before.0) * part) / 100.0;
        }
        before = (percent, ns);
    }
    1.0
}

/// The latency at a percentile: that of the next one that the curve has.
fn at(curve: &[(f64, f64)], percent: f64) -> f64 {
    curve.iter().find(|(has, _)| *has >= percent).or(curve.last()).map_or(f64::NAN, |(_, ns)| *ns)
}

/// The two runs of a seed.
pub(crate) struct Pair {
    pub(crate) seed: String,
    pub(crate) with: Run,
    pub(crate) without: Run,
    /// The first thing that the policy did.
    pub(crate) first: Option<Firing>,
}

impl Pair {
    /// What the study asks of each seed, in words, and whether it is so.
    fn claims(&self) -> [(&'static str, bool); 3] {
        let Self { with, without, first, .. } = self;
        let is_met = |run: &Run| run.p99_ns.is_some_and(|p99| p99 <= OBJECTIVE_NS);
        let acted = first.as_ref().filter(|first| first.is_of_forecast()).zip(with.acted_s());
        let is_before = acted.zip(without.saturated_s()).is_some_and(|((first, acted_s), full_s)| {
            first.at_s >= ONSET_S && first.at_s - ONSET_S < full_s && acted_s < full_s
        });
        [
            (
                "with the policy the 99th percentile keeps the objective, and without it does not",
                is_met(with) && !is_met(without),
            ),
            ("with the policy at least 95 % of the answers are useful", with.useful_share() >= 95.0),
            ("the forecast, and nothing else, acts first, after the onset and before the link is full", is_before),
        ]
    }
}

/// The page, and whether everything holds.
pub(crate) fn page(pairs: &[Pair], policy: &str, surroundings: &str) -> (String, bool) {
    let mut out = String::from("# A flash crowd behind a narrow link, with a policy and without\n\n");
    let _ = write!(
        out,
        "{}\n\n`make study-flood` repeats it, as root, and writes this page; it fails where something does not hold.\n\n\
         The server has 100 pictures of 64 KiB, each also small with 8 KiB, in a network namespace behind a link of 40 Mbit/s, which carries some 75 full pictures a second.\n\
         `weir load` asks for them by Zipf's law, each time over a new connection: 20 times a second for {ONSET_S} s, then evenly rising within 60 s to 200 times, so for 20 s, and again 20 times.\n\
         Times between arrivals are exponential; arrivals do not wait for responses, and latency counts from the intended time.\n\
         The objective: 99 of 100 have their picture, large or small, within {} s. An answer is useful if it is one (200) within that time; who had none counts as well.\n\
         Each figure is of {} seeds: the middle one, and behind it the smallest and the largest.\n\n```text\n{}\n```\n\n",
        surroundings.trim(),
        OBJECTIVE_NS / 1e9,
        pairs.len(),
        policy.trim(),
    );
    out += "| | with the policy | without |\n|---|---|---|\n";
    let mut row = |name: &str, of: &dyn Fn(&Run) -> Option<f64>, show: &dyn Fn(f64) -> String, never: &str| {
        let of_all = |which: fn(&Pair) -> &Run| range(pairs.iter().map(|pair| of(which(pair))).collect(), show, never);
        let _ = writeln!(out, "| {name} | {} | {} |", of_all(|pair| &pair.with), of_all(|pair| &pair.without));
    };
    let count = |number: f64| format!("{number:.0}");
    row("arrivals", &|run| Some(run.arrivals), &count, "");
    row("answered", &|run| Some(run.answered), &count, "");
    row("failed", &|run| Some(run.failed), &count, "");
    row("useful answers", &|run| Some(run.useful_share()), &|share| format!("{share:.2} %"), "");
    row("latency, median of the answered", &|run| Some(run.p50_ns), &seconds, "");
    row("latency, 99th percentile of all", &|run| run.p99_ns, &seconds, "not reached by 99 of 100");
    row("from the onset to smaller answers", &Run::acted_s, &|at_s| format!("{at_s:.0} s"), "never");
    row("from the onset to the first second that misses", &Run::saturated_s, &|at_s| format!("{at_s:.0} s"), "never");
    out += "\n![Latency and bytes an answer over time, with the policy and without](FLOOD.svg)\n\n";
    out += "The first thing that the policy did, by the decisions that it wrote down:\n\n";
    for Pair { seed, first, .. } in pairs {
        let _ = match first {
            Some(first) => {
                writeln!(out, "- seed {seed}: {:.1} s after the onset, as {}.", first.at_s - ONSET_S, first.shown())
            }
            None => writeln!(out, "- seed {seed}: nothing."),
        };
    }
    out.push('\n');
    let mut all_hold = !pairs.is_empty();
    for number in 0..pairs.first().map_or(0, |pair| pair.claims().len()) {
        let held = pairs.iter().filter(|pair| pair.claims()[number].1).count();
        let word = if held == pairs.len() { "Holds" } else { "Does not hold" };
        let _ = writeln!(out, "- {word} ({held} of {} seeds): {}.", pairs.len(), pairs[0].claims()[number].0);
        all_hold &= held == pairs.len();
    }
    (out, all_hold)
}

/// The value in the middle, with the smallest and the largest where they differ as they are shown; those that are none
/// are larger than all.
pub(crate) fn range(values: Vec<Option<f64>>, show: &dyn Fn(f64) -> String, never: &str) -> String {
    let mut values: Vec<f64> = values.into_iter().map(|value| value.unwrap_or(f64::INFINITY)).collect();
    values.sort_by(f64::total_cmp);
    let shown = |value: f64| if value.is_infinite() { never.to_owned() } else { show(value) };
    let (Some(low), Some(high)) = (values.first(), values.last()) else { return "nothing".to_owned() };
    let (low, middle, high) = (shown(*low), shown(values[values.len() / 2]), shown(*high));
    if low == high { middle } else { format!("{middle} ({low} to {high})") }
}

fn seconds(ns: f64) -> String {
    if ns < 1e9 { format!("{:.1} ms", ns / 1e6) } else { format!("{:.2} s", ns / 1e9) }
}

const WIDTH: f64 = 840.0;
const LEFT: f64 = 70.0;
const HEIGHT: f64 = 190.0;

pub(crate) fn picture(with: &Run, without: &Run) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 560\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <style>text{fill:#333}.g{stroke:#ccc;stroke-width:.6}.w{stroke:#1663ad;fill:none;stroke-width:2}.n{stroke:#c2410c;fill:none;stroke-width:2;stroke-dasharray:6 3}.wt{fill:#1663ad}.nt{fill:#c2410c}.o{stroke:#777;stroke-dasharray:2 3}\
         @media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#555}.w{stroke:#6db3f8}.n{stroke:#fb923c}.wt{fill:#6db3f8}.nt{fill:#fb923c}.o{stroke:#aaa}}</style>\n",
    );
    let end_s = with.points.iter().chain(&without.points).map(|point| point.at_s).fold(1.0, f64::max) + 1.0;
    let x = |at_s: f64| LEFT + WIDTH * at_s / end_s;
    let _ = writeln!(
        svg,
        "<text class=\"wt\" x=\"{LEFT}\" y=\"20\">with the policy (whole line)</text><text class=\"nt\" x=\"{}\" y=\"20\">without (broken line)</text>",
        LEFT + 200.0
    );
    // From a millisecond to a hundred seconds, logarithmic.
    let latency = |ns: f64| (ns.max(1e6) / 1e6).log10() / 5.0;
    let labels = [(1e6, "1 ms"), (1e7, "10 ms"), (1e8, "100 ms"), (1e9, "1 s"), (1e10, "10 s"), (1e11, "100 s")];
    let labels: Vec<_> = labels.iter().map(|&(ns, name)| (latency(ns), name)).collect();
    let panel =
        Panel { top: 60.0, title: "99th percentile of each second's latency (objective: 1 s)", labels: &labels };
    panel.draw(&mut svg, with, without, &x, &|point| point.p99_ns.map(latency));
    let labels = [(0.0, "0"), (16.0 / 72.0, "16 KiB"), (32.0 / 72.0, "32 KiB"), (64.0 / 72.0, "64 KiB")];
    let panel = Panel { top: 320.0, title: "bytes of an answer, mean of each second", labels: &labels };
    let bytes = |point: &Point| (point.requests > 0.0).then(|| point.bytes / point.requests / 1024.0 / 72.0);
    panel.draw(&mut svg, with, without, &x, &bytes);
    for at_s in (0..).map(|tens| f64::from(tens) * 20.0).take_while(|at_s| *at_s < end_s) {
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"530\" text-anchor=\"middle\">{at_s:.0} s</text>", x(at_s));
    }
    for (at_s, name) in [(ONSET_S, "the crowd begins"), (ONSET_S + 60.0, "ten times as many")] {
        let _ = writeln!(
            svg,
            "<path class=\"o\" d=\"M{0:.1} 60V510\"/><text x=\"{0:.1}\" y=\"548\" text-anchor=\"middle\">{name}</text>",
            x(at_s)
        );
    }
    svg + "</svg>\n"
}

/// One of the two charts.
struct Panel<'a> {
    top: f64,
    title: &'a str,
    labels: &'a [(f64, &'a str)],
}

impl Panel<'_> {
    /// `y` is the share of the height, 0 to 1; where there is none the line is broken.
    fn draw(
        &self,
        svg: &mut String,
        with: &Run,
        without: &Run,
        x: &dyn Fn(f64) -> f64,
        y: &dyn Fn(&Point) -> Option<f64>,
    ) {
        let at = |share: f64| self.top + HEIGHT * (1.0 - share.clamp(0.0, 1.0));
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"600\">{}</text>", self.top - 12.0, self.title);
        for &(share, name) in self.labels {
            let _ = writeln!(
                svg,
                "<path class=\"g\" d=\"M{LEFT} {0:.1}h{WIDTH}\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{name}</text>",
                at(share),
                LEFT - 6.0,
                at(share) + 4.0
            );
        }
        for (run, class) in [(without, "n"), (with, "w")] {
            let mut line = String::new();
            let mut is_broken = true;
            for point in &run.points {
                let Some(share) = y(point) else {
                    is_broken = true;
                    continue;
                };
                let begin = if std::mem::take(&mut is_broken) { 'M' } else { 'L' };
                let _ = write!(line, "{begin}{:.1} {:.1}", x(point.at_s + 0.5), at(share));
            }
            let _ = writeln!(svg, "<path class=\"{class}\" d=\"{line}\"/>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_within_a_limit_lies_between_the_percentiles() {
        let curve = [(0.0, 1e6), (50.0, 5e8), (100.0, 1.5e9)];
        assert_eq!(share_within(&curve, 5e8), 0.5);
        assert_eq!(share_within(&curve, 1e9), 0.75);
        assert_eq!(share_within(&curve, 2e9), 1.0);
        assert_eq!(share_within(&curve, 1e5), 0.0);
        assert_eq!(at(&curve, 99.0), 1.5e9);
    }

    fn run(p99_ns: Option<f64>, useful: f64, small_from_s: f64, missed_from_s: f64) -> Run {
        let point = |second: u32| {
            let at_s = f64::from(second);
            let bytes = if at_s < small_from_s { 65_536.0 } else { 8192.0 } * 20.0;
            let p99_ns = Some(if at_s < missed_from_s { 1e7 } else { 5e9 });
            Point { at_s, requests: 20.0, failed: 0.0, p99_ns, bytes }
        };
        Run {
            points: (0..120).map(point).collect(),
            arrivals: 100.0,
            answered: 100.0,
            useful,
            p99_ns,
            p50_ns: 1e6,
            failed: 0.0,
        }
    }

    fn pair(first_s: f64, by_forecast: bool) -> Pair {
        let readings = vec![
            ("rate@here > 150rps".to_owned(), "40.0 requests/s".to_owned(), !by_forecast),
            ("rate@here over 20s predicted in 15s > 60rps".to_owned(), "61.0 requests/s".to_owned(), true),
        ];
        let (with, without) = (run(Some(2e7), 100.0, ONSET_S + 10.0, 1e9), run(None, 15.0, 1e9, ONSET_S + 23.0));
        Pair { seed: "1".to_owned(), with, without, first: Some(Firing { at_s: first_s, readings }) }
    }

    #[test]
    fn what_does_not_hold_for_each_seed_does_not_hold() {
        let holds = |pairs: &[Pair]| page(pairs, "policy", "today").1;
        assert!(holds(&[pair(ONSET_S + 9.5, true), pair(ONSET_S + 10.0, true)]));
        assert!(!holds(&[]), "nothing was measured");
        for other in [
            pair(ONSET_S + 9.5, false),
            pair(ONSET_S - 0.5, true),
            pair(ONSET_S + 24.0, true),
            Pair { first: None, ..pair(ONSET_S + 9.5, true) },
            Pair { with: run(None, 96.0, ONSET_S + 10.0, 1e9), ..pair(ONSET_S + 9.5, true) },
            Pair { with: run(Some(2e7), 94.0, ONSET_S + 10.0, 1e9), ..pair(ONSET_S + 9.5, true) },
        ] {
            let (text, holds) = page(&[pair(ONSET_S + 9.5, true), other], "policy", "today");
            assert!(!holds && text.contains("Does not hold (1 of 2 seeds)"), "{text}");
        }
        let text = page(&[pair(ONSET_S + 9.5, true)], "policy", "today").0;
        assert!(text.contains("9.5 s after the onset, as `rate@here over 20s predicted"), "{text}");
    }

    #[test]
    fn a_range_is_of_all_and_what_never_came_is_beyond_it() {
        let show = |value: f64| format!("{value:.0} s");
        assert_eq!(range(vec![Some(9.0), None, Some(7.0)], &show, "never"), "9 s (7 s to never)");
        assert_eq!(range(vec![None, None], &show, "never"), "never");
    }
}
