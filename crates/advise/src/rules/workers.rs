//! Too few workers: requests wait although CPUs are idle.

use super::case::{Case, Draft};
use crate::finding::{Finding, Setting};
use crate::servers::{Kind, Server};
use weir_measure::part::Part;
use weir_measure::queueing::{Shared, staffed};
use weir_report::nanoseconds;

/// From this share of the mean response queueing is looked into.
const WORTH_LOOKING: f64 = 0.05;
/// The CPUs count as taken from here on.
const BUSY: f64 = 0.9;

/// Apache's MaxRequestWorkers and nginx's worker_processes.
pub(super) fn too_few(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let (accept_ns, worker_ns) = (case.in_front_ns(Part::AcceptQueue), case.in_front_ns(Part::WorkerQueue));
    if observed.share(accept_ns + worker_ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, server) in &case.servers.of(Kind::Apache).collect::<Vec<_>>() {
        findings.extend(apache(case, *number, server, accept_ns + worker_ns));
    }
    for (number, server) in &case.servers.of(Kind::Nginx).collect::<Vec<_>>() {
        findings.extend(nginx(case, *number, server, accept_ns + worker_ns));
    }
    findings
}

fn saving_of(case: &Case<'_>, queue_ns: f64) -> weir_measure::queueing::Saving {
    let observed = case.observed;
    let cpu_ns = observed.cpu_ns();
    Shared {
        response_ns: observed.response_ns(),
        queue_ns,
        in_flight: observed.in_flight(),
        cpus: case.cpus(),
        cpu_low_ns: cpu_ns,
        cpu_high_ns: cpu_ns * 1.5,
    }
    .saving()
}

fn queues(case: &Case<'_>) -> Vec<crate::finding::Evidence> {
    let parts = [Part::AcceptQueue, Part::WorkerQueue].map(|part| (part, case.in_front_ns(part)));
    let large = parts.into_iter().filter(|(_, ns)| case.observed.share(*ns) >= super::case::WORTH_IT);
    large.map(|(part, ns)| case.evidence(part, ns)).collect()
}

fn number_of(server: &Server, name: &str) -> Option<u32> {
    server.configuration.last(name)?.word().parse().ok()
}

/// What Apache can handle at once.
fn capacity(server: &Server) -> (u32, &'static str) {
    let modules = server.configuration.all("LoadModule");
    let model = |name: &str| modules.iter().any(|found| found.word() == name);
    let default = if model("mpm_prefork_module") { 256 } else { 400 };
    let limit = number_of(server, "MaxRequestWorkers").or_else(|| number_of(server, "MaxClients")).unwrap_or(default);
    (limit, if model("mpm_prefork_module") { "processes" } else { "threads" })
}

fn apache(case: &Case<'_>, number: usize, server: &Server, queue_ns: f64) -> Option<Finding> {
    let observed = case.observed;
    let (limit, what) = capacity(server);
    // As many as are in flight, or as connections that stay open: an idle connection holds a prefork process, too.
    let connections = f64::from(case.recorded.connections.unwrap_or(0));
    let wanted = observed.in_flight().max(connections);
    if wanted < 0.8 * f64::from(limit) {
        return None;
    }
    let proposed = staffed(wanted).max(limit + 1).min(20_000);
    let configuration = &server.configuration;
    let found = configuration.last("MaxRequestWorkers").or_else(|| configuration.last("MaxClients"));
    let main = match &found {
        Some(found) => Setting::of(number, configuration, found, &proposed.to_string()),
        None => {
            Setting::added(number, configuration, "MaxRequestWorkers", &[], &limit.to_string(), &proposed.to_string())
        }
    };
    let mut settings = vec![main];
    settings.extend(limits(server, number, proposed, what));
    let evidence = queues(case);
    let effect = case.effect(
        saving_of(case, queue_ns),
        format!(
            "the queue goes away; by Little's law {:.1} requests are in flight, which then share {} CPUs at {} each (asymptotic bounds of a closed system)",
            observed.in_flight(),
            case.cpus(),
            nanoseconds(observed.cpu_ns())
        ),
    );
    let facts =
        vec![format!("{} handles at most {limit} requests at once ({what}); {wanted:.1} are there", server.label())];
    let reasoning = format!(
        "{wanted:.1} requests or connections at a time, and twice the square root of that, so that few wait (square-root staffing): {proposed}"
    );
    let against = [
        "each worker takes memory: what one takes times their number must fit",
        "more requests at once reach the servers behind, such as the database",
    ];
    Some(
        Draft::new("too_few_workers", format!("too few workers: MaxRequestWorkers {limit}"), evidence, effect)
            .set(settings, facts, reasoning, &against),
    )
}

/// What else bounds Apache's workers.
fn limits(server: &Server, number: usize, proposed: u32, what: &str) -> Vec<Setting> {
    let configuration = &server.configuration;
    let mut settings = Vec::new();
    let mut at_least = |name: &str, default: u32, wanted: u32| {
        let now = number_of(server, name).unwrap_or(default);
        if now < wanted {
            settings.push(match configuration.last(name) {
                Some(found) => Setting::of(number, configuration, &found, &wanted.to_string()),
                None => Setting::added(number, configuration, name, &[], &default.to_string(), &wanted.to_string()),
            });
        }
    };
    if what == "processes" {
        at_least("ServerLimit", 256, proposed);
        at_least("MaxSpareServers", 10, proposed.min(32));
    } else {
        let threads = number_of(server, "ThreadsPerChild").unwrap_or(25).max(1);
        at_least("ServerLimit", 16, proposed.div_ceil(threads));
    }
    settings
}

fn nginx(case: &Case<'_>, number: usize, server: &Server, queue_ns: f64) -> Option<Finding> {
    let observed = case.observed;
    let configuration = &server.configuration;
    let found = configuration.last("worker_processes");
    let now = found.as_ref().map_or("1", |found| found.word()).to_owned();
    let workers: u32 = now.parse().ok()?;
    let cpus = case.recorded.cpus;
    if workers >= cpus || observed.server_cpu.utilisation >= BUSY * case.cpus() {
        return None;
    }
    let setting = match &found {
        Some(found) => Setting::of(number, configuration, found, "auto"),
        None => Setting::added(number, configuration, "worker_processes", &[], "1", "auto"),
    };
    // The work is divided among more: of the queue remains, at worst, what the workers' ratio leaves.
    let remains = f64::from(workers) / f64::from(cpus);
    let best = saving_of(case, queue_ns);
    let saving = weir_measure::queueing::Saving::of(
        (queue_ns * (1.0 - remains)).min(best.low_ns),
        queue_ns * (1.0 - remains),
        best.high_ns,
    );
    let effect = case.effect(saving, format!("the queue is divided among {cpus} workers in the place of {workers}"));
    let facts = vec![
        format!("{} has {workers} worker{} on {cpus} CPUs", server.label(), if workers == 1 { "" } else { "s" }),
        format!("the server's tasks use {:.2} CPUs", observed.server_cpu.utilisation),
    ];
    let reasoning = format!("one worker for each CPU, which is what auto means: {cpus}");
    let against = [
        "where the load generator or other servers need the same CPUs, it only moves the queue",
        "caches and limits that are not in shared memory are kept by each worker",
    ];
    let title = format!("too few workers: worker_processes {workers}");
    Some(Draft::new("too_few_workers", title, queues(case), effect).set(vec![setting], facts, reasoning, &against))
}
