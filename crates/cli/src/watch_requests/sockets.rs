//! Requests of any server, as its sockets and the scheduler show them: the lines of a watch, made here.

use super::connection::Next;
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use weir_capture::Ladder;
use weir_explain::spans::RealTime;
use weir_measure::part::Part;
use weir_record::Named;
use weir_record::following::{Follow, Following};
use weir_server::{FilterKey, RequestFacts, RequestFilter};
use weir_terminal::stop::Stop;
use weir_terminal::units::counted;
use weir_timeline::{Joiner, Response, Step, Unjoinable, label};

/// How often it is looked whether the user has asked for an end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines that wait to be shown; more are left out and counted.
const LINES_MAX: usize = 4096;
/// What sockets tell of a request, of some at least, that a filter may ask for.
pub(super) const KEYS: [FilterKey; 8] = [
    FilterKey::Client,
    FilterKey::Path,
    FilterKey::Method,
    FilterKey::Protocol,
    FilterKey::Status,
    FilterKey::Bytes,
    FilterKey::Duration,
    FilterKey::Session,
];
/// Culprits that are named for a part.
const NAMED_MAX: usize = 4;

/// The watch of a server that may be any.
pub(super) struct Sockets {
    /// Taken away at the end.
    following: Option<Following>,
    seen: Seen,
    is_over: bool,
}

/// What was seen of it.
struct Seen {
    filter: RequestFilter,
    requests: Option<u64>,
    real_time: RealTime,
    lines: VecDeque<String>,
    shown: u64,
    left_out: u64,
    /// Those of which the begin was not seen, or something between.
    partly: u64,
}

impl Sockets {
    /// Begins to watch; ends by itself after so many requests.
    ///
    /// # Errors
    /// The filter asks for what sockets do not show, the server is not there, or nothing can be recorded.
    pub(super) fn start(
        ladder: &Ladder,
        named: &Named,
        tls_ports: &[u16],
        filter: RequestFilter,
        requests: Option<u64>,
    ) -> anyhow::Result<Self> {
        let following = Following::start(ladder, named, tls_ports)?;
        for note in &following.notes {
            eprintln!("weir watch: {note}");
        }
        let begin = json!({
            "type": "begin",
            "version": 1,
            "server": named.words(),
            "source": following.source().name(),
            "filter": filter.to_string(),
        });
        let seen = Seen {
            filter,
            requests,
            real_time: RealTime::now(),
            lines: VecDeque::from([begin.to_string()]),
            shown: 0,
            left_out: 0,
            partly: 0,
        };
        Ok(Self { following: Some(following), seen, is_over: false })
    }

    /// The next line.
    pub(super) fn next(&mut self, stop: &Stop) -> anyhow::Result<Next> {
        loop {
            if let Some(line) = self.seen.lines.pop_front() {
                return Ok(Next::Line(line));
            }
            let Some(following) = self.following.as_mut() else { return Ok(Next::Gone) };
            if self.is_over || stop.asked() || self.seen.has_enough() {
                let was_asked = stop.asked();
                self.end(if was_asked { "stopped" } else { "requests" })?;
                continue;
            }
            let seen = &mut self.seen;
            match following.next(LOOK_EVERY, &mut |joiner, response| seen.take(joiner, response)) {
                Follow::On => {}
                Follow::ServerEnded => {
                    self.end("server_ended")?;
                }
                Follow::CollectorEnded => self.is_over = true,
            }
        }
    }

    /// Ends the recording, with a last line.
    fn end(&mut self, why: &'static str) -> anyhow::Result<()> {
        let Some(following) = self.following.take() else { return Ok(()) };
        let unseen = following.unseen();
        let seen = &mut self.seen;
        let cost = following.finish(&mut |joiner, response| {
            if !seen.has_enough() {
                seen.take(joiner, response);
            }
        })?;
        if self.is_over {
            bail!("the recording ended by itself");
        }
        let end = json!({
            "type": "end",
            "why": why,
            "shown": seen.shown,
            "left_out": seen.left_out,
            "dropped": 0,
            "partly": seen.partly,
            "events_lost": unseen.events,
            "looks_dropped": unseen.looks,
            "cpu_s": cost.cpu_seconds,
        });
        seen.lines.push_back(end.to_string());
        Ok(())
    }
}

impl Seen {
    fn has_enough(&self) -> bool {
        self.requests.is_some_and(|requests| self.shown >= requests)
    }

    fn take(&mut self, joiner: &Joiner, response: &Response<'_>) {
        if response.unjoinable == Some(Unjoinable::Edge) {
            self.partly += 1;
            return;
        }
        let request = response.request;
        let (method, target) = named(response.name);
        let (status, whole_us) = ((request.status != 0).then_some(request.status), response.time_ns() / 1000);
        let about = RequestFacts {
            client: response.client.map(|client| client.ip()),
            method,
            path: target.map(str::as_bytes),
            protocol: protocol(request.http_version),
            status,
            sent_bytes: Some(request.response_bytes),
            whole_us: Some(whole_us),
            session: Some(request.connection),
            ..RequestFacts::default()
        };
        if self.has_enough() || !self.filter.is_for(&about) {
            return;
        }
        if self.lines.len() >= LINES_MAX {
            self.left_out += 1;
            return;
        }
        self.shown += 1;
        let at_ns = self.real_time.at(request.intended_ns).unwrap_or(0);
        let line = json!({
            "type": "request",
            "number": self.shown,
            "at_unix_us": at_ns / 1000,
            "session": request.connection,
            "method": method,
            "target": target,
            "status": status,
            "whole_us": whole_us,
            "network": network(response),
            "parts": parts(joiner, response.steps),
            "not_joined": response.unjoinable.map(Unjoinable::name),
        });
        self.lines.push_back(line.to_string());
    }
}

/// The last line in words.
pub(super) fn in_words(end: &Value) -> String {
    let count = |key: &str| end.get(key).and_then(Value::as_u64).unwrap_or(0);
    let mut words = format!(
        "{} shown; the collector took {:.2} s of CPU time",
        counted(count("shown"), "request"),
        end.get("cpu_s").and_then(Value::as_f64).unwrap_or(0.0)
    );
    let unseen = [
        ("left_out", "left out as 4,096 waited to be shown"),
        ("partly", "under way at the begin or the end, and not shown"),
        ("looks_dropped", "looks at the rings (20 ms) with too many events, whose requests are missing or not whole"),
        ("events_lost", "events lost, by which requests are missing or not whole"),
    ];
    for (key, what) in unseen.into_iter().filter(|(key, _)| count(key) > 0) {
        words.push_str(&format!("; {} {what}", count(key)));
    }
    words
}

/// The protocol, where sockets tell it: of HTTP/1 its minor version is not known.
fn protocol(version: u8) -> Option<&'static str> {
    match version {
        2 => Some("HTTP/2"),
        3 => Some("HTTP/3"),
        _ => None,
    }
}

/// The method and the path of a request, where they are known: else the name is the server's port.
fn named(name: &str) -> (Option<&str>, Option<&str>) {
    name.split_once(' ').map_or((None, None), |(method, target)| (Some(method), Some(target)))
}

fn network(response: &Response<'_>) -> Value {
    let request = response.request;
    let client = response.client;
    json!({
        "client": client.map(|client: SocketAddr| client.ip()),
        "port": client.map(|client| client.port()),
        "server": response.name.starts_with(':').then_some(response.name),
        "protocol": protocol(request.http_version),
        "stream": (request.stream != 0).then_some(request.stream),
        "tls": request.encrypted,
        "request_bytes": request.request_bytes,
        "response_bytes": request.response_bytes,
    })
}

/// A part of a response's time.
struct PartSeen {
    part: Part,
    ns: u64,
    /// Whom it was spent on, with the nanoseconds of each.
    who: Vec<(String, u64)>,
}

/// The parts of a response in the order in which they first came, each with whom it was spent on.
fn parts(joiner: &Joiner, steps: &[Step]) -> Vec<Value> {
    let mut parts: Vec<PartSeen> = Vec::new();
    for step in steps {
        let ns = step.to_ns - step.from_ns;
        let at = parts.iter().position(|one| one.part == step.part).unwrap_or_else(|| {
            parts.push(PartSeen { part: step.part, ns: 0, who: Vec::new() });
            parts.len() - 1
        });
        let PartSeen { ns: sum_ns, who, .. } = &mut parts[at];
        *sum_ns += ns;
        let name = label(joiner, step.detail, step.from_ns);
        if name.is_empty() {
            continue;
        }
        match who.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum_ns)) => *sum_ns += ns,
            None => who.push((name, ns)),
        }
    }
    let told = parts.into_iter().map(|PartSeen { part, ns, mut who }| {
        who.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let others = who.len().saturating_sub(NAMED_MAX);
        who.truncate(NAMED_MAX);
        let who: Vec<Value> = who.into_iter().map(|(name, ns)| json!({ "name": name, "ns": ns })).collect();
        json!({ "part": part.name(), "words": part.words(), "ns": ns, "who": who, "others": others })
    });
    told.collect()
}
