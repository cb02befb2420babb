//! Conditions of a route: what a request has to be like.

use super::hours::Hours;
use super::path_test::PathTest;
use super::text_glob::TextGlob;
use super::values::{any_cookie, any_field, any_parameter};
use crate::http::access::Network;
use crate::http::request::Request;
use std::fmt;
use std::net::IpAddr;

/// A request as conditions look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) client: IpAddr,
    pub(crate) is_secure: bool,
    /// The name of the host as the request gives it, without a port.
    pub(crate) host: &'a [u8],
    /// Seconds since 1970.
    pub(crate) unix_s: u64,
}

/// One of the conditions, all of which have to hold.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    /// The path, where it is not the one that the route takes pieces from.
    Path(PathTest),
    /// One of these methods.
    Method(Vec<String>),
    /// Over TLS or not.
    Secure(bool),
    /// One of these names of hosts.
    Host(Vec<TextGlob>),
    /// An address within one of these networks.
    Address(Vec<Network>),
    /// A field by its name.
    Header(String, Wanted),
    /// A cookie by its name.
    Cookie(String, Wanted),
    /// A parameter of the query by its name.
    Query(String, Wanted),
    /// Within one of these hours.
    Time(Vec<Hours>),
    /// Not all of these hold.
    Not(Vec<Condition>),
}

/// What is wanted of a value.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    Absent,
    Present,
    /// One of the values is like this.
    Like(TextGlob),
}

/// Looks at a value; true ends the search.
type Look<'l> = dyn FnMut(&[u8]) -> bool + 'l;

/// Bytes of a value that an explanation shows.
const SHOWN_BYTES_MAX: usize = 80;

impl Condition {
    /// Whether it holds for a path and its query.
    pub(crate) fn holds(&self, scene: &Scene<'_>, path: &[u8], query: &[u8]) -> bool {
        match self {
            Self::Path(test) => test.matches(path),
            Self::Method(methods) => methods.iter().any(|method| method == scene.request.method_text),
            Self::Secure(is_secure) => *is_secure == scene.is_secure,
            Self::Host(globs) => globs.iter().any(|glob| glob.matches(scene.host)),
            Self::Address(networks) => networks.iter().any(|network| network.holds(scene.client)),
            Self::Header(name, wanted) => wanted.is_met(|look| any_field(scene.request, name, look)),
            Self::Cookie(name, wanted) => wanted.is_met(|look| any_cookie(scene.request, name, look)),
            Self::Query(name, wanted) => wanted.is_met(|look| any_parameter(query, name, look)),
            Self::Time(hours) => hours.iter().any(|hours| hours.hold(scene.unix_s)),
            Self::Not(conditions) => !conditions.iter().all(|condition| condition.holds(scene, path, query)),
        }
    }

    /// Whether it looks at a field that a cache has to tell requests apart by.
    pub(crate) fn varies(&self) -> bool {
        match self {
            Self::Header(..) | Self::Cookie(..) => true,
            Self::Not(conditions) => conditions.iter().any(Self::varies),
            _ => false,
        }
    }

    /// Adds the names of these fields.
    pub(crate) fn add_vary<'c>(&'c self, names: &mut Vec<&'c str>) {
        match self {
            Self::Header(name, _) => names.push(name),
            Self::Cookie(..) => names.push("Cookie"),
            Self::Not(conditions) => conditions.iter().for_each(|condition| condition.add_vary(names)),
            _ => {}
        }
    }

    /// What the request has where the condition looks, in words.
    pub(crate) fn actual(&self, scene: &Scene<'_>, path: &[u8], query: &[u8]) -> String {
        let values = |any: &mut dyn FnMut(&mut Look<'_>)| {
            let mut found = Vec::new();
            any(&mut |value: &[u8]| {
                found.push(shown(value));
                false
            });
            if found.is_empty() { "none".to_owned() } else { found.join(", ") }
        };
        match self {
            Self::Path(_) => shown(path),
            Self::Method(_) => scene.request.method_text.to_owned(),
            Self::Secure(_) => if scene.is_secure { "https" } else { "http" }.to_owned(),
            Self::Host(_) => shown(scene.host),
            Self::Address(_) => scene.client.to_string(),
            Self::Header(name, _) => values(&mut |look| {
                any_field(scene.request, name, look);
            }),
            Self::Cookie(name, _) => values(&mut |look| {
                any_cookie(scene.request, name, look);
            }),
            Self::Query(name, _) => values(&mut |look| {
                any_parameter(query, name, look);
            }),
            Self::Time(hours) => hours.first().map_or_else(String::new, |hours| hours.shown(scene.unix_s)),
            Self::Not(_) => "all of that holds".to_owned(),
        }
    }
}

/// A text of a request as an explanation shows it: in quotes, without what a terminal would obey.
pub(crate) fn shown(value: &[u8]) -> String {
    let cut = &value[..value.len().min(SHOWN_BYTES_MAX)];
    let text: String = String::from_utf8_lossy(cut).chars().flat_map(char::escape_debug).collect();
    format!("\"{text}{}\"", if cut.len() < value.len() { "..." } else { "" })
}

impl Wanted {
    fn is_met(&self, any: impl FnOnce(&mut Look<'_>) -> bool) -> bool {
        match self {
            Self::Absent => !any(&mut |_| true),
            Self::Present => any(&mut |_| true),
            Self::Like(glob) => any(&mut |value| glob.matches(value)),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Present => f.write_str("present"),
            Self::Like(glob) => write!(f, "like {glob}"),
        }
    }
}

fn joined(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(test) => write!(f, "path {test}"),
            Self::Method(methods) => write!(f, "method {}", methods.join(" or ")),
            Self::Secure(is_secure) => write!(f, "scheme {}", if *is_secure { "https" } else { "http" }),
            Self::Host(globs) => write!(f, "host {}", joined(globs)),
            Self::Address(networks) => write!(f, "address {}", joined(networks)),
            Self::Header(name, wanted) => write!(f, "header {name} {wanted}"),
            Self::Cookie(name, wanted) => write!(f, "cookie {name} {wanted}"),
            Self::Query(name, wanted) => write!(f, "query {name} {wanted}"),
            Self::Time(hours) => write!(f, "time {}", joined(hours)),
            Self::Not(conditions) => {
                let all: Vec<_> = conditions.iter().map(ToString::to_string).collect();
                write!(f, "not ({})", all.join(" and "))
            }
        }
    }
}
