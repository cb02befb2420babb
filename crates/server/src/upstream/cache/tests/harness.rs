//! A cache without a server: requests and responses are texts, and time is a number.

use crate::exchange::application::{Applications, RequestHead, Wake};
use crate::exchange::wakes::Wakes;
use crate::http::limits::Limits;
use crate::http::parse::parse;
use crate::http::request::Head;
use crate::io::epoll::Waker;
use crate::upstream::cache::answer::{Answer, AnswerPiece};
use crate::upstream::cache::fetch::{Begun, Fetch};
use crate::upstream::cache::freshness::Now;
use crate::upstream::cache::lookup::{Front, Lookup};
use crate::upstream::cache::rules::CacheRules;
use crate::upstream::cache::store::Cache;
use crate::upstream::message::ResponseHead;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Sunday, 6 November 1994, 08:49:37.
pub(crate) const T0_S: u64 = 784_111_777;

/// A time so many milliseconds after the beginning.
pub(crate) fn at_ms(ms: u64) -> Now {
    Now { wall_s: T0_S + ms / 1000, mono_ms: 5_000_000 + ms }
}

pub(crate) fn at(seconds: u64) -> Now {
    at_ms(seconds * 1000)
}

/// Lines of fields from a text with `|` between them; `@5` and `@-5` are dates so many seconds after the beginning.
pub(crate) fn lines(text: &str) -> String {
    let line = |line: &str| match line.split_once('@') {
        Some((start, seconds)) => {
            let seconds: i64 = seconds.parse().expect("seconds");
            let date = UNIX_EPOCH + Duration::from_secs(T0_S.checked_add_signed(seconds).expect("a date"));
            format!("{start}{}\r\n", httpdate::fmt_http_date(date))
        }
        None => format!("{line}\r\n"),
    };
    text.split('|').filter(|text| !text.is_empty()).map(line).collect()
}

pub(crate) fn response(status: u16, fields: &str, length: Option<u64>) -> ResponseHead {
    ResponseHead { status, fields: lines(fields).into_bytes(), length }
}

pub(crate) struct Bench {
    pub(crate) cache: Arc<Cache>,
    pub(crate) front: Front,
    pub(crate) wakes: Arc<Wakes>,
    applications: Applications,
}

impl Bench {
    pub(crate) fn new(rules: CacheRules) -> Self {
        Self::on(&Arc::new(Cache::new(rules).expect("a cache")))
    }

    /// One more loop of the same cache.
    pub(crate) fn on(cache: &Arc<Cache>) -> Self {
        let wakes = Wakes::new(Arc::new(Waker::new().expect("a waker")));
        let applications = Applications::new(Arc::clone(&wakes), Duration::ZERO);
        Self { front: Front::new(Arc::clone(cache)), cache: Arc::clone(cache), wakes, applications }
    }

    pub(crate) fn wake(&self, number: u64) -> Wake {
        self.applications.caller(None, number).wake()
    }

    /// Looks a request up: its line without the version, and its fields.
    pub(crate) fn ask(&mut self, line: &str, fields: &str, now: Now) -> Lookup {
        let head = format!("{line} HTTP/1.1\r\nHost: a.example\r\n{}\r\n", lines(fields));
        let Head::Complete(request, _) = parse(head.as_bytes(), &Limits::default()) else { panic!("{head}") };
        let client = std::net::Ipv4Addr::LOCALHOST.into();
        let wake = self.wake(0);
        self.front.lookup(
            &RequestHead {
                request: &request,
                client,
                peer: client,
                is_secure: false,
                socket: None,
                ends: None,
                user: None,
                arm: None,
            },
            &wake,
            now,
        )
    }

    pub(crate) fn get(&mut self, fields: &str, now: Now) -> Lookup {
        self.ask("GET /x", fields, now)
    }

    /// A fetch, which must be what the lookup says.
    pub(crate) fn fetch(&mut self, line: &str, fields: &str, now: Now) -> Box<Fetch> {
        match self.ask(line, fields, now) {
            Lookup::Fetch(fetch) => fetch,
            other => panic!("no fetch but {other:?}"),
        }
    }

    /// Fetches a response for `GET /x` with this body.
    pub(crate) fn store(&mut self, request: &str, status: u16, fields: &str, body: &str, now: Now) {
        if let Lookup::Fetch(mut fetch) = self.get(request, now) {
            bring(&mut fetch, status, fields, body, now);
        }
    }

    pub(crate) fn stored(&self) -> usize {
        self.cache.size().0
    }
}

pub(crate) fn bring(fetch: &mut Fetch, status: u16, fields: &str, body: &str, now: Now) -> Begun {
    let begun = fetch.on_head(&response(status, fields, Some(body.len() as u64)), now);
    fetch.on_body(body.as_bytes());
    fetch.on_end(now);
    begun
}

/// The lines that a fetch sends instead of the client's conditions.
pub(crate) fn conditions(fetch: &Fetch) -> String {
    let mut lines = Vec::new();
    fetch.write_conditions(&mut lines);
    String::from_utf8(lines).expect("text")
}

/// Status, fields and body of an answer.
pub(crate) fn read(answer: &Answer) -> (u16, String, String) {
    let (mut fields, mut body) = (Vec::new(), Vec::new());
    answer.write_fields(&mut fields);
    while let Some(piece) = answer.piece(body.len() as u64) {
        match piece {
            // A client takes some of it at a time.
            AnswerPiece::Bytes(bytes) => body.extend_from_slice(&bytes[..bytes.len().min(7)]),
            AnswerPiece::File { file, start, len } => {
                let before = body.len();
                body.resize(before + len.min(1000) as usize, 0);
                file.read_exact_at(&mut body[before..], start).expect("reads");
            }
        }
    }
    assert_eq!(answer.length().unwrap_or(0), body.len() as u64);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (answer.status(), text(fields), text(body))
}

pub(crate) fn hit(lookup: Lookup) -> (u16, String, String) {
    match lookup {
        Lookup::Hit(answer) | Lookup::Stale { answer, .. } => read(&answer),
        other => panic!("no hit but {other:?}"),
    }
}
