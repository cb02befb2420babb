//! Where the controller shows what it sees, and where it is told things.

use crate::environment::Environment;
use crate::metrics;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;
use weir_adapt::Engine;
use weir_server::Teller;

/// Messages for the controller that wait; a policy that comes while so many do replaces the last one.
const MAIL_MAX: usize = 4;

/// What the controller shows, and what it is told.
#[derive(Debug, Default)]
pub(crate) struct Board {
    mail: Mutex<VecDeque<Mail>>,
    came: Condvar,
    /// The environment in JSON, and in the text format of Prometheus.
    shown: Mutex<(String, String)>,
}

/// What the controller is told.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Another policy holds.
    Policy(Box<Engine>),
    /// Another policy does not, and why.
    Refused(String),
    /// It is time for a tick.
    Tick,
    /// It is over.
    Stop,
}

impl Board {
    pub(crate) fn send(&self, mail: Mail) {
        let mut waiting = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAIL_MAX {
            waiting.pop_back();
        }
        waiting.push_back(mail);
        self.came.notify_one();
    }

    /// The next message, or a tick when it is time.
    pub(crate) fn wait_until(&self, until: Instant) -> Mail {
        let mut waiting = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(mail) = waiting.pop_front() {
                return mail;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Mail::Tick;
            }
            (waiting, _) = self.came.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn show(&self, environment: &Environment) {
        let shown = (environment.json(), metrics::text(environment));
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn shown<R>(&self, look: impl FnOnce(&(String, String)) -> R) -> R {
        look(&self.shown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Teller for Board {
    fn metrics(&self) -> String {
        self.shown(|(_, metrics)| metrics.clone())
    }

    fn json(&self, path: &str) -> Option<String> {
        let json = (path == "/environment.json").then(|| self.shown(|(json, _)| json.clone()))?;
        // Before the first tick there is nothing to tell.
        Some(if json.is_empty() { "null".to_owned() } else { json })
    }
}
