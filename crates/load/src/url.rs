//! The address of what is loaded.

use std::fmt;

/// An `http://` or `https://` address, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the connection is encrypted (`https`).
    pub encrypted: bool,
    /// The host: a name, or an address without brackets.
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
    /// Nothing stands where the host belongs, or something that no host can be.
    #[error("{given}: no host where one belongs, as in http://localhost:8080/")]
    NoHost {
        /// What was given.
        given: String,
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
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(UrlError::NoScheme { given: text.trim_start_matches('/').to_owned() });
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
        let no_host = || UrlError::NoHost { given: text.to_owned() };
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(no_host)?;
                (host, after.strip_prefix(':').or((!after.is_empty()).then_some(after)))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() || host.contains(|byte: char| byte.is_whitespace() || byte.is_control()) {
            return Err(no_host());
        }
        let port = match port {
            None | Some("") if encrypted => 443,
            None | Some("") => 80,
            Some(port) => match port.parse() {
                Ok(number) if number > 0 => number,
                _ => return Err(UrlError::BadPort { port: port.to_owned() }),
            },
        };
        Ok(Self { encrypted, host: host.to_owned(), port, target: request_target(target) })
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
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.encrypted { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", if self.encrypted { "https" } else { "http" }, self.authority(), self.target)
    }
}

/// Path and query with a slash in front and only visible ASCII in it.
fn request_target(given: &str) -> String {
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
        assert!(matches!(Url::parse("http://[::1]x/"), Err(UrlError::BadPort { .. })));
        assert!(matches!(Url::parse("http://u:p@h/"), Err(UrlError::Credentials)));
    }
}
