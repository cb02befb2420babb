//! The page: how it was measured, both servers side by side, and whether what was wanted holds.

use crate::runs::{Pair, Run};
use std::fmt::Write;

/// weir's 99th percentile is at most this part of nginx's.
const P99_PART_MAX: f64 = 0.5;

/// What all rounds have in common.
pub(crate) struct Of<'a> {
    pub(crate) surroundings: &'a str,
    pub(crate) capacity_per_s: f64,
    pub(crate) patience: &'a str,
}

/// The page, and whether all of it holds.
pub(crate) fn page(of: &Of<'_>, pairs: &[Pair]) -> (String, bool) {
    let Of { surroundings, capacity_per_s, patience } = of;
    let wanted = pairs[0].weir.wanted_per_s;
    let mut text = format!(
        "# PHP under twice the load that it can answer\n\n\
         {surroundings}\n\n\
         `make study-overload` repeats it and writes this page; it fails where something does not hold.\n\n\
         weir and nginx stand in turn before a php-fpm pool of their own, of the same 4 processes; a page takes 16 ms, in \
         which PHP sleeps, as it does while it waits for a database.\n\
         The pool answers {capacity_per_s:.0} requests a second; this was measured first, with 4 at a time.\n\
         `weir load` asks {wanted:.0} times a second, each time over a new connection. Times between arrivals are \
         exponential, arrivals do not wait for answers, and latency counts from the intended time.\n\
         A client that has no answer after {patience} leaves. An answer is useful if it is the page (200) and its client is \
         still there.\n\n\
         nginx and php-fpm have their defaults, as Debian's packages have them: requests wait in php-fpm's socket, up to \
         `listen.backlog = 511`, and also those whose clients have left are run.\n\
         weir has its defaults and `connections = 4`, the size of the pool: requests wait in weir, which refuses at once \
         those that would have to wait for longer than `queue_wait = \"500 ms\"`, and drops those whose clients have left.\n\n\
         Each figure is of {} rounds, which begin with the other server each time: the middle one, and behind it the \
         smallest and the largest, which is the noise.\n\n\
         | | weir | nginx |\n|---|---|---|\n",
        pairs.len()
    );
    let mut row = |what: &str, of: &dyn Fn(&Run) -> f64, shown: &dyn Fn(f64) -> String| {
        let side = |run: &dyn Fn(&Pair) -> f64| spread(pairs.iter().map(run).collect(), shown);
        let (weir, nginx) = (side(&|pair| of(&pair.weir)), side(&|pair| of(&pair.nginx)));
        let _ = writeln!(text, "| {what} | {weir} | {nginx} |");
    };
    let (number, time) = (|value: f64| format!("{value:.0}"), |ns: f64| format!("{:.0} ms", ns / 1e6));
    row("useful answers a second", &|run| run.useful_per_s, &number);
    row("latency of useful answers, median", &|run| run.at_ns(50.0), &time);
    row("latency of useful answers, 99th percentile", &|run| run.at_ns(99.0), &time);
    row("answers with 503 a second", &|run| run.refused_per_s, &number);
    row("answers with 502 or 504 a second", &|run| run.bad_per_s, &number);
    row("clients without an answer a second", &|run| run.unanswered_per_s, &number);
    text.push_str("\n![Latency of useful answers by percentile, of both servers](RESULTS.svg)\n\n");
    let p99 = |pair: &Pair| pair.weir.at_ns(99.0) <= P99_PART_MAX * pair.nginx.at_ns(99.0);
    let useful = |pair: &Pair| pair.weir.useful_per_s >= pair.nginx.useful_per_s;
    let mut all_hold = true;
    for (what, holds) in [
        ("weir's 99th percentile of useful answers is at most half of nginx's.", &p99 as &dyn Fn(&Pair) -> bool),
        ("weir gives at least as many useful answers a second as nginx.", &useful),
    ] {
        let count = pairs.iter().filter(|pair| holds(pair)).count();
        let word = if count == pairs.len() { "Holds" } else { "Does not hold" };
        all_hold &= count == pairs.len();
        let _ = writeln!(text, "- {word} ({count} of {} rounds): {what}", pairs.len());
    }
    (text, all_hold)
}

/// The middle one of some values, and the smallest and the largest.
fn spread(mut values: Vec<f64>, shown: &dyn Fn(f64) -> String) -> String {
    values.sort_by(f64::total_cmp);
    let (first, middle, last) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    let [first, middle, last] = [first, middle, last].map(shown);
    if first == last { middle } else { format!("{middle} ({first} to {last})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(useful_per_s: f64, p99_ns: f64) -> Run {
        let curve = vec![(50.0, p99_ns / 2.0), (99.0, p99_ns)];
        let (refused_per_s, bad_per_s, unanswered_per_s) = (1.0, 0.0, 0.0);
        Run { useful_per_s, wanted_per_s: 500.0, curve, refused_per_s, bad_per_s, unanswered_per_s }
    }

    #[test]
    fn the_page_says_what_holds() {
        let of = Of { surroundings: "a machine", capacity_per_s: 250.0, patience: "4s" };
        let pairs = [5e8, 6e8].map(|ns| Pair { weir: run(249.0, ns), nginx: run(34.0, 18e8) });
        let (text, all_hold) = page(&of, &pairs);
        assert!(all_hold && text.contains("| 600 ms (500 ms to 600 ms) | 1800 ms |"), "{text}");
        let pairs = [Pair { weir: run(30.0, 5e8), nginx: run(34.0, 18e8) }];
        let (text, all_hold) = page(&of, &pairs);
        assert!(!all_hold && text.contains("Does not hold (0 of 1 rounds): weir gives"), "{text}");
    }
}
