//! Changes of protocol on a connection (RFC 9110 section 7.8, RFC 8441).

use super::names::members;

/// How the client asks for another protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// By Connection and Upgrade over HTTP/1.1: it gets the 101 with its Upgrade.
    Passed,
    /// By an extended CONNECT over HTTP/2 or HTTP/3: the 101 is a 200 for it.
    Extended,
}

/// Whether these protocols may be passed on. HTTP/2 must not be: requests within it would pass the server unseen.
pub(super) fn is_passable(protocols: &[u8]) -> bool {
    let is_of_list = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/, \t".contains(byte);
    let is_other_http = |protocol: &[u8]| {
        let begins = |begin: &[u8]| protocol.get(..begin.len()).is_some_and(|it| it.eq_ignore_ascii_case(begin));
        begins(b"h2") || begins(b"h3") || begins(b"http") || begins(b"tls")
    };
    protocols.iter().all(is_of_list) && members(protocols).next().is_some() && !members(protocols).any(is_other_http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_version_of_http_is_passed_on() {
        for protocols in ["websocket", "WebSocket", "foo/2, bar", "SPDY/3.1"] {
            assert!(is_passable(protocols.as_bytes()), "{protocols}");
        }
        for protocols in ["", " , ", "h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.0", "web\0socket", "a\r\nb"] {
            assert!(!is_passable(protocols.as_bytes()), "{protocols}");
        }
    }
}
