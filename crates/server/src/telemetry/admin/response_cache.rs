//! What the admin address tells of caches of upstreams' responses, and what it has them forget.

use serde::Serialize;

/// Caches of upstreams' responses, all together.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ResponseCaches {
    /// How many there are.
    pub(crate) caches: u64,
    /// Requests that fresh responses have answered.
    pub(crate) hits: u64,
    /// Those that stale ones have.
    pub(crate) stale: u64,
    /// Those that went to an upstream, or waited for one that did.
    pub(crate) misses: u64,
    /// Those among the misses that waited for another one.
    pub(crate) collapsed: u64,
    /// Those that the caches have no part in.
    pub(crate) bypassed: u64,
    pub(crate) stored: u64,
    /// Responses that an upstream has said to be still right.
    pub(crate) freshened: u64,
    pub(crate) evictions: u64,
    pub(crate) invalidated: u64,
    /// Responses that were not stored for want of room.
    pub(crate) no_room: u64,
    pub(crate) disk_errors: u64,
    pub(crate) entries: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_bytes_max: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) disk_bytes_max: u64,
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purge {
    /// The responses for one URL.
    Url(Address),
    /// Those whose path begins so.
    Prefix(Address),
    /// Those with a tag in Surrogate-Key or Cache-Tag.
    Tag(Vec<u8>),
}

/// A URL, as the key of a response has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) is_secure: bool,
    pub(crate) host: Vec<u8>,
    /// A path and perhaps a query, in ASCII.
    pub(crate) target: String,
}

impl Purge {
    /// Reads `url=`, `prefix=` or `tag=` of a query; none if it has something else.
    pub(crate) fn read(query: &str) -> Option<Self> {
        let (name, value) = query.split_once('=').filter(|(_, value)| !value.contains('&'))?;
        let value = decoded(value)?;
        match name {
            "url" => Address::read(&value).map(Self::Url),
            "prefix" => Address::read(&value).map(Self::Prefix),
            "tag" => Some(Self::Tag(value.into_bytes())).filter(|tag| *tag != Self::Tag(Vec::new())),
            _ => None,
        }
    }
}

impl Address {
    fn read(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let is_good = !host.is_empty() && !host.contains('@') && target.bytes().all(|byte| byte.is_ascii_graphic());
        is_good.then(|| Self { is_secure, host: host.as_bytes().to_vec(), target })
    }
}

/// A value of a query without its percent-encoding; none if that is no text.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_says_what_is_meant() {
        let at =
            |is_secure, host: &str, target: &str| Address { is_secure, host: host.into(), target: target.to_owned() };
        for (query, expected) in [
            ("url=http://a.org/x", Some(Purge::Url(at(false, "a.org", "/x")))),
            ("url=https%3A%2F%2Fa.org:81%2Fx%3Fq%3D1%26r", Some(Purge::Url(at(true, "a.org:81", "/x?q=1&r")))),
            ("url=HTTP://a.org", Some(Purge::Url(at(false, "a.org", "/")))),
            ("url=http://a.org?q", Some(Purge::Url(at(false, "a.org", "/?q")))),
            ("prefix=http://a.org/x/", Some(Purge::Prefix(at(false, "a.org", "/x/")))),
            ("tag=news%20of", Some(Purge::Tag(b"news of".to_vec()))),
            ("url=/x", None),
            ("url=ftp://a.org/x", None),
            ("url=http:///x", None),
            ("url=http://user@a.org/x", None),
            ("url=http://a.org/%20", None),
            ("url=http://a.org/%2", None),
            ("url=http://a.org/x&tag=y", None),
            ("tag=", None),
            ("all", None),
            ("", None),
        ] {
            assert_eq!(Purge::read(query), expected, "{query}");
        }
    }
}
