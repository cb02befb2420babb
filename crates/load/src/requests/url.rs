//! The address of what is loaded.

use crate::requests::host;
use crate::requests::host::HostError;
use std::fmt;

/// An `http://` or `https://` address, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the connection is encrypted (`https`).
    pub encrypted: bool,
    /// The host: a name in its ASCII form, or an address without brackets, with `%` and its interface if it has one.
    pub host: String,
    /// The port, the scheme's own where none was given.
    pub port: u16,
    /// Path and query as they go into the request line; begins with `/`.
    pub target: String,
}

/// Why a text is no URL that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Nothing before the host says which protocol is meant.
    #[error("{given}: the URL has no scheme; did you mean http://{given}?")]
    NoScheme {
        /// What was given.
        given: String,
    },
    /// A scheme other than http and https.
    #[error("{scheme}://: only http:// and https:// can be loaded")]
    UnknownScheme {
        /// What stood before `://`.
        scheme: String,
    },
    /// Nothing stands where the host belongs.
    #[error("{given}: no host where one belongs, as in http://localhost:8080/")]
    NoHost {
        /// What was given.
        given: String,
    },
    /// What stands where the host belongs is none.
    #[error(transparent)]
    Host(#[from] HostError),
    /// One slash, or none, where two belong.
    #[error("{given}: two slashes stand behind the colon; did you mean {meant}?")]
    Slashes {
        /// What was given.
        given: String,
        /// What is meant.
        meant: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("{port}: a port is a number from 1 to 65535")]
    BadPort {
        /// What stood after the colon.
        port: String,
    },
    /// `user:password@` in the URL.
    #[error("credentials do not belong into the URL; give them with --user NAME:PASSWORD")]
    Credentials,
}

impl Url {
    /// Reads a URL; a fragment is cut off, and what may not stand in a request line is percent-encoded.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim_ascii();
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(without_slashes(text));
        };
        let encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(UrlError::UnknownScheme { scheme: scheme.to_owned() }),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let unclosed = || HostError::Brackets { given: bracketed.to_owned() };
                let (host, after) = bracketed.split_once(']').ok_or_else(unclosed)?;
                (host::bracketed(host)?, after.strip_prefix(':').or((!after.is_empty()).then_some(after)))
            }
            None => {
                let (host, port) =
                    authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
                if port.is_some_and(|port| port.contains(':')) {
                    return Err(HostError::NoBrackets { given: authority.to_owned() }.into());
                }
                if host.is_empty() {
                    return Err(UrlError::NoHost { given: text.to_owned() });
                }
                (host::named(host)?, port)
            }
        };
        let port = match port {
            None | Some("") if encrypted => 443,
            None | Some("") => 80,
            Some(given) => port_of(given).ok_or_else(|| UrlError::BadPort { port: given.to_owned() })?,
        };
        Ok(Self { encrypted, host, port, target: request_target(target) })
    }

    /// Whether connections to this URL's server can carry requests for the other, too.
    #[must_use]
    pub fn is_same_host(&self, other: &Self) -> bool {
        self.port == other.port && self.encrypted == other.encrypted && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// The URL of another path, with its query if it has one, on the same host.
    #[must_use]
    pub fn with_target(&self, target: &str) -> Self {
        let target = target.split('#').next().unwrap_or_default();
        Self { target: request_target(target), ..self.clone() }
    }

    /// The value of the Host header: brackets around IPv6 addresses, no port where it is the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = host::authority(&self.host);
        if self.port == if self.encrypted { 443 } else { 80 } {
            host.into_owned()
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", if self.encrypted { "https" } else { "http" }, self.authority(), self.target)
    }
}

/// A port from 1 to 65535; a sign is none of its digits (RFC 3986 3.2.3).
pub(crate) fn port_of(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
}

/// What is wrong with a text in which no `://` stands.
fn without_slashes(text: &str) -> UrlError {
    let schemed = text.split_once(':').filter(|(scheme, rest)| {
        ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str())
            // `http:8080` is a host of that name and its port.
            && !rest.starts_with(|letter: char| letter.is_ascii_digit())
    });
    match schemed {
        Some((scheme, rest)) => UrlError::Slashes {
            given: text.to_owned(),
            meant: format!("{}://{}", scheme.to_ascii_lowercase(), rest.trim_start_matches(['/', '\\'])),
        },
        None => UrlError::NoScheme { given: text.trim_start_matches('/').to_owned() },
    }
}

/// Path and query with a slash in front and only visible ASCII in it.
pub(crate) fn request_target(given: &str) -> String {
    let mut target = String::with_capacity(given.len() + 1);
    if !given.starts_with('/') {
        target.push('/');
    }
    for byte in given.bytes() {
        if byte.is_ascii_graphic() {
            target.push(char::from(byte));
        } else {
            target.push_str(&format!("%{byte:02X}"));
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        for (text, encrypted, host, port, target) in [
            ("http://localhost", false, "localhost", 80, "/"),
            ("HTTPS://example.org/a?b=c#d", true, "example.org", 443, "/a?b=c"),
            ("http://[::1]:8080/x y", false, "::1", 8080, "/x%20y"),
            ("http://h?q", false, "h", 80, "/?q"),
            (" http://h:/\r\n", false, "h", 80, "/"),
            ("http://h:080/", false, "h", 80, "/"),
            ("http://h./", false, "h.", 80, "/"),
            ("http://b\u{fc}cher.example:81/\u{fc}", false, "xn--bcher-kva.example", 81, "/%C3%BC"),
            ("http://[fe80::1%25lo]:81/", false, "fe80::1%lo", 81, "/"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!(
                (url.encrypted, url.host.as_str(), url.port, url.target.as_str()),
                (encrypted, host, port, target)
            );
        }
        assert_eq!(Url::parse("http://[::1]:8080/").map(|url| url.to_string()), Ok("http://[::1]:8080/".to_owned()));
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            Url::parse("localhost:80/x").unwrap_err().to_string(),
            "localhost:80/x: the URL has no scheme; did you mean http://localhost:80/x?"
        );
        assert!(matches!(Url::parse("ftp://x/"), Err(UrlError::UnknownScheme { .. })));
        assert!(matches!(Url::parse("http:///x"), Err(UrlError::NoHost { .. })));
        assert!(matches!(Url::parse("http://h:0/"), Err(UrlError::BadPort { .. })));
        for port in ["[::1]x", "h:+80", "h:-1", "h:65536", "h:8 0", "h:0x50", "h:\u{664}"] {
            assert!(matches!(Url::parse(&format!("http://{port}/")), Err(UrlError::BadPort { .. })), "{port}");
        }
        for (text, told) in [
            ("http:/x", "did you mean http://x?"),
            ("HTTPS:x/y", "did you mean https://x/y?"),
            ("http:8080", "did you mean http://http:8080?"),
            ("http://::1/", "an IPv6 address stands in brackets"),
            ("http://[::1/", "only an IPv6 address stands in brackets"),
            ("http://[name]/", "only an IPv6 address stands in brackets"),
            ("http://a b/", "no name of a host has ' '"),
            ("http://h\\x/", "no name of a host has '\\\\'"),
            ("http://h%00/", "no name of a host has '\\0'"),
        ] {
            let error = Url::parse(text).expect_err(text).to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(matches!(Url::parse("http://u:p@h/"), Err(UrlError::Credentials)));
    }
}
