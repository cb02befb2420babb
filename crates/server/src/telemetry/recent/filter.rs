//! Which requests are meant: words such as `client=10.0.0.0/8 path=/api/* status=5xx duration>100ms`, all of which hold.

use super::past::Past;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Words of a filter at most.
const WORDS_MAX: usize = 32;
/// Bytes of a word at most.
const WORD_BYTES_MAX: usize = 512;

/// What a word can be about, for the messages.
const NAMES: &str = "client, host, method, path, protocol, status, bytes, duration, agent";

/// Why a filter is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FilterError {
    /// There is no such thing to ask for.
    #[error("`{word}`: there is no `{name}`; there are {NAMES}")]
    Name { word: String, name: String },
    /// What it is compared with has another form.
    #[error("`{word}`: write {form}")]
    Value { word: String, form: &'static str },
    /// Too many words, or too long ones.
    #[error("a filter has at most {WORDS_MAX} words of {WORD_BYTES_MAX} bytes; leave some out")]
    TooLong,
}

/// Words that all have to hold; none lets everything pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter(Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    /// `name!=value`.
    is_negated: bool,
    test: Test,
}

/// How two numbers are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Below,
    AtMost,
    Equal,
    AtLeast,
    Above,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    /// The client's address begins with so many bits of this one.
    Client(IpAddr, u32),
    /// `*` stands for anything.
    Text(Field, String),
    /// From this to that status.
    Status(u16, u16),
    Bytes(Order, u64),
    /// Microseconds.
    Duration(Order, u64),
    /// Host, path or user agent have this in them.
    Word(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Host,
    Method,
    Path,
    Protocol,
    Agent,
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let words = text.split_whitespace();
        if words.clone().count() > WORDS_MAX || words.clone().any(|word| word.len() > WORD_BYTES_MAX) {
            return Err(FilterError::TooLong);
        }
        words.map(Word::read).collect::<Result<_, _>>().map(Self)
    }
}

impl Filter {
    /// Whether a request is meant.
    pub(super) fn lets_pass(&self, past: &Past) -> bool {
        self.0.iter().all(|word| word.test.holds(past) != word.is_negated)
    }
}

impl Word {
    fn read(word: &str) -> Result<Self, FilterError> {
        let Some(at) = word.find(['=', '<', '>', '!']).filter(|&at| at > 0) else {
            return Ok(Self { is_negated: false, test: Test::Word(word.to_ascii_lowercase()) });
        };
        let (name, rest) = word.split_at(at);
        let signs: [(&str, bool, Order); 6] = [
            ("!=", true, Order::Equal),
            (">=", false, Order::AtLeast),
            ("<=", false, Order::AtMost),
            ("=", false, Order::Equal),
            (">", false, Order::Above),
            ("<", false, Order::Below),
        ];
        let found =
            signs.into_iter().find_map(|(sign, negated, order)| Some((rest.strip_prefix(sign)?, negated, order)));
        let wrong = |form| FilterError::Value { word: word.to_owned(), form };
        let (value, is_negated, order) =
            found.ok_or_else(|| wrong("NAME=VALUE, NAME!=VALUE, NAME<VALUE or NAME>VALUE"))?;
        let is_number = matches!(name, "bytes" | "duration");
        if order != Order::Equal && !is_number && name != "status" {
            return Err(wrong("= or !=; only status, bytes and duration are more or less than something"));
        }
        let test = match name {
            "client" => network(value).map(|(address, bits)| Test::Client(address, bits)).ok_or_else(|| {
                wrong("client=ADDRESS or client=NETWORK, such as client=192.0.2.7 or client=10.0.0.0/8")
            })?,
            "host" => Test::Text(Field::Host, value.to_ascii_lowercase()),
            "method" => Test::Text(Field::Method, value.to_ascii_lowercase()),
            "path" => Test::Text(Field::Path, value.to_owned()),
            "protocol" => Test::Text(Field::Protocol, protocol(value)),
            "agent" => Test::Text(Field::Agent, value.to_ascii_lowercase()),
            "status" => {
                let (least, most) =
                    status(order, value).ok_or_else(|| wrong("status=404, status=5xx or status>=400"))?;
                Test::Status(least, most)
            }
            "bytes" => Test::Bytes(order, scaled(value, &BYTES).ok_or_else(|| wrong("bytes>1000 or bytes>2MiB"))?),
            "duration" => {
                let us = scaled(value, &TIMES).ok_or_else(|| wrong("duration>100ms, with us, ms, s or m"))?;
                Test::Duration(order, us)
            }
            _ => return Err(FilterError::Name { word: word.to_owned(), name: name.to_owned() }),
        };
        Ok(Self { is_negated, test })
    }
}

impl Test {
    fn holds(&self, past: &Past) -> bool {
        match self {
            Self::Client(address, bits) => is_within(past.client, *address, *bits),
            Self::Text(Field::Host, pattern) => fits(pattern, &past.host.to_ascii_lowercase()),
            Self::Text(Field::Method, pattern) => fits(pattern, &past.method.to_ascii_lowercase()),
            Self::Text(Field::Path, pattern) => fits(pattern, &past.path),
            Self::Text(Field::Protocol, pattern) => fits(pattern, &past.protocol.to_ascii_lowercase()),
            Self::Text(Field::Agent, pattern) => fits(pattern, &past.user_agent.to_ascii_lowercase()),
            Self::Status(least, most) => (*least..=*most).contains(&past.status),
            Self::Bytes(order, bytes) => order.holds(past.sent_bytes, *bytes),
            Self::Duration(order, us) => order.holds(past.duration_us, *us),
            Self::Word(word) => [&past.host, &past.path, &past.user_agent]
                .into_iter()
                .any(|text| text.to_ascii_lowercase().contains(word.as_str())),
        }
    }
}

impl Order {
    fn holds(self, one: u64, other: u64) -> bool {
        match self {
            Self::Below => one < other,
            Self::AtMost => one <= other,
            Self::Equal => one == other,
            Self::AtLeast => one >= other,
            Self::Above => one > other,
        }
    }
}

/// An address, or a network of so many bits.
fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

fn is_within(client: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (client.to_canonical(), network.to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(network)) => {
            (client.to_bits() ^ network.to_bits()).checked_shr(32 - bits.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(client), IpAddr::V6(network)) => {
            (client.to_bits() ^ network.to_bits()).checked_shr(128 - bits.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// `h2` and `http2` are `http/2`.
fn protocol(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    let number = text.trim_start_matches("http").trim_start_matches(['/', 'h']);
    format!("http/{number}")
}

/// The statuses that `5xx`, `404` or a comparison means.
fn status(order: Order, text: &str) -> Option<(u16, u16)> {
    if let Some(class) = text.strip_suffix("xx") {
        let class: u16 = class.parse().ok().filter(|class| (1..=9).contains(class))?;
        return (order == Order::Equal).then_some((class * 100, class * 100 + 99));
    }
    let status: u16 = text.parse().ok().filter(|status| *status <= 999)?;
    match order {
        Order::Below => Some((0, status.checked_sub(1)?)),
        Order::AtMost => Some((0, status)),
        Order::Equal => Some((status, status)),
        Order::AtLeast => Some((status, u16::MAX)),
        Order::Above => Some((status + 1, u16::MAX)),
    }
}

const BYTES: [(&str, f64); 7] =
    [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("", 1.0)];
const TIMES: [(&str, f64); 4] = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6)];

/// A number with a unit.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let value = number.parse::<f64>().ok()? * factor;
    // Of what is larger the comparison is the same.
    value.is_finite().then_some(value as u64)
}

/// Whether a text is as a pattern has it, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_what_they_say() {
        for (pattern, text, is_so) in [
            ("/api/*", "/api/x/y", true),
            ("/api/*", "/ap", false),
            ("*.png", "/a/b.png", true),
            ("*a*b*", "xaxbx", true),
            ("*a*b*", "xbxa", false),
            ("ab*b", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, text), is_so, "{pattern} {text}");
        }
    }

    #[test]
    fn words_are_read_or_refused_with_a_remedy() {
        for good in [
            "",
            "client=10.0.0.0/8 path=/api/* status=5xx duration>100ms",
            "client!=::1 host=*.example.org status>=400 bytes>1.5MiB protocol=h2 curl agent=*bot*",
        ] {
            assert!(good.parse::<Filter>().is_ok(), "{good}");
        }
        for (bad, told) in [
            ("clint=1", "there is no `clint`; there are client"),
            ("client=10.0.0.0/33", "client=NETWORK"),
            ("status=6x", "status=5xx"),
            ("duration>100", "with us, ms, s or m"),
            ("path>1", "only status, bytes and duration"),
            ("bytes!1", "NAME=VALUE"),
        ] {
            let error = bad.parse::<Filter>().map(drop).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(told)), "{bad}: {error:?}");
        }
        let long = "a ".repeat(40);
        assert_eq!(long.parse::<Filter>(), Err(FilterError::TooLong));
    }

    #[test]
    fn networks_hold_their_addresses() {
        let holds = |network: &str, client: &str| {
            let (address, bits) = super::network(network).expect("a network");
            is_within(client.parse().expect("an address"), address, bits)
        };
        assert!(holds("10.0.0.0/8", "10.9.8.7") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && holds("::/0", "2001:db8::1"));
        assert!(holds("2001:db8::/32", "2001:db8:1::1") && !holds("2001:db8::/32", "2001:db9::1"));
        assert!(holds("192.0.2.7", "::ffff:192.0.2.7") && !holds("192.0.2.7", "192.0.2.8"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_fault(text in "\\PC{0,80}") {
            let _ = text.parse::<Filter>();
        }
    }
}
