//! The extended CONNECT by which a stream becomes a WebSocket (RFC 8441 section 5), and what its answer has to be.

use crate::LoadError;
use crate::http2::{literal, preface};
use crate::options::settings::Options;
use crate::options::websocket::WebSocket;
use crate::reach::protocol::Protocol;

/// The longest block of fields of an opening, bytes: as much as is in one frame.
const BLOCK_BYTES_MAX: usize = 16_384;

/// Why an answer opens no WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It has another status than 2xx.
    #[error("the answer to the extended CONNECT has the status {0}, not 200: is there a WebSocket at this path?")]
    Status(u16),
    /// It ends the stream.
    #[error("the answer to the extended CONNECT ends its stream at once: is there a WebSocket at this path?")]
    Ended,
    /// It agrees on what was not asked for.
    #[error("the server agreed on an extension, though none was offered (RFC 6455 4.1)")]
    Extension,
    /// It agrees on a subprotocol that was not offered.
    #[error("the server agreed on the subprotocol {0:?}, which was not offered (RFC 6455 4.1)")]
    Subprotocol(String),
}

/// What is constant of a run: how connections begin, and how streams are asked for.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) given: WebSocket,
    /// The preface of a connection, with our settings.
    pub(crate) preface: Vec<u8>,
    /// The block of fields of each opening.
    pub(crate) block: Vec<u8>,
    /// WebSockets of a connection.
    pub(crate) streams: u32,
}

impl Opening {
    /// What options mean, if they mean WebSockets over HTTP/2.
    pub(crate) fn new(options: &Options) -> Result<Option<Self>, LoadError> {
        let (Some(given), Protocol::Http2 { streams }) = (&options.websocket, options.protocol) else {
            return Ok(None);
        };
        let block = block(options, given);
        if block.len() > BLOCK_BYTES_MAX {
            return Err(LoadError::Options("the headers of a WebSocket's opening are longer than 16384 bytes"));
        }
        Ok(Some(Self { given: given.clone(), preface: preface(), block, streams }))
    }
}

/// The fields of an opening (RFC 8441 5).
fn block(options: &Options, websocket: &WebSocket) -> Vec<u8> {
    let (url, request) = (&options.url, &options.request);
    let own = |name: &str| request.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
    let authority = own("Host").map_or_else(|| url.authority(), |(_, value)| value.clone());
    let mut block = Vec::new();
    // Of the static table (RFC 7541 appendix A): :method, :scheme in whole, :path, :authority, user-agent, cookie.
    literal(&mut block, 2, "", "CONNECT");
    literal(&mut block, 0, ":protocol", "websocket");
    block.push(if url.encrypted { 0x87 } else { 0x86 });
    literal(&mut block, 4, "", &url.target);
    literal(&mut block, 1, "", &authority);
    literal(&mut block, 0, "sec-websocket-version", "13");
    if !websocket.protocols.is_empty() {
        literal(&mut block, 0, "sec-websocket-protocol", &websocket.protocols.join(", "));
    }
    if own("User-Agent").is_none() {
        literal(&mut block, 58, "", concat!("weir/", env!("CARGO_PKG_VERSION")));
    }
    for (name, value) in &request.headers {
        match name.to_ascii_lowercase().as_str() {
            "host" => {}
            name => literal(&mut block, 0, name, value),
        }
    }
    for (name, value) in &options.requests.cookies {
        literal(&mut block, 32, "", &format!("{name}={value}"));
    }
    block
}

/// Looks at an answer, whose fields are lines of `name: value`.
///
/// # Errors
/// [`Refused`]: it opens no WebSocket.
pub(crate) fn check(status: u16, end: bool, fields: &[u8], offered: &[String]) -> Result<(), Refused> {
    if !(200..300).contains(&status) {
        return Err(Refused::Status(status));
    }
    if end {
        return Err(Refused::Ended);
    }
    let values = |wanted: &'static [u8]| {
        fields.split(|byte| *byte == b'\n').filter_map(move |line| {
            let (name, value) = line.split_at_checked(wanted.len())?;
            let value = value.strip_prefix(b":")?.trim_ascii();
            (name.eq_ignore_ascii_case(wanted) && !value.is_empty()).then_some(value)
        })
    };
    if values(b"sec-websocket-extensions").next().is_some() {
        return Err(Refused::Extension);
    }
    match values(b"sec-websocket-protocol").next().map(String::from_utf8_lossy) {
        Some(given) if !offered.iter().any(|offered| *offered == given) => {
            Err(Refused::Subprotocol(given.into_owned()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_agrees_or_not() {
        let offered = ["chat".to_owned()];
        assert_eq!(check(200, false, b"server: x\nsec-websocket-protocol: chat\n", &offered), Ok(()));
        assert_eq!(check(204, false, b"", &offered), Ok(()));
        assert_eq!(check(200, true, b"", &offered), Err(Refused::Ended));
        assert_eq!(check(404, false, b"", &offered), Err(Refused::Status(404)));
        let other = check(200, false, b"Sec-WebSocket-Protocol: other", &offered);
        assert_eq!(other, Err(Refused::Subprotocol("other".into())));
        let extension = check(200, false, b"sec-websocket-extensions: permessage-deflate\n", &offered);
        assert_eq!(extension, Err(Refused::Extension));
    }

    #[test]
    fn an_opening_is_an_extended_connect() {
        let mut options = Options::new(crate::Url::parse("https://h/chat").expect("a URL"));
        options.websocket = Some(WebSocket { protocols: vec!["a".into(), "b".into()], ..WebSocket::default() });
        assert!(Opening::new(&options).expect("valid").is_none(), "over HTTP/1.1");
        options.protocol = Protocol::Http2 { streams: 7 };
        options.request.headers.push(("Origin".into(), "https://o".into()));
        options.requests.cookies.push(("c".into(), "1".into()));
        let opening = Opening::new(&options).expect("valid").expect("over HTTP/2");
        let text = String::from_utf8_lossy(&opening.block).into_owned();
        for part in ["CONNECT", ":protocol\twebsocket", "/chat", "sec-websocket-protocol\u{4}a, b", "origin", "c=1"] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        assert!(!text.contains("sec-websocket-key") && opening.streams == 7);
    }

    proptest! {
        #[test]
        fn any_fields_are_read(status: u16, end: bool, fields in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = check(status, end, &fields, &[]);
        }
    }
}
