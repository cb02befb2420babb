//! What a request gets from the cache, or what it has to do.

use super::answer::{Answer, How};
use super::collapse::{Boarding, Right, Waited, Waiter};
use super::control::{Control, Flags};
use super::fetch::{Fetch, FetchMethod, Forwarding, Request, Why};
use super::freshness::{Authorization, Now, RequestControl, Reuse, Validation};
use super::key::{self, write_selecting};
use super::rules::{CacheRules, RequestDirectives};
use super::store::{Cache, Found, OwnHash, count};
use super::stored::{Body, Stored};
use super::validators::{Conditions, push_line};
use crate::exchange::application::{RequestHead, Wake};
use crate::http::field_lines::lines;
use crate::http::framing::Framing;
use crate::http::request::{AllFields, Method};
use memchr::memchr;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Keys that a loop remembers the stored response of; it forgets all of them when there are more.
const FRONT_MAX: usize = 4096;
/// Segments of a path that a relative reference is resolved in.
const SEGMENTS_MAX: usize = 64;

/// What a request gets.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// This, which is fresh.
    Hit(Answer),
    /// This, which is stale and may be used. If there is a fetch, the handler drives it as well, for the cache alone: it
    /// ignores what it is to give to a client.
    Stale { answer: Answer, refresh: Option<Box<Fetch>> },
    /// The upstream is to be asked; the stored response, if there is one, is validated.
    Fetch(Box<Fetch>),
    /// Another request is asking the upstream.
    Wait(Box<Waiting>),
    /// The cache has no part in this, but for what an unsafe method makes invalid.
    Bypass { why: Bypass, invalidation: Option<Box<Invalidation>> },
    /// The client wants nothing but what is stored, and nothing is: 504 (RFC 9111 section 5.2.1.7).
    OnlyIfCached504,
}

/// Why the cache has no part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bypass {
    /// Only responses to GET are stored.
    Method,
    /// It has a cookie that the settings name, a body, an upgrade, a condition for the origin, or `no-store`; or it asks
    /// for a range, and nothing is stored that it could be taken of.
    Request,
}

impl Bypass {
    /// The line of Cache-Status for the response.
    pub(crate) fn cache_status(self) -> &'static [u8] {
        match self {
            Self::Method => b"Cache-Status: weir; fwd=method\r\n",
            Self::Request => b"Cache-Status: weir; fwd=bypass\r\n",
        }
    }
}

/// The cache as one loop sees it: a table without locks before the shared one.
#[derive(Debug)]
pub(crate) struct Front {
    cache: Arc<Cache>,
    /// Weak, so that nothing lives for longer than the bounds allow.
    known: HashMap<u64, Weak<Stored>, BuildHasherDefault<OwnHash>>,
    key: Vec<u8>,
    selecting: Vec<u8>,
    /// Requests that fresh responses have answered on this loop, which alone writes it.
    hits: Arc<AtomicU64>,
    /// For how long the response to the next request may be stale, in seconds, as a rule allows.
    stale_max_s: u64,
}

/// What a request says to the cache.
struct Asked<'r> {
    control: RequestControl,
    conditions: Conditions<'r>,
    method: FetchMethod,
    passage: Passage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passage {
    Cached,
    Bypassed,
}

impl<'r> Asked<'r> {
    fn read(head: &RequestHead<'r>, method: FetchMethod, rules: &CacheRules) -> Self {
        let request = head.request;
        let mut control = Control::default();
        let (mut has_control, mut has_pragma) = (false, false);
        let mut passage = Passage::Cached;
        let mut see = |name: &[u8], value: &[u8]| {
            let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
            match name.len() {
                13 if is("cache-control") => {
                    control.add(value);
                    has_control = true;
                }
                6 if is("pragma") => has_pragma |= value.to_ascii_lowercase().starts_with(b"no-cache"),
                7 if is("upgrade") => passage = Passage::Bypassed,
                6 if is("cookie") && has_cookie(value, &rules.bypass_cookies) => passage = Passage::Bypassed,
                _ => {}
            }
        };
        match request.all {
            AllFields::Head(head) => each_of_initials(head, see),
            _ => fields(head).for_each(|(name, value)| see(name, value)),
        }
        if has_pragma && !has_control {
            control.flags = control.flags.or(Flags::NO_CACHE);
        }
        if rules.request_directives == RequestDirectives::Ignored {
            let only = control.flags.has(Flags::ONLY_IF_CACHED);
            control = Control::default();
            control.flags = if only { Flags::ONLY_IF_CACHED } else { Flags::default() };
        }
        let has_body = !matches!(request.framing, Framing::None | Framing::Length(0));
        // These two are for the origin (section 4.3.2).
        let is_for_origin = request.if_match.is_some() || request.if_unmodified_since.is_some();
        if has_body || is_for_origin || control.flags.has(Flags::NO_STORE) {
            passage = Passage::Bypassed;
        }
        let authorization = if request.authorization.is_some() { Authorization::Present } else { Authorization::None };
        Self {
            control: RequestControl { control, authorization },
            conditions: conditions(head, method),
            method,
            passage,
        }
    }
}

/// The fields of a head of HTTP/1 whose names have the initials of those that a cache looks at: each request that is
/// answered from memory passes here.
fn each_of_initials<'h>(head: &'h [u8], mut see: impl FnMut(&'h [u8], &'h [u8])) {
    let mut rest = head;
    // What stands before the first line end is the request line, or nothing.
    while let Some(end) = memchr(b'\n', rest) {
        rest = &rest[end + 1..];
        if let [b'c' | b'C' | b'p' | b'P' | b'u' | b'U', ..] = rest {
            let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
            if let Some(colon) = memchr(b':', line) {
                see(&line[..colon], line[colon + 1..].trim_ascii());
            }
        }
    }
}

fn conditions<'r>(head: &RequestHead<'r>, method: FetchMethod) -> Conditions<'r> {
    let request = head.request;
    let mut conditions = Conditions {
        if_modified_since: request.if_modified_since,
        range: request.range.filter(|_| method == FetchMethod::Get),
        if_range: request.if_range,
        ..Conditions::default()
    };
    if let Some(lines) = request.if_none_match_lines() {
        for (place, line) in conditions.if_none_match.iter_mut().zip(lines.iter()) {
            *place = Some(line);
        }
    }
    conditions
}

fn has_cookie(value: &[u8], names: &[String]) -> bool {
    !names.is_empty()
        && value.split(|byte| *byte == b';').any(|pair| {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            names.iter().any(|own| own.as_bytes() == name)
        })
}

impl Front {
    pub(crate) fn new(cache: Arc<Cache>) -> Self {
        let known = HashMap::default();
        let hits = cache.add_loop();
        Self { cache, known, key: Vec::new(), selecting: Vec::new(), hits, stale_max_s: 0 }
    }

    /// Whether it is of this cache, so that a reload leaves it as it is.
    pub(crate) fn is_of(&self, cache: &Arc<Cache>) -> bool {
        Arc::ptr_eq(&self.cache, cache)
    }

    /// Allows the answer to the next request to be stale by so many seconds.
    pub(crate) fn allow_stale(&mut self, stale_max_s: u64) {
        self.stale_max_s = stale_max_s;
    }

    fn count_hit(&self) {
        self.hits.store(self.hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The answer to a request without conditions, if all of a fresh response with 200 is in memory. This is the short way of most requests; all others take that of [`Self::lookup`].
    pub(crate) fn hit(&mut self, head: &RequestHead<'_>, now: Now) -> Option<Answer> {
        let method = match head.request.method {
            Method::Get => FetchMethod::Get,
            Method::Head => FetchMethod::Head,
            Method::Options | Method::Other => return None,
        };
        let host = head.request.host.filter(|_| !head.request.is_conditional)?;
        let asked = Asked::read(head, method, &self.cache.rules);
        if asked.passage == Passage::Bypassed || asked.control.authorization == Authorization::Present {
            return None;
        }
        key::write(&mut self.key, head.is_secure, host, head.request.target, &self.cache.rules.query);
        let hash = self.cache.hash(&self.key);
        let Found::Selected(stored) = self.find(hash, head) else { return None };
        let control = &asked.control.control;
        let is_allowed = stored.freshness.reuse(control, now) == Reuse::Fresh
            || self.stale_max_s > 0 && stored.freshness.serves_by_rule(control, self.stale_max_s, now);
        if !is_allowed || stored.status != 200 || !matches!(stored.body, Body::Memory(_)) {
            return None;
        }
        stored.life.add_use();
        self.count_hit();
        Answer::new(stored, &Conditions::default(), How::Hit, now).ok()
    }

    /// Looks a request up. The wake is that of its handler.
    pub(crate) fn lookup(&mut self, head: &RequestHead<'_>, wake: &Wake, now: Now) -> Lookup {
        let method = match head.request.method {
            Method::Get => FetchMethod::Get,
            Method::Head => FetchMethod::Head,
            Method::Options | Method::Other => {
                let invalidation = self.invalidation(head);
                count(&self.cache.counts.bypassed, 1);
                return Lookup::Bypass { why: Bypass::Method, invalidation };
            }
        };
        let asked = Asked::read(head, method, &self.cache.rules);
        let lookup = self.look_up(head, &asked, wake, now);
        let is_hit = matches!(lookup, Lookup::Hit(_) | Lookup::Stale { .. });
        let counts = &self.cache.counts;
        match &lookup {
            Lookup::Hit(_) => self.count_hit(),
            Lookup::Stale { .. } => count(&counts.stale, 1),
            Lookup::Bypass { .. } => count(&counts.bypassed, 1),
            Lookup::Fetch(_) | Lookup::Wait(_) | Lookup::OnlyIfCached504 => count(&counts.misses, 1),
        }
        let is_stored_only = asked.control.control.flags.has(Flags::ONLY_IF_CACHED);
        if is_stored_only && !is_hit { Lookup::OnlyIfCached504 } else { lookup }
    }

    fn look_up(&mut self, head: &RequestHead<'_>, asked: &Asked<'_>, wake: &Wake, now: Now) -> Lookup {
        let bypass = Lookup::Bypass { why: Bypass::Request, invalidation: None };
        let Some(host) = head.request.host.filter(|_| asked.passage == Passage::Cached) else { return bypass };
        key::write(&mut self.key, head.is_secure, host, head.request.target, &self.cache.rules.query);
        let hash = self.cache.hash(&self.key);
        let found = self.find(hash, head);
        let Found::Selected(stored) = found else {
            if asked.conditions.range.is_some() || asked.method == FetchMethod::Head {
                // A range would have to be taken of what is still coming; of HEAD there is nothing to store.
                return bypass;
            }
            return self.miss(head, asked, found, wake, now);
        };
        if asked.control.authorization == Authorization::Present && !stored.freshness.for_authorized {
            // Nothing says that this is meant for users that are known (section 3.5); the origin knows.
            return self.fetch(head, asked, (hash, Why::Request, Forwarding::AsIs), None, now);
        }
        let control = &asked.control.control;
        let mut reuse = stored.freshness.reuse(control, now);
        if self.stale_max_s > 0 && stored.freshness.serves_by_rule(control, self.stale_max_s, now) {
            reuse = Reuse::Stale;
        }
        if reuse == Reuse::Validated {
            return self.validate(head, asked, stored, wake, now);
        }
        stored.life.add_use();
        let answer = match Answer::new(Arc::clone(&stored), &asked.conditions, How::Hit, now) {
            Ok(answer) => answer,
            Err(_) => {
                count(&self.cache.counts.disk_errors, 1);
                self.cache.remove(&stored);
                return self.miss(head, asked, Found::Nothing, wake, now);
            }
        };
        match reuse {
            Reuse::Fresh => Lookup::Hit(answer),
            Reuse::WhileRevalidating => {
                let refresh = self.refresh(head, asked, stored, now);
                Lookup::Stale { answer, refresh }
            }
            Reuse::Stale | Reuse::Validated => Lookup::Stale { answer, refresh: None },
        }
    }

    /// The stored response that a request selects: at first among those that this loop has seen.
    fn find(&mut self, hash: u64, head: &RequestHead<'_>) -> Found {
        let selecting = &mut self.selecting;
        let mut selects = |own: &key::Selecting| {
            own.names.is_empty() || {
                write_selecting(selecting, &own.names, || fields(head));
                **selecting == *own.values
            }
        };
        if let Some(stored) = self.known.get(&hash).and_then(Weak::upgrade)
            && !stored.life.is_retired()
            && *stored.key == *self.key
            && selects(&stored.selecting)
        {
            return Found::Selected(stored);
        }
        let found = self.cache.find(hash, &self.key, selects);
        if let Found::Selected(stored) = &found {
            if self.known.len() >= FRONT_MAX {
                self.known.clear();
            }
            self.known.insert(hash, Arc::downgrade(stored));
        }
        found
    }

    fn request(&self, head: &RequestHead<'_>, asked: &Asked<'_>, plan: (u64, Why, Forwarding)) -> Request {
        let mut lines = Vec::with_capacity(512);
        for (name, value) in fields(head).filter(|(name, _)| !name.starts_with(b":")) {
            push_line(&mut lines, name, value);
        }
        Request {
            key: Arc::from(&*self.key),
            hash: plan.0,
            method: asked.method,
            control: asked.control,
            fields: lines.into(),
            why: plan.1,
            forwarding: plan.2,
        }
    }

    fn fetch(
        &self,
        head: &RequestHead<'_>,
        asked: &Asked<'_>,
        plan: (u64, Why, Forwarding),
        old: Option<Arc<Stored>>,
        now: Now,
    ) -> Lookup {
        Lookup::Fetch(Box::new(Fetch::new(&self.cache, self.request(head, asked, plan), old, None, now)))
    }

    /// Nothing is stored that the request selects.
    fn miss(&mut self, head: &RequestHead<'_>, asked: &Asked<'_>, found: Found, wake: &Wake, now: Now) -> Lookup {
        let hash = self.cache.hash(&self.key);
        let (why, flight) = match found {
            Found::Others(other) => {
                // Requests that differ in what the response depends on do not wait for each other.
                write_selecting(&mut self.selecting, &other.selecting.names, || fields(head));
                (Why::VaryMiss, hash.rotate_left(1) ^ self.cache.hash(&self.selecting))
            }
            Found::Selected(_) | Found::Nothing => (Why::UriMiss, hash),
        };
        if self.cache.uncacheable.has(hash, now) || asked.control.authorization == Authorization::Present {
            return self.fetch(head, asked, (hash, why, Forwarding::AsIs), None, now);
        }
        if asked.control.control.flags.has(Flags::NO_CACHE) {
            return self.fetch(head, asked, (hash, Why::Request, Forwarding::Whole), None, now);
        }
        let request = self.request(head, asked, (hash, why, Forwarding::Whole));
        self.board(request, None, (flight, wake), now)
    }

    /// What is stored may not be used without the upstream.
    fn validate(
        &mut self,
        head: &RequestHead<'_>,
        asked: &Asked<'_>,
        stored: Arc<Stored>,
        wake: &Wake,
        now: Now,
    ) -> Lookup {
        let is_stale = stored.freshness.left_s(now) <= 0;
        let why = if is_stale || stored.freshness.validation == Validation::Always { Why::Stale } else { Why::Request };
        let plan = (stored.hash, why, Forwarding::Whole);
        // A response that each request has to validate by itself is not worth to wait for; nor may a client that wants a
        // newer one get what was asked for before.
        let is_own = !is_stale
            || stored.freshness.validation == Validation::Always
            || asked.method == FetchMethod::Head
            || asked.control.control.flags.has(Flags::NO_CACHE);
        if is_own {
            return self.fetch(head, asked, plan, Some(stored), now);
        }
        let flight = flight_of(&self.cache, &stored);
        let request = self.request(head, asked, plan);
        self.board(request, Some(stored), (flight, wake), now)
    }

    fn board(&self, request: Request, old: Option<Arc<Stored>>, flight: (u64, &Wake), now: Now) -> Lookup {
        let mut fetch = Box::new(Fetch::new(&self.cache, request, old, None, now));
        match self.cache.flights.board(flight.0, flight.1) {
            Boarding::Lead(leader) => {
                fetch.lead(Some(leader), now);
                Lookup::Fetch(fetch)
            }
            Boarding::Wait(waiter) => {
                count(&self.cache.counts.collapsed, 1);
                let until_ms = self.cache.waits_until_ms(now);
                Lookup::Wait(Box::new(Waiting { fetch, waiter, until_ms }))
            }
            Boarding::Alone => Lookup::Fetch(fetch),
        }
    }

    /// A fetch for the cache alone, unless there is one.
    fn refresh(&self, head: &RequestHead<'_>, asked: &Asked<'_>, stored: Arc<Stored>, now: Now) -> Option<Box<Fetch>> {
        if asked.method == FetchMethod::Head {
            return None;
        }
        let leader = self.cache.flights.lead(flight_of(&self.cache, &stored))?;
        let request = self.request(head, asked, (stored.hash, Why::Stale, Forwarding::Whole));
        Some(Box::new(Fetch::new(&self.cache, request, Some(stored), Some(leader), now)))
    }

    /// What a request makes invalid if it succeeds: nothing for a safe method (RFC 9110 section 9.2.1).
    fn invalidation(&mut self, head: &RequestHead<'_>) -> Option<Box<Invalidation>> {
        if matches!(head.request.method_text, "OPTIONS" | "TRACE" | "PROPFIND" | "REPORT" | "SEARCH") {
            return None;
        }
        let host = head.request.host?;
        Some(Box::new(Invalidation {
            cache: Arc::clone(&self.cache),
            is_secure: head.is_secure,
            host: host.into(),
            target: head.request.target.into(),
        }))
    }
}

/// Those that may wait for the same validation.
fn flight_of(cache: &Cache, stored: &Stored) -> u64 {
    if stored.selecting.names.is_empty() {
        stored.hash
    } else {
        stored.hash.rotate_left(1) ^ cache.hash(&stored.selecting.values)
    }
}

fn fields<'h>(head: &'h RequestHead<'_>) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
    head.fields().map(|(name, value)| (name.as_bytes(), value))
}

/// A request that waits for the response to another one.
#[derive(Debug)]
pub(crate) struct Waiting {
    fetch: Box<Fetch>,
    waiter: Waiter,
    until_ms: u64,
}

/// What became of the wait.
#[derive(Debug)]
pub(crate) enum Waits {
    NotYet(Box<Waiting>),
    Answer(Box<Answer>),
    /// The request goes to the upstream after all.
    Fetch(Box<Fetch>),
}

impl Waiting {
    /// When the wait ends in any case, in milliseconds of the clock of [`Now::mono_ms`].
    pub(crate) fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Looks how it stands; to be called when the handler is woken up, and at [`Self::until_ms`].
    pub(crate) fn go_on(self: Box<Self>, now: Now) -> Waits {
        let waited = match self.waiter.look() {
            Waited::NotYet if now.mono_ms < self.until_ms => return Waits::NotYet(self),
            waited => waited,
        };
        let Self { mut fetch, .. } = *self;
        match waited {
            Waited::Lead(leader) => fetch.lead(Some(leader), now),
            Waited::Answered(stored, right) => {
                if let Some(how) = may_answer(&stored, right, fetch.request(), now)
                    && let Some(answer) = fetch.answer(&stored, how, now)
                {
                    stored.life.add_use();
                    return Waits::Answer(Box::new(answer));
                }
                fetch.lead(None, now);
            }
            Waited::NotYet | Waited::Alone => fetch.lead(None, now),
        }
        Waits::Fetch(fetch)
    }
}

/// Whether the response to another request answers this one.
fn may_answer(stored: &Stored, right: Right, request: &Request, now: Now) -> Option<How> {
    let mut values = Vec::new();
    write_selecting(&mut values, &stored.selecting.names, || lines(&request.fields));
    let is_permitted = request.control.authorization == Authorization::None || stored.freshness.for_authorized;
    if stored.key != request.key || *values != *stored.selecting.values || !is_permitted {
        return None;
    }
    let control = &request.control.control;
    match right {
        Right::New => (stored.freshness.reuse(control, now) == Reuse::Fresh).then_some(How::Collapsed),
        Right::OnError => stored.freshness.serves_on_error(control, now).then_some(How::OnError(None)),
    }
}

/// What a request with an unsafe method makes invalid.
#[derive(Debug)]
pub(crate) struct Invalidation {
    cache: Arc<Cache>,
    is_secure: bool,
    host: Box<[u8]>,
    target: Box<str>,
}

impl Invalidation {
    /// The head of the response has come: unless it is an error, the target is invalid, and what Location and
    /// Content-Location name of the same origin (RFC 9111 section 4.4). Returns how many responses went.
    pub(crate) fn on_head(&self, status: u16, response: &[u8]) -> usize {
        if !(200..400).contains(&status) {
            return 0;
        }
        let mut key = Vec::new();
        let mut invalidate = |target: &str| {
            key::write(&mut key, self.is_secure, &self.host, target, &self.cache.rules.query);
            self.cache.invalidate(&key)
        };
        let mut gone = invalidate(&self.target);
        for (name, value) in lines(response) {
            let is_location = name.eq_ignore_ascii_case(b"location") || name.eq_ignore_ascii_case(b"content-location");
            if is_location && let Some(target) = std::str::from_utf8(value).ok().and_then(|value| self.target_of(value))
            {
                gone += invalidate(&target);
            }
        }
        gone
    }

    /// The path and query that a reference names on this origin; none if it names another.
    fn target_of(&self, reference: &str) -> Option<String> {
        let reference = reference.split('#').next().unwrap_or_default();
        let scheme = if self.is_secure { "https:" } else { "http:" };
        let has_scheme = reference.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        let rest = if has_scheme { &reference[scheme.len()..] } else { reference };
        if let Some(after) = rest.strip_prefix("//") {
            let (authority, path) = after.split_at(after.find(['/', '?']).unwrap_or(after.len()));
            let port: &[u8] = if self.is_secure { b":443" } else { b":80" };
            let bare = |host: &[u8]| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
            let path = if path.is_empty() { "/" } else { path };
            return (bare(authority.as_bytes()) == bare(&self.host)).then(|| path.to_owned());
        }
        if has_scheme || rest.split(['/', '?']).next().is_some_and(|first| first.contains(':')) {
            return None;
        }
        if rest.starts_with('/') { Some(rest.to_owned()) } else { resolved(&self.target, rest) }
    }
}

/// A relative path, resolved against a target (RFC 3986 section 5.2).
fn resolved(target: &str, relative: &str) -> Option<String> {
    let path = target.split('?').next().unwrap_or_default();
    if relative.is_empty() || relative.starts_with('?') {
        return Some(if relative.is_empty() { target.to_owned() } else { format!("{path}{relative}") });
    }
    let (relative, query) = relative.split_at(relative.find('?').unwrap_or(relative.len()));
    let folder = &path[..=path.rfind('/')?];
    let mut segments: Vec<&str> = folder.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut ends_in_folder = false;
    for segment in relative.split('/') {
        ends_in_folder = matches!(segment, "." | ".." | "");
        match segment {
            ".." => drop(segments.pop()),
            "." | "" => {}
            name => segments.push(name),
        }
    }
    if segments.len() > SEGMENTS_MAX {
        return None;
    }
    let slash = if ends_in_folder && !segments.is_empty() { "/" } else { "" };
    Some(format!("/{}{slash}{query}", segments.join("/")))
}
