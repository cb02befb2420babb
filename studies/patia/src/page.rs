//! The page: the paper's figures beside ours. No number of ours on it is typed.

use crate::experiments::{NODES, Results, percent};
use crate::measured::Measured;
use crate::site::{EXPONENT, FILES};
use std::fmt::Write;
use weir_plan::Repeated;

pub(crate) fn page([results, from_memory]: &[Results; 2], measured: &[Measured]) -> String {
    let mut out = String::from("# Where a site's documents should lie: the Patia paper's section 3.1, again\n\n");
    let _ = write!(
        out,
        "\"The Patia Autonomic Webserver: Feasibility Experimentation\" (McCann and Jawaheer) simulated a university's web site on up to {NODES} nodes, and asked how placing and replicating documents changes the queueing delay, as a share of the response.\n\
         `make study-patia` simulates it again, and writes this page; the simulator is that of `weir plan`.\n\n\
         The paper's log and service times were not published.\n\
         So the log is made from a seed (`src/site.rs`): a day with {} requests for {} of {FILES} files, {:.1} MB, with Zipf's popularity (exponent {EXPONENT}), SURGE's sizes and a rate that follows the hour.\n\
         A request takes a disk's access and its bytes a network of 100 Mbit/s, in the proportion of 10 ms to 80 ns a byte; that is our assumption.\n\
         Both are then made so much longer that **one** of the paper's figures comes out, 98 % on one node: {:.1} ms a request and {:.3} ms a kB, with which one node is at work {:.1} % of its time.\n\
         The last column has 1 ms in place of 10, as of documents in memory: there sizes, and so long ones, weigh more ({:.1} ms and {:.3} ms, {:.1} %).\n\
         All else is found, not fitted; a range is that over {} seeds.\n\
         Of nodes that have a document the one with the fewest requests serves it; the paper does not say how its nodes were chosen.\n\n",
        results.requests,
        results.files,
        results.bytes as f64 / 1e6,
        results.service.fixed_ns / 1e6,
        results.service.per_byte_ns / 1e3,
        results.load * 100.0,
        from_memory.service.fixed_ns / 1e6,
        from_memory.service.per_byte_ns / 1e3,
        from_memory.load * 100.0,
        results.seeds,
    );
    table(&mut out, results, from_memory);
    out += "\n![Queueing against nodes and replicas](RESULTS.svg)\n\n## What holds\n\n";
    claims(&mut out, results);
    out += "\n## Policies that came later\n\n| policy on 10 nodes | queueing | storage |\n|---|---|---|\n";
    for (name, result) in &results.later {
        let _ = writeln!(out, "| {name} | {} | {} |", percent(result.waiting_share), storage(results, result));
    }
    out += "\nStorage of these counts a document on each node that had to serve it; what a node's cache gains by locality is not simulated.\n\
            LARD's marks (25 and 65 requests in a node) are those of its paper, whose nodes served many requests at once; here a node serves one, so a queue of 25 is long.\n";
    if !measured.is_empty() {
        out += "\n## A real node beside the simulated one\n\n\
            Apache with one worker, whose page computes, some milliseconds and more for longer answers, is sent requests for half a minute, with Poisson arrivals, three times at each share of its time (`studies/patia/measured`).\n\
            The load and the simulation have the same arrivals, by a log with nanoseconds (`weir load --replay`, `weir plan`).\n\
            The simulation is told how long the worker has of a request: what a byte takes by `weir load -c 1`, and for the mean the worker's CPU time in the run itself, and what it waits for a client to close; what requests wait is what it has to find.\n\
            So a CPU that is slower in one run is told, but not that it was so for a part of it: two of three runs must be within 15 %.\n";
    }
    measured.iter().for_each(|measured| real(&mut out, measured));
    out
}

fn storage(results: &Results, result: &Repeated) -> String {
    format!("{:.2} times the site", result.storage.mean / results.bytes as f64)
}

/// Experiments: what was done, what the paper says of it, and where it is.
type Row = (&'static str, &'static str, fn(&Results) -> &Repeated);
const ROWS: [Row; 11] = [
    ("one node", "98 % (what our service times are made for)", |results| &results.full[0]),
    ("everything on each of 2 nodes", "", |results| &results.full[1]),
    ("everything on each of 4 nodes", "1 % (\"the average\")", |results| &results.full[3]),
    ("everything on each of 10 nodes", "1 % (\"the average\")", |results| &results.full[9]),
    ("partitioned by chance over 10", "11.4 %", |results| &results.partition),
    ("the same, balanced by work", "", |results| &results.balanced),
    ("the first node has everything, 9 a part each", "\"improves by just under 2 %\"", |results| &results.hot_node),
    ("4 replicas of each document by chance", "\"only four are necessary\"", |results| &results.replicas[3]),
    ("top 12 % everywhere, the rest by chance", "\"an improvement of 62 %\"", |results| &results.top),
    ("each type on a server of its own", "38 %", |results| &results.by_type),
    ("top 10 % on 4 nodes", "\"around 25 %\" better (62 % - 38 %)", |results| &results.top_on_four),
];

fn table(out: &mut String, results: &Results, from_memory: &Results) {
    *out += "| experiment | paper: queueing | ours: queueing | ours: storage | queueing from memory |\n|---|---|---|---|---|\n";
    for (name, paper, of) in ROWS {
        let (result, other) = (of(results), of(from_memory));
        let shares = [result, other].map(|result| percent(result.waiting_share));
        let _ = writeln!(out, "| {name} | {paper} | {} | {} | {} |", shares[0], storage(results, result), shares[1]);
    }
}

fn claims(out: &mut String, results: &Results) {
    let share = |result: &Repeated| result.waiting_share.mean;
    let fewer =
        |result: &Repeated| 100.0 * (1.0 - result.waiting_mean_ns.mean / results.partition.waiting_mean_ns.mean);
    let held = |is_held: bool| if is_held { "Holds" } else { "Does not hold here" };
    let enough = results.full.iter().position(|result| share(result) <= 0.01).map_or(0, |at| at + 1);
    let _ = writeln!(
        out,
        "- {}: \"fully replicating documents on as little as four nodes\" makes queueing small; at most 1 % from {enough} nodes on.",
        held((1..=4).contains(&enough))
    );
    let _ = writeln!(
        out,
        "- {}: partitioning over 10 nodes waits longer than replicating on 10, {} against {}.",
        held(share(&results.partition) > share(&results.full[9])),
        percent(results.partition.waiting_share),
        percent(results.full[9].waiting_share)
    );
    let points = 100.0 * (share(&results.partition) - share(&results.hot_node));
    let _ = writeln!(
        out,
        "- {}: a hot node improves a partition, by {points:.1} points of the share (the paper: just under 2).",
        held(points > 0.0)
    );
    let few = 100.0 * (1.0 - share(&results.replicas[3]) / share(&results.replicas[0]));
    let rest = 100.0 * (1.0 - share(&results.replicas[9]) / share(&results.replicas[0]));
    let _ = writeln!(
        out,
        "- {}: four replicas are enough; they take away {few:.1} % of the share that one has, ten {rest:.1} %.",
        held(few >= 0.9 * rest)
    );
    let _ = writeln!(
        out,
        "- {}: {:.0} % of the requests go to 12 % of the files (the site is made so), and with these on all nodes the mean queueing delay of a partition is {:.0} % less (the paper: 62 %).",
        held(fewer(&results.top) >= 40.0),
        100.0 * results.top_share,
        fewer(&results.top)
    );
    let worst = [&results.partition, &results.hot_node, &results.top, &results.full[9]]
        .into_iter()
        .all(|other| share(other) < share(&results.by_type));
    let _ = writeln!(
        out,
        "- {}: servers by type are \"by far the worst\" of ten nodes, {} (the paper: 38 %), since two kinds have nearly all requests.",
        held(worst),
        percent(results.by_type.waiting_share)
    );
    let _ = writeln!(
        out,
        "- {}: replicating everything on 10 nodes takes \"just under 20 times the storage\"; here it takes {}, as it must.",
        held(false),
        storage(results, &results.full[9])
    );
    let _ = writeln!(
        out,
        "- The conclusion, the top 10 % on four nodes, takes {} (the paper: 5 times) and has {:.0} % less mean queueing delay than a partition by chance.",
        storage(results, &results.top_on_four),
        fewer(&results.top_on_four)
    );
}

fn real(out: &mut String, measured: &Measured) {
    let ms = |ns: f64| format!("{:.2} ms", ns / 1e6);
    let off = |(real, simulated): (f64, f64)| format!("{:+.1} %", 100.0 * (simulated / real - 1.0));
    let _ = write!(
        out,
        "\n{} requests; {}; {} failed; the simulated node is at work {:.0} % of its time, {} a request.\n\n\
         | | measured | simulated | off |\n|---|---|---|---|\n",
        measured.requests,
        measured.surroundings,
        measured.failures,
        100.0 * measured.utilisation,
        ms(measured.service_mean_ns),
    );
    let named = ["mean response", "p50", "p95"].into_iter().zip(measured.response_ns);
    for (name, pair) in named.chain([("mean queueing delay", measured.waiting_ns)]) {
        let _ = writeln!(out, "| {name} | {} | {} | {} |", ms(pair.0), ms(pair.1), off(pair));
    }
    let _ = writeln!(out, "\nAll within 15 %: {}.", if is_within(measured) { "yes" } else { "no" });
}

/// The loads of which not more than half of the runs are within what is promised.
pub(crate) fn loads_beyond(measured: &[Measured]) -> Vec<&str> {
    let runs = measured.chunk_by(|one, other| one.load == other.load);
    let beyond = runs.filter(|runs| 2 * runs.iter().filter(|run| is_within(run)).count() <= runs.len());
    beyond.map(|runs| runs[0].load.as_str()).collect()
}

/// Whether the simulation is as near to what was measured as is promised; where requests failed nothing is.
fn is_within(measured: &Measured) -> bool {
    let pairs = measured.response_ns.into_iter().chain([measured.waiting_ns]);
    measured.failures == 0 && pairs.into_iter().all(|pair| off_share(pair) <= 0.15)
}

fn off_share((real, simulated): (f64, f64)) -> f64 {
    (simulated / real - 1.0).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_runs_of_each_load_must_be_near() {
        let run = |load: &str, simulated: f64| Measured {
            load: load.to_owned(),
            surroundings: String::new(),
            requests: 1,
            failures: 0,
            utilisation: 0.6,
            service_mean_ns: 1.0,
            response_ns: [(100.0, simulated); 3],
            waiting_ns: (50.0, 50.0),
        };
        let near = [run("60", 114.0), run("60", 86.0), run("60", 130.0), run("80", 100.0)];
        assert!(loads_beyond(&near).is_empty());
        let far = [run("60", 114.0), run("60", 84.0), run("80", 100.0), run("80", 116.0), run("80", 84.0)];
        assert_eq!(loads_beyond(&far), ["60", "80"]);
        assert_eq!(loads_beyond(&[Measured { failures: 1, ..run("60", 100.0) }]), ["60"]);
    }
}
