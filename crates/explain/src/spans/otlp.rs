//! Spans as OTLP in JSON (the "JSON Protobuf encoding" of OpenTelemetry's protocol): one request to a receiver.

use super::sample::{Sample, Sampled};
use serde_json::{Value, json};
use weir_measure::part::Part;
use weir_report::{Example, ExampleStep, Explanation};

/// Kinds of spans.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// A span's status.
const ERROR: u8 = 2;
/// A span's flags: it was sampled.
const FLAGS: u32 = 1;

/// Whose requests are handed on, and which of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The service's name.
    pub service: String,
    /// The host's name.
    pub host: String,
    /// The run's directory.
    pub run: String,
    /// Which requests were chosen, in words.
    pub sample: String,
    /// The version of weir.
    pub version: String,
    /// They are told as a server sees them; else as the client of a load does.
    pub server_side: bool,
}

/// The sampled requests of an explanation, as the body of a request to `/v1/traces`, or a line of a file.
#[must_use]
pub fn otlp(explanation: &Explanation, sample: &Sample) -> Value {
    // A process is called with its number of workers.
    let process = explanation.processes.first().map(|process| process.name.split(" (").next().unwrap_or_default());
    let origin = Origin {
        service: if sample.server_side { process.unwrap_or("server") } else { "weir load" }.to_owned(),
        host: explanation.host.split(',').next().unwrap_or_default().to_owned(),
        run: explanation.run.clone(),
        sample: format!(
            "the {} slowest of {} requests, and {} of the others",
            sample.requests.iter().filter(|one| one.slow).count(),
            sample.of,
            sample.requests.iter().filter(|one| !one.slow).count(),
        ),
        version: explanation.version.clone(),
        server_side: sample.server_side,
    };
    body(&origin, &sample.requests)
}

/// Requests of an origin, in the same form.
#[must_use]
pub fn body(origin: &Origin, requests: &[Sampled]) -> Value {
    let spans: Vec<Value> = requests.iter().flat_map(|one| request(one, origin.server_side)).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", &origin.service),
                text("host.name", &origin.host),
                text("weir.run", &origin.run),
                text("weir.sample", &origin.sample),
            ] },
            "scopeSpans": [{
                "scope": { "name": "weir", "version": origin.version },
                "spans": spans,
            }],
        }]
    })
}

/// A request's span, then those of its parts.
fn request(one: &Sampled, server_side: bool) -> impl Iterator<Item = Value> {
    let Example { name, status, response_ns, steps, .. } = &one.request;
    // Below its caller's span, where the request names one; else it is a trace of its own.
    let trace = format!("{:032x}", one.trace());
    let root = format!("{:016x}", one.span());
    let mut attributes = vec![
        text("weir.sampled_as", if one.slow { "slow" } else { "other" }),
        json!({ "key": "weir.stands_for", "value": { "doubleValue": one.weight } }),
    ];
    if let Some((method, path)) = name.split_once(' ').filter(|(_, path)| path.starts_with('/')) {
        attributes.push(text("http.request.method", method));
        attributes.push(text("url.path", path.split(['?', '#']).next().unwrap_or_default()));
    }
    if *status != 0 {
        attributes.push(integer("http.response.status_code", i64::from(*status)));
    }
    // By the conventions a client's error is none of the server's.
    let failed = *status >= if server_side { 500 } else { 400 };
    if failed {
        attributes.push(text("error.type", &status.to_string()));
    }
    let mut first = json!({
        "traceId": trace,
        "spanId": root,
        "name": name,
        "kind": if server_side { SERVER } else { CLIENT },
        "startTimeUnixNano": one.begin_unix_ns.to_string(),
        "endTimeUnixNano": (one.begin_unix_ns + response_ns).to_string(),
        "attributes": attributes,
        "status": if failed { json!({ "code": ERROR }) } else { json!({}) },
        "flags": FLAGS,
    });
    if let Some(within) = one.within {
        first["parentSpanId"] = format!("{:016x}", within.span).into();
    }
    let own = |index: usize| format!("{:016x}", one.span_of(index as u64 + 1));
    let steps: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| part(step, one.begin_unix_ns, [&trace, &root, &own(index)]))
        .collect();
    std::iter::once(first).chain(steps)
}

/// A part's span; `ids` are those of the trace, of the parent and its own.
fn part(step: &ExampleStep, begin_unix_ns: u64, ids: [&str; 3]) -> Value {
    let [trace, parent, own] = ids;
    let mut attributes = vec![text("weir.part", &step.part)];
    for (key, value) in [("weir.task", &step.task), ("weir.culprit", &step.who)] {
        if !value.is_empty() {
            attributes.push(text(key, value));
        }
    }
    let words = Part::ALL.iter().find(|part| part.name() == step.part).map_or("", |part| part.words());
    let name = match step.who.as_str() {
        "" => words.to_owned(),
        who => format!("{words}: {who}"),
    };
    let start_ns = begin_unix_ns + step.from_ns;
    json!({
        "traceId": trace,
        "spanId": own,
        "parentSpanId": parent,
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": start_ns.to_string(),
        "endTimeUnixNano": (start_ns + step.ns).to_string(),
        "attributes": attributes,
        "flags": FLAGS,
    })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn integer(key: &str, value: i64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::sample::tests::request as example;
    use weir_wire::trace_context::TraceContext;

    #[test]
    fn the_parts_of_a_request_are_its_children_and_add_up_to_it() {
        let name = "GET /a.html?token=secret";
        let one = Sampled {
            key: 17,
            slow: true,
            weight: 1.0,
            begin_unix_ns: 1_000_000,
            within: None,
            request: example(name, 4_000),
        };
        let within = Some(TraceContext { trace: 0xabc, span: 0xdef, sampled: true });
        let below: Vec<Value> = request(&Sampled { within, ..one.clone() }, true).collect();
        assert!(below.iter().all(|span| span["traceId"] == format!("{:032x}", 0xabc)));
        assert_eq!(below[0]["parentSpanId"], "0000000000000def");
        assert_eq!(below[1]["parentSpanId"], below[0]["spanId"]);
        let spans: Vec<Value> = request(&one, true).collect();
        let (root, parts) = spans.split_first().expect("spans");
        let ns =
            |span: &Value, key: &str| span[key].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a time");
        let time = |span: &Value| ns(span, "endTimeUnixNano") - ns(span, "startTimeUnixNano");
        assert_eq!((time(root), parts.iter().map(time).sum::<u64>()), (4_000, 4_000));
        assert!(parts.iter().all(|part| part["parentSpanId"] == root["spanId"] && part["traceId"] == root["traceId"]));
        let attribute = |span: &Value, key: &str| {
            let all = span["attributes"].as_array().expect("attributes");
            all.iter()
                .find(|one| one["key"] == key)
                .map(|one| one["value"]["stringValue"].as_str().unwrap_or_default().to_owned())
        };
        // A path is no URL: url.full would be absolute (semantic conventions), and what stands behind ? may be secret.
        assert_eq!((attribute(root, "url.path").as_deref(), attribute(root, "url.full")), (Some("/a.html"), None));
        assert_eq!(attribute(&parts[1], "weir.culprit").as_deref(), Some("db: q"));
        let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| span["spanId"].to_string()).collect();
        assert_eq!(ids.len(), spans.len());
        assert_eq!(root["traceId"].as_str().map(str::len), Some(32));
    }
}
