//! `k6/http`: requests go out, redirects are followed, and metrics and responses are made of the answers.

use super::giving::{give, thrown};
use super::reply::Reply;
use super::request::{Asked, Auth, Given, has};
use super::told::words_of;
use crate::digest_auth;
use crate::script::state::{State, Turn};
use rquickjs::function::Opt;
use rquickjs::{Array, Ctx, Exception, Object, Result, Value};
use std::rc::Rc;
use std::time::SystemTime;
use weir_load::Url;
use weir_scenario::behaviour::{Answer, AnsweredBy, Fields, Timings, Wants};

pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let own = state.clone();
    give!(ctx, host, "request", move |ctx: Ctx<'js>,
                                      prototype: Object<'js>,
                                      method: String,
                                      url: String,
                                      name: Opt<Option<String>>,
                                      body: Opt<Value<'js>>,
                                      options: Opt<Option<Object<'js>>>|
          -> Result<Value<'js>> {
        let body = body.0.filter(|body| !body.is_undefined() && !body.is_null());
        let given = Given { method, url, name: name.0.flatten(), body, options: options.0.flatten() };
        let asked = Asked::read(&ctx, &own, given)?;
        let mut done = perform(&ctx, &own, vec![asked])?;
        let done = done.pop().ok_or_else(|| thrown(&ctx, "no answer"))?;
        done.response(&ctx, &own, &prototype)
    });
    let own = state.clone();
    give!(ctx, host, "batch", move |ctx: Ctx<'js>,
                                    prototype: Object<'js>,
                                    requests: Vec<Array<'js>>|
          -> Result<Array<'js>> {
        let mut asked = Vec::with_capacity(requests.len());
        for request in &requests {
            asked.push(Asked::read(&ctx, &own, Given::of(request)?)?);
        }
        let all = Array::new(ctx.clone())?;
        for (at, done) in perform(&ctx, &own, asked)?.into_iter().enumerate() {
            match done.response(&ctx, &own, &prototype) {
                Ok(response) => all.set(at, response)?,
                Err(wrong) if wrong.is_exception() && !own.is_cut() => all.set(at, ctx.catch())?,
                Err(wrong) => return Err(wrong),
            }
        }
        Ok(all)
    });
    give!(ctx, host, "join", move |ctx: Ctx<'js>, base: String, to: String| -> Result<String> {
        let joined = url::Url::parse(&base).and_then(|base| base.join(&to));
        joined.map(String::from).map_err(|wrong| thrown(&ctx, format!("invalid URL {to:?}: {wrong}")))
    });
    Ok(())
}

/// A request that is over.
struct Done {
    asked: Asked,
    answer: Answer,
}

/// Sends requests, at most `batch` at a time, and follows their redirects.
fn perform(ctx: &Ctx<'_>, state: &State, asked: Vec<Asked>) -> Result<Vec<Done>> {
    let mut asked: Vec<Asked> = asked;
    let mut answers: Vec<Option<Answer>> = asked.iter().map(|_| None).collect();
    loop {
        let now = next(state, &asked, &answers);
        if now.is_empty() {
            break;
        }
        let wants = Wants::Ask(now.iter().map(|at| asked[*at].ask(state)).collect());
        let Turn::Answered(mut given) = state.wait(ctx, wants)? else {
            return Err(thrown(ctx, "a request was answered by something else"));
        };
        // SAFETY: the engine keeps the answers until this coroutine is suspended again.
        let given = unsafe { given.as_mut() };
        for (at, answer) in now.into_iter().zip(given) {
            let answer = std::mem::replace(answer, hollow());
            let request = &mut asked[at];
            take_cookies(state, request, &answer);
            if !(redirects(state, request, &answer) || authorizes(request, &answer)) {
                answers[at] = Some(answer);
            }
        }
    }
    let pairs = asked.into_iter().zip(answers);
    Ok(pairs.filter_map(|(asked, answer)| Some(Done { asked, answer: answer? })).collect())
}

/// Those that go out next: in order, within the bounds of a batch.
fn next(state: &State, asked: &[Asked], answers: &[Option<Answer>]) -> Vec<usize> {
    let settings = state.world.settings();
    let mut now: Vec<usize> = Vec::new();
    for at in (0..asked.len()).filter(|at| answers[*at].is_none()) {
        if asked.len() > 1 {
            if now.len() >= settings.batch.max(1) {
                break;
            }
            let same = now.iter().filter(|other| asked[**other].url.is_same_host(&asked[at].url)).count();
            if settings.batch_of_host > 0 && same >= settings.batch_of_host {
                continue;
            }
        }
        now.push(at);
    }
    now
}

/// An answer without anything.
fn hollow() -> Answer {
    let url = Url { encrypted: false, host: String::new(), port: 0, target: String::new() };
    Answer {
        by: AnsweredBy::Status(0),
        url,
        method: String::new(),
        headers: Fields::default(),
        body: Vec::new(),
        is_cut: false,
        timings: Timings::default(),
        latency_ns: 0,
        sent_bytes: 0,
        received_bytes: 0,
        redirects: Vec::new(),
        is_expected: false,
    }
}

fn take_cookies(state: &State, asked: &Asked, answer: &Answer) {
    for value in answer.headers.values("set-cookie") {
        if let Some(cookie) = crate::cookies::Cookie::parse(value)
            && let Some(jar) = state.jars.borrow_mut().get_mut(asked.jar)
        {
            jar.set(&asked.url, cookie, SystemTime::now());
        }
    }
}

/// Whether an answer sends the request elsewhere, which is then its next address (RFC 9110, section 15.4).
fn redirects(state: &State, asked: &mut Asked, answer: &Answer) -> bool {
    let status = answer.status();
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return false;
    }
    let Some(location) = answer.header("location") else { return false };
    if asked.redirects_left == 0 {
        if !asked.redirects_said {
            let words = "a request was redirected more often than maxRedirects allows, and the redirect was its answer";
            state.world.tell_once(words);
        }
        return false;
    }
    let joined = url::Url::parse(&asked.url.to_string()).and_then(|base| base.join(location));
    let Some(next) = joined.ok().and_then(|next| Url::parse(next.as_str()).ok()) else {
        state.world.tell_once(&format!("a redirect to {location:?} cannot be followed, and was the answer"));
        return false;
    };
    asked.redirects_left -= 1;
    if status < 307 && asked.method != "HEAD" && asked.method != "GET" {
        asked.method = "GET".to_owned();
        asked.body.clear();
        asked.headers.retain(|(name, _)| {
            !["content-type", "content-length", "content-encoding"].iter().any(|other| name.eq_ignore_ascii_case(other))
        });
    }
    if !next.is_same_host(&asked.url) {
        asked.headers.retain(|(name, _)| {
            !["authorization", "cookie", "host"].iter().any(|other| name.eq_ignore_ascii_case(other))
        });
        asked.auth = Auth::None;
    }
    asked.cookies.clear();
    asked.url = next;
    true
}

/// Whether an answer asks for a digest, which the request then carries.
fn authorizes(asked: &mut Asked, answer: &Answer) -> bool {
    let Auth::Digest { user, password } = &asked.auth else { return false };
    if answer.status() != 401 || has(&asked.headers, "authorization") {
        return false;
    }
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    let credentials = digest_auth::Credentials { user, password };
    match digest_auth::answer(challenge, credentials, &asked.method, &asked.url.target) {
        Some(field) => {
            asked.headers.push(("Authorization".to_owned(), field));
            true
        }
        None => false,
    }
}

impl Done {
    /// The response that the script gets.
    fn response<'js>(self, ctx: &Ctx<'js>, state: &Rc<State>, prototype: &Object<'js>) -> Result<Value<'js>> {
        let error = words_of(&self.answer);
        if !error.is_empty() && self.asked.throws {
            return Err(Exception::throw_message(ctx, error));
        }
        Reply::give(ctx, state, prototype, (self.asked, self.answer))
    }
}
