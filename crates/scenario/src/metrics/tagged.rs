//! The tags of a value.

use crate::behaviour::{Ask, Tags};
use weir_load::Outcome;

/// What tells the values of a metric apart.
pub trait Tagged {
    /// Whether a tag has this value.
    fn is(&self, name: &str, value: &str) -> bool;

    /// Gives all of them; of a name that is given twice the first value counts.
    fn each(&self, take: &mut dyn FnMut(&str, &str));
}

/// The number of a failure as k6 tells it, 0 for none: 1000 and the status, or what kept a request from an answer.
#[must_use]
pub fn error_code(status: u16, outcome: Option<Outcome>) -> u32 {
    match outcome {
        None if status >= 400 => 1000 + u32::from(status),
        None => 0,
        Some(Outcome::Refused) => 1212,
        Some(Outcome::ConnectTimedOut) => 1211,
        Some(Outcome::ConnectFailed) => 1210,
        Some(Outcome::TimedOut) => 1050,
        Some(Outcome::Reset) => 1220,
        Some(Outcome::Tls) => 1310,
        Some(_) => 1000,
    }
}

impl Tagged for Tags {
    fn is(&self, name: &str, value: &str) -> bool {
        self.iter().any(|(key, own)| **key == *name && **own == *value)
    }

    fn each(&self, take: &mut dyn FnMut(&str, &str)) {
        self.iter().for_each(|(name, value)| take(name, value));
    }
}

impl Tagged for Option<&Tags> {
    fn is(&self, name: &str, value: &str) -> bool {
        self.is_some_and(|tags| tags.is(name, value))
    }

    fn each(&self, take: &mut dyn FnMut(&str, &str)) {
        if let Some(tags) = self {
            tags.each(take);
        }
    }
}

/// The tags of a request that is over: those of its ask, those of its scenario, and what is known of it.
#[derive(Debug)]
pub struct RequestTags<'a> {
    /// The request.
    pub ask: &'a Ask,
    /// The tags of its scenario.
    pub scenario: Option<&'a Tags>,
    /// Its status, 0 without an answer.
    pub status: u16,
    /// Whether that is an expected one.
    pub is_expected: bool,
    /// Why there is no answer.
    pub outcome: Option<Outcome>,
}

impl Tagged for RequestTags<'_> {
    fn is(&self, name: &str, value: &str) -> bool {
        if let Some(own) = self.ask.tag(name) {
            return own == value;
        }
        match name {
            "status" => value.parse() == Ok(self.status),
            "method" => self.ask.method == value,
            "url" | "name" => self.ask.url.to_string() == value,
            "expected_response" => value == if self.is_expected { "true" } else { "false" },
            "proto" => value == "HTTP/1.1",
            "error_code" => match error_code(self.status, self.outcome) {
                0 => false,
                code => value.parse() == Ok(code),
            },
            "error" => self.outcome.is_some_and(|outcome| outcome.name() == value),
            _ => self.scenario.is(name, value),
        }
    }

    fn each(&self, take: &mut dyn FnMut(&str, &str)) {
        self.ask.tags.each(take);
        let url = self.ask.url.to_string();
        take("url", &url);
        take("name", &url);
        take("method", &self.ask.method);
        take("status", &self.status.to_string());
        take("expected_response", if self.is_expected { "true" } else { "false" });
        if self.status > 0 {
            take("proto", "HTTP/1.1");
        }
        match error_code(self.status, self.outcome) {
            0 => {}
            code => take("error_code", &code.to_string()),
        }
        if let Some(outcome) = self.outcome {
            take("error", outcome.name());
        }
        self.scenario.each(take);
    }
}
