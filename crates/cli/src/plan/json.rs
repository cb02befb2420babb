//! A plan for programs.

use super::planned::Planned;
use super::words;
use serde_json::{Value, json};
use weir_plan::{Discipline, Kind, SizeFrom, Tried};

pub(super) fn of(planned: &Planned<'_>) -> Value {
    let (log, cluster, service) = (planned.log, planned.cluster, &planned.service);
    let (left_out, unread) = (log.left_out(), log.unread());
    let of_kind: serde_json::Map<String, Value> = Kind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind.name().to_owned(), json!(service.of_kind_ns[kind as usize]?))))
        .collect();
    json!({
        "schema": "weir-plan/1",
        "version": weir_terminal::VERSION,
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
            "errors": log.errors(),
            "malformed": left_out.count(),
            "malformed_by_reason": left_out.by_reason().iter().map(|(reason, count)| json!({ "what": reason.words(), "count": count })).collect::<Vec<_>>(),
            "malformed_first": left_out.first().iter().map(|(name, at, reason)| json!({ "log": name, "at": at, "what": reason.words() })).collect::<Vec<_>>(),
            "without_status": unread.statuses,
            "without_size": unread.sizes,
            "apparent_parts_of_seconds": unread.apparent_parts,
            "zero_bytes": unread.zeros,
            "objects_without_size": log.objects_sized_from(SizeFrom::Nothing),
            "objects_sized_by_parts": log.objects_sized_from(SizeFrom::Parts),
            "longest_gap_s": log.longest_gap().map_or(0, |(from, to)| to - from),
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
