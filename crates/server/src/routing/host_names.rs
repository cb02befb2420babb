//! Finds the host that a request is for, by the name that it gives.

use crate::http::request::Request;
use crate::http::target;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Names of hosts, each with the host's number.
#[derive(Debug, Default)]
pub(crate) struct HostNames {
    /// Clients choose no keys of it, so that they cannot make it slow.
    exact: HashMap<Box<[u8]>, u16, RandomState>,
    /// What the name ends with, the dot included; the longest come first.
    endings: Vec<(Box<[u8]>, u16)>,
    /// The host for all others.
    rest: Option<u16>,
}

impl HostNames {
    /// Adds a name in lower case: `example.org`, `*.example.org`, or `*` for all others. False = it is taken.
    pub(crate) fn add(&mut self, name: &str, host: u16) -> bool {
        if name == "*" {
            return self.rest.replace(host).is_none();
        }
        let Some(ending) = name.strip_prefix('*') else {
            return self.exact.insert(name.as_bytes().into(), host).is_none();
        };
        let is_new = self.endings.iter().all(|(known, _)| **known != *ending.as_bytes());
        self.endings.push((ending.as_bytes().into(), host));
        self.endings.sort_by_key(|(ending, _)| std::cmp::Reverse(ending.len()));
        is_new
    }

    /// All names, with `*` for all others, each with its host.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, u16)> {
        let exact = self.exact.iter().map(|(name, host)| (String::from_utf8_lossy(name).into_owned(), *host));
        let endings = self.endings.iter().map(|(end, host)| (format!("*{}", String::from_utf8_lossy(end)), *host));
        exact.chain(endings).chain(self.rest.map(|host| ("*".to_owned(), host)))
    }

    /// Whether a host has this name, in lower case, rather than all names.
    pub(crate) fn names(&self, name: &[u8]) -> bool {
        let is_under = |ending: &[u8]| name.len() > ending.len() && name.ends_with(ending);
        self.exact.contains_key(name) || self.endings.iter().any(|(ending, _)| is_under(ending))
    }

    /// The entry that leads to the host of a name in lower case.
    pub(crate) fn found_by(&self, name: &[u8]) -> Option<String> {
        if self.exact.contains_key(name) {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
        let ending = self.endings.iter().find(|(ending, _)| name.len() > ending.len() && name.ends_with(ending));
        let ending = ending.map(|(ending, _)| format!("*{}", String::from_utf8_lossy(ending)));
        ending.or_else(|| self.rest.map(|_| "*".to_owned()))
    }

    /// The host of a name in lower case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        if !self.exact.is_empty()
            && let Some(host) = self.exact.get(name)
        {
            return Some(*host);
        }
        let ending = self.endings.iter().find(|(ending, _)| name.len() > ending.len() && name.ends_with(ending));
        ending.map(|(_, host)| *host).or(self.rest)
    }
}

/// The name of the host that a request asks for, without its port; it may be empty.
pub(crate) fn name_of<'r>(request: &Request<'r>) -> &'r [u8] {
    // That of an absolute form counts more than the field Host (RFC 9112 section 3.2.2).
    let target = request.target.as_bytes();
    let authority = if target.first() == Some(&b'/') { None } else { target::authority_of(target) };
    let authority = authority.or(request.host).unwrap_or_default();
    let end = match memchr::memrchr(b':', authority) {
        // The colons of an address of IPv6 stand within its brackets.
        Some(at) if !authority[at..].contains(&b']') => at,
        _ => authority.len(),
    };
    authority[..end].strip_suffix(b".").unwrap_or(&authority[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::limits::Limits;
    use crate::http::parse;
    use crate::http::request::Head;

    #[test]
    fn names_lead_to_their_hosts() {
        let mut names = HostNames::default();
        for (name, host) in [("a.org", 0), ("*.a.org", 1), ("*.b.a.org", 2), ("[::1]", 3)] {
            assert!(names.add(name, host), "{name}");
        }
        assert!(!names.add("a.org", 5) && !names.add("*.a.org", 5));
        names.add("a.org", 0);
        for (name, host) in [
            ("a.org", Some(0)),
            ("x.a.org", Some(1)),
            ("x.b.a.org", Some(2)),
            ("b.a.org", Some(1)),
            (".a.org", None),
            ("c.org", None),
        ] {
            assert_eq!(names.find(name.as_bytes()), host, "{name}");
        }
        assert!(names.add("*", 9));
        assert_eq!(names.find(b"c.org"), Some(9));
    }

    #[test]
    fn a_request_names_its_host_once() {
        for (target, host, expected) in [
            ("/", "a.org", "a.org"),
            ("/", "a.org:80", "a.org"),
            ("/", "a.org.", "a.org"),
            ("/", "[::1]:80", "[::1]"),
            ("/", "[::1]", "[::1]"),
            ("/", "", ""),
            ("http://b.org/x", "a.org", "b.org"),
            ("http://b.org:8080?q", "a.org", "b.org"),
            ("*", "a.org", "a.org"),
        ] {
            let text = format!("OPTIONS {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let Head::Complete(request, _) = parse::parse(text.as_bytes(), &Limits::default()) else {
                panic!("not complete: {text}")
            };
            assert_eq!(String::from_utf8_lossy(name_of(&request)), expected, "{target} {host}");
        }
    }
}
