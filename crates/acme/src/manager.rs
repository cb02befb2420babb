//! Decides what is due, obtains it, and remembers how it went.
//!
//! A host's life: it has no certificate (`Wanted`), until one was obtained (`Valid`), which is renewed in good time. A
//! failure of either is remembered with the time of the next attempt. The state is written before an attempt as if that
//! had failed already: a process that ends meanwhile, again and again, waits longer each time, too.

use crate::answers::Answers;
use crate::certificate::{self, Issued};
use crate::client::{Client, Renewal};
use crate::error::AcmeError;
use crate::schedule::{FAILURES_MAX, backoff_s, renew_at_unix_s, within_unix_s};
use crate::settings::{ChallengeKind, Settings};
use crate::storage::{Found, State, Storage, certificate_file};
use crate::x509::{Validity, renewal_id};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest that the manager sleeps.
const TURN_MAX: Duration = Duration::from_secs(3600);
/// The shortest, so that a mistake in times never becomes a loop.
const TURN_MIN: Duration = Duration::from_secs(1);
/// From one look at a directory that another process keeps to the next.
const KEPT_PAUSE: Duration = Duration::from_secs(5);
/// From one question to the authority when to renew to the next, in seconds: within these, as it wishes.
const ASK_S: std::ops::RangeInclusive<i64> = 600..=86_400;
/// Where it wishes nothing.
const ASK_S_USUAL: i64 = 21_600;
/// Letters of an error that are kept.
const ERROR_LETTERS_MAX: usize = 800;

/// How far a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// It has no certificate yet.
    Wanted,
    /// It has one.
    Valid,
    /// It has one that is to be renewed.
    Due,
    /// Its certificate is out of date.
    Expired,
}

/// What is told of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its name.
    pub host: String,
    /// How far it is.
    pub state: HostState,
    /// Until when its certificate is valid, in seconds since 1970.
    pub not_after_unix_s: Option<i64>,
    /// When the next attempt is made.
    pub next_attempt_unix_s: i64,
    /// Attempts that failed, one after the other.
    pub failures: u32,
    /// Why the last attempt failed; none if it did not.
    pub last_error: Option<String>,
}

/// A host and what is known of it.
#[derive(Debug)]
struct Host {
    name: String,
    validity: Option<Validity>,
    /// The identifier of its certificate for ARI.
    renewal_id: Option<String>,
    state: State,
}

/// Keeps the certificates of some hosts valid.
#[derive(Debug)]
pub struct Manager {
    settings: Settings,
    hosts: Vec<Host>,
    /// None while another process has the directory, or it cannot be opened.
    storage: Option<Storage>,
    client: Option<Client>,
    /// Failures, one after the other, that would meet every other host as well, and until when none is tried.
    common_failures: u32,
    pause_until_unix_s: i64,
    /// What was said of the storage last: it is said once.
    told_of_storage: String,
}

impl Manager {
    /// For these settings; hosts come by [`set_hosts`](Self::set_hosts).
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            hosts: Vec::new(),
            storage: None,
            client: None,
            common_failures: 0,
            pause_until_unix_s: 0,
            told_of_storage: String::new(),
        }
    }

    /// The hosts whose certificates are kept valid from now on: names in lower case. What is on disk of others stays.
    pub fn set_hosts(&mut self, names: &[String], answers: &mut dyn Answers) {
        let mut before = std::mem::take(&mut self.hosts);
        for name in names.iter().filter(|name| is_name(name)) {
            if self.hosts.iter().any(|host| host.name == *name) {
                continue;
            }
            let known = before.iter().position(|host| host.name == *name).map(|at| before.swap_remove(at));
            let host = known.or_else(|| {
                let storage = self.storage.as_ref()?;
                load(storage, name, answers)
            });
            let empty = || Host { name: name.clone(), validity: None, renewal_id: None, state: State::default() };
            self.hosts.push(host.unwrap_or_else(empty));
        }
    }

    /// Does what is due, and says how long there is nothing to do. It blocks as long as the authority takes.
    pub fn turn(&mut self, now_unix_s: i64, answers: &mut dyn Answers) -> Duration {
        if !self.has_storage(answers) {
            return KEPT_PAUSE;
        }
        if now_unix_s < self.pause_until_unix_s {
            return pause(self.pause_until_unix_s - now_unix_s);
        }
        self.ask_when_to_renew(now_unix_s, answers);
        let directory = self.settings.directory.clone();
        let next = |host: &Host| host.due_at_unix_s(&directory);
        let Some(first) = (0..self.hosts.len()).min_by_key(|&at| next(&self.hosts[at])) else { return TURN_MAX };
        let due_at = next(&self.hosts[first]);
        if due_at > now_unix_s {
            let ask_at = self.hosts.iter().filter(|host| host.renewal_id.is_some());
            let ask_at = ask_at.map(|host| host.state.ask_again_unix_s).min().unwrap_or(i64::MAX);
            return pause(due_at.min(ask_at).saturating_sub(now_unix_s));
        }
        self.attempt(first, now_unix_s, answers);
        TURN_MIN
    }

    /// What is told of each host.
    #[must_use]
    pub fn status(&self, now_unix_s: i64) -> Vec<HostStatus> {
        let of = |host: &Host| {
            let not_after_unix_s = host.validity.map(|validity| validity.not_after_unix_s);
            let due_at = host.due_at_unix_s(&self.settings.directory);
            let state = match not_after_unix_s {
                None => HostState::Wanted,
                Some(until) if until <= now_unix_s => HostState::Expired,
                Some(_) if host.state.renew_at_unix_s <= now_unix_s => HostState::Due,
                Some(_) => HostState::Valid,
            };
            let error = &host.state.last_error;
            HostStatus {
                host: host.name.clone(),
                state,
                not_after_unix_s,
                next_attempt_unix_s: due_at.max(self.pause_until_unix_s),
                failures: host.state.failures,
                last_error: (!error.is_empty()).then(|| error.clone()),
            }
        };
        self.hosts.iter().map(of).collect()
    }

    /// Opens the storage, if that can be.
    fn has_storage(&mut self, answers: &mut dyn Answers) -> bool {
        if self.storage.is_some() {
            return true;
        }
        match Storage::open(&self.settings.storage) {
            Ok(storage) => {
                for host in &mut self.hosts {
                    if let Some(loaded) = load(&storage, &host.name, answers) {
                        *host = loaded;
                    }
                }
                self.storage = Some(storage);
                true
            }
            Err(error) => {
                let words = error.to_string();
                if words != self.told_of_storage {
                    answers.tell(&words);
                    self.told_of_storage = words;
                }
                false
            }
        }
    }

    /// Asks the authority when to renew what it issued (RFC 9773): of one host each turn.
    fn ask_when_to_renew(&mut self, now_unix_s: i64, answers: &mut dyn Answers) {
        let is_to_ask = |host: &Host| host.renewal_id.is_some() && host.state.ask_again_unix_s <= now_unix_s;
        let Some(at) = self.hosts.iter().position(is_to_ask) else { return };
        let id = self.hosts[at].renewal_id.clone().unwrap_or_default();
        let window = self.client(answers).and_then(|client| client.renewal_window(&id));
        let host = &mut self.hosts[at];
        let mut ask_in_s = ASK_S_USUAL;
        match window {
            Ok(Some(Renewal { window_unix_s: window, retry_after })) => {
                // Within the same window the time stays as it was chosen.
                if !(window.0..=window.1).contains(&host.state.renew_at_unix_s) {
                    host.state.renew_at_unix_s = within_unix_s(window, fastrand::f64());
                }
                let wanted = retry_after.and_then(|wanted| i64::try_from(wanted.as_secs()).ok());
                ask_in_s = wanted.unwrap_or(ASK_S_USUAL).clamp(*ASK_S.start(), *ASK_S.end());
                tracing::info!(host = host.name, renew_at_unix_s = host.state.renew_at_unix_s, "time of renewal");
            }
            Ok(None) => {}
            Err(error) => tracing::info!(host = host.name, %error, "the authority does not say when to renew"),
        }
        host.state.ask_again_unix_s = now_unix_s + ask_in_s;
        let _ = self.remember(at);
    }

    /// The client, with an account.
    fn client(&mut self, answers: &mut dyn Answers) -> Result<&mut Client, AcmeError> {
        match &mut self.client {
            Some(client) => Ok(client),
            none => {
                let closed = || AcmeError::Kept { path: self.settings.storage.clone() };
                let storage = self.storage.as_ref().ok_or_else(closed)?;
                let key = storage.account_key(&mut |told| answers.tell(told))?;
                Ok(none.insert(Client::new(&self.settings, key)?))
            }
        }
    }

    /// Tries to obtain a certificate for a host.
    fn attempt(&mut self, at: usize, now_unix_s: i64, answers: &mut dyn Answers) {
        let before = self.hosts[at].state.clone();
        let state = &mut self.hosts[at].state;
        state.failures = state.failures.saturating_add(1).min(FAILURES_MAX);
        state.next_attempt_unix_s = now_unix_s + backoff_s(state.failures, fastrand::f64());
        let name = self.hosts[at].name.clone();
        let obtained = self.remember(at).and_then(|()| self.obtain(at, &before, answers));
        match obtained {
            Ok(issued) => {
                let validity = issued.validity;
                self.take_up(at, &issued, now_unix_s);
                self.common_failures = 0;
                let file = certificate_file(&self.settings.storage, &name);
                answers.install(&[&name], &file);
                let days = (validity.not_after_unix_s - now_unix_s) / 86_400;
                answers.tell(&format!("{name} has a certificate of {days} days"));
            }
            Err(error) => self.note_failure(at, &error, &before, now_unix_s, answers),
        }
        if let Err(error) = self.remember(at) {
            answers.tell(&error.to_string());
        }
    }

    /// What failed is told, and waited for.
    fn note_failure(
        &mut self,
        at: usize,
        error: &AcmeError,
        before: &State,
        now_unix_s: i64,
        answers: &mut dyn Answers,
    ) {
        // The account, or its authority, may be another one by then.
        self.client = None;
        let asked_s = error.retry_after().and_then(|wanted| i64::try_from(wanted.as_secs()).ok()).unwrap_or(0);
        let state = &mut self.hosts[at].state;
        if error.is_of_all_names() {
            // It is not the name's fault: what is waited for is the authority, with all names.
            (state.failures, state.next_attempt_unix_s) = (before.failures, before.next_attempt_unix_s);
            self.common_failures = self.common_failures.saturating_add(1).min(FAILURES_MAX);
            self.pause_until_unix_s = now_unix_s + backoff_s(self.common_failures, fastrand::f64()).max(asked_s);
        } else {
            state.next_attempt_unix_s = state.next_attempt_unix_s.max(now_unix_s + asked_s);
        }
        state.last_error = error.to_string().chars().take(ERROR_LETTERS_MAX).collect();
        let wait_s = state.next_attempt_unix_s.max(self.pause_until_unix_s) - now_unix_s;
        let Host { name, .. } = &self.hosts[at];
        answers.tell(&format!("no certificate for {name}: {error}; the next attempt is in {}", words_of(wait_s)));
    }

    fn obtain(&mut self, at: usize, before: &State, answers: &mut dyn Answers) -> Result<Issued, AcmeError> {
        let Host { name, renewal_id, .. } = &self.hosts[at];
        let (name, renewal_id) = (&name.clone(), renewal_id.clone());
        // After a failure the next kind of challenge comes first.
        let mut challenges: Vec<ChallengeKind> = self.settings.challenges.clone();
        let kinds = challenges.len().max(1);
        challenges.rotate_left(before.failures as usize % kinds);
        let is_of_authority = before.directory == self.settings.directory;
        let replaces = renewal_id.as_deref().filter(|_| is_of_authority && before.failures == 0);
        let obtained = self.client(answers)?.obtain(name, &challenges, replaces, answers)?;
        let text = certificate::file_of(&obtained.chain, &obtained.key);
        let unusable = |why| AcmeError::Certificate { name: name.clone(), why };
        let issued = certificate::read(name, &text).map_err(unusable)?;
        let closed = || AcmeError::Kept { path: self.settings.storage.clone() };
        self.storage.as_ref().ok_or_else(closed)?.put_certificate(name, &text)?;
        Ok(issued)
    }

    /// A certificate was obtained.
    fn take_up(&mut self, at: usize, issued: &Issued, now_unix_s: i64) {
        let host = &mut self.hosts[at];
        host.validity = Some(issued.validity);
        host.renewal_id = renewal_id(&issued.leaf);
        host.state = State {
            directory: self.settings.directory.clone(),
            renew_at_unix_s: renew_at_unix_s(issued.validity, fastrand::f64()),
            // The authority is asked soon: from then on its word counts.
            ask_again_unix_s: now_unix_s,
            ..State::default()
        };
    }

    fn remember(&self, at: usize) -> Result<(), AcmeError> {
        let Some(storage) = &self.storage else { return Ok(()) };
        storage.put_state(&self.hosts[at].name, &self.hosts[at].state)
    }
}

impl Host {
    /// When it is to be tried, in seconds since 1970.
    fn due_at_unix_s(&self, directory: &str) -> i64 {
        let State { next_attempt_unix_s, renew_at_unix_s, .. } = self.state;
        let is_good = self.validity.is_some() && self.state.directory == directory;
        if is_good { next_attempt_unix_s.max(renew_at_unix_s) } else { next_attempt_unix_s }
    }
}

/// What is on disk of a host; what is damaged there is told, and obtained anew.
fn load(storage: &Storage, name: &str, answers: &mut dyn Answers) -> Option<Host> {
    let mut host = Host { name: name.to_owned(), validity: None, renewal_id: None, state: State::default() };
    match storage.state(name) {
        Ok(Found::Whole(state)) => host.state = state,
        Ok(Found::Missing) => {}
        Ok(Found::Damaged(why)) => answers.tell(&format!("what was known of {name} is damaged ({why}) and forgotten")),
        Err(error) => answers.tell(&error.to_string()),
    }
    match storage.certificate(name) {
        Ok(Found::Whole(issued)) => {
            host.validity = Some(issued.validity);
            host.renewal_id = renewal_id(&issued.leaf);
            if host.state.renew_at_unix_s == 0 {
                host.state.renew_at_unix_s = renew_at_unix_s(issued.validity, fastrand::f64());
            }
        }
        Ok(Found::Missing) => {}
        Ok(Found::Damaged(why)) => answers.tell(&format!("the certificate of {name} is obtained anew: {why}")),
        Err(error) => answers.tell(&error.to_string()),
    }
    Some(host)
}

/// Whether a name may become part of a path, and of an order: letters of ASCII in lower case, digits, hyphens, dots.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_letter) && !name.starts_with('.') && !name.contains("..")
}

fn pause(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).clamp(TURN_MIN, TURN_MAX)
}

fn words_of(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{} s", seconds.max(0)),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
