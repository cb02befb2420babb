//! The tags of a value.

use crate::behaviour::{Ask, Tags};
use weir_load::Outcome;

/// What tells the values of a metric apart.
pub trait Tagged {
    /// Whether a tag has this value.
    fn is(&self, name: &str, value: &str) -> bool;
}

impl Tagged for Tags {
    fn is(&self, name: &str, value: &str) -> bool {
        self.iter().any(|(key, own)| **key == *name && **own == *value)
    }
}

impl Tagged for Option<&Tags> {
    fn is(&self, name: &str, value: &str) -> bool {
        self.is_some_and(|tags| tags.is(name, value))
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
            "error" => self.outcome.is_some_and(|outcome| outcome.name() == value),
            _ => self.scenario.is(name, value),
        }
    }
}
