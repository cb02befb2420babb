//! A plan in words.

use super::planned::Planned;
use weir_plan::{Discipline, Over, Policy};
use weir_report::{bytes, count, nanoseconds, percent};

/// The answer in a sentence.
pub(super) fn answer(planned: &Planned<'_>) -> String {
    let Some(limits) = planned.limits else {
        let nodes = planned.found.tried.first().map_or(0, |tried| tried.nodes);
        let policies = match planned.found.tried.len() {
            1 => "1 policy".to_owned(),
            number => format!("{number} policies"),
        };
        return format!("{policies} on {}", of_nodes(nodes));
    };
    let Some(best) = planned.best() else {
        let best = planned
            .found
            .tried
            .iter()
            .min_by(|one, other| one.figures.missed_share.high.total_cmp(&other.figures.missed_share.high));
        let nearest = best.map_or(String::new(), |best| {
            let missed = percent(best.figures.missed_share.high);
            format!("; {}, {}, misses it for {missed} of the requests", of_nodes(best.nodes), what_where(&best.policy))
        });
        let objective = planned.objective.as_deref().unwrap_or_default();
        return format!("no plan of up to {} meets {objective}{nearest}", of_nodes(limits.nodes_max));
    };
    let full = best.nodes as f64 * planned.log.bytes() as f64;
    let storage = best.figures.storage.mean;
    let instead = if storage < 0.995 * full { format!(" instead of {}", bytes(full as u64)) } else { String::new() };
    format!(
        "{}; {}: {} {}, {}{instead}",
        of_nodes(best.nodes),
        what_where(&best.policy),
        name_of(limits.share),
        nanoseconds(best.figures.response_asked_ns.mean),
        bytes(storage as u64),
    )
}

/// `p95` for 0.95.
pub(super) fn name_of(share: f64) -> String {
    let percent = format!("{:.3}", share * 100.0);
    format!("p{}", percent.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn of_nodes(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// What lies where, in words.
pub(super) fn what_where(policy: &Policy) -> String {
    match policy {
        Policy::Full => "everything on each".to_owned(),
        Policy::Partition(_) => "each object on one".to_owned(),
        Policy::HotNode(_) => "the first has everything, the others a part each".to_owned(),
        Policy::Replicas { copies, .. } => format!("each object on {copies}"),
        Policy::Top { share, copies, .. } => {
            let on = copies.map_or("all".to_owned(), |copies| copies.to_string());
            format!("the {} most asked objects on {on}, the rest on one each", percent(*share))
        }
        Policy::ByType => "each kind of object on a node of its own".to_owned(),
        Policy::Lard(lard) if lard.is_replicated => "LARD with replicas".to_owned(),
        Policy::Lard(_) => "LARD".to_owned(),
        Policy::Hash { bound: None } => "consistent hashing".to_owned(),
        Policy::Hash { bound: Some(bound) } => format!("consistent hashing within {bound} times the mean"),
    }
}

/// Key and words of what a plan rests on.
pub(super) fn evidence(planned: &Planned<'_>) -> Vec<(&'static str, String)> {
    let (log, cluster) = (planned.log, &planned.cluster);
    let asked = log.objects().iter().skip(1).filter(|object| object.requests > 0).count();
    let rate = log.requests() as f64 / log.duration_s().max(1) as f64;
    let growth = if planned.growth == 1.0 { String::new() } else { format!(", {} times as fast", planned.growth) };
    let workers = if cluster.servers == 1 { "1 worker".to_owned() } else { format!("{} workers", cluster.servers) };
    let order = match cluster.discipline {
        Discipline::Fifo => "first come, first served",
        Discipline::Shared => "all at once",
    };
    let variation = if planned.service.variation > 0.0 {
        format!(", coefficient of variation {}", planned.service.variation)
    } else {
        String::new()
    };
    let errors = match log.errors() {
        0 => String::new(),
        errors => format!("; {} of them answered with 400 or above, which are work but no object", count(errors)),
    };
    vec![
        (
            "log",
            format!(
                "{} requests in {} s, {rate:.1}/s{growth}; {} objects, {}",
                count(log.requests()),
                count(log.duration_s()),
                count(asked as u64),
                bytes(log.bytes())
            ),
        ),
        ("of which", format!("queueing and responses are those of all {} requests{errors}", count(log.requests()))),
        ("service", format!("{}{variation}", planned.service_words)),
        ("nodes", format!("{workers} each, {order}, at most {} requests", count(u64::from(cluster.queue_max)))),
        (
            "chance",
            if planned.seeds == 1 {
                "1 seed".to_owned()
            } else {
                format!("{} seeds; ranges are over these", planned.seeds)
            },
        ),
    ]
}

/// A figure with its range, if it has one that shows.
pub(super) fn ranged(over: Over, words: impl Fn(f64) -> String) -> String {
    let (low, high) = (words(over.low), words(over.high));
    if low == high { words(over.mean) } else { format!("{} ({low} to {high})", words(over.mean)) }
}
