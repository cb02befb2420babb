//! What the authority sends (RFC 8555 section 7.1).

use serde::Deserialize;
use std::fmt;

/// Letters of the authority's words that are told.
const WORDS_LETTERS_MAX: usize = 400;
/// Problems of a problem that are told.
const SUBPROBLEMS_MAX: usize = 4;
/// What begins the types of ACME's errors.
const ERROR_TYPE: &str = "urn:ietf:params:acme:error:";

/// Where the authority does what (RFC 8555 section 7.1.1).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Directory {
    pub(crate) new_nonce: String,
    pub(crate) new_account: String,
    pub(crate) new_order: String,
    /// Of RFC 9773; none where the authority does not say when to renew.
    pub(crate) renewal_info: Option<String>,
}

/// How far an order, an authorization or a challenge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Pending,
    Ready,
    Processing,
    Valid,
    #[serde(other)]
    Invalid,
}

/// An order (RFC 8555 section 7.1.3).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Order {
    pub(crate) status: Status,
    #[serde(default)]
    pub(crate) authorizations: Vec<String>,
    pub(crate) finalize: String,
    pub(crate) certificate: Option<String>,
    pub(crate) error: Option<Problem>,
}

/// An authorization (RFC 8555 section 7.1.4).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Authorization {
    pub(crate) status: Status,
    #[serde(default)]
    pub(crate) challenges: Vec<Challenge>,
}

/// A challenge (RFC 8555 section 7.1.5).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Challenge {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) token: String,
    pub(crate) error: Option<Problem>,
}

impl Challenge {
    /// Whether the token is one (RFC 8555 section 8.1): it becomes part of a path.
    pub(crate) fn has_token(&self) -> bool {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=256).contains(&self.token.len()) && self.token.bytes().all(is_letter)
    }
}

/// When to renew a certificate (RFC 9773 section 4.2).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenewalInfo {
    suggested_window: Window,
}

#[derive(Debug, Clone, Deserialize)]
struct Window {
    start: String,
    end: String,
}

impl RenewalInfo {
    /// The window, in seconds since 1970; none if it is no window.
    pub(crate) fn window_unix_s(&self) -> Option<(i64, i64)> {
        let time = |text: &str| chrono::DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp());
        let (start, end) = (time(&self.suggested_window.start)?, time(&self.suggested_window.end)?);
        (start < end).then_some((start, end))
    }
}

/// Why the authority refuses something (RFC 9457, RFC 8555 section 6.7).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// Its type, a URI.
    #[serde(rename = "type")]
    pub kind: String,
    /// The authority's words.
    pub detail: String,
    /// The HTTP status, 0 if the problem does not say.
    pub status: u16,
    /// Problems of single names.
    pub subproblems: Vec<Problem>,
}

impl Problem {
    /// The word of ACME for it, such as `rateLimited`; its whole type if that is none of ACME's.
    #[must_use]
    pub fn word(&self) -> &str {
        self.kind.strip_prefix(ERROR_TYPE).unwrap_or(&self.kind)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = if self.detail.is_empty() { "it gives no reason" } else { &self.detail };
        let word = if self.kind.is_empty() { "no type" } else { self.word() };
        write!(f, "{} ({})", plain(detail), plain(word))?;
        // One level of them, as the standard has no more.
        for one in self.subproblems.iter().take(SUBPROBLEMS_MAX).filter(|one| !one.detail.is_empty()) {
            write!(f, "; {} ({})", plain(&one.detail), plain(one.word()))?;
        }
        Ok(())
    }
}

/// Foreign words as they may stand in a log: without control characters, and not too many.
fn plain(text: &str) -> String {
    let letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    letters.take(WORDS_LETTERS_MAX).collect()
}

/// Reads any message of an authority, and its words; for tests that feed any bytes.
pub fn read_any(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Directory>(bytes);
    let _ = serde_json::from_slice::<Order>(bytes);
    if let Ok(authorization) = serde_json::from_slice::<Authorization>(bytes) {
        for challenge in &authorization.challenges {
            assert!(!challenge.has_token() || !challenge.token.contains(['/', '.', '\n']));
        }
    }
    if let Some((start, end)) = serde_json::from_slice::<RenewalInfo>(bytes).ok().and_then(|info| info.window_unix_s())
    {
        assert!(start < end);
    }
    if let Ok(problem) = serde_json::from_slice::<Problem>(bytes) {
        assert!(!problem.to_string().chars().any(char::is_control));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_problem_is_told_in_the_words_of_the_authority() {
        let text = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many\ncertificates","status":429,
            "subproblems":[{"type":"urn:ietf:params:acme:error:caa","detail":"CAA forbids","identifier":{"type":"dns"}}]}"#;
        let problem: Problem = serde_json::from_str(text).expect("a problem");
        assert_eq!(problem.to_string(), "too many certificates (rateLimited); CAA forbids (caa)");
        assert_eq!(Problem::default().to_string(), "it gives no reason (no type)");
    }

    #[test]
    fn a_token_that_leaves_its_directory_is_none() {
        let of = |token: &str| {
            let challenge = Challenge { kind: String::new(), url: String::new(), token: token.into(), error: None };
            challenge.has_token()
        };
        assert!(of("LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"));
        assert!(!of("") && !of("../x") && !of("a/b") && !of("a\r\n") && !of(&"a".repeat(257)));
    }

    #[test]
    fn a_window_is_read_as_rfc_9773_shows_it() {
        let of = |text: &str| serde_json::from_str::<RenewalInfo>(text).ok().and_then(|info| info.window_unix_s());
        let text = r#"{"suggestedWindow":{"start":"2025-01-02T04:00:00Z","end":"2025-01-03T04:00:00Z"},
            "explanationURL":"https://acme.example.com/docs/ari"}"#;
        assert_eq!(of(text), Some((1_735_790_400, 1_735_876_800)));
        assert_eq!(of(r#"{"suggestedWindow":{"start":"2025-01-03T04:00:00Z","end":"2025-01-02T04:00:00Z"}}"#), None);
        assert_eq!(of(r#"{"suggestedWindow":{"start":"soon","end":"2025-01-02T04:00:00Z"}}"#), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read_any(&bytes);
        }

        #[test]
        fn no_words_make_it_fail(detail: String, kind: String) {
            read_any(serde_json::json!({ "type": kind, "detail": detail }).to_string().as_bytes());
        }
    }
}
