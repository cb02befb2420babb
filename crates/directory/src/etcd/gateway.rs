//! Requests to the members of etcd, tried one after the other until the time is out.

use super::message::{self, Refusal};
use super::settings::EtcdSettings;
use crate::error::DirectoryError;
use serde_json::Value;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use ureq::config::AutoHeaderValue;
use ureq::http::Response;
use ureq::{Agent, Body};

/// Bytes of an answer. A page of entries has some 4 MiB, and base64 adds a third.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The most that one member gets of the time: one that is stopped takes connections and does not answer.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// Rounds over all members, of which none could be connected to.
const ROUNDS_MAX: usize = 3;
/// Between two rounds: an election takes a second, a restart less.
const PAUSE: Duration = Duration::from_millis(100);

/// What may be done where an answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It changes nothing.
    Reads,
    /// It changes something, and does no harm a second time, or finds out that it is the second.
    Changes,
}

/// Why a try failed.
enum Failure {
    /// It was not carried out.
    Not(String),
    /// It may have been carried out.
    Perhaps(String),
    /// No other try does better.
    Final(Refusal),
}

/// The members of etcd.
#[derive(Debug)]
pub(super) struct Gateway {
    /// It has the certificate of a file that may be renewed.
    agent: Mutex<(Agent, Option<SystemTime>)>,
    settings: EtcdSettings,
    endpoints: Vec<String>,
    patience: Duration,
    /// The member that answered last.
    preferred: AtomicUsize,
}

fn agent(settings: &EtcdSettings) -> Result<Agent, DirectoryError> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        // The members are reached directly, also where the environment names a proxy.
        .proxy(None)
        .tls_config(settings.tls_config()?)
        .accept(AutoHeaderValue::None)
        .accept_encoding(AutoHeaderValue::None)
        .user_agent(AutoHeaderValue::from(concat!("weir/", env!("CARGO_PKG_VERSION"))))
        .max_response_header_size(64 << 10)
        .build();
    Ok(config.new_agent())
}

/// When the file of the certificate was written; none where there is none.
fn written(settings: &EtcdSettings) -> Option<SystemTime> {
    fs::metadata(&settings.tls.as_ref()?.certificate).and_then(|found| found.modified()).ok()
}

impl Gateway {
    pub(super) fn new(settings: &EtcdSettings) -> Result<Self, DirectoryError> {
        settings.check()?;
        let written = written(settings);
        let agent = Mutex::new((agent(settings)?, written));
        let endpoints = settings.endpoints.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        let (settings, preferred) = (settings.clone(), AtomicUsize::new(0));
        Ok(Self { agent, patience: settings.patience, settings, endpoints, preferred })
    }

    /// The agent with the certificate that the file has now: connections of an earlier one would be refused some day.
    fn agent(&self) -> Agent {
        let mut known = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = written(&self.settings);
        if now != known.1 {
            match agent(&self.settings) {
                Ok(agent) => *known = (agent, now),
                // The one of before is good until its end.
                Err(error) => tracing::warn!(%error, "the new certificate for etcd is not used"),
            }
        }
        known.0.clone()
    }

    pub(super) fn name(&self) -> String {
        format!("etcd ({})", self.endpoints.join(", "))
    }

    /// What a refusal means to a caller for whom any is an error.
    pub(super) fn refused(&self, refusal: Refusal) -> DirectoryError {
        let engine = self.name();
        match refusal {
            Refusal::Full(why) => DirectoryError::Full { engine, why },
            Refusal::Passing(why) => DirectoryError::Away { engine, why },
            Refusal::NotFound(why) | Refusal::Denied(why) => DirectoryError::Denied { engine, why },
            Refusal::Compacted => DirectoryError::Denied { engine, why: "the revision is compacted".to_owned() },
        }
    }

    /// Asks until a member answers or the time is out; `Ok(Err(_))` is a refusal that no other member would change.
    pub(super) fn ask(&self, path: &str, body: &Value, kind: Kind) -> Result<Result<Value, Refusal>, DirectoryError> {
        self.ask_counting(path, body, kind).map(|(answer, _)| answer)
    }

    /// Likewise, and whether the answer to an earlier try was lost, which may have been carried out.
    pub(super) fn ask_counting(
        &self,
        path: &str,
        body: &Value,
        kind: Kind,
    ) -> Result<(Result<Value, Refusal>, bool), DirectoryError> {
        let until = Instant::now() + self.patience;
        let body = body.to_string();
        let mut is_unsure = false;
        let mut why = String::new();
        let mut refused = 0;
        for attempt in 0.. {
            let at = (self.preferred.load(Ordering::Relaxed)) % self.endpoints.len();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || refused >= ROUNDS_MAX * self.endpoints.len() {
                break;
            }
            match self.try_one(at, path, &body, left.min(self.attempt())) {
                Ok(answer) => return Ok((Ok(answer), is_unsure)),
                Err(Failure::Final(refusal)) => return Ok((Err(refusal), is_unsure)),
                Err(Failure::Not(reason)) => {
                    refused += 1;
                    why = reason;
                }
                Err(Failure::Perhaps(reason)) => {
                    refused = 0;
                    is_unsure = true;
                    why = reason;
                }
            }
            tracing::debug!(endpoint = self.endpoints[at], why, "etcd did not answer");
            // Unless another thread has gone on already.
            let next = at + 1;
            let _ =
                self.preferred.compare_exchange(at, next % self.endpoints.len(), Ordering::Relaxed, Ordering::Relaxed);
            if (attempt + 1usize).is_multiple_of(self.endpoints.len()) {
                thread::sleep(PAUSE.min(until.saturating_duration_since(Instant::now())));
            }
        }
        if why.is_empty() {
            why = format!("no answer within {} ms", self.patience.as_millis());
        }
        let engine = self.name();
        if is_unsure && kind == Kind::Changes {
            return Err(DirectoryError::Unsure { engine, why });
        }
        Err(DirectoryError::Away { engine, why })
    }

    /// The time of one try.
    fn attempt(&self) -> Duration {
        let share = self.patience / u32::try_from(self.endpoints.len().min(3)).unwrap_or(1);
        share.min(ATTEMPT_MAX).max(self.patience / 4)
    }

    fn try_one(&self, at: usize, path: &str, body: &str, time: Duration) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.endpoints[at]);
        let request = self.agent().post(&url).config().timeout_global(Some(time)).build();
        let sent = request.header("content-type", "application/json").send(body);
        let mut response = sent.map_err(|error| failure(&url, &error))?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let text = text.map_err(|error| Failure::Perhaps(format!("{url}: {error}")))?;
        let answer = serde_json::from_slice::<Value>(&text);
        let Ok(Value::Object(answer)) = answer else {
            let why = format!("{url}: status {status}, and no answer of etcd's gateway");
            // A proxy before it, or an etcd without a gateway.
            return Err(if status >= 500 { Failure::Perhaps(why) } else { Failure::Final(Refusal::Denied(why)) });
        };
        match message::refusal(&answer) {
            None => Ok(Value::Object(answer)),
            Some(Refusal::Passing(why)) => Err(Failure::Perhaps(format!("{url}: {why}"))),
            Some(refusal) => Err(Failure::Final(refusal)),
        }
    }

    /// Opens a stream at the member that is at this place in the list, for so long.
    pub(super) fn stream(
        &self,
        at: usize,
        path: &str,
        body: &Value,
        time: Duration,
    ) -> Result<Response<Body>, ureq::Error> {
        let url = format!("{}{path}", self.endpoints[at % self.endpoints.len()]);
        let request = self.agent().post(&url).config();
        let request = request.timeout_recv_response(Some(ATTEMPT_MAX)).timeout_connect(Some(ATTEMPT_MAX));
        let request = request.timeout_send_request(Some(ATTEMPT_MAX)).timeout_recv_body(Some(time)).build();
        let request = request.header("content-type", "application/json");
        // A member that has lost the others ends the stream, instead of keeping silent.
        request.header("grpc-metadata-hasleader", "true").send(body.to_string())
    }

    /// The place of the member that answered last.
    pub(super) fn preferred(&self) -> usize {
        self.preferred.load(Ordering::Relaxed)
    }
}

/// What an error of the transport means for the request.
fn failure(url: &str, error: &ureq::Error) -> Failure {
    let why = format!("{url}: {error}");
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
            Failure::Not(why)
        }
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Failure::Not(why),
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => Failure::Not(why),
        _ => Failure::Perhaps(why),
    }
}
