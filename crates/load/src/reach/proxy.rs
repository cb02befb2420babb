//! The proxy that connections go through.

use crate::reach::answer::{Credentials, Language};
use std::fmt;
use std::str::FromStr;

/// A proxy, as its URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// What it speaks.
    pub kind: ProxyKind,
    /// Its host: a name, or an address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Who asks it, if it wants to know.
    pub credentials: Option<Credentials>,
}

/// What a proxy speaks, and who resolves the server's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP: absolute URLs for `http`, tunnels (CONNECT) for `https`.
    Http,
    /// SOCKS 5 with the address that was resolved here.
    Socks5,
    /// SOCKS 5 with the name.
    Socks5Name,
    /// SOCKS 4 with the address that was resolved here.
    Socks4,
    /// SOCKS 4a with the name.
    Socks4Name,
}

/// A text that is no proxy's URL; it is not repeated, as it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a proxy's URL ({0}); write http://[user:password@]host:port, or socks5://, socks5h://, socks4://, socks4a://"
)]
pub struct ProxyError(&'static str);

const SCHEMES: [(&str, ProxyKind, u16); 5] = [
    ("http", ProxyKind::Http, 3128),
    ("socks5", ProxyKind::Socks5, 1080),
    ("socks5h", ProxyKind::Socks5Name, 1080),
    ("socks4", ProxyKind::Socks4, 1080),
    ("socks4a", ProxyKind::Socks4Name, 1080),
];

impl ProxyKind {
    /// The language of its dialogue before a tunnel.
    pub(crate) fn language(self) -> Language {
        match self {
            Self::Http => Language::HttpConnect,
            Self::Socks5 | Self::Socks5Name => Language::Socks5,
            Self::Socks4 | Self::Socks4Name => Language::Socks4,
        }
    }

    /// Whether the server's name is resolved here.
    pub(crate) fn wants_address(self) -> bool {
        matches!(self, Self::Socks5 | Self::Socks4)
    }
}

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text.split_once("://").ok_or(ProxyError("it has no scheme"))?;
        let (_, kind, usual_port) = SCHEMES
            .into_iter()
            .find(|(name, ..)| name.eq_ignore_ascii_case(scheme))
            .ok_or(ProxyError("its scheme is not known"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(ProxyError("it has a path"));
        }
        let (who, place) = match authority.rsplit_once('@') {
            Some((who, place)) => (Some(who), place),
            None => (None, authority),
        };
        let credentials = who.map(credentials).transpose()?;
        let (host, port) = super::resolve::host_and_port(place).ok_or(ProxyError("it has no host, or a wrong port"))?;
        Ok(Self { kind, host, port: port.unwrap_or(usual_port), credentials })
    }
}

/// Without the credentials.
impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every kind is in the list.
        let scheme = SCHEMES.iter().find(|(_, kind, _)| *kind == self.kind).map_or("", |(name, ..)| name);
        let host =
            if self.host.contains(':') { format!("[{}]", self.host.replace('%', "%25")) } else { self.host.clone() };
        write!(formatter, "{scheme}://{host}:{}", self.port)
    }
}

fn credentials(text: &str) -> Result<Credentials, ProxyError> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let plain =
        |text: &str| unescaped(text).ok_or(ProxyError("its user or password has a wrong % or a control character"));
    let (user, password) = (plain(user)?, plain(password)?);
    if user.contains(':') {
        // RFC 7617 2: such a name cannot be told from its password.
        return Err(ProxyError("its user has a colon"));
    }
    Ok(Credentials { user, password })
}

/// Percent-encoding undone.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_of_proxies() {
        let proxy: Proxy = "http://me:p%40w@[::1]:8080/".parse().expect("a proxy");
        assert_eq!((proxy.kind, proxy.host.as_str(), proxy.port), (ProxyKind::Http, "::1", 8080));
        assert_eq!(proxy.credentials, Some(Credentials { user: "me".into(), password: "p@w".into() }));
        assert_eq!(proxy.to_string(), "http://[::1]:8080");
        assert!(!format!("{proxy:?}").contains("p@w"), "{proxy:?}");
        for (text, kind, port) in [
            ("socks5://h", ProxyKind::Socks5, 1080),
            ("SOCKS5H://u@h:9", ProxyKind::Socks5Name, 9),
            ("socks4://h", ProxyKind::Socks4, 1080),
            ("socks4a://h", ProxyKind::Socks4Name, 1080),
            ("http://h", ProxyKind::Http, 3128),
        ] {
            let proxy: Proxy = text.parse().expect(text);
            assert_eq!((proxy.kind, proxy.port), (kind, port), "{text}");
        }
        for wrong in [
            "h:80",
            "ftp://h",
            "http://",
            "http://h:0",
            "http://h:x",
            "http://h/p",
            "http://u%zz@h",
            "http://a%3Ab:c@h",
            "socks5://u%0a@h",
        ] {
            let error = wrong.parse::<Proxy>().expect_err(wrong).to_string();
            assert!(error.contains("socks5h://"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "((http|socks5)://)?.{0,40}") {
            if let Ok(proxy) = text.parse::<Proxy>() {
                prop_assert_eq!(proxy.to_string().parse::<Proxy>().map(|again| (again.host, again.port)), Ok((proxy.host, proxy.port)));
            }
        }
    }
}
