//! Logs: written for each request, or forced to disk by the database for each commit.

use super::case::{Case, Draft};
use crate::finding::{Finding, Setting};
use crate::servers::Kind;
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// From this share of the mean response a wait for the disk is looked into.
const WORTH_LOOKING: f64 = 0.03;

/// Access logs that are written at each request.
pub(super) fn unbuffered(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let disk_ns = observed.part_ns(Part::WaitDisk.name());
    if observed.share(disk_ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let blamed = observed.blamed(Part::WaitDisk.name());
    let mut findings = Vec::new();
    for (number, server) in case.servers.list.iter().enumerate() {
        let configuration = &server.configuration;
        let (setting, log, reasoning) = match server.kind {
            Kind::Apache => {
                let Some(log) = configuration.last("CustomLog").or_else(|| configuration.last("TransferLog")) else {
                    continue;
                };
                let setting = match configuration.last("BufferedLogs") {
                    Some(found) if found.word().eq_ignore_ascii_case("on") => continue,
                    Some(found) => Setting::of(number, configuration, &found, "On"),
                    None => Setting::added(number, configuration, "BufferedLogs", &[], "Off", "On"),
                };
                let reasoning = "4 KiB hold some fifty lines; they are written when the next one does not fit, or when the process ends";
                (setting, log.word().to_owned(), reasoning)
            }
            Kind::Nginx => {
                let logs = configuration.all("access_log");
                let plain = |words: &[String]| {
                    words.first().is_some_and(|word| word != "off")
                        && !words.iter().any(|word| word.starts_with("buffer="))
                };
                let Some(found) = logs.into_iter().rfind(|found| plain(&found.words)) else { continue };
                // A buffer needs the format to be named.
                let format = if found.words.len() == 1 { " combined" } else { "" };
                let proposed = format!("{}{format} buffer=64k flush=5s", found.directive.raw);
                let reasoning = "64 KiB hold some hundred lines, and nothing is older than 5 s when it is written";
                (Setting::of(number, configuration, &found, &proposed), found.word().to_owned(), reasoning)
            }
            _ => continue,
        };
        let name = log.rsplit('/').next().unwrap_or(&log);
        let of_log = observed.of_whom(Part::WaitDisk.name(), |who| who.contains(name) || who.contains("log"));
        // Files are named, and the log is none of them: then it is not the log.
        if !blamed.is_empty() && of_log <= 0.0 && blamed.iter().any(|(who, _)| who.contains('/')) {
            continue;
        }
        let (saving, basis) = if of_log > 0.0 {
            (
                Saving::shares(of_log, 0.7, 0.95, 1.0),
                "one write for fifty or more requests in the place of one for each",
            )
        } else {
            (
                Saving::shares(disk_ns, 0.0, 0.5, 1.0),
                "all of the wait for the disk if it is the log, nothing if it is another file: which one was not recorded",
            )
        };
        let effect = case.effect(saving, basis);
        let facts = vec![format!("{} writes a line to {log} for each request, unbuffered", server.label())];
        let against = ["the last lines are lost when the server is killed", "who follows the log sees lines later"];
        let evidence = vec![case.evidence(Part::WaitDisk, if of_log > 0.0 { of_log } else { disk_ns })];
        findings.push(
            Draft::new("log_unbuffered", "the access log is written at every request", evidence, effect).set(
                vec![setting],
                facts,
                reasoning.to_owned(),
                &against,
            ),
        );
    }
    findings
}

/// A database that waits for its own log at each commit.
pub(super) fn synchronous_commit(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let is_database = |who: &str| Case::is_of(who, Kind::Postgres) || who.contains("pg_wal");
    let edges: f64 = observed
        .waiting
        .iter()
        .filter(|edge| edge.part == "wait_disk" && (is_database(&edge.from) || is_database(&edge.to)))
        .map(|edge| edge.mean_ns)
        .sum();
    let ns = edges.max(observed.of_whom(Part::WaitDisk.name(), is_database));
    if observed.share(ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, server) in case.servers.of(Kind::Postgres) {
        let configuration = &server.configuration;
        let setting = match configuration.last("synchronous_commit") {
            Some(found) if found.word() == "off" => continue,
            Some(found) => Setting::of(number, configuration, &found, "off"),
            None => Setting::added(number, configuration, "synchronous_commit", &[], "on", "off"),
        };
        let effect =
            case.effect(Saving::shares(ns, 0.3, 0.8, 1.0), "commits no longer wait for the disk; reads still may");
        let facts = vec![format!("{} waits for its log to be on the disk at each commit", server.label())];
        let reasoning =
            "the log is written within wal_writer_delay (0.2 s unless set) all the same; nothing is corrupted"
                .to_owned();
        let against = [
            "the last fraction of a second of commits is lost when the host crashes: set it only for sessions or users that may lose them (ALTER ROLE ... SET synchronous_commit = off)",
        ];
        let draft = Draft::new(
            "synchronous_commit",
            "commits wait for the database's log to be on the disk",
            vec![case.evidence(Part::WaitDisk, ns)],
            effect,
        );
        findings.push(draft.set(vec![setting], facts, reasoning, &against).without_trial("a database is never tried on its owner's data; set it for a session and compare: SET synchronous_commit = off"));
    }
    findings
}
