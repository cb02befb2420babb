//! Where a worker is, as `--workers` names it.

use std::str::FromStr;

/// Where a worker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// So many processes of this host.
    Local(u32),
    /// A host that ssh reaches, as ssh takes it.
    Ssh(String),
    /// A `weir worker --listen`: its host, which its certificate names, and its port.
    Tls { host: String, port: u16 },
}

/// Why a text names no worker.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} names no worker: write HOST, USER@HOST or ssh:HOST, tls:HOST:PORT, or local:N for N processes of this host"
)]
pub(crate) struct PlaceError(String);

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = || PlaceError(text.to_owned());
        if let Some(count) = text.strip_prefix("local:") {
            let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
            return Ok(Self::Local(count));
        }
        if let Some(address) = text.strip_prefix("tls:") {
            let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
            return if host.is_empty() { Err(wrong()) } else { Ok(Self::Tls { host: host.to_owned(), port }) };
        }
        let host = text.strip_prefix("ssh:").unwrap_or(text);
        // What begins with a dash would be an option of ssh's.
        if host.is_empty() || host.starts_with('-') { Err(wrong()) } else { Ok(Self::Ssh(host.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let tls = |host: &str, port| Place::Tls { host: host.to_owned(), port };
        for (text, place) in [
            ("web1", Place::Ssh("web1".to_owned())),
            ("ssh:me@web1", Place::Ssh("me@web1".to_owned())),
            ("local:8", Place::Local(8)),
            ("tls:web1:7000", tls("web1", 7000)),
            ("tls:[::1]:7000", tls("::1", 7000)),
        ] {
            assert_eq!(text.parse::<Place>().ok(), Some(place), "{text}");
        }
        for text in ["", "local:0", "local:x", "tls:web1", "tls::7", "tls:h:0", "-oProxyCommand=x", "ssh:-x"] {
            let error = text.parse::<Place>().expect_err(text).to_string();
            assert!(error.contains("tls:HOST:PORT"), "{error}");
        }
    }
}
