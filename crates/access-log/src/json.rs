//! A line that is an object of JSON, as `weir serve`, Caddy, Traefik, and nginx and Apache by their formats write them.
//!
//! There is no standard: each field is looked for by the names that are in use, also within an object `request`.

use crate::Entry;
use crate::entry::{checked_method, path_of, request_line};
use crate::time::{log_time, rfc3339};
use serde_json::{Map, Value};
use std::borrow::Cow;

const TIME: &[&str] =
    &["time", "ts", "timestamp", "@timestamp", "time_iso8601", "time_local", "msec", "StartUTC", "start_time", "date"];
const METHOD: &[&str] = &["method", "request_method", "RequestMethod", "http_method", "verb"];
const TARGET: &[&str] = &["target", "uri", "request_uri", "RequestPath", "path", "url"];
const STATUS: &[&str] = &["status", "DownstreamStatus", "status_code", "response_code", "code"];
const BYTES: &[&str] =
    &["bytes", "size", "body_bytes_sent", "bytes_sent", "DownstreamContentSize", "response_size", "length"];

pub(crate) fn parse(line: &[u8]) -> Result<Entry<'static>, &'static str> {
    let Ok(Value::Object(line)) = serde_json::from_slice(line) else { return Err("it is no object of JSON") };
    let inner = line.get("request").and_then(Value::as_object);
    let look = |names: &[&str]| find(&line, names).or_else(|| inner.and_then(|inner| find(inner, names)));
    let (second, nanosecond) =
        look(TIME).and_then(time).ok_or("it has no time (time, ts, timestamp) that can be read")?;
    let (method, target) = match (look(METHOD).and_then(Value::as_str), look(TARGET).and_then(Value::as_str)) {
        (Some(method), Some(target)) => (checked_method(method)?, path_of(target)?),
        _ => match line.get("request").and_then(Value::as_str) {
            Some(request) => request_line(request)?,
            None => return Err("it has no method and target (uri, path, request)"),
        },
    };
    // A text of JSON may hold what a line cannot.
    if target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err("its path holds a blank or a control character");
    }
    Ok(Entry {
        second,
        nanosecond,
        method: Cow::Owned(method.to_owned()),
        target: Cow::Owned(target.to_owned()),
        status: look(STATUS).and_then(number).and_then(|status| u16::try_from(status).ok()),
        bytes: look(BYTES).and_then(number),
    })
}

fn find<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name))
}

/// A whole number, also one in quotes.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Seconds since 1970 as a number, in quotes or not, or a date.
fn time(value: &Value) -> Option<(i64, Option<u32>)> {
    if let Some(text) = value.as_str() {
        return rfc3339(text).or_else(|| Some((log_time(text)?, None))).or_else(|| since_1970(text.parse().ok()?));
    }
    since_1970(value.as_f64()?)
}

fn since_1970(number: f64) -> Option<(i64, Option<u32>)> {
    // From the year 2286 on seconds look like milliseconds of 1970.
    let (seconds, in_ms) = if number.abs() >= 1e10 { (number / 1000.0, true) } else { (number, false) };
    if !seconds.is_finite() || seconds.abs() > 1e12 {
        return None;
    }
    let whole = seconds.floor();
    let nanosecond = ((seconds - whole) * 1e9).round().min(999_999_999.0) as u32;
    Some((whole as i64, (in_ms || number.fract() != 0.0).then_some(nanosecond)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_understood() {
        let of = |line: &str| parse(line.as_bytes());
        for line in [
            r#"{"time":"2000-10-10T20:55:36.250Z","client":"::1","method":"GET","target":"/a","status":200,"bytes":7}"#,
            r#"{"ts":971211336.25,"request":{"method":"GET","host":"h","uri":"/a"},"status":200,"size":7}"#,
            r#"{"msec":"971211336.25","request":"GET /a HTTP/1.1","status":"200","body_bytes_sent":"7"}"#,
            r#"{"StartUTC":"2000-10-10T20:55:36.25Z","RequestMethod":"GET","RequestPath":"/a","DownstreamStatus":200,"DownstreamContentSize":7}"#,
            r#"{"timestamp":971211336250,"method":"GET","url":"http://h/a","code":200,"length":7}"#,
        ] {
            let entry = of(line).unwrap_or_else(|problem| panic!("{line}: {problem}"));
            assert_eq!((entry.second, entry.nanosecond), (971_211_336, Some(250_000_000)), "{line}");
            assert_eq!((&*entry.method, &*entry.target), ("GET", "/a"), "{line}");
            assert_eq!((entry.status, entry.bytes), (Some(200), Some(7)), "{line}");
        }
        let local = of(r#"{"time_local":"10/Oct/2000:13:55:36 -0700","request":"GET / HTTP/1.0"}"#).expect("a request");
        assert_eq!((local.second, local.nanosecond, local.bytes), (971_211_336, None, None));
        assert!(of("{").is_err_and(|problem| problem.contains("JSON")));
        assert!(of(r#"{"method":"GET","uri":"/"}"#).is_err_and(|problem| problem.contains("no time")));
        assert!(of(r#"{"ts":1e300,"method":"GET","uri":"/"}"#).is_err());
        assert!(of(r#"{"ts":1,"method":"GET","uri":"/\r\nX: y"}"#).is_err_and(|problem| problem.contains("control")));
        assert!(of(r#"{"ts":1,"uri":"/"}"#).is_err_and(|problem| problem.contains("no method")));
    }
}
