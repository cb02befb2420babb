//! What an event of a streamed answer is, and how long a stream may take.

use std::str::FromStr;
use std::time::Duration;

/// What of an answer's body is an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A server-sent event with data (WHATWG HTML 9.2).
    Events,
    /// A line that is not blank, such as one of JSON (NDJSON).
    Lines,
    /// What one reception brought. The chunks of HTTP/1.1 mean nothing themselves: each hop may cut them anew (RFC 9112 7.1).
    Pieces,
}

/// A text that names no form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\": an event is one of auto (by Content-Type), events, lines or pieces")]
pub struct FormError(String);

/// How streamed answers are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Streaming {
    /// What an event is; `None` = what the answer's Content-Type says.
    pub form: Option<Form>,
    /// The longest time between two events of an answer; an answer in which more passes has failed.
    pub between_max: Option<Duration>,
    /// After so long, from when the request was written, an answer that goes on is ended by this side, which is no failure.
    pub close_after: Option<Duration>,
}

impl Form {
    /// Every form, by its place in counts.
    pub const ALL: [Self; 3] = [Self::Events, Self::Lines, Self::Pieces];

    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["events", "lines", "pieces"][self as usize]
    }

    /// What a media type says: parameters and the case of letters do not matter (RFC 9110 8.3.1).
    pub(crate) fn of(content_type: &[u8]) -> Self {
        const LINES: [&str; 5] = [
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonlines",
            "application/jsonlines",
        ];
        let name = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"text/event-stream") {
            Self::Events
        } else if LINES.iter().any(|line| name.eq_ignore_ascii_case(line.as_bytes())) {
            Self::Lines
        } else {
            Self::Pieces
        }
    }
}

impl Streaming {
    /// Reads what an event is; `auto` = by the answer's Content-Type.
    ///
    /// # Errors
    /// [`FormError`].
    pub fn form(text: &str) -> Result<Option<Form>, FormError> {
        if text == "auto" { Ok(None) } else { text.parse().map(Some) }
    }
}

impl FromStr for Form {
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        Self::ALL.into_iter().find(|form| form.name() == text).ok_or_else(|| FormError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_says_what_an_event_is() {
        for (text, form) in [
            ("text/event-stream", Form::Events),
            ("Text/Event-Stream ; charset=utf-8", Form::Events),
            ("application/x-ndjson", Form::Lines),
            ("application/JSONL", Form::Lines),
            ("application/json", Form::Pieces),
            ("text/event-streams", Form::Pieces),
            ("", Form::Pieces),
        ] {
            assert_eq!(Form::of(text.as_bytes()), form, "{text}");
        }
        assert_eq!([Streaming::form("auto"), Streaming::form("lines")], [Ok(None), Ok(Some(Form::Lines))]);
        assert!(Streaming::form("json").is_err());
    }
}
