//! A recording as tests: each request again, and the same status expected.

use crate::recording::{Entry, Recording, header};
use crate::suite::{Aim, Ask, Checks, PresetCookie, Show, Status, Suite, Terse, Test};
use std::collections::BTreeSet;
use std::time::Duration;
use url::Url;

/// Pauses of a recording longer than this are those of a user who went away.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// How a recording is replayed.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// The server to ask instead of the one that was recorded: its scheme, name and port.
    pub base: Option<Url>,
    /// How far the size of the content may differ, in percent; sizes are not checked without.
    pub sizes: Option<f64>,
    /// Whether the pauses of the recording are kept.
    pub pauses: bool,
    /// Whether other servers than that of the first request are asked, too.
    pub all_hosts: bool,
}

/// A suite, and how many entries are left out for which reason.
#[derive(Debug, Clone, Default)]
pub struct Replayed {
    /// The tests.
    pub suite: Suite,
    /// What is left out, by reason.
    pub left_out: Vec<LeftOut>,
}

/// Entries that are not asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: usize,
    /// The number of the first of them, from 1.
    pub first: usize,
    /// Why, as it goes on behind their number.
    pub why: &'static str,
    /// Whether they were asked of the recorded server and so should have been asked again.
    pub is_loss: bool,
}

impl Replayed {
    /// Whether more is lost than is asked.
    #[must_use]
    pub fn is_mostly_lost(&self, unread: usize) -> bool {
        let lost: usize = self.left_out.iter().filter(|left_out| left_out.is_loss).map(|left_out| left_out.count).sum();
        lost + unread > self.suite.tests.len()
    }

    fn leave_out(&mut self, entry: usize, why: &'static str, is_loss: bool) {
        match self.left_out.iter_mut().find(|left_out| left_out.why == why && left_out.is_loss == is_loss) {
            Some(left_out) => left_out.count += 1,
            None => self.left_out.push(LeftOut { count: 1, first: entry, why, is_loss }),
        }
    }
}

/// Why addresses of other schemes are left out.
const OF_NO_SERVER: &str = "are not asked of a server over HTTP (data:, blob:, ws:, chrome-extension: and so on)";

/// Header fields that belong to a connection or to the browser that was recorded, not to the request.
pub(crate) const OF_THE_CONNECTION: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "accept-encoding",
    "cookie",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "user-agent",
    "upgrade-insecure-requests",
    "http2-settings",
];

/// The origin of the first request, which counts as that of the recording.
#[must_use]
pub fn origin(recording: &Recording) -> Option<url::Origin> {
    let spoken =
        |entry: &Entry| Url::parse(&entry.request.url).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    recording.entries.iter().find_map(spoken).map(|url| url.origin())
}

/// Why an entry is not one that can be asked again.
pub(crate) fn obstacle(entry: &Entry) -> Option<&'static str> {
    let Ok(url) = Url::parse(&entry.request.url) else { return Some("have an address that cannot be read") };
    if !["http", "https"].contains(&url.scheme()) {
        return Some(OF_NO_SERVER);
    }
    if entry.request.method == "CONNECT" {
        return Some("make a tunnel through a proxy (CONNECT)");
    }
    let method = ureq::http::Method::from_bytes(entry.request.method.as_bytes());
    let can_be_sent = |(name, value): &(String, String)| {
        ureq::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && ureq::http::HeaderValue::from_bytes(value.as_bytes()).is_ok()
    };
    if method.is_err() || !entry.request.headers.iter().all(can_be_sent) {
        return Some("have a method or a header field that cannot be sent");
    }
    if entry.response.is_none() {
        return Some("had no response when they were recorded");
    }
    if entry.response.as_ref().is_some_and(|response| response.status == 101) {
        return Some("change the protocol (WebSocket)");
    }
    if entry.request.body.as_ref().is_some_and(|body| body.bytes.is_none() && body.size > 0) {
        return Some("have a body that the recording does not hold");
    }
    None
}

/// Tests of a recording.
#[must_use]
pub fn suite(recording: &Recording, replay: &Replay) -> Replayed {
    let origin = origin(recording);
    let mut replayed = Replayed::default();
    let mut set_by_servers: BTreeSet<String> = BTreeSet::new();
    let mut told: BTreeSet<String> = BTreeSet::new();
    let mut before_ended = None;
    for (index, entry) in recording.entries.iter().enumerate() {
        let url = Url::parse(&entry.request.url).ok();
        let elsewhere = !replay.all_hosts && url.as_ref().map(Url::origin) != origin;
        let why =
            obstacle(entry).or_else(|| elsewhere.then_some("are asked of other servers (--all-hosts takes them, too)"));
        let (Some(mut url), None) = (url, why) else {
            if let Some(why) = why {
                replayed.leave_out(index + 1, why, !elsewhere && why != OF_NO_SERVER);
            }
            continue;
        };
        let name = format!("{} {} {}", index + 1, entry.request.method, url.path());
        if let Some(base) = &replay.base
            && Some(url.origin()) == origin
        {
            url = moved(&url, base);
        }
        let mut ask = Ask::get(Aim::Address(url.to_string()));
        ask.method.clone_from(&entry.request.method);
        // Each step of the recording is a request of its own.
        ask.follow = false;
        ask.headers = headers(entry, replay.base.as_ref(), &url);
        ask.body = entry.request.body.as_ref().and_then(|body| Some((body.kind.clone(), body.bytes.clone()?)));
        // Tools write an empty body for requests that had none; a request without one has no type of it either.
        ask.body.take_if(|(_, bytes)| bytes.is_empty() && !sends_a_body(&entry.request.method));
        if ask.body.is_none() && sends_a_body(&entry.request.method) {
            ask.body = Some((String::new(), Vec::new()));
        }
        if let Some(agent) = header(&entry.request.headers, "user-agent") {
            agent.clone_into(&mut ask.user_agent);
        }
        // Cookies that no response of the recording sets were there before; the others are the server's own again.
        for (name, value) in cookies(entry) {
            if !set_by_servers.contains(name) && told.insert(name.to_owned()) {
                ask.cookies.push(PresetCookie {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    ..PresetCookie::default()
                });
            }
        }
        let Some(response) = &entry.response else { continue };
        for (_, field) in response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            set_by_servers.extend(field.split_once('=').map(|(name, _)| name.trim().to_owned()));
        }
        if let (true, Some(ended)) = (replay.pauses, before_ended) {
            let pause = Duration::from_micros(u64::try_from(entry.started_us.saturating_sub(ended)).unwrap_or(0));
            ask.delay = pause.min(PAUSE_MAX);
        }
        before_ended = Some(entry.ended_us());
        let mut checks = Checks { status: Status::Exactly(response.status), ..Checks::default() };
        if let Some(percent) = replay.sizes
            && entry.request.method != "HEAD"
        {
            let size = response.body.size as f64;
            checks.min_bytes = Some((size * (1.0 - percent / 100.0)).max(0.0).ceil() as u64);
            checks.max_bytes = Some((size * (1.0 + percent / 100.0)).floor() as u64);
        }
        let show = Show { terse: Terse::No, ..Show::default() };
        replayed.suite.tests.push(Test { name: Some(name), line: index + 1, session: 0, ask, checks, show });
    }
    replayed
}

/// Whether a method means a body, so that an empty one is told (RFC 9110 8.6).
fn sends_a_body(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// The address at another server.
pub(crate) fn moved(url: &Url, base: &Url) -> Url {
    let mut moved = base.clone();
    moved.set_path(url.path());
    moved.set_query(url.query());
    moved
}

/// Header fields that are told again; those that name the recorded server name the asked one.
pub(crate) fn headers(entry: &Entry, base: Option<&Url>, url: &Url) -> Vec<(String, String)> {
    let mut told: Vec<(String, String)> = Vec::new();
    for (name, value) in &entry.request.headers {
        let small = name.to_ascii_lowercase();
        // The body tells its own type.
        let of_body = small == "content-type" && entry.request.body.is_some();
        if OF_THE_CONNECTION.contains(&small.as_str()) || of_body {
            continue;
        }
        let value = match (small.as_str(), base) {
            ("origin", Some(_)) => url.origin().ascii_serialization(),
            ("referer", Some(base)) => {
                Url::parse(value).map_or_else(|_| value.clone(), |from| moved(&from, base).into())
            }
            _ => value.clone(),
        };
        told.push((small, value));
    }
    told
}

fn cookies(entry: &Entry) -> impl Iterator<Item = (&str, &str)> {
    let fields = entry.request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let pairs = fields.flat_map(|(_, field)| field.split(';'));
    pairs.filter_map(|pair| pair.split_once('=')).map(|(name, value)| (name.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Answered, Asked, Body};

    fn entry(at_s: i64, url: &str, cookie: &str, set: &str) -> Entry {
        let field = |name: &str, value: &str| (!value.is_empty()).then(|| (name.to_owned(), value.to_owned()));
        Entry {
            started_us: at_s * 1_000_000,
            seconds: 0.5,
            page: None,
            request: Asked {
                method: "GET".to_owned(),
                url: url.to_owned(),
                headers: [field("Cookie", cookie), field("Host", "x"), field("X-A", "b")]
                    .into_iter()
                    .flatten()
                    .collect(),
                body: None,
            },
            response: Some(Answered {
                status: 200,
                headers: field("Set-Cookie", set).into_iter().collect(),
                body: Body { size: 1000, ..Body::default() },
            }),
        }
    }

    #[test]
    fn a_recording_becomes_tests_of_its_own_server() {
        let mut without = entry(3, "http://a.example/lost", "", "");
        without.response = None;
        let recording = Recording {
            entries: vec![
                entry(0, "http://a.example/one?q", "old=1", "sid=2; Path=/"),
                entry(2, "http://a.example/two", "old=1; sid=2", ""),
                entry(2, "http://cdn.example/x.js", "", ""),
                without,
                entry(4, "data:text/plain,x", "", ""),
            ],
        };
        let base = Url::parse("https://b.example:8443/").ok();
        let replay = Replay { base, sizes: Some(10.0), pauses: true, all_hosts: false };
        let replayed = suite(&recording, &replay);
        let addresses: Vec<&Aim> = replayed.suite.tests.iter().map(|test| &test.ask.aim).collect();
        assert!(matches!(addresses[0], Aim::Address(at) if at == "https://b.example:8443/one?q"), "{addresses:?}");
        assert_eq!(addresses.len(), 2);
        assert_eq!(replayed.left_out.iter().map(|left_out| left_out.count).sum::<usize>(), 3);
        let [first, second] = &replayed.suite.tests[..] else { panic!() };
        assert_eq!(first.ask.cookies.iter().map(|cookie| &*cookie.name).collect::<Vec<_>>(), ["old"]);
        assert!(second.ask.cookies.is_empty());
        assert_eq!(second.ask.delay, Duration::from_millis(1500));
        assert_eq!((first.checks.min_bytes, first.checks.max_bytes), (Some(900), Some(1100)));
        assert_eq!(first.ask.headers, [("x-a".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn header_fields_are_told_as_they_were_recorded() {
        let mut put = entry(0, "http://a.example/", "", "");
        put.request.method = "PUT".to_owned();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        put.request.headers = vec![field("X_Api_Key", "k"), field("X-Multi", "1"), field("X-Multi", "2")];
        let mut bad = entry(1, "http://a.example/", "", "");
        bad.request.headers = vec![field("no token", "k")];
        let replayed = suite(&Recording { entries: vec![put, bad.clone(), bad] }, &Replay::default());
        let told = &replayed.suite.tests[0].ask.headers;
        assert_eq!(*told, [field("x_api_key", "k"), field("x-multi", "1"), field("x-multi", "2")]);
        let left_out = &replayed.left_out[0];
        assert_eq!((left_out.count, left_out.first, left_out.is_loss), (2, 2, true));
        assert!(replayed.is_mostly_lost(0));
    }
}
