//! Which requests are meant: words such as `client=10.0.0.0/8 path=/api/** status=5xx duration>100ms`.
//!
//! Words with `=` and the same key are alternatives, words of different keys hold together, one with `!=` excludes, and
//! each comparison (`<`, `<=`, `>`, `>=`) has to hold. A word alone is looked for in host, path and user agent.

use crate::http::access::Network;
use crate::http::pattern::Pattern;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Bytes of a filter.
const FILTER_BYTES_MAX: usize = 2048;
/// Its words.
const WORDS_MAX: usize = 32;

const KEYS: &str = "client, host, path, method, protocol, agent, status, bytes, duration, upstream, rule and session";

/// What requests are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterKey {
    /// The client's address.
    Client,
    /// The host that is asked.
    Host,
    /// The path, without a query.
    Path,
    /// The method.
    Method,
    /// `HTTP/1.0` to `HTTP/3`.
    Protocol,
    /// The user agent.
    Agent,
    /// Any of host, path and user agent.
    Word,
    /// The status of the response.
    Status,
    /// Bytes that were sent, the head included.
    Bytes,
    /// How long it took.
    Duration,
    /// The upstream that answers.
    Upstream,
    /// A route, a table, or the policy.
    Rule,
    /// The number of the connection.
    Session,
}

impl FilterKey {
    const NAMED: [Self; 12] = [
        Self::Client,
        Self::Host,
        Self::Path,
        Self::Method,
        Self::Protocol,
        Self::Agent,
        Self::Status,
        Self::Bytes,
        Self::Duration,
        Self::Upstream,
        Self::Rule,
        Self::Session,
    ];

    /// As it is written before the sign.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Host => "host",
            Self::Path => "path",
            Self::Method => "method",
            Self::Protocol => "protocol",
            Self::Agent => "agent",
            Self::Word => "word",
            Self::Status => "status",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Upstream => "upstream",
            Self::Rule => "rule",
            Self::Session => "session",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Client => "client=10.0.0.0/8 or client=::1",
            Self::Host => "host=www.example.org",
            Self::Path => "path=/api/** (* is within a segment)",
            Self::Method => "method=POST",
            Self::Protocol => "protocol=HTTP/2",
            Self::Agent => "agent=curl",
            Self::Word => "a word",
            Self::Status => "status=404, status=5xx, status=400-499 or status>=400",
            Self::Bytes => "bytes>1000 or bytes>2MiB",
            Self::Duration => "duration>100ms (units: us, ms, s, m)",
            Self::Upstream => "upstream=NAME, as the configuration has it",
            Self::Rule => "rule=route:3, rule=/api/ or rule=policy",
            Self::Session => "session=12, a connection's number",
        }
    }
}

/// How what is known of a request has to be to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Is,
    IsNot,
    Below,
    AtMost,
    AtLeast,
    Above,
}

impl How {
    /// Longer signs stand before those that they begin with.
    const SIGNS: [(&'static str, Self); 6] = [
        ("!=", Self::IsNot),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("=", Self::Is),
        ("<", Self::Below),
        (">", Self::Above),
    ];

    fn sign(self) -> &'static str {
        Self::SIGNS.iter().find(|(_, how)| *how == self).map_or("", |(sign, _)| sign)
    }

    fn compares(self) -> bool {
        !matches!(self, Self::Is | Self::IsNot)
    }

    fn holds(self, known: u64, value: u64) -> bool {
        match self {
            Self::Is | Self::IsNot => known == value,
            Self::Below => known < value,
            Self::AtMost => known <= value,
            Self::AtLeast => known >= value,
            Self::Above => known > value,
        }
    }
}

/// Which requests are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// In the order of their keys.
    conditions: Vec<Condition>,
}

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestFilterError {
    /// It is too long.
    #[error("the filter is too long; give at most 2048 bytes and 32 words")]
    TooLong,
    /// There is no such key.
    #[error("`{0}` is no key of a filter; there are {KEYS}")]
    Key(String),
    /// A key is compared otherwise than it can be.
    #[error("{key} goes with {signs} only; write {example}")]
    Comparison {
        /// The key.
        key: &'static str,
        /// What it goes with.
        signs: &'static str,
        /// What could be given.
        example: &'static str,
    },
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

/// What is known of a request; none of what is not.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestFacts<'r> {
    /// Who asks.
    pub client: Option<IpAddr>,
    /// As the client says it.
    pub host: Option<&'r [u8]>,
    /// Without a query; decoded, or as it came where it cannot be read.
    pub path: Option<&'r [u8]>,
    /// As it came.
    pub method: Option<&'r str>,
    /// `HTTP/1.0` to `HTTP/3`.
    pub protocol: Option<&'r str>,
    /// As it came.
    pub agent: Option<&'r [u8]>,
    /// Of the response.
    pub status: Option<u16>,
    /// That were sent, the head included.
    pub sent_bytes: Option<u64>,
    /// From its beginning to its end, microseconds.
    pub whole_us: Option<u64>,
    /// The upstream that answers, or that none does.
    pub upstream: Option<Option<&'r str>>,
    /// Routes, tables and the policy that hold for it.
    pub rules: Option<&'r [String]>,
    /// The connection.
    pub session: Option<u64>,
}

#[derive(Debug, Clone)]
struct Condition {
    key: FilterKey,
    how: How,
    value: Value,
}

#[derive(Debug, Clone)]
enum Value {
    Network(Network),
    /// In lower case where that makes no difference.
    Text(String),
    Path(String, Pattern),
    /// The lowest and the highest.
    Statuses(u16, u16),
    /// Bytes, microseconds, a number of a connection.
    Number(u64),
}

impl Condition {
    /// Whether what is known is, or compares, as the value says; none if it is not known. `!=` is as `=` here.
    fn holds(&self, of: &RequestFacts<'_>) -> Option<bool> {
        match (&self.value, self.key) {
            (Value::Network(network), _) => of.client.map(|client| network.holds(client.to_canonical())),
            (Value::Path(_, pattern), _) => of.path.map(|path| pattern.matches(path)),
            (Value::Statuses(low, high), _) if !self.how.compares() => {
                of.status.map(|status| (*low..=*high).contains(&status))
            }
            (Value::Statuses(status, _), _) => of.status.map(|known| self.how.holds(known.into(), (*status).into())),
            (Value::Number(number), FilterKey::Bytes) => of.sent_bytes.map(|bytes| self.how.holds(bytes, *number)),
            (Value::Number(number), FilterKey::Duration) => of.whole_us.map(|us| self.how.holds(us, *number)),
            (Value::Number(number), _) => of.session.map(|session| session == *number),
            (Value::Text(text), FilterKey::Host) => of.host.map(|host| host.eq_ignore_ascii_case(text.as_bytes())),
            (Value::Text(text), FilterKey::Method) => of.method.map(|method| method.eq_ignore_ascii_case(text)),
            (Value::Text(text), FilterKey::Protocol) => of.protocol.map(|known| known.eq_ignore_ascii_case(text)),
            (Value::Text(text), FilterKey::Agent) => of.agent.map(|agent| has(agent, text)),
            (Value::Text(text), FilterKey::Upstream) => of.upstream.map(|name| name == Some(text)),
            (Value::Text(text), FilterKey::Rule) => of.rules.map(|rules| rules.iter().any(|rule| rule == text)),
            (Value::Text(text), _) => {
                let places = [of.host, of.path, of.agent];
                let is_there = places.iter().flatten().any(|place| has(place, text));
                // It may stand where nothing is known yet.
                (is_there || places.iter().all(Option::is_some)).then_some(is_there)
            }
        }
    }
}

/// Whether a text, in any case, contains words that are given in lower case.
fn has(text: &[u8], words: &str) -> bool {
    memchr::memmem::find(&text.to_ascii_lowercase(), words.as_bytes()).is_some()
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Condition {}

impl RequestFilter {
    /// Whether a request may be meant of which not all is known yet: what is not known excludes nothing.
    #[must_use]
    pub fn may_be_for(&self, of: &RequestFacts<'_>) -> bool {
        self.decide(|condition| condition.holds(of).unwrap_or(condition.how != How::IsNot))
    }

    /// Whether a request is meant of which nothing more will be known: what is not known holds for no condition.
    #[must_use]
    pub fn is_for(&self, of: &RequestFacts<'_>) -> bool {
        self.decide(|condition| condition.holds(of).unwrap_or(false))
    }

    /// The first key that is none of these.
    #[must_use]
    pub fn key_beside(&self, known: &[FilterKey]) -> Option<FilterKey> {
        self.conditions.iter().map(|condition| condition.key).find(|key| !known.contains(key))
    }

    /// Whether the path of a request has to be read for it.
    pub(crate) fn asks_path(&self) -> bool {
        self.conditions.iter().any(|condition| matches!(condition.key, FilterKey::Path | FilterKey::Word))
    }

    fn decide(&self, holds: impl Fn(&Condition) -> bool) -> bool {
        self.conditions.chunk_by(|one, other| one.key == other.key).all(|of_key| {
            // Words that stand alone all have to be there.
            let are_alternatives = of_key[0].key != FilterKey::Word;
            let mut alternatives = of_key.iter().filter(|one| one.how == How::Is && are_alternatives).peekable();
            let is_chosen = alternatives.peek().is_none() || alternatives.any(&holds);
            is_chosen
                && of_key.iter().all(|one| match one.how {
                    How::Is => are_alternatives || holds(one),
                    How::IsNot => !holds(one),
                    _ => holds(one),
                })
        })
    }
}

impl FromStr for RequestFilter {
    type Err = RequestFilterError;

    fn from_str(text: &str) -> Result<Self, RequestFilterError> {
        if text.len() > FILTER_BYTES_MAX || text.split_whitespace().count() > WORDS_MAX {
            return Err(RequestFilterError::TooLong);
        }
        let mut conditions = text.split_whitespace().map(condition).collect::<Result<Vec<_>, _>>()?;
        conditions.sort_by_key(|condition| condition.key);
        Ok(Self { conditions })
    }
}

fn condition(word: &str) -> Result<Condition, RequestFilterError> {
    let signs = How::SIGNS.iter().filter_map(|(sign, how)| Some((word.find(sign)?, sign.len(), *how)));
    // The first sign, and of those that begin there the longest.
    let Some((at, len, how)) = signs.min_by_key(|(at, len, _)| (*at, std::cmp::Reverse(*len))) else {
        return Ok(Condition { key: FilterKey::Word, how: How::Is, value: Value::Text(word.to_ascii_lowercase()) });
    };
    let (name, value) = (&word[..at], &word[at + len..]);
    let key = FilterKey::NAMED.into_iter().find(|key| key.name() == name);
    let key = key.ok_or_else(|| RequestFilterError::Key(short(name)))?;
    let signs = match key {
        FilterKey::Status => None,
        FilterKey::Bytes | FilterKey::Duration => (!how.compares()).then_some("<, <=, > and >="),
        _ => how.compares().then_some("= and !="),
    };
    if let Some(signs) = signs {
        return Err(RequestFilterError::Comparison { key: key.name(), signs, example: key.example() });
    }
    let wrong = || RequestFilterError::Value { key: key.name(), value: short(value), example: key.example() };
    let value = read(key, how, value).ok_or_else(wrong)?;
    Ok(Condition { key, how, value })
}

fn read(key: FilterKey, how: How, value: &str) -> Option<Value> {
    let text = |text: String| (!text.is_empty()).then_some(Value::Text(text));
    match key {
        FilterKey::Client => value.parse().ok().map(Value::Network),
        FilterKey::Host | FilterKey::Agent => text(value.to_ascii_lowercase()),
        FilterKey::Path => {
            let glob = Some(value).filter(|value| value.starts_with(['/', '*'])).and_then(Pattern::glob)?;
            Some(Value::Path(value.to_owned(), glob))
        }
        FilterKey::Method => {
            let is_token = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if is_token { text(value.to_ascii_uppercase()) } else { None }
        }
        FilterKey::Protocol => {
            let number = value.to_ascii_uppercase();
            let number = number.strip_prefix("HTTP").unwrap_or(&number).trim_start_matches(['/', 'H']);
            ["1.0", "1.1", "2", "3"].contains(&number).then(|| Value::Text(format!("HTTP/{number}")))
        }
        FilterKey::Status => {
            let (low, high) = statuses(value)?;
            (low == high || !how.compares()).then_some(Value::Statuses(low, high))
        }
        FilterKey::Bytes => scaled(value, &BYTES).map(Value::Number),
        FilterKey::Duration => scaled(value, &TIMES).map(Value::Number),
        FilterKey::Upstream | FilterKey::Rule => text(value.to_owned()),
        FilterKey::Session => value.parse().ok().map(Value::Number),
        FilterKey::Word => None,
    }
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

const BYTES: [(&str, u64); 7] = [
    ("", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const TIMES: [(&str, u64); 4] = [("us", 1), ("ms", 1000), ("s", 1_000_000), ("m", 60_000_000)];

/// A whole number with a unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn short(text: &str) -> String {
    text.chars().take(80).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key != FilterKey::Word {
            write!(f, "{}{}", self.key.name(), self.how.sign())?;
        }
        match &self.value {
            Value::Network(network) => write!(f, "{network}"),
            Value::Text(text) | Value::Path(text, _) => f.write_str(text),
            Value::Statuses(low, high) if low == high => write!(f, "{low}"),
            Value::Statuses(low, high) if low % 100 == 0 && *high == low + 99 => write!(f, "{}xx", low / 100),
            Value::Statuses(low, high) => write!(f, "{low}-{high}"),
            Value::Number(us) if self.key == FilterKey::Duration => write!(f, "{us}us"),
            Value::Number(number) => write!(f, "{number}"),
        }
    }
}

impl fmt::Display for RequestFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, condition) in self.conditions.iter().enumerate() {
            write!(f, "{}{condition}", if number == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(text: &str) -> RequestFilter {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    const EARLY: RequestFacts<'static> = RequestFacts {
        client: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3))),
        host: Some(b"Example.org"),
        path: Some(b"/api/a"),
        method: Some("GET"),
        protocol: Some("HTTP/1.1"),
        session: Some(12),
        agent: None,
        status: None,
        sent_bytes: None,
        whole_us: None,
        upstream: None,
        rules: None,
    };

    /// The same at its end, with the routes that hold for it.
    fn late(status: u16, whole_us: u64, rules: &[String]) -> RequestFacts<'_> {
        RequestFacts {
            agent: Some(b"Curl/8.1"),
            status: Some(status),
            sent_bytes: Some(5000),
            whole_us: Some(whole_us),
            upstream: Some(Some("app")),
            rules: Some(rules),
            ..EARLY
        }
    }

    #[test]
    fn words_of_a_key_are_alternatives_and_keys_hold_together() {
        let rules = ["route:3".to_owned(), "/api/".to_owned()];
        for (text, is_for, may_be_for) in [
            ("", true, true),
            ("client=10.0.0.0/8 host=example.ORG path=/api/* method=get status=5xx session=12", true, true),
            ("duration>100ms duration<1s upstream=app rule=route:3", true, true),
            ("duration>100ms duration<120ms", false, true),
            ("duration>=150ms duration<=1m bytes>=5kB bytes<5001", true, true),
            ("status=404 status=500-599", true, true),
            ("status=404", false, true),
            ("status>=500 status<503", true, true),
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
            ("method!=POST protocol=http/1.1", true, true),
            ("protocol=h2", false, false),
            ("agent=CURL", true, true),
            ("agent!=curl", false, true),
            ("API curl", true, true),
            ("api wget", false, true),
        ] {
            let (filter, one) = (filter(text), late(502, 150_000, &rules));
            assert_eq!((filter.is_for(&one), filter.may_be_for(&EARLY)), (is_for, may_be_for), "{text}");
        }
        assert!(!filter("wget").is_for(&EARLY), "what is not known is not there");
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for text in [
            "status=",
            "status=99",
            "status=6x",
            "status=500-400",
            "status=5000",
            "status>5xx",
            "duration=1s",
            "duration>1",
            "duration>s",
            "duration!=1s",
            "bytes=5",
            "bytes>5TB",
            "client=10.0.0.1/8",
            "client=x",
            "client>::1",
            "path=api",
            "method=",
            "method=a/b",
            "protocol=4",
            "session=x",
            "host=",
            "code=5",
            "word=a",
            "=",
            "rule=",
        ] {
            assert!(text.parse::<RequestFilter>().is_err(), "{text}");
        }
        assert_eq!("method=A ".repeat(33).parse::<RequestFilter>(), Err(RequestFilterError::TooLong));
        assert_eq!(format!("host={}", "a".repeat(2048)).parse::<RequestFilter>(), Err(RequestFilterError::TooLong));
    }

    #[test]
    fn keys_that_are_not_known_are_named() {
        let known = [FilterKey::Client, FilterKey::Status];
        assert_eq!(filter("client=::1 status=5xx").key_beside(&known), None);
        assert_eq!(filter("status=5xx host=a").key_beside(&known), Some(FilterKey::Host));
    }

    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            "client(=|!=)(10\\.[1-9][0-9]?\\.0\\.0/16|::1|192\\.0\\.2\\.[1-9])",
            "(host|upstream|rule|agent)(=|!=)[!-~]{1,12}",
            "path(=|!=)/[!-~]{0,12}",
            "method(=|!=)[A-Za-z]{1,7}",
            "protocol(=|!=)(HTTP/1\\.1|h2|3)",
            "status(=|!=)([1-5]xx|[1-5][0-9]{2}|200-4[0-9]{2})",
            "status(<|<=|>|>=)[1-5][0-9]{2}",
            "duration(<|<=|>|>=)[0-9]{1,6}(us|ms|s|m)",
            "bytes(<|<=|>|>=)[0-9]{1,6}(kB|MiB)?",
            "session(=|!=)[0-9]{1,9}",
            "[a-zA-Z/.]{1,8}",
        ]
    }

    proptest! {
        #[test]
        fn a_filter_is_the_same_when_it_is_written_and_read_again(words in proptest::collection::vec(word(), 0..12)) {
            let read = filter(&words.join(" "));
            prop_assert_eq!(&filter(&read.to_string()), &read);
            let one = late(200, 5, &[]);
            prop_assert_eq!(filter(&read.to_string()).is_for(&one), read.is_for(&one));
        }

        #[test]
        fn a_request_that_a_filter_is_for_may_be_wanted_at_its_beginning(
            words in proptest::collection::vec(word(), 0..6), status in 100..600_u16, whole_us in 0..2_000_000_u64,
        ) {
            let read = filter(&words.join(" "));
            prop_assert!(!read.is_for(&late(status, whole_us, &[])) || read.may_be_for(&EARLY));
        }

        #[test]
        fn no_text_makes_it_fail(text: String) {
            let _ = text.parse::<RequestFilter>();
        }
    }
}
