//! The opening handshake of WebSocket over HTTP/1.1 (RFC 6455 section 4), as a client has it.

use crate::LoadError;
use crate::error::request::RequestError;
use crate::options::settings::Options;
use crate::options::websocket::WebSocket;
use crate::requests::{Request, base64};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// What the standard has a server add to the key (RFC 6455 1.3).
const ADDED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a key before it is written in base64, and after.
const KEY_BYTES: usize = 16;
const KEY_TEXT_BYTES: usize = 24;
/// The longest head of an answer.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header lines of an answer.
const HEADERS_MAX: usize = 128;

/// Why an answer opens no WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no answer of HTTP/1.1.
    #[error("the answer to the upgrade is not HTTP/1.1")]
    NotHttp,
    /// It goes on without an end.
    #[error("the head of the answer to the upgrade is longer than 64 KiB, or has more than 128 lines")]
    TooLong,
    /// It has another status than 101.
    #[error("the answer to the upgrade has the status {0}, not 101: is there a WebSocket at this path?")]
    Status(u16),
    /// It does not name the protocol that was asked for.
    #[error("the answer to the upgrade lacks `Upgrade: websocket` or `Connection: Upgrade` (RFC 6455 4.1)")]
    Upgrade,
    /// It does not prove that the server has read the key.
    #[error(
        "Sec-WebSocket-Accept of the answer does not belong to the key (RFC 6455 4.1): a cache or another server answers"
    )]
    Accept,
    /// It agrees on what was not asked for.
    #[error("the server agreed on an extension, though none was offered (RFC 6455 4.1)")]
    Extension,
    /// It agrees on a subprotocol that was not offered.
    #[error("the server agreed on the subprotocol {0:?}, which was not offered (RFC 6455 4.1)")]
    Protocol(String),
}

/// The request by which connections are opened, but for its key.
#[derive(Debug)]
pub(crate) struct Opening {
    given: WebSocket,
    bytes: Vec<u8>,
    key_at: usize,
}

/// What a server has to answer to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept([u8; 28]);

impl Opening {
    /// The request that options mean, if they mean a WebSocket.
    pub(crate) fn new(options: &Options) -> Result<Option<Self>, LoadError> {
        let opening = options.websocket.as_ref().map(|given| Self::to(options, given));
        Ok(opening.transpose()?)
    }

    fn to(options: &Options, websocket: &WebSocket) -> Result<Self, RequestError> {
        let (url, request, cookies) = (&options.url, &options.request, &options.requests.cookies);
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let nothing = "=".repeat(KEY_TEXT_BYTES);
        let mut headers = vec![
            own("Connection", "Upgrade"),
            own("Upgrade", "websocket"),
            own("Sec-WebSocket-Version", "13"),
            own("Sec-WebSocket-Key", &nothing),
        ];
        if !websocket.protocols.is_empty() {
            headers.push(own("Sec-WebSocket-Protocol", &websocket.protocols.join(", ")));
        }
        if !cookies.is_empty() {
            let pairs: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            headers.push(own("Cookie", &pairs.join("; ")));
        }
        headers.extend(request.headers.iter().cloned());
        let bytes = Request { headers, ..Request::default() }.bytes(url, true)?;
        let line = format!("Sec-WebSocket-Key: {nothing}");
        // The line was written just above, and before those of the user.
        let key_at = memchr::memmem::find(&bytes, line.as_bytes()).map_or(0, |at| at + line.len() - KEY_TEXT_BYTES);
        Ok(Self { given: websocket.clone(), bytes, key_at })
    }

    /// What goes over the connections.
    pub(crate) fn given(&self) -> &WebSocket {
        &self.given
    }

    /// Writes the request with a key; gives what the server has to answer to it.
    pub(crate) fn write(&self, key: [u8; KEY_BYTES], out: &mut Vec<u8>) -> Accept {
        let text = key_text(key);
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        out[begin + self.key_at..][..KEY_TEXT_BYTES].copy_from_slice(text.as_bytes());
        accept(&text)
    }
}

/// A key as it is written.
#[must_use]
pub fn key_text(key: [u8; KEY_BYTES]) -> String {
    base64::encode(&key)
}

/// What a server has to answer to a key, as it is written.
#[must_use]
pub fn accept(key: &str) -> Accept {
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{ADDED}").as_bytes());
    let text = base64::encode(digest.as_ref());
    let mut accept = [0; 28];
    // 20 bytes of a digest are 28 in base64.
    accept.copy_from_slice(text.as_bytes());
    Accept(accept)
}

/// Looks at a head that is whole; gives the subprotocol that was agreed on.
///
/// # Errors
/// [`Refused`]: it opens no WebSocket.
pub fn check(head: &[u8], wanted: Accept, offered: &[String]) -> Result<Option<String>, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refused::TooLong),
        Ok(httparse::Status::Partial) | Err(_) => return Err(Refused::NotHttp),
    }
    match response.code {
        Some(101) if response.version == Some(1) => {}
        Some(101) | None => return Err(Refused::NotHttp),
        Some(status) => return Err(Refused::Status(status)),
    }
    let values = |name: &'static str| {
        let fields = response.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        fields.flat_map(|header| header.value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
    };
    let says = |name, value: &[u8]| values(name).any(|given| given.eq_ignore_ascii_case(value));
    if !says("upgrade", b"websocket") || !says("connection", b"upgrade") {
        return Err(Refused::Upgrade);
    }
    let mut accepts = values("sec-websocket-accept");
    if accepts.next() != Some(&wanted.0[..]) || accepts.next().is_some() {
        return Err(Refused::Accept);
    }
    if values("sec-websocket-extensions").any(|extension| !extension.is_empty()) {
        return Err(Refused::Extension);
    }
    match values("sec-websocket-protocol").next() {
        None => Ok(None),
        Some(given) => {
            let given = String::from_utf8_lossy(given).into_owned();
            if offered.contains(&given) { Ok(Some(given)) } else { Err(Refused::Protocol(given)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and its answer of RFC 6455 1.3.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn checked(lines: &str) -> Result<Option<String>, Refused> {
        let head = format!("HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n\r\n");
        check(head.as_bytes(), accept(KEY), &["chat".to_owned(), "superchat".to_owned()])
    }

    const RIGHT: &str =
        "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    #[test]
    fn a_server_has_to_prove_that_it_means_it() {
        assert_eq!(checked(RIGHT), Ok(None));
        assert_eq!(checked(&format!("{RIGHT}\r\nSec-WebSocket-Protocol: chat")), Ok(Some("chat".to_owned())));
        let other = checked(&format!("{RIGHT}\r\nSec-WebSocket-Protocol: other"));
        assert_eq!(other, Err(Refused::Protocol("other".to_owned())));
        let extension = checked(&format!("{RIGHT}\r\nSec-WebSocket-Extensions: permessage-deflate"));
        assert_eq!(extension, Err(Refused::Extension));
        assert_eq!(checked(&RIGHT.replace("s3p", "x3p")), Err(Refused::Accept));
        assert_eq!(checked(&RIGHT.replace("Upgrade: WebSocket", "Upgrade: h2c")), Err(Refused::Upgrade));
        assert_eq!(checked(&RIGHT.replace("keep-alive, Upgrade", "close")), Err(Refused::Upgrade));
        let status = |text: &[u8]| check(text, accept(KEY), &[]);
        assert_eq!(status(b"HTTP/1.1 404 Not Found\r\n\r\n"), Err(Refused::Status(404)));
        assert_eq!(status(b"SSH-2.0\r\n\r\n"), Err(Refused::NotHttp));
    }

    #[test]
    fn each_opening_has_a_key_of_its_own() {
        let mut options = Options::new(crate::Url::parse("http://h/chat").expect("a URL"));
        options.websocket =
            Some(WebSocket { protocols: vec!["chat".into(), "superchat".into()], ..WebSocket::default() });
        options.request.headers.push(("Origin".into(), "http://o".into()));
        options.requests.cookies.push(("a".into(), "1".into()));
        let opening = Opening::new(&options).expect("a request").expect("a WebSocket");
        let mut out = Vec::new();
        // The bytes of the standard's example.
        let wanted = opening.write(*b"the sample nonce", &mut out);
        assert_eq!(wanted, accept(KEY));
        let text = String::from_utf8(out).expect("text");
        for line in [
            "GET /chat HTTP/1.1",
            "Host: h",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Protocol: chat, superchat",
            "Cookie: a=1",
            "Origin: http://o",
        ] {
            assert!(text.contains(&format!("{line}\r\n")), "{line}: {text}");
        }
        assert!(text.contains(&format!("Sec-WebSocket-Key: {KEY}\r\n")), "{text}");
    }
}
