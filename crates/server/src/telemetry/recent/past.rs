//! A request of the past as it is told: read from what a loop has noted, with the values of its query left out.

use super::entry::{BEGAN_NS, CLIENT, HEAD_BYTES, IS_V4, LEN, MINOR, Noted, SENT_BYTES, STATUS, TEXT_LENS, TOOK_US};
use crate::telemetry::request_filter::{FilterKey, RequestFacts};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a parameter's name that is shown.
const NAME_BYTES_MAX: usize = 64;

/// A request that is over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Past {
    /// When its head was there, milliseconds since 1970.
    pub(super) began_unix_ms: u64,
    pub(super) client: IpAddr,
    /// As the client says it; empty where it says none.
    pub(super) host: String,
    /// Empty where the head could not be read.
    pub(super) method: String,
    pub(super) path: String,
    /// Names of parameters, with `-` for what they are; empty without a query.
    pub(super) query: String,
    /// `HTTP/1.0` to `HTTP/3`; empty where the head could not be read.
    pub(super) protocol: &'static str,
    pub(super) status: u16,
    /// Bytes that the system took, head included.
    pub(super) sent_bytes: u64,
    /// From the head to the last byte that the system took.
    pub(super) duration_us: u64,
    pub(super) user_agent: String,
    #[serde(skip)]
    began_ns: u64,
}

impl Past {
    /// What is kept that a filter may ask for.
    pub(crate) const KEYS: [FilterKey; 10] = [
        FilterKey::Client,
        FilterKey::Host,
        FilterKey::Path,
        FilterKey::Method,
        FilterKey::Protocol,
        FilterKey::Agent,
        FilterKey::Word,
        FilterKey::Status,
        FilterKey::Bytes,
        FilterKey::Duration,
    ];

    /// What filters know of it.
    pub(super) fn facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            client: Some(self.client),
            host: Some(self.host.as_bytes()),
            path: Some(self.path.as_bytes()),
            method: Some(&self.method),
            protocol: Some(self.protocol),
            agent: Some(self.user_agent.as_bytes()),
            status: Some(self.status),
            sent_bytes: Some(self.sent_bytes),
            whole_us: Some(self.duration_us),
            ..RequestFacts::default()
        }
    }

    /// When it was over, by the clock of [`now_ns`].
    pub(super) fn ended_ns(&self) -> u64 {
        self.began_ns.saturating_add(self.duration_us.saturating_mul(1000))
    }
}

/// The entries of a block.
pub(super) fn entries(mut block: &[u8]) -> impl Iterator<Item = Past> {
    let ahead_ns = unix_ns().saturating_sub(now_ns());
    std::iter::from_fn(move || {
        let len = usize::try_from(u32::from_le_bytes(*block.get(LEN..)?.first_chunk()?)).ok()?;
        let (entry, rest) = block.split_at_checked(len.max(HEAD_BYTES))?;
        block = rest;
        past(entry, ahead_ns)
    })
}

fn past(entry: &[u8], ahead_ns: u64) -> Option<Past> {
    let long = |at: usize| Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_le_bytes(*entry.get(at..)?.first_chunk()?));
    let [method, host, path, query, user_agent] = texts(entry)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let began_ns = long(BEGAN_NS)?;
    Some(Past {
        began_unix_ms: began_ns.saturating_add(ahead_ns) / 1_000_000,
        client: match entry.get(IS_V4)? {
            1 => Ipv4Addr::from(*entry.get(CLIENT..)?.first_chunk::<4>()?).into(),
            _ => Ipv6Addr::from(*entry.get(CLIENT..)?.first_chunk::<16>()?).into(),
        },
        host: text(host),
        method: text(method),
        path: text(path),
        query: redacted(query),
        protocol: match entry.get(MINOR)? {
            0 => "HTTP/1.0",
            1 => "HTTP/1.1",
            2 => "HTTP/2",
            3 => "HTTP/3",
            _ => "",
        },
        status: short(STATUS)?,
        sent_bytes: long(SENT_BYTES)?,
        duration_us: long(TOOK_US)?,
        user_agent: text(user_agent),
        began_ns,
    })
}

fn texts(entry: &[u8]) -> Option<[&[u8]; 5]> {
    let mut rest = entry.get(HEAD_BYTES..)?;
    let mut texts: [&[u8]; 5] = [&[]; 5];
    for (number, text) in texts.iter_mut().enumerate() {
        let len = u16::from_le_bytes(*entry.get(TEXT_LENS + 2 * number..)?.first_chunk()?);
        (*text, rest) = rest.split_at_checked(len.into())?;
    }
    Some(texts)
}

/// A query without what may be secret: of `page=2&token=x&y` there is `page=-&token=-&-`.
fn redacted(query: &[u8]) -> String {
    if query.is_empty() {
        return String::new();
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(byte);
    let parameters = query.split(|&byte| byte == b'&').map(|parameter| {
        let Some(end) = parameter.iter().position(|&byte| byte == b'=') else { return "-".to_owned() };
        let name = &parameter[..end];
        if name.len() <= NAME_BYTES_MAX && name.iter().all(is_plain) {
            format!("{}=-", String::from_utf8_lossy(name))
        } else {
            "-=-".to_owned()
        }
    });
    parameters.collect::<Vec<_>>().join("&")
}

/// Method and path of a request under way, if they were noted.
pub(crate) fn asked_of(noted: &Noted) -> Option<String> {
    let [method, _, path, ..] = texts(noted.bytes())?;
    Some(format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(path)))
}

/// Nanoseconds of the clock by which requests are timed.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure, which lives over it; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // The kernel gives no time before its start, and 584 years fit.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::Request;

    #[test]
    fn of_a_query_only_names_are_told() {
        for (query, told) in [
            ("", ""),
            ("page=2&token=abc", "page=-&token=-"),
            ("eyJhbGciOi", "-"),
            ("a=1&&b", "a=-&-&-"),
            ("\u{1b}[31m=1", "-=-"),
            ("x%20y=secret", "-=-"),
        ] {
            assert_eq!(redacted(query.as_bytes()), told, "{query}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_no_block_is_no_fault(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = entries(&bytes).count();
        }

        #[test]
        fn what_is_noted_is_told(path in "[ -~]{0,600}", status in 100_u16..600, sent in 0_u64..1 << 50) {
            let target = format!("/{}", path.replace('?', ""));
            let request = Request { target: &target, method_text: "GET", ..Request::empty() };
            let mut noted = Noted::default();
            noted.begin(Some(&request), Ipv4Addr::LOCALHOST.into(), status, 5_000);
            let mut block = Vec::new();
            proptest::prop_assert_eq!(noted.end(sent, 12_000, &mut block), 7);
            noted.end(sent, 12_000, &mut block);
            let told: Vec<Past> = entries(&block).collect();
            proptest::prop_assert_eq!(told.len(), 2);
            let past = &told[0];
            proptest::prop_assert_eq!(&past.path, &target[..target.len().min(512)]);
            proptest::prop_assert_eq!((past.status, past.sent_bytes, past.duration_us), (status, sent, 7));
        }
    }
}
