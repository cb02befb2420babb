//! When a request came: the begin if the object has it, else the end and how long it took.

use super::fields::Fields;
use crate::duration;
use crate::time::{Moment, calendar, since_1970};
use serde_json::Value;

/// Names of the begin.
const BEGIN: &[&str] = &[
    "StartUTC",
    "StartLocal",
    "start_time",
    "startTime",
    "event.start",
    "request_start",
    "EdgeStartTimestamp",
    "requestTimeEpoch",
    "accept_date",
    "request_date",
];
/// Names of a time of which others have to say what it is; nginx's exact one first.
const TIME: &[&str] = &[
    "msec",
    "time",
    "ts",
    "timestamp",
    "@timestamp",
    "Time",
    "Timestamp",
    "datetime",
    "date_time",
    "time_iso8601",
    "time_local",
    "requestTime",
    "date",
    "eventTime",
    "_time",
    "__REALTIME_TIMESTAMP",
];

/// The time that is logged, and how long before it the request came where that is known, nanoseconds.
pub(super) fn of(fields: &Fields<'_>) -> Option<(Moment, Option<i128>)> {
    if let Some((_, begin)) = first(fields, BEGIN) {
        return Some((begin, None));
    }
    let (name, logged) = first(fields, TIME).or_else(|| Some(("date", date_and_time(fields)?)))?;
    Some((logged, took_ns(fields, name)))
}

/// The first of the names whose value is a time: a duration may be called `time`, too.
fn first<'n>(fields: &Fields<'_>, names: &'n [&'n str]) -> Option<(&'n str, Moment)> {
    fields.all(names).find_map(|(name, value)| Some((name, moment(value)?)))
}

fn moment(value: &Value) -> Option<Moment> {
    match value {
        Value::String(text) => calendar(text).or_else(|| since_1970(text)),
        // As it is written: nanoseconds since 1970 are too fine for floating point.
        Value::Number(number) => since_1970(&number.to_string()),
        _ => None,
    }
}

/// Two fields, as CloudFront writes them.
fn date_and_time(fields: &Fields<'_>) -> Option<Moment> {
    calendar(&format!("{} {}", fields.text(&["date"])?, fields.text(&["time"])?))
}

/// What a request took whose end is logged, by what nginx, Caddy, Traefik, CloudFront and pino write.
fn took_ns(fields: &Fields<'_>, name: &str) -> Option<i128> {
    let one = |name: &str| fields.one(name);
    let seconds = |value: &Value| match value {
        Value::String(text) => duration::of_seconds(text),
        Value::Number(number) if number.is_f64() => Some((number.as_f64()? * 1e9).round() as i128),
        _ => None,
    };
    if let Some(took_ns) = one("request_time").and_then(seconds).or_else(|| one("time-taken").and_then(seconds)) {
        return Some(took_ns);
    }
    // Go's nanoseconds.
    if let Some(took_ns) = one("Duration").and_then(Value::as_i64) {
        return Some(i128::from(took_ns));
    }
    let is_caddy = name == "ts"
        || fields.text(&["msg"]) == Some("handled request")
        || fields.text(&["logger"]).is_some_and(|logger| logger.starts_with("http.log.access"));
    if is_caddy && let Some(value) = one("duration") {
        return match value {
            Value::String(text) => duration::with_units(text),
            value => value.as_f64().map(|seconds| (seconds * 1e9).round() as i128),
        };
    }
    let ms = one("responseTime").filter(|_| one("req").is_some()).and_then(Value::as_f64)?;
    Some((ms * 1e6).round() as i128)
}
