//! Which requests a watcher wants: words such as `client=10.0.0.0/8 status=5xx duration>100ms`.
//!
//! Conditions on the same key are alternatives, those on different keys hold together, and one with `!=` excludes.

use super::seen::{Early, Seen};
use crate::http::access::Network;
use crate::http::pattern::Pattern;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Bytes of a filter.
const FILTER_BYTES_MAX: usize = 2048;
/// Its conditions.
const CONDITIONS_MAX: usize = 32;

const KEYS: &str = "client, host, path, method, status, duration, upstream, rule and session";

/// Which requests are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchFilter {
    conditions: Vec<Condition>,
}

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WatchFilterError {
    /// It is too long.
    #[error("the filter is too long; give at most 2048 bytes and 32 conditions")]
    TooLong,
    /// A word is no condition.
    #[error("`{0}` is no condition; write KEY=VALUE or KEY!=VALUE, duration>TIME or duration<TIME, of the keys {KEYS}")]
    NoCondition(String),
    /// There is no such key.
    #[error("`{0}` is no key of a filter; there are {KEYS}")]
    Key(String),
    /// A key is compared otherwise than it can be.
    #[error("`{0}` is compared by = or != only; duration by > or <")]
    Comparison(&'static str),
    /// What stands behind the key is no value of it.
    #[error("`{value}` is no {key}; write {example}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What could be given.
        example: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    test: Test,
    excludes: bool,
}

#[derive(Debug, Clone)]
enum Test {
    Client(Network),
    Host(String),
    Path(String, Pattern),
    Method(String),
    /// The lowest and the highest.
    Status(u16, u16),
    LongerThan(u64),
    ShorterThan(u64),
    Upstream(String),
    Rule(String),
    Session(u64),
}

/// What is known of a request that was seen at the sockets of a server of any kind.
#[derive(Debug, Clone, Copy)]
pub struct SocketSeen<'r> {
    /// Who asked.
    pub client: Option<IpAddr>,
    /// Over HTTP/2, HTTP/3 and TLS libraries.
    pub method: Option<&'r str>,
    /// Without a query.
    pub path: Option<&'r str>,
    /// Of the response.
    pub status: Option<u16>,
    /// From the arrival of the first byte to the last send, microseconds.
    pub whole_us: u64,
    /// The connection's number in the recording.
    pub session: u64,
}

impl Test {
    /// A number for its key.
    fn key(&self) -> u8 {
        match self {
            Self::Client(_) => 0,
            Self::Host(_) => 1,
            Self::Path(..) => 2,
            Self::Method(_) => 3,
            Self::Status(..) => 4,
            Self::LongerThan(_) => 5,
            Self::ShorterThan(_) => 6,
            Self::Upstream(_) => 7,
            Self::Rule(_) => 8,
            Self::Session(_) => 9,
        }
    }

    /// Whether it holds; none if that is known at the end only.
    fn early(&self, of: &Early<'_>) -> Option<bool> {
        match self {
            Self::Client(network) => Some(network.holds(of.client.to_canonical())),
            Self::Host(host) => Some(host.as_bytes().eq_ignore_ascii_case(of.host)),
            Self::Path(_, pattern) => Some(pattern.matches(of.path)),
            Self::Method(method) => Some(method == of.method),
            Self::Session(session) => Some(*session == of.session),
            Self::Status(..) | Self::LongerThan(_) | Self::ShorterThan(_) | Self::Upstream(_) | Self::Rule(_) => None,
        }
    }

    fn at_socket(&self, seen: &SocketSeen<'_>) -> bool {
        match self {
            Self::Client(network) => seen.client.is_some_and(|client| network.holds(client.to_canonical())),
            Self::Path(_, pattern) => seen.path.is_some_and(|path| pattern.matches(path.as_bytes())),
            Self::Method(method) => seen.method == Some(method),
            Self::Session(session) => *session == seen.session,
            Self::Status(low, high) => seen.status.is_some_and(|status| (*low..=*high).contains(&status)),
            Self::LongerThan(us) => seen.whole_us > *us,
            Self::ShorterThan(us) => seen.whole_us < *us,
            Self::Host(_) | Self::Upstream(_) | Self::Rule(_) => false,
        }
    }

    fn late(&self, seen: &Seen) -> Option<bool> {
        match self {
            Self::Status(low, high) => Some((*low..=*high).contains(&seen.response.status)),
            Self::LongerThan(us) => Some(seen.timing.whole_us > *us),
            Self::ShorterThan(us) => Some(seen.timing.whole_us < *us),
            Self::Upstream(name) => Some(seen.upstream.as_deref() == Some(name)),
            Self::Rule(name) => Some(seen.rules.names.iter().any(|known| known == name)),
            _ => self.early(&seen.early()),
        }
    }
}

impl PartialEq for Test {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key() && self.to_string() == other.to_string()
    }
}

impl Eq for Test {}

impl WatchFilter {
    /// Whether it may be for a request that has just come.
    pub(super) fn may_be_for(&self, request: &Early<'_>) -> bool {
        // What is not known yet excludes nothing.
        self.holds(|test, excludes| test.early(request).unwrap_or(!excludes))
    }

    /// Whether it is for a request that is over.
    pub(super) fn is_for(&self, seen: &Seen) -> bool {
        self.holds(|test, _| test.late(seen) == Some(true))
    }

    /// Whether it is for a request that was seen at sockets. A condition on what is not known of it does not hold.
    #[must_use]
    pub fn is_for_socket(&self, seen: &SocketSeen<'_>) -> bool {
        self.holds(|test, _| test.at_socket(seen))
    }

    /// The first of its keys that no socket tells of.
    #[must_use]
    pub fn unknown_to_sockets(&self) -> Option<&'static str> {
        self.conditions.iter().find_map(|condition| match condition.test {
            Test::Host(_) => Some("host"),
            Test::Upstream(_) => Some("upstream"),
            Test::Rule(_) => Some("rule"),
            _ => None,
        })
    }

    /// Whether the path of a request has to be read for it.
    pub(super) fn asks_path(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition.test, Test::Path(..)))
    }

    fn holds(&self, test: impl Fn(&Test, bool) -> bool) -> bool {
        let mut rest = self.conditions.as_slice();
        // Those of one key stand together.
        while let [first, ..] = rest {
            let key = first.test.key();
            let count = rest.iter().take_while(|condition| condition.test.key() == key).count();
            let (group, others) = rest.split_at(count);
            rest = others;
            let is_excluded = group.iter().any(|one| one.excludes && test(&one.test, true));
            let is_chosen = group.iter().any(|one| !one.excludes && test(&one.test, false));
            if is_excluded || (!is_chosen && group.iter().any(|one| !one.excludes)) {
                return false;
            }
        }
        true
    }
}

impl FromStr for WatchFilter {
    type Err = WatchFilterError;

    fn from_str(text: &str) -> Result<Self, WatchFilterError> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(WatchFilterError::TooLong);
        }
        let mut conditions = text.split_whitespace().map(condition).collect::<Result<Vec<_>, _>>()?;
        if conditions.len() > CONDITIONS_MAX {
            return Err(WatchFilterError::TooLong);
        }
        conditions.sort_by_key(|condition| condition.test.key());
        Ok(Self { conditions })
    }
}

fn condition(word: &str) -> Result<Condition, WatchFilterError> {
    let at = word.find(['=', '!', '<', '>']).ok_or_else(|| WatchFilterError::NoCondition(short(word)))?;
    let (key, rest) = word.split_at(at);
    let (comparison, value) = match rest.strip_prefix("!=") {
        Some(value) => ("!=", value),
        None => rest.split_at(1),
    };
    if comparison == "!" {
        return Err(WatchFilterError::NoCondition(short(word)));
    }
    let test = match (key, comparison) {
        ("duration", ">" | "<") => duration(comparison, value)?,
        ("duration", _) => return Err(WatchFilterError::Comparison("duration")),
        (_, "=" | "!=") => named(key, value)?,
        _ => {
            let known = named(key, value).map(|_| WatchFilterError::Comparison("this key"));
            return Err(known.unwrap_or_else(|error| error));
        }
    };
    Ok(Condition { test, excludes: comparison == "!=" })
}

fn named(key: &str, value: &str) -> Result<Test, WatchFilterError> {
    let wrong = |key, example| WatchFilterError::Value { key, value: short(value), example };
    let text = |key, example| if value.is_empty() { Err(wrong(key, example)) } else { Ok(value.to_owned()) };
    Ok(match key {
        "client" => Test::Client(value.parse().map_err(|()| wrong("client", "client=10.0.0.0/8 or client=::1"))?),
        "host" => Test::Host(text("host", "host=www.example.org")?.to_ascii_lowercase()),
        "path" => {
            let glob = Some(value).filter(|value| value.starts_with(['/', '*'])).and_then(Pattern::glob);
            Test::Path(value.to_owned(), glob.ok_or_else(|| wrong("path", "path=/api/** (* is within a segment)"))?)
        }
        "method" => {
            let is_token = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            Test::Method(if is_token { value.to_owned() } else { return Err(wrong("method", "method=POST")) })
        }
        "status" => {
            let (low, high) =
                statuses(value).ok_or_else(|| wrong("status", "status=404, status=5xx or status=400-499"))?;
            Test::Status(low, high)
        }
        "upstream" => Test::Upstream(text("upstream", "upstream=NAME, as the configuration has it")?),
        "rule" => Test::Rule(text("rule", "rule=route:3, rule=/api/ or rule=policy")?),
        "session" => Test::Session(value.parse().map_err(|_| wrong("session", "session=12, a connection's number"))?),
        _ => return Err(WatchFilterError::Key(short(key))),
    })
}

/// `404`, `5xx` or `400-499`.
fn statuses(value: &str) -> Option<(u16, u16)> {
    let status = |text: &str| {
        let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|status| is_status && (100..=999).contains(status))
    };
    if let Some(class) = value.strip_suffix("xx") {
        let class = class.parse::<u16>().ok().filter(|class| value.len() == 3 && (1..=9).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    match value.split_once('-') {
        Some((low, high)) => Some((status(low)?, status(high)?)).filter(|(low, high)| low <= high),
        None => status(value).map(|status| (status, status)),
    }
}

/// In microseconds.
fn duration(comparison: &str, value: &str) -> Result<Test, WatchFilterError> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let factor = match unit {
        "us" => Some(1),
        "ms" => Some(1000),
        "s" => Some(1_000_000),
        _ => None,
    };
    let us = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    let example = "duration>100ms (units: us, ms, s)";
    let us = us.ok_or_else(|| WatchFilterError::Value { key: "duration", value: short(value), example })?;
    Ok(if comparison == ">" { Test::LongerThan(us) } else { Test::ShorterThan(us) })
}

fn short(text: &str) -> String {
    text.chars().take(80).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(network) => write!(f, "{network}"),
            Self::Host(text) | Self::Path(text, _) | Self::Method(text) | Self::Upstream(text) | Self::Rule(text) => {
                f.write_str(text)
            }
            Self::Status(low, high) if low == high => write!(f, "{low}"),
            Self::Status(low, high) if low % 100 == 0 && *high == low + 99 && *low < 1000 => {
                write!(f, "{}xx", low / 100)
            }
            Self::Status(low, high) => write!(f, "{low}-{high}"),
            Self::LongerThan(us) | Self::ShorterThan(us) => write!(f, "{us}us"),
            Self::Session(number) => write!(f, "{number}"),
        }
    }
}

impl fmt::Display for WatchFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Condition { test, excludes }) in self.conditions.iter().enumerate() {
            let key = match test {
                Test::Client(_) => "client",
                Test::Host(_) => "host",
                Test::Path(..) => "path",
                Test::Method(_) => "method",
                Test::Status(..) => "status",
                Test::LongerThan(_) | Test::ShorterThan(_) => "duration",
                Test::Upstream(_) => "upstream",
                Test::Rule(_) => "rule",
                Test::Session(_) => "session",
            };
            let comparison = match test {
                Test::LongerThan(_) => ">",
                Test::ShorterThan(_) => "<",
                _ if *excludes => "!=",
                _ => "=",
            };
            write!(f, "{}{key}{comparison}{test}", if number == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(text: &str) -> WatchFilter {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn seen(status: u16, whole_us: u64) -> Seen {
        let mut seen = Seen::default();
        (seen.response.status, seen.timing.whole_us) = (status, whole_us);
        (seen.head.method, seen.head.path, seen.head.name) =
            ("GET".to_owned(), b"/api/a".to_vec(), b"Example.org".to_vec());
        (seen.network.client, seen.network.session) = ("10.1.2.3".parse().expect("an address"), 12);
        (seen.upstream, seen.rules.names) = (Some("app".to_owned()), vec!["route:3".to_owned(), "/api/".to_owned()]);
        seen
    }

    #[test]
    fn words_of_a_key_are_alternatives_and_keys_hold_together() {
        let one = seen(502, 150_000);
        for (text, is_for, may_be_for) in [
            ("", true, true),
            ("client=10.0.0.0/8 host=example.ORG path=/api/* method=GET status=5xx session=12", true, true),
            ("duration>100ms duration<1s upstream=app rule=route:3", true, true),
            ("status=404 status=500-599", true, true),
            ("status=404", false, true),
            ("status!=5xx", false, true),
            ("status!=404", true, true),
            ("status=5xx status!=502", false, true),
            ("duration>150ms", false, true),
            ("path=/b path=/c", false, false),
            ("path=/b path=/api/a", true, true),
            ("path!=/api/**", false, false),
            ("client!=::1 client!=10.1.2.3", false, false),
            ("host=example.com status=5xx", false, false),
            ("upstream!=other rule!=policy", true, true),
            ("rule!=/api/", false, true),
            ("session=13", false, false),
            ("method!=POST", true, true),
        ] {
            let filter = filter(text);
            assert_eq!((filter.is_for(&one), filter.may_be_for(&one.early())), (is_for, may_be_for), "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in [
            "status",
            "status=",
            "status=99",
            "status=6x",
            "status=500-400",
            "status=5000",
            "duration=1s",
            "duration>1",
            "duration>s",
            "duration!=1s",
            "client=10.0.0.1/8",
            "client=x",
            "path=api",
            "method=",
            "session=x",
            "host=",
            "code=5",
            "status>500",
            "host!x",
            "=",
            "rule=",
        ] {
            assert!(text.parse::<WatchFilter>().is_err(), "{text}");
        }
        assert_eq!("method=A ".repeat(33).parse::<WatchFilter>(), Err(WatchFilterError::TooLong));
        assert_eq!(format!("host={}", "a".repeat(2048)).parse::<WatchFilter>(), Err(WatchFilterError::TooLong));
    }

    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            "client(=|!=)(10\\.[1-9][0-9]?\\.0\\.0/16|::1|192\\.0\\.2\\.[1-9])",
            "(host|upstream|rule)(=|!=)[!-~]{1,12}",
            "path(=|!=)/[!-~]{0,12}",
            "method(=|!=)[A-Z]{1,7}",
            "status(=|!=)([1-5]xx|[1-5][0-9]{2}|200-4[0-9]{2})",
            "duration[<>][0-9]{1,6}(us|ms|s)",
            "session(=|!=)[0-9]{1,9}",
        ]
    }

    proptest! {
        #[test]
        fn a_filter_is_the_same_when_it_is_written_and_read_again(words in proptest::collection::vec(word(), 0..12)) {
            let read = filter(&words.join(" "));
            prop_assert_eq!(&filter(&read.to_string()), &read);
            let one = seen(200, 5);
            prop_assert_eq!(filter(&read.to_string()).is_for(&one), read.is_for(&one));
        }

        #[test]
        fn a_request_that_a_filter_is_for_may_be_wanted_at_its_beginning(
            words in proptest::collection::vec(word(), 0..6), status in 100..600_u16, whole_us in 0..2_000_000_u64,
        ) {
            let (read, one) = (filter(&words.join(" ")), seen(status, whole_us));
            prop_assert!(!read.is_for(&one) || read.may_be_for(&one.early()));
        }

        #[test]
        fn no_text_makes_it_fail(text: String) {
            let _ = text.parse::<WatchFilter>();
        }
    }
}
