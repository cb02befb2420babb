//! A request that goes to the upstream, and what its response does to the cache.

use super::answer::{Answer, How};
use super::collapse::{Leader, Outcome, Right};
use super::control::ResponseControl;
use super::freshness::{self, Authorization, NotStored, Now, RequestControl, Times, Validation};
use super::key::Selecting;
use super::meter::Hold;
use super::store::{Cache, New, count};
use super::stored::{Body, Stored};
use super::validators::{Conditions, Validators, date_s, freshened, push_line, stored_fields};
use super::writing::{BodyWriter, GaveUp};
use crate::http::field_lines::lines;
use crate::upstream::message::ResponseHead;
use std::io::Write as _;
use std::sync::Arc;

/// Why the upstream is asked, for Cache-Status (RFC 9211 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing is stored for the target.
    UriMiss,
    /// What is stored is for other requests.
    VaryMiss,
    /// What is stored is stale.
    Stale,
    /// The client wants a newer response.
    Request,
}

/// The method that a fetch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchMethod {
    Get,
    Head,
}

/// What becomes of the client's own conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarding {
    /// They go to the upstream as they are: the response will likely not be stored.
    AsIs,
    /// They stay here, and the cache weighs them: the upstream is to send a whole response.
    Whole,
}

/// What a handler tells the cache of a request at its beginning.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) key: Arc<[u8]>,
    pub(crate) hash: u64,
    pub(crate) method: FetchMethod,
    pub(crate) control: RequestControl,
    /// Lines of its fields.
    pub(crate) fields: Box<[u8]>,
    pub(crate) why: Why,
    pub(crate) forwarding: Forwarding,
}

/// How far the response is.
#[derive(Debug)]
enum Stage {
    Awaited,
    Storing {
        new: Box<Pending>,
        writer: BodyWriter,
        length: Option<u64>,
    },
    /// It goes by the cache, or is over.
    Passing,
}

/// A response whose body is still coming.
#[derive(Debug)]
struct Pending {
    selecting: Selecting,
    status: u16,
    fields: Vec<u8>,
    freshness: freshness::Freshness,
    date_s: u64,
}

/// What the client gets.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The response of the upstream as it is, with [`Fetch::write_cache_status`] behind its fields; its body goes to
    /// [`Fetch::on_body`] too.
    Pass,
    /// This; what the upstream still sends goes to [`Fetch::on_body`] only.
    Answer(Box<Answer>),
    /// 304 with these fields; what the upstream still sends goes to [`Fetch::on_body`] only.
    NotModified(Vec<u8>),
    /// Nothing yet: the upstream is to be asked once more, now with other [`Fetch::write_conditions`].
    FetchAgain,
}

/// A request that goes to the upstream. If it is dropped before its end, one that waits for it takes over.
#[derive(Debug)]
pub(crate) struct Fetch {
    cache: Arc<Cache>,
    request: Request,
    requested: Now,
    /// That of the key when the upstream was asked.
    generation: u32,
    /// What is validated.
    old: Option<Arc<Stored>>,
    leader: Option<Leader>,
    stage: Stage,
}

/// Statuses by which a server says that it cannot answer now (RFC 5861 section 4).
fn is_failure(status: u16) -> bool {
    matches!(status, 500 | 502..=504)
}

impl Fetch {
    pub(crate) fn new(
        cache: &Arc<Cache>,
        request: Request,
        old: Option<Arc<Stored>>,
        leader: Option<Leader>,
        now: Now,
    ) -> Self {
        let generation = cache.generation(request.hash);
        Self { cache: Arc::clone(cache), request, requested: now, generation, old, leader, stage: Stage::Awaited }
    }

    /// Takes the lead of those that wait, at a later time than that of the request.
    pub(super) fn lead(&mut self, leader: Option<Leader>, now: Now) {
        self.leader = leader;
        self.requested = now;
        self.generation = self.cache.generation(self.request.hash);
    }

    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Names of the fields of the request that do not go to the upstream.
    pub(crate) fn left_away(&self) -> &'static [&'static str] {
        const CONDITIONS: &[&str] = &["if-none-match", "if-modified-since", "if-range", "range"];
        match self.request.forwarding {
            Forwarding::AsIs => &[],
            Forwarding::Whole => CONDITIONS,
        }
    }

    /// Appends lines of fields that go to the upstream instead (RFC 9111 section 4.3.1).
    pub(crate) fn write_conditions(&self, into: &mut Vec<u8>) {
        if let Some(old) = self.old.as_ref().filter(|_| self.request.forwarding == Forwarding::Whole) {
            old.validators().write_conditions(into);
        }
    }

    /// Appends the line of Cache-Status for a response that is passed on.
    pub(crate) fn write_cache_status(&self, into: &mut Vec<u8>) {
        let why = match self.request.why {
            Why::UriMiss => "uri-miss",
            Why::VaryMiss => "vary-miss",
            Why::Stale => "stale",
            Why::Request => "request",
        };
        let stored = if matches!(self.stage, Stage::Storing { .. }) { "; stored" } else { "" };
        // Writing to memory does not fail.
        let _ = write!(into, "Cache-Status: weir; fwd={why}{stored}\r\n");
    }

    /// The head of the final response has come.
    pub(crate) fn on_head(&mut self, head: &ResponseHead, now: Now) -> Begun {
        let old = self.old.clone().filter(|_| self.request.forwarding == Forwarding::Whole);
        if let Some(old) = &old {
            if head.status == 304 {
                return self.on_not_modified(old, head, now);
            }
            if is_failure(head.status)
                && let Some(answer) = self.answer_on_error(Some(head.status), now)
            {
                self.stage = Stage::Passing;
                return Begun::Answer(Box::new(answer));
            }
        }
        match self.request.method {
            FetchMethod::Head => {
                self.on_head_of_head(head, now);
                self.stage = Stage::Passing;
            }
            FetchMethod::Get => self.begin_to_store(head, now),
        }
        let conditions = conditions_of(&self.request);
        let is_weighed = self.request.forwarding == Forwarding::Whole && head.status / 100 == 2;
        if is_weighed && Validators::of(&head.fields, now.wall_s).are_known_to(&conditions) {
            let mut fields = of_not_modified(&head.fields);
            self.write_cache_status(&mut fields);
            return Begun::NotModified(fields);
        }
        Begun::Pass
    }

    /// Bytes of the body have come. They go to the client in any case.
    pub(crate) fn on_body(&mut self, bytes: &[u8]) {
        if let Stage::Storing { writer, length, .. } = &mut self.stage {
            let is_longer = length.is_some_and(|length| writer.bytes() + bytes.len() as u64 > length);
            let outcome = if is_longer { Err(GaveUp::NoRoom) } else { writer.write(bytes, &self.cache.places) };
            if let Err(why) = outcome {
                self.give_up(why, self.requested);
            }
        }
    }

    /// The response is whole.
    pub(crate) fn on_end(&mut self, now: Now) {
        let Stage::Storing { new, writer, length } = std::mem::replace(&mut self.stage, Stage::Passing) else {
            return self.finish(Outcome::Alone);
        };
        // A response that is cut off is no whole one (section 3.3).
        if length.is_some_and(|length| length != writer.bytes()) {
            return self.finish(Outcome::Alone);
        }
        let stored = match writer.finish() {
            Ok(body) => self.cache.insert(self.new_of(*new, body)),
            Err(why) => return self.give_up(why, now),
        };
        self.cache.uncacheable.remove(self.request.hash);
        // A client may have had to validate what the next one may not take without doing so as well.
        let is_for_all = |stored: &Arc<Stored>| {
            stored.freshness.validation == Validation::WhenStale && stored.freshness.left_s(now) > 0
        };
        self.finish(match stored.filter(is_for_all) {
            Some(stored) => Outcome::Answered(stored, Right::New),
            None => Outcome::Alone,
        });
    }

    /// The upstream cannot be reached, or failed before the head of its response was whole. Gives a stale answer, if that
    /// is permitted (section 4.2.4).
    pub(crate) fn on_failure(&mut self, now: Now) -> Option<Answer> {
        self.stage = Stage::Passing;
        let answer = self.answer_on_error(None, now);
        self.finish(Outcome::Alone);
        answer
    }

    fn answer_on_error(&mut self, status: Option<u16>, now: Now) -> Option<Answer> {
        let old = self.old.clone()?;
        if !old.freshness.serves_on_error(&self.request.control.control, now) {
            return None;
        }
        let answer = self.answer(&old, How::OnError(status), now)?;
        self.finish(Outcome::Answered(old, Right::OnError));
        Some(answer)
    }

    /// An answer from what is stored, which is lost if its file is.
    pub(super) fn answer(&self, stored: &Arc<Stored>, how: How, now: Now) -> Option<Answer> {
        let answer = Answer::new(Arc::clone(stored), &conditions_of(&self.request), how, now);
        if answer.is_err() {
            count(&self.cache.counts.disk_errors, 1);
            self.cache.remove(stored);
        }
        answer.ok()
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some(leader) = self.leader.take() {
            leader.finish(outcome);
        }
    }

    /// The response is kept no longer; it goes on to the client.
    fn give_up(&mut self, why: GaveUp, now: Now) {
        self.stage = Stage::Passing;
        let counts = &self.cache.counts;
        count(if why == GaveUp::Disk { &counts.disk_errors } else { &counts.no_room }, 1);
        self.cache.uncacheable.add(self.request.hash, now);
        self.finish(Outcome::Alone);
    }

    fn times(&self, now: Now) -> Times {
        Times { requested: self.requested, received: now }
    }

    fn new_of(&self, pending: Pending, body: Body) -> New {
        New {
            hash: self.request.hash,
            key: Arc::clone(&self.request.key),
            selecting: pending.selecting,
            status: pending.status,
            fields: pending.fields,
            body,
            freshness: pending.freshness,
            date_s: pending.date_s,
            generation: self.generation,
        }
    }

    /// Judges a head, which may be that of a stored response as a 304 freshens it.
    fn judge(&self, status: u16, fields: Vec<u8>, age: Option<u64>, now: Now) -> Result<Pending, (NotStored, Vec<u8>)> {
        let mut control = ResponseControl::read(&fields);
        control.age = age;
        let times = self.times(now);
        let freshness = match freshness::judge(&self.request.control, status, &control, &times, &self.cache.rules) {
            Ok(freshness) => freshness,
            Err(why) => return Err((why, fields)),
        };
        match Selecting::of(&fields, || lines(&self.request.fields)) {
            Ok(selecting) => {
                let date_s = date_s(&control, now.wall_s);
                let fields = stored_fields(&fields, now.wall_s);
                Ok(Pending { selecting, status, fields, freshness, date_s })
            }
            Err(_) => Err((NotStored::VaryAny, fields)),
        }
    }

    fn begin_to_store(&mut self, head: &ResponseHead, now: Now) {
        let age = ResponseControl::read(&head.fields).age;
        let pending = match self.judge(head.status, head.fields.clone(), age, now) {
            Ok(pending) => pending,
            Err(_) => {
                self.stage = Stage::Passing;
                // What was stored is not what the upstream has now, unless it fails.
                if let Some(old) = self.old.take().filter(|_| head.status < 500) {
                    self.cache.remove(&old);
                }
                // What is due to this request, or to a failure, says nothing of the next response.
                let is_own = self.request.control.authorization == Authorization::Present
                    || head.status >= 500
                    || matches!(head.status, 206 | 304);
                if !is_own {
                    self.cache.uncacheable.add(self.request.hash, now);
                }
                return self.finish(Outcome::Alone);
            }
        };
        match BodyWriter::begin(head.length, &self.cache.places) {
            Ok(writer) => self.stage = Stage::Storing { new: Box::new(pending), writer, length: head.length },
            Err(why) => self.give_up(why, now),
        }
    }

    /// 304: the stored response is right, and its head becomes newer (section 4.3.4).
    fn on_not_modified(&mut self, old: &Arc<Stored>, head: &ResponseHead, now: Now) -> Begun {
        if !old.validators().agree_with(&Validators::of(&head.fields, now.wall_s)) {
            return self.fetch_again(old, now);
        }
        let stored = self.freshen(old, head, now);
        let Some(answer) = self.answer(&stored, How::Validated, now) else { return self.fetch_again(old, now) };
        self.stage = Stage::Passing;
        let is_for_all = !stored.life.is_retired()
            && stored.freshness.validation == Validation::WhenStale
            && stored.freshness.left_s(now) > 0;
        self.finish(if is_for_all { Outcome::Answered(stored, Right::New) } else { Outcome::Alone });
        Begun::Answer(Box::new(answer))
    }

    /// The stored response with the fields of a newer head; in its place, if it may still be stored.
    fn freshen(&self, old: &Arc<Stored>, head: &ResponseHead, now: Now) -> Arc<Stored> {
        let age = ResponseControl::read(&head.fields).age;
        // A head without Date is of now, not of when the stored one was made.
        let fields = freshened(&old.fields, &stored_fields(&head.fields, now.wall_s));
        let fields = match self.judge(old.status, fields, age, now) {
            Ok(pending) => {
                if pending.selecting != old.selecting {
                    self.cache.remove(old);
                }
                let fields = pending.fields.clone();
                if let Some(new) = self.cache.insert(self.new_of(pending, old.body.clone())) {
                    count(&self.cache.counts.freshened, 1);
                    return new;
                }
                fields
            }
            Err((_, fields)) => fields,
        };
        self.cache.remove(old);
        // It answers this client, as the upstream has just said that it is right, and no other.
        let mut freshness = old.freshness;
        freshness.received_ms = now.mono_ms;
        freshness.initial_age_s = age.unwrap_or(0);
        Arc::new(Stored::apart(old, fields, freshness, Hold::new(&self.cache.places.memory)))
    }

    /// The upstream has something else than is stored, and did not send it: it is asked without conditions.
    fn fetch_again(&mut self, old: &Arc<Stored>, now: Now) -> Begun {
        self.cache.remove(old);
        self.old = None;
        self.requested = now;
        self.generation = self.cache.generation(self.request.hash);
        Begun::FetchAgain
    }

    /// A response to HEAD says what a GET would have got: it freshens the stored response, or shows that it is out of date
    /// (section 4.3.5).
    fn on_head_of_head(&mut self, head: &ResponseHead, now: Now) {
        let Some(old) = self.old.clone().filter(|_| head.status == 200) else { return };
        let is_same = old.validators().agree_with(&Validators::of(&head.fields, now.wall_s))
            && old.status == 200
            && head.length.is_none_or(|length| length == old.body.bytes());
        if is_same {
            let _ = self.freshen(&old, head, now);
        } else {
            self.cache.remove(&old);
        }
    }
}

/// The conditions of the client.
fn conditions_of(request: &Request) -> Conditions<'_> {
    let mut conditions = Conditions::default();
    let mut tags = 0;
    for (name, value) in lines(&request.fields) {
        let is = |own: &[u8]| name.eq_ignore_ascii_case(own);
        if is(b"if-none-match") {
            if let Some(place) = conditions.if_none_match.get_mut(tags) {
                *place = Some(value);
                tags += 1;
            }
        } else if is(b"if-modified-since") {
            conditions.if_modified_since = Some(value);
        } else if is(b"range") && request.method == FetchMethod::Get {
            conditions.range = Some(value);
        } else if is(b"if-range") {
            conditions.if_range = Some(value);
        }
    }
    conditions
}

/// The fields of a 304 that stands for a whole response (RFC 9110 section 15.4.5).
fn of_not_modified(fields: &[u8]) -> Vec<u8> {
    const CONTENT: [&[u8]; 4] = [b"content-type", b"content-encoding", b"content-language", b"content-length"];
    let mut kept = Vec::with_capacity(fields.len());
    for (name, value) in lines(fields).filter(|(name, _)| !CONTENT.iter().any(|own| name.eq_ignore_ascii_case(own))) {
        push_line(&mut kept, name, value);
    }
    kept
}
