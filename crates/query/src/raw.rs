//! Rows of raw tables: what one record says.

use crate::cell::since;
use crate::requests::without_query;
use rusqlite::types::Value;
use weir_trace::Sourced;
use weir_wire::Kind;
use weir_wire::asked::Question;
use weir_wire::client::ClientRequest;
use weir_wire::watched::DiskRequest;

/// Makes a row of a record: the values of all columns but the last one, its host's name, or nothing if the record has
/// no row in the table. The second argument is the run's first time, nanoseconds.
pub(crate) type Decode = fn(&Sourced<'_>, u64, &mut Vec<Value>) -> bool;

/// The decoder of a raw table.
pub(crate) fn decoder(table: &str) -> Option<Decode> {
    Some(match table {
        "events" => event,
        "load_samples" => load_sample,
        "asked" => asked,
        "disk_requests" => disk_request,
        _ => return None,
    })
}

fn whole(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn some(number: u64) -> Value {
    if number == 0 { Value::Null } else { whole(number) }
}

fn at(at_ns: u64, origin_ns: u64) -> Value {
    Value::Integer(since(at_ns, origin_ns))
}

fn event(sourced: &Sourced<'_>, origin_ns: u64, row: &mut Vec<Value>) -> bool {
    let record = &sourced.record;
    let kind =
        Kind::from_code(record.kind).map_or_else(|| format!("kind {}", record.kind), |kind| kind.spec().name.into());
    row.extend([
        at(record.time_ns, origin_ns),
        Value::Text(kind),
        Value::Text(sourced.source.name().to_owned()),
        Value::Integer(record.lane.into()),
        Value::Integer(record.flags.into()),
        // Operands may be keys of which each bit counts.
        Value::Integer(record.a as i64),
        Value::Integer(record.b as i64),
        Value::Integer(record.slots.into()),
    ]);
    true
}

fn load_sample(sourced: &Sourced<'_>, origin_ns: u64, row: &mut Vec<Value>) -> bool {
    let Some(request) = ClientRequest::read(&sourced.record, sourced.payload) else { return false };
    let name = sourced.name(request.name).map_or("", |name| without_query(name));
    row.extend([
        at(request.done_ns, origin_ns),
        at(request.intended_ns, origin_ns),
        at(request.started_ns, origin_ns),
        if request.first_byte_ns == 0 { Value::Null } else { at(request.first_byte_ns, origin_ns) },
        whole(request.done_ns.saturating_sub(request.intended_ns)),
        Value::Text(name.to_owned()),
        some(request.status.into()),
        Value::Text(request.outcome.name().to_owned()),
        whole(request.request_bytes.into()),
        whole(request.response_bytes),
        some(request.http_version.into()),
        whole(request.connection),
        Value::Integer(request.opened_connection.into()),
        Value::Integer(request.retried.into()),
    ]);
    true
}

fn asked(sourced: &Sourced<'_>, origin_ns: u64, row: &mut Vec<Value>) -> bool {
    let Some(question) = Question::read(&sourced.record, sourced.payload) else { return false };
    let words = sourced.name(question.name).map_or("", |name| &**name);
    let mut pieces = words.splitn(3, '\t');
    let mut piece = || Value::Text(pieces.next().unwrap_or_default().to_owned());
    let (protocol, shape, answer) = (piece(), piece(), piece());
    let duration_ns = question.answered_ns.saturating_sub(question.asked_ns);
    row.extend([
        at(sourced.record.time_ns, origin_ns),
        at(question.asked_ns, origin_ns),
        if question.answered { whole(duration_ns) } else { Value::Null },
        Value::Integer(question.pid.into()),
        protocol,
        shape,
        answer,
        Value::Integer(question.failed.into()),
    ]);
    true
}

fn disk_request(sourced: &Sourced<'_>, origin_ns: u64, row: &mut Vec<Value>) -> bool {
    let Some(request) = DiskRequest::read(&sourced.record) else { return false };
    let sort = ["read", "write", "flush"].get(usize::from(sourced.record.flags)).unwrap_or(&"other");
    row.extend([
        at(sourced.record.time_ns, origin_ns),
        whole(request.duration_ns),
        Value::Integer(request.pid.into()),
        Value::Text(format!("{}:{}", request.device >> 20, request.device & 0xf_ffff)),
        Value::Text((*sort).to_owned()),
        whole(request.bytes),
    ]);
    true
}
