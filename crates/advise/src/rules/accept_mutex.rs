//! Apache's accept mutex: with more than one Listen line its workers take turns at waiting for connections.

use super::case::{Case, Draft};
use crate::configuration::Found;
use crate::finding::{Finding, Setting};
use crate::servers::Kind;
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// From this share of the mean response a lock is looked into.
const WORTH_LOOKING: f64 = 0.02;

/// Contention for the mutex, in models that have it.
pub(super) fn contended(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let lock_ns = observed.part_ns(Part::WaitLock.name());
    if observed.share(lock_ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let blamed = observed.blamed(Part::WaitLock.name());
    // `semaphore held by apache2 (9)` where locks were watched, else the one who ended the wait.
    let holder = |who: &str| who.rsplit_once(" by ").map_or(who, |(_, holder)| holder).to_owned();
    let is_apache = |who: &str| Case::is_of(&holder(who), Kind::Apache) || who.contains("accept");
    // Apache's processes hand the mutex on within microseconds; another program may hold it for long.
    let stranger = blamed.iter().map(|(who, _)| (who, holder(who))).find(|(who, holder)| {
        who.contains("accept") && who.contains(" held by ") && !Case::is_of(holder, Kind::Apache)
    });
    if !blamed.is_empty() && !blamed.iter().any(|(who, _)| is_apache(who)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, server) in case.servers.of(Kind::Apache) {
        let configuration = &server.configuration;
        let listens = configuration.all("Listen");
        let modules = configuration.all("LoadModule");
        let model =
            modules.iter().map(Found::word).find(|name| ["mpm_prefork_module", "mpm_worker_module"].contains(name));
        let (Some(model), true) = (model, listens.len() > 1) else { continue };
        let mutex = configuration
            .all("Mutex")
            .into_iter()
            .rfind(|found| found.words.get(1).is_none_or(|which| which == "mpm-accept" || which == "default"));
        let mechanism =
            mutex.as_ref().map_or("default", |found| found.word().split(':').next().unwrap_or("default")).to_owned();
        let is_slow = !["pthread", "default"].contains(&mechanism.as_str());
        let setting = match &mutex {
            Some(found) if is_slow => Setting::of(number, configuration, found, "pthread mpm-accept"),
            _ => match configuration.last("ListenCoresBucketsRatio") {
                Some(found) if found.word() != "0" => continue,
                Some(found) => Setting::of(number, configuration, &found, "1"),
                None => Setting::added(number, configuration, "ListenCoresBucketsRatio", &[], "0", "1"),
            },
        };
        let ours_ns = if blamed.is_empty() { lock_ns } else { observed.of_whom(Part::WaitLock.name(), is_apache) };
        let reasoning = if is_slow {
            "a mutex in shared memory needs no system call where it is free; a file lock needs two each time".to_owned()
        } else {
            "a queue of connections for each CPU (SO_REUSEPORT): fewer workers share one mutex".to_owned()
        };
        let effect = case.effect(
            Saving::shares(ours_ns, 0.0, 0.5, 1.0),
            "between nothing and all of the wait for the mutex: who else would have been slow is not known",
        );
        let mut facts = vec![format!(
            "{} ({}) has {} Listen lines, the first in line {}; so its workers take turns at accepting, by the mutex mechanism {mechanism:?}",
            server.label(),
            model.trim_end_matches("_module"),
            listens.len(),
            listens.first().map_or(0, |found| found.directive.place.line)
        )];
        let against = [
            "a single Listen line needs no mutex at all: remove the others if no client uses them",
            "the event model (mpm_event) needs none either, but not every module may be used with threads",
        ];
        let draft = Draft::new(
            "accept_mutex",
            "workers wait for the accept mutex",
            vec![case.evidence(Part::WaitLock, ours_ns)],
            effect,
        );
        facts.extend(stranger.as_ref().map(|(what, _)| format!("{what}, which is no process of Apache's")));
        let finding = draft.set(vec![setting], facts, reasoning, &against);
        findings.push(match &stranger {
            Some((_, holder)) => finding
                .without_trial(&format!("the copies would have a lock of their own, which {holder} does not hold")),
            None => finding,
        });
    }
    findings
}
