//! Whether messages over WebSockets go with the other options.

use crate::LoadError;
use crate::options::settings::{Io, Options};
use crate::options::websocket::{AnswerRule, WebSocket};
use crate::reach::protocol::Protocol;
use crate::reach::proxy::ProxyKind;
use crate::requests::Version;

/// The longest message that is sent or taken, bytes.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
/// Headers of the opening that are this side's own.
const OWN_HEADERS: [&str; 7] = [
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "sec-websocket-accept",
];

impl WebSocket {
    /// Whether these can be honoured with the other options.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        if self.message.len() as u64 > MESSAGE_BYTES_MAX || self.message_bytes_max > MESSAGE_BYTES_MAX {
            return wrong("a message of a WebSocket has at most 1 GiB");
        }
        if self.answer == AnswerRule::Echo && self.message.len() as u64 > self.message_bytes_max {
            return wrong("the echo of the message is longer than the longest message that is taken");
        }
        if !self.is_binary && std::str::from_utf8(&self.message).is_err() {
            return wrong("the message is no UTF-8, which a text has to be (RFC 6455 8.1): send it as bytes");
        }
        if self.fragment_bytes == Some(0) {
            return wrong("a fragment of a message has at least one byte");
        }
        let token = |text: &String| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte))
        };
        if !self.protocols.iter().all(token) {
            return wrong("a subprotocol is a word without separators, such as graphql-transport-ws (RFC 6455 4.1)");
        }
        if matches!(options.protocol, Protocol::Http3 { .. }) {
            return wrong(
                "WebSockets are opened over HTTP/1.1 and HTTP/2 here, not over HTTP/3 (RFC 9220): leave it out",
            );
        }
        self.check_requests(options)?;
        self.check_ways(options)
    }

    /// Whether what is asked is one opening of a WebSocket and nothing else.
    fn check_requests(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let (requests, request) = (&options.requests, &options.request);
        if request.method != "GET" || !request.body.is_empty() || request.version == Version::Http10 {
            return wrong("a WebSocket is opened by GET over HTTP/1.1, without a body: give messages instead");
        }
        if !requests.list.is_empty() || requests.sessions.is_some() || requests.mix.is_some() {
            return wrong("WebSockets go to one URL: leave lists of requests, sessions and mixes out");
        }
        if requests.cookie_jar || requests.traces.is_some() || options.verbatim.is_some() || options.directed.is_some()
        {
            return wrong("messages of WebSockets have neither cookies of their own nor traces: leave these out");
        }
        let is_own = |name: &String| OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own));
        if request.headers.iter().any(|(name, _)| is_own(name)) {
            return wrong(
                "Upgrade, Connection and Sec-WebSocket- headers are set for each opening: leave your own out; subprotocols \
                 have an option of their own",
            );
        }
        if options.streaming.is_some() || !options.checks.is_empty() || !options.scopes.is_empty() {
            return wrong(
                "events, checks and objectives of some requests are of HTTP's answers: leave them out for WebSockets",
            );
        }
        if options.pipeline > 1 || !options.keep_alive {
            return wrong("a WebSocket carries one message after the other: leave pipelines and new connections out");
        }
        Ok(())
    }

    /// Whether connections can be made in the way that is asked for.
    fn check_ways(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let by_proxy = options.reach.proxy.as_ref().is_some_and(|proxy| proxy.kind == ProxyKind::Http);
        if by_proxy && !options.url.encrypted {
            return wrong("an HTTP proxy lets a WebSocket through if it is encrypted: wss://, or a SOCKS proxy");
        }
        if options.slow.is_slow() {
            return wrong("limits, latency and patience are those of clients of HTTP: leave them out with WebSockets");
        }
        if options.io == Io::Uring {
            return wrong("io_uring carries HTTP/1.1 only: leave it out");
        }
        if !options.events.is_empty() || !options.observers.is_empty() {
            return wrong("messages of WebSockets are not recorded: leave the recording out");
        }
        Ok(())
    }
}
