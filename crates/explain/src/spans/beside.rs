//! Spans of existing instrumentation beside our parts: what lies before and after them, and what they were spent on.

use super::read::ForeignSpan;
use super::real_time::RealTime;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_measure::part::Part;
use weir_timeline::Response;

/// Clocks of one host agree with each other within this, while NTP corrects the real one; nanoseconds.
const SLACK_NS: u64 = 1_000_000;
/// Classes that are told apart.
const MOST_CLASSES: usize = 200;

/// Spans of one name, and the requests that they were found to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BesideClass {
    /// Requests that one span is of.
    pub requests: u64,
    /// The mean span, nanoseconds.
    pub span_ns: f64,
    /// The mean response of these requests, from the arrival at the server's socket to the last send.
    pub response_ns: f64,
    /// What of it lies before the span begins: the instrumentation does not see it.
    pub before_ns: f64,
    /// What lies after the span's end.
    pub after_ns: f64,
    /// What the time within the span was spent on, by part.
    pub parts_ns: BTreeMap<String, f64>,
}

/// All spans of servers that were given, laid beside the requests of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Beside {
    /// By the span's name, with its service.
    pub classes: BTreeMap<String, BesideClass>,
    /// Spans that were given.
    pub spans: u64,
    /// Requests of which no span was found.
    pub requests_without_span: u64,
    /// Requests that several spans may be of: none was taken.
    pub ambiguous: u64,
}

/// Lays them beside each other.
#[derive(Debug)]
pub(crate) struct Laying {
    spans: Vec<ForeignSpan>,
    taken: Vec<bool>,
    told: Beside,
}

impl Laying {
    /// For spans in the order of their begin.
    pub(crate) fn new(spans: Vec<ForeignSpan>) -> Self {
        let told = Beside { spans: spans.len() as u64, ..Beside::default() };
        Self { taken: vec![false; spans.len()], spans, told }
    }

    /// Takes a response.
    pub(crate) fn push(&mut self, response: &Response<'_>, clock: RealTime) {
        let Some(server) = response.server else { return };
        let (Some(from_ns), Some(to_ns)) = (clock.at(server.arrived_ns), clock.at(server.sent_ns)) else { return };
        let path = response.name.split(' ').nth(1).and_then(|target| target.split(['?', '#']).next());
        let port = response.client.map(|client| client.port()).filter(|port| *port != 0);
        let path = path.filter(|path| path.starts_with('/'));
        let Some(index) = self.find((from_ns, to_ns), path, port) else { return };
        self.taken[index] = true;
        let span = &self.spans[index];
        let full = self.told.classes.len() >= MOST_CLASSES && !self.told.classes.contains_key(&span.name);
        let name = if full { "(others)" } else { span.name.as_str() };
        let class = self.told.classes.entry(name.to_owned()).or_default();
        class.requests += 1;
        class.span_ns += (span.end_unix_ns - span.start_unix_ns) as f64;
        class.response_ns += (to_ns - from_ns) as f64;
        class.before_ns += span.start_unix_ns.saturating_sub(from_ns) as f64;
        class.after_ns += to_ns.saturating_sub(span.end_unix_ns) as f64;
        for step in response.steps {
            let (Some(begin), Some(end)) = (clock.at(step.from_ns), clock.at(step.to_ns)) else { continue };
            let within = end.min(span.end_unix_ns).saturating_sub(begin.max(span.start_unix_ns));
            // What the client does besides is no part of the server's span.
            let ours = !matches!(step.part, Part::Generator | Part::ClientWakeup | Part::ResponseTransit);
            if within > 0 && ours {
                *class.parts_ns.entry(step.part.name().to_owned()).or_default() += within as f64;
            }
        }
    }

    /// The one span that may be of a request: it begins within the request's time, ends not much later, and
    /// has its path and its client's port, as far as these are known.
    fn find(&mut self, time: (u64, u64), path: Option<&str>, port: Option<u16>) -> Option<usize> {
        let (from_ns, to_ns) = time;
        let first = self.spans.partition_point(|span| span.start_unix_ns < from_ns.saturating_sub(SLACK_NS));
        let within: Vec<usize> = (first..self.spans.len())
            .take_while(|index| self.spans[*index].start_unix_ns <= to_ns)
            .filter(|index| !self.taken[*index])
            .filter(|index| {
                let ForeignSpan { path: told, client_port, .. } = &self.spans[*index];
                path.zip(told.as_deref()).is_none_or(|(path, told)| path == told)
                    && port.zip(*client_port).is_none_or(|(port, told)| port == told)
            })
            .collect();
        let ended_by = |end_ns: u64| -> Vec<usize> {
            within.iter().copied().filter(|index| self.spans[*index].end_unix_ns <= end_ns).take(2).collect()
        };
        let mut fitting = ended_by(to_ns.saturating_add(SLACK_NS));
        if fitting.is_empty() {
            // Some end their span a while after the last byte was sent.
            fitting = ended_by(to_ns.saturating_add(to_ns.saturating_sub(from_ns)));
        }
        match fitting.as_slice() {
            [index] => Some(*index),
            [] => {
                self.told.requests_without_span += 1;
                None
            }
            _ => {
                self.told.ambiguous += 1;
                None
            }
        }
    }

    /// The means.
    pub(crate) fn finish(mut self) -> Beside {
        for class in self.told.classes.values_mut() {
            let count = class.requests.max(1) as f64;
            let means = [&mut class.span_ns, &mut class.response_ns, &mut class.before_ns, &mut class.after_ns];
            means.into_iter().chain(class.parts_ns.values_mut()).for_each(|sum| *sum /= count);
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_timeline::{AtServer, Detail, Step};
    use weir_wire::client::{ClientRequest, Outcome};
    use weir_wire::{Kind, Record};

    const MS: u64 = 1_000_000;
    const SINCE_1970_NS: u64 = 1_000 * MS;

    fn span(path: &str, from_ms: u64, to_ms: u64) -> ForeignSpan {
        let at = |ms: u64| SINCE_1970_NS + ms * MS;
        ForeignSpan {
            name: "shop: GET".to_owned(),
            path: Some(path.to_owned()),
            client_port: None,
            start_unix_ns: at(from_ms),
            end_unix_ns: at(to_ms),
        }
    }

    fn lay(laying: &mut Laying, name: &str, from_ms: u64, to_ms: u64) {
        lay_of(laying, name, from_ms, to_ms, None);
    }

    fn lay_of(laying: &mut Laying, name: &str, from_ms: u64, to_ms: u64, port: Option<u16>) {
        let mut clock = RealTime::default();
        clock.push(&Record { kind: Kind::ClockPair as u16, a: SINCE_1970_NS, ..Record::default() });
        let (arrived_ns, sent_ns) = (from_ms * MS, to_ms * MS);
        let step = |from_ns, to_ns, part| Step { from_ns, to_ns, part, pid: 7, waiter: 0, detail: Detail::None };
        let middle = (arrived_ns + sent_ns) / 2;
        let steps = [step(arrived_ns, middle, Part::AcceptQueue), step(middle, sent_ns, Part::Run)];
        let request = ClientRequest {
            connection: 1,
            intended_ns: arrived_ns,
            started_ns: arrived_ns,
            sent_ns: arrived_ns,
            first_byte_ns: sent_ns,
            done_ns: sent_ns,
            request_offset: 0,
            request_bytes: 1,
            response_offset: 0,
            response_bytes: 1,
            status: 200,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: false,
            encrypted: false,
            retried: false,
            http_version: 0,
            stream: 0,
        };
        let server = Some(AtServer { socket: 0, arrived_ns, picked_ns: middle, sent_ns });
        let response = Response {
            request: &request,
            client: port.map(|port| ([127, 0, 0, 1], port).into()),
            server_end: None,
            name,
            steps: &steps,
            phases: &[],
            server,
            unjoinable: None,
            trace: None,
        };
        laying.push(&response, clock);
    }

    #[test]
    fn a_span_begins_after_the_queue_that_it_does_not_see() {
        let mut laying = Laying::new(vec![span("/a", 30, 40), span("/b", 31, 33), span("/a", 60, 61)]);
        lay(&mut laying, "GET /a?x=y", 20, 40);
        let told = laying.finish();
        let class = &told.classes["shop: GET"];
        let ms = |ns: f64| ns / MS as f64;
        assert_eq!(
            (ms(class.span_ns), ms(class.response_ns), ms(class.before_ns), ms(class.after_ns)),
            (10.0, 20.0, 10.0, 0.0)
        );
        assert_eq!(class.parts_ns.get("run").map(|ns| ms(*ns)), Some(10.0));
        assert_eq!(class.parts_ns.get("accept_queue"), None, "{told:?}");
        assert_eq!((told.spans, told.ambiguous, told.requests_without_span), (3, 0, 0));
    }

    #[test]
    fn the_clients_port_tells_requests_apart_that_run_at_once() {
        let of = |port: u16, span: ForeignSpan| ForeignSpan { client_port: Some(port), ..span };
        let mut laying = Laying::new(vec![of(7001, span("/a", 30, 40)), of(7002, span("/a", 31, 39))]);
        lay_of(&mut laying, "GET /a", 29, 41, Some(7002));
        lay_of(&mut laying, "GET /a", 29, 41, Some(7003));
        lay_of(&mut laying, "GET /a", 29, 41, None);
        let told = laying.finish();
        let class = &told.classes["shop: GET"];
        assert_eq!((class.requests, told.requests_without_span, told.ambiguous), (2, 1, 0), "{told:?}");
    }

    #[test]
    fn where_two_spans_fit_none_is_taken_and_a_span_is_taken_once() {
        let mut laying = Laying::new(vec![span("/a", 30, 40), span("/a", 31, 39)]);
        lay(&mut laying, "GET /a", 20, 40);
        let mut once = Laying::new(vec![span("/a", 30, 40)]);
        lay(&mut once, "GET /a", 20, 40);
        lay(&mut once, "GET /a", 25, 45);
        lay(&mut once, "GET /c", 25, 45);
        assert_eq!((laying.finish().ambiguous, once.finish().requests_without_span), (1, 2));
    }
}
