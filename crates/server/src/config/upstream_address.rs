//! Addresses of upstreams, as a configuration writes them.

use crate::http::authority;
use crate::upstream::settings::{Place, Speaks};
use std::net::{IpAddr, SocketAddr};

/// Bytes of the path of a Unix socket (`sun_path` of unix(7), without the byte 0 at its end).
const UNIX_BYTES_MAX: usize = 107;
/// Bytes of a name (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// What stands before an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// HTTP/1.1 in the clear: `http://`, and a Unix socket.
    Http,
    /// HTTP over TLS: `https://`.
    Https,
    /// FastCGI over TLS: `tls:`.
    Tls,
    /// HTTP/2 in the clear: `h2c://`.
    H2c,
    /// None, where none is written.
    Bare,
}

/// An address with what stands around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) scheme: Scheme,
    pub(super) place: Place,
    /// The host that is written, without a port and brackets; none for a Unix socket.
    pub(super) host: Option<String>,
    /// The path behind it, if there is one.
    pub(super) path: Option<String>,
}

/// Reads an address of what is spoken; what is right instead where it is none.
pub(super) fn read(text: &str, speaks: Speaks) -> Result<Address, &'static str> {
    let is_http = matches!(speaks, Speaks::Http1 | Speaks::Http2 | Speaks::Negotiated);
    if let Some(path) = unix_path(text, is_http) {
        return if path.is_empty() || path.len() > UNIX_BYTES_MAX || path.contains('\0') {
            Err("a Unix socket is written unix:PATH, with a path of at most 107 bytes")
        } else {
            let scheme = if is_http { Scheme::Http } else { Scheme::Bare };
            Ok(Address { scheme, place: Place::Unix(path.into()), host: None, path: None })
        };
    }
    if !is_http {
        let (scheme, rest) = match text.strip_prefix("tls:") {
            Some(rest) if speaks == Speaks::FastCgi => (Scheme::Tls, rest.strip_prefix("//").unwrap_or(rest)),
            Some(_) => return Err("TLS is spoken with HTTP and FastCGI: write ADDRESS:PORT, or use `fastcgi`"),
            None => (Scheme::Bare, text),
        };
        if rest.contains('/') {
            return Err("write ADDRESS:PORT or unix:PATH, without a scheme and a path");
        }
        return of_authority(rest, scheme, None);
    }
    let lower = text.to_ascii_lowercase();
    let schemes = [("http://", Scheme::Http), ("https://", Scheme::Https), ("h2c://", Scheme::H2c)];
    let Some((written, scheme)) = schemes.into_iter().find(|(written, _)| lower.starts_with(written)) else {
        return Err("write http://ADDRESS:PORT, https://NAME, h2c://ADDRESS:PORT or unix:PATH");
    };
    let rest = &text[written.len()..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let path = Some(&rest[end..]).filter(|path| !path.is_empty());
    if let Some(path) = path {
        path_problem(path)?;
    }
    of_authority(&rest[..end], scheme, path)
}

/// What is wrong with a path that stands for another one.
pub(super) fn path_problem(path: &str) -> Result<(), &'static str> {
    if path.contains(['?', '#']) {
        return Err("leave the query away: that of a request is passed on");
    }
    let is_written = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_plain = !path.contains("//") && path.split('/').all(|segment| segment != "." && segment != "..");
    if is_written && is_plain { Ok(()) } else { Err("write a path such as /base/, in ASCII and without . and ..") }
}

/// What is behind `unix:`.
fn unix_path(text: &str, is_http: bool) -> Option<&str> {
    let text = text.strip_prefix("http+").filter(|_| is_http).unwrap_or(text);
    let path = text.strip_prefix("unix:")?;
    // `unix:///run/x` is how URLs have it.
    Some(path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path))
}

fn of_authority(text: &str, scheme: Scheme, path: Option<&str>) -> Result<Address, &'static str> {
    const REMEDY: &str = "write a name or an address, of IPv6 in brackets, and perhaps a port behind a colon";
    if text.is_empty() || text.contains('@') || text.contains('%') || !authority::is_host(text.as_bytes()) {
        return Err(REMEDY);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse::<u16>().map_err(|_| REMEDY)?)),
        _ => (text, None),
    };
    let port = match (port, scheme) {
        (Some(0), _) => return Err("give a port from 1 to 65535"),
        (Some(port), _) => port,
        (None, Scheme::Http | Scheme::H2c) => 80,
        (None, Scheme::Https) => 443,
        (None, Scheme::Bare | Scheme::Tls) => return Err("give a port, as in 127.0.0.1:9000"),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let (place, host) = match bare.parse::<IpAddr>() {
        Ok(address) => (Place::Address(SocketAddr::new(address, port)), address.to_string()),
        Err(_) if bare.len() != host.len() || bare.len() > NAME_BYTES_MAX => return Err(REMEDY),
        Err(_) if bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            return Err("an address of IPv4 has four numbers up to 255");
        }
        Err(_) => {
            let name = bare.to_ascii_lowercase();
            (Place::Name(name.clone(), port), name)
        }
    };
    Ok(Address { scheme, place, host: Some(host), path: path.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read() {
        let http = |text: &str| read(text, Speaks::Http1).map(|read| (read.scheme, read.place.to_string(), read.path));
        for (text, scheme, place, path) in [
            ("http://127.0.0.1:9000", Scheme::Http, "127.0.0.1:9000", None),
            ("http://App.internal", Scheme::Http, "app.internal:80", None),
            ("https://[::1]/base/", Scheme::Https, "[::1]:443", Some("/base/")),
            ("HTTPS://a.org:8443/", Scheme::Https, "a.org:8443", Some("/")),
            ("h2c://a:1", Scheme::H2c, "a:1", None),
            ("unix:/run/app.sock", Scheme::Http, "unix:/run/app.sock", None),
            ("unix:///run/app.sock", Scheme::Http, "unix:/run/app.sock", None),
            ("http+unix:app.sock", Scheme::Http, "unix:app.sock", None),
        ] {
            assert_eq!(http(text), Ok((scheme, place.to_owned(), path.map(str::to_owned))), "{text}");
        }
        for bad in [
            "",
            "127.0.0.1:9000",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:",
            "http://a:65536",
            "http://u@a",
            "http://u:p@a",
            "http://a b",
            "http://::1",
            "http://[a]",
            "http://1.2.3",
            "http://1.2.3.256",
            "http://a/?q",
            "http://a#f",
            "http://a/../b",
            "http://a/b//c",
            "http://a/\u{e9}",
            "unix:",
        ] {
            assert!(http(bad).is_err(), "{bad} {:?}", http(bad));
        }
        let bare = |text: &str| read(text, Speaks::FastCgi).map(|read| read.place.to_string());
        assert_eq!(bare("127.0.0.1:9000").as_deref(), Ok("127.0.0.1:9000"));
        assert_eq!(bare("unix:/run/php.sock").as_deref(), Ok("unix:/run/php.sock"));
        for bad in ["http://127.0.0.1:9000", "127.0.0.1", "app", "a:1/x", "/run/php.sock"] {
            assert!(bare(bad).is_err(), "{bad}");
        }
        let tls = |text: &str, speaks| read(text, speaks).map(|read| (read.scheme, read.place.to_string(), read.host));
        for (text, place, host) in [
            ("tls:scripts.internal:9443", "scripts.internal:9443", "scripts.internal"),
            ("tls://[::1]:9443", "[::1]:9443", "::1"),
        ] {
            assert_eq!(
                tls(text, Speaks::FastCgi),
                Ok((Scheme::Tls, place.to_owned(), Some(host.to_owned()))),
                "{text}"
            );
            assert!(tls(text, Speaks::Scgi).is_err() && tls(text, Speaks::Http1).is_err(), "{text}");
        }
        for bad in ["tls:", "tls:a", "tls:a:1/x", "tls:unix:/run/a.sock", "tls:tls:a:1"] {
            assert!(bare(bad).is_err(), "{bad}");
        }
        assert!(bare(&format!("unix:/{}", "a".repeat(UNIX_BYTES_MAX))).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text in "(http://|https://|unix:|h2c://|)[\\PC]{0,60}") {
            for speaks in [Speaks::Http1, Speaks::Uwsgi] {
                if let Ok(address) = read(&text, speaks) {
                    prop_assert!(address.path.is_none_or(|path| path.starts_with('/')));
                }
            }
        }
    }
}
