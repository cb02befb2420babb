//! A plan for programs.

use super::{Planned, words};
use serde_json::{Value, json};
use weir_plan::{Discipline, Kind, Tried};

pub(super) fn of(planned: &Planned<'_>) -> Value {
    let (log, cluster, service) = (planned.log, planned.cluster, &planned.service);
    let of_kind: serde_json::Map<String, Value> = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind.name().to_owned(), json!(service.of_kind_ns[kind as usize]?))))
        .collect();
    json!({
        "version": crate::VERSION,
        "answer": words::answer(planned),
        "best": planned.best().map(tried),
        "tried": planned.found.tried.iter().map(tried).collect::<Vec<_>>(),
        "objective": planned.limits.map(|limits| json!({
            "share": limits.share, "limit_ns": limits.limit_ns, "nodes_max": limits.nodes_max,
        })),
        "log": {
            "requests": log.requests(),
            "duration_s": log.duration_s(),
            "objects": log.objects().iter().skip(1).filter(|object| object.requests > 0).count(),
            "bytes": log.bytes(),
            "malformed": log.malformed(),
            "malformed_first": log.told().iter().map(|(name, at, what)| json!({ "log": name, "at": at, "what": what })).collect::<Vec<_>>(),
        },
        "growth": planned.growth,
        "service": {
            "fixed_ns": service.fixed_ns,
            "per_byte_ns": service.per_byte_ns,
            "of_kind_ns": of_kind,
            "variation": service.variation,
        },
        "nodes": {
            "workers": cluster.servers,
            "shared": cluster.discipline == Discipline::Shared,
            "queue_max": cluster.queue_max,
        },
        "seeds": planned.seeds,
        "warnings": planned.warnings,
    })
}

fn tried(tried: &Tried) -> Value {
    json!({
        "nodes": tried.nodes,
        "policy": tried.policy.to_string(),
        "words": words::what_where(&tried.policy),
        "is_met": tried.is_met,
        "figures": tried.figures,
    })
}
