//! Names that are looked up while a request waits.

use super::case::{Case, Draft};
use crate::finding::{Finding, Setting};
use crate::servers::{self, Kind, Server};
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// From this share of the mean response a queue for workers that look up names is looked into.
const MUCH: f64 = 0.2;
/// With less of the CPUs in use, workers that are busy wait for something.
const IDLE: f64 = 0.5;
/// From this share of the mean response look-ups are looked into.
const WORTH_LOOKING: f64 = 0.03;
/// The resolvers that a process asks.
const RESOLVERS: &str = "/etc/resolv.conf";

/// Waits for a name server.
pub(super) fn look_ups(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let answers = |pid: u32| case.recorded.here && servers::answers_names(pid);
    let is_resolver = |who: &str| {
        let (name, rest) = who.split_once(" (").unwrap_or((who, ""));
        let pid = rest.strip_suffix(')').and_then(|pid| pid.parse().ok());
        who.ends_with(":53")
            || who.ends_with(":5353")
            || ["systemd-resolve", "dnsmasq", "unbound", "named", "nscd"].contains(&name)
            || pid.is_some_and(answers)
    };
    let of = |part: Part| (part, observed.of_whom(part.name(), is_resolver));
    let parts = [of(Part::WaitProcess), of(Part::WaitNetwork)];
    let ns: f64 = parts.iter().map(|(_, ns)| ns).sum();
    if observed.share(ns) < WORTH_LOOKING {
        return for_the_log(case);
    }
    let evidence = parts.iter().filter(|(_, ns)| *ns > 0.0).map(|(part, ns)| case.evidence(*part, *ns)).collect();
    if let Some((server, setting)) = switched_on(case) {
        let effect = case.effect(
            Saving::shares(ns, 0.5, 0.95, 1.0),
            "no name is looked up for the log any more; the program may look up others",
        );
        let facts = vec![format!("{} looks up the client's name for each connection", server.label())];
        let reasoning = "logs hold addresses; their names can be looked up when a log is read".to_owned();
        let draft = Draft::new("dns_look_up", "a name is looked up for every request", evidence, effect);
        return vec![draft.set(
            vec![setting],
            facts,
            reasoning,
            &["`Require host` needs names, and looks them up for itself"],
        )];
    }
    let text = std::fs::read_to_string(RESOLVERS).unwrap_or_default();
    let server = text
        .lines()
        .enumerate()
        .find_map(|(index, line)| Some((index + 1, line.trim().strip_prefix("nameserver")?.trim().to_owned())));
    let facts = server.map(|(line, address)| format!("{RESOLVERS}:{line} asks {address}")).into_iter().collect();
    let effect = case.effect(
        Saving::shares(ns, 0.5, 0.9, 1.0),
        "an answer from a cache on this host takes some 10 us; the first of each name still asks",
    );
    let commands = vec![
        "apt-get install unbound, or enable systemd-resolved, and `nameserver 127.0.0.1` first in /etc/resolv.conf"
            .to_owned(),
        "or in the program: keep the connection, or the address, for as long as the record's time to live".to_owned(),
    ];
    let reasoning =
        "the handler asks a name server for each request, and nothing on this host remembers the answer".to_owned();
    let draft = Draft::new("dns_look_up", "a name is looked up for every request", evidence, effect);
    vec![draft.told(
        commands,
        facts,
        reasoning,
        &["a cache keeps an address for its time to live after it has changed"],
        "the resolver is the whole host's, not the server's",
    )]
}

/// The Apache that looks up its clients' names, and the setting that says so.
fn switched_on<'c>(case: &Case<'c>) -> Option<(&'c Server, Setting)> {
    case.servers.of(Kind::Apache).find_map(|(number, server)| {
        let found =
            server.configuration.last("HostnameLookups").filter(|found| !found.word().eq_ignore_ascii_case("off"))?;
        Some((server, Setting::of(number, &server.configuration, &found, "Off")))
    })
}

/// The worker looks up a name that only the log wants after it has sent the response: that response does not wait, but
/// the worker's next request does.
fn for_the_log(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let Some((server, setting)) = switched_on(case) else { return Vec::new() };
    let queues = [Part::AcceptQueue, Part::WorkerQueue].map(|part| (part, case.in_front_ns(part)));
    let ns: f64 = queues.iter().map(|(_, ns)| ns).sum();
    if observed.share(ns) < MUCH || observed.server_cpu.utilisation > IDLE * case.cpus() {
        return Vec::new();
    }
    let evidence = queues.iter().filter(|(_, ns)| *ns > 0.0).map(|(part, ns)| case.evidence(*part, *ns)).collect();
    let effect = case.effect(
        Saving::shares(ns, 0.0, 0.5, 1.0),
        "all of the queueing if it is due to the look-ups, none if the workers wait for something else after a response: the recording tells that they wait, not for what",
    );
    let facts = vec![
        format!(
            "{} looks up the client's name for its log after each response; its worker takes no request meanwhile",
            server.label()
        ),
        format!(
            "requests queue although the servers use {:.2} of {} CPUs",
            observed.server_cpu.utilisation,
            case.cpus()
        ),
    ];
    let reasoning = "logs hold addresses; their names can be looked up when a log is read".to_owned();
    let draft = Draft::new("dns_look_up", "workers look up names while requests queue", evidence, effect);
    vec![draft.set(vec![setting], facts, reasoning, &["`Require host` needs names, and looks them up for itself"])]
}
