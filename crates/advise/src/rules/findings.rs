//! Every rule in turn, and what no rule speaks of.

use super::case::{Case, WORTH_IT};
use super::{accept_mutex, connections, content, cpu, database, logs, names, php, workers};
use crate::finding::Finding;
use weir_measure::part::Part;

/// From this share of the mean response on, a part is always mentioned.
const LARGE: f64 = 0.10;

/// Every finding, numbered by expected effect.
pub(crate) fn findings(case: &Case<'_>) -> Vec<Finding> {
    let rules: [fn(&Case<'_>) -> Vec<Finding>; 15] = [
        php::pool_too_small,
        php::opcache_off,
        workers::too_few,
        connections::keep_alive_off,
        connections::no_resumption,
        connections::slow_client,
        connections::held_back,
        accept_mutex::contended,
        logs::unbuffered,
        logs::synchronous_commit,
        cpu::noisy_neighbour,
        cpu::quota,
        content::sendfile_off,
        database::missing_index,
        names::look_ups,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(case)).collect();
    findings.retain(|finding| finding.effect.share.high_ns >= WORTH_IT);
    findings.sort_by(|a, b| b.effect.saved_ns.likely_ns.total_cmp(&a.effect.saved_ns.likely_ns));
    for (index, finding) in findings.iter_mut().enumerate() {
        finding.number = index + 1;
    }
    findings
}

/// Large parts that no finding speaks of, each with the reason why no setting changes it.
pub(crate) fn beyond_settings(case: &Case<'_>, findings: &[Finding]) -> Vec<String> {
    let explained =
        |part: &str| findings.iter().any(|finding| finding.evidence.iter().any(|evidence| evidence.part == part));
    let mut texts = Vec::new();
    for part in Part::ALL {
        let ns = case.observed.part_ns(part.name());
        if case.observed.share(ns) < LARGE || explained(part.name()) {
            continue;
        }
        let text = format!(
            "{:.0} % is {} ({}): {}",
            100.0 * case.observed.share(ns),
            part.words(),
            part.name(),
            why_not(case, part)
        );
        texts.push(text);
    }
    texts
}

/// Why no setting changes a part.
fn why_not(case: &Case<'_>, part: Part) -> String {
    let who: Vec<String> = case.observed.blamed(part.name()).into_iter().map(|(who, _)| who).take(2).collect();
    let who = if who.is_empty() { "an unknown task".to_owned() } else { who.join(", ") };
    match part {
        Part::Run => "the server's own work; `weir record --stacks` shows which code it is".to_owned(),
        Part::WaitCpu if who.contains("weir-load") => {
            "the load generator shares the CPUs with the server: load from another host, or pin both".to_owned()
        }
        Part::WaitCpu => format!("the CPUs are taken by {who}: fewer instructions or more CPUs"),
        Part::Generator | Part::ClientWakeup => "it is the load generator's own, no user feels it".to_owned(),
        Part::Connect => "the client makes new connections; the server would keep them open".to_owned(),
        Part::RequestTransit | Part::ResponseTransit => "it is the way between client and server".to_owned(),
        Part::WaitTimer => format!("the program sleeps on purpose ({who}): its code says so, not a configuration"),
        Part::Stopped => {
            format!("it was held from outside ({who}): a signal, a debugger or a freezer did it, no setting")
        }
        Part::WaitProcess | Part::WaitNetwork => {
            format!(
                "it waits for {who}, of which no configuration was found here; name it by --pid or --port to look into it"
            )
        }
        Part::WaitLock if who.contains("/sess_") => {
            "PHP's lock on a user's session: one request at a time has it until session_write_close()".to_owned()
        }
        Part::WaitLock => format!("a lock of the program's own ({who})"),
        Part::WaitDisk => format!("reads or writes of {who}; a faster disk or more memory for the page cache"),
        Part::AcceptQueue | Part::WorkerQueue => "the workers are busy, and there are enough of them".to_owned(),
        Part::Unattributed => "the recording cannot tell what it is".to_owned(),
        #[allow(unreachable_patterns, reason = "later versions may add parts")]
        _ => "no rule knows this part".to_owned(),
    }
}
