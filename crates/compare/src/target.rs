//! Where a load is sent: a URL, of which we need the address only.
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An `http` or `https` URL and the address in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    url: String,
    host: String,
    port: u16,
}

/// Why a text is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No scheme, or one that is not HTTP.
    #[error("{0:?} does not begin with http:// or https://; write for instance http://127.0.0.1:8080/")]
    Scheme(String),
    /// No host, a port that is no number from 1 to 65535, or a user name.
    #[error("{0:?} has no usable host and port; write for instance http://127.0.0.1:8080/")]
    Address(String),
}

impl Target {
    /// The URL as it was given.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port, 1 to 65535.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`, as people write it.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The addresses that the host's name stands for; asks the resolver.
    ///
    /// # Errors
    /// The resolver's, when the name is unknown.
    pub fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// Whether both cannot be listened on at once: the same port of a common address.
    #[must_use]
    pub fn shares_address_with(&self, other: &Self) -> bool {
        if self.port != other.port {
            return false;
        }
        let (Ok(ours), Ok(theirs)) = (self.resolve(), other.resolve()) else {
            return self.host == other.host;
        };
        ours.iter().any(|address| theirs.contains(address))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (rest, default_port) = url
            .strip_prefix("http://")
            .map(|rest| (rest, 80))
            .or_else(|| url.strip_prefix("https://").map(|rest| (rest, 443)))
            .ok_or_else(|| TargetError::Scheme(url.to_owned()))?;
        let wrong = || TargetError::Address(url.to_owned());
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed.split_once(']').ok_or_else(wrong)?;
                let port = if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) };
                (host, port)
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(default_port), str::parse).map_err(|_| wrong())?;
        if host.is_empty() || host.contains(['@', ' ']) || port == 0 {
            return Err(wrong());
        }
        Ok(Self { url: url.to_owned(), host: host.to_owned(), port })
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        url.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.url
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> String {
        url.parse::<Target>().expect("a target").address()
    }

    #[test]
    fn the_address_is_found() {
        assert_eq!(address("http://127.0.0.1:8080/a:b?c@d"), "127.0.0.1:8080");
        assert_eq!(address("http://localhost"), "localhost:80");
        assert_eq!(address("https://example?x"), "example:443");
        assert_eq!(address("http://[::1]:81/"), "[::1]:81");
        assert_eq!(address("http://[::1]"), "[::1]:80");
    }

    #[test]
    fn what_is_no_target_is_refused() {
        assert!(matches!("127.0.0.1:80/".parse::<Target>(), Err(TargetError::Scheme(_))));
        for url in [
            "http://",
            "http://:80/",
            "http://a:0/",
            "http://a:x/",
            "http://a:99999/",
            "http://u:p@h/",
            "http://[::1",
            "http://[::1]x",
        ] {
            assert!(matches!(url.parse::<Target>(), Err(TargetError::Address(_))), "{url}");
        }
    }

    #[test]
    fn names_of_one_address_share_it() {
        let target = |url: &str| url.parse::<Target>().expect("a target");
        assert!(target("http://127.0.0.1:81/a").shares_address_with(&target("http://127.0.0.1:81/b")));
        assert!(!target("http://127.0.0.1:81/").shares_address_with(&target("http://127.0.0.1:82/")));
        assert!(!target("http://127.0.0.1:81/").shares_address_with(&target("http://127.0.0.2:81/")));
    }
}
