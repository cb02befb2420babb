//! What is spoken with an upstream, behind one interface without dynamic calls.

use super::http1::chunks;
use super::http1::request::{self as http1_request, Coming, Forwarding, Peer, Style, Unsendable};
use super::http1::response::{Expected, Reader};
use super::http1::upgrade::Upgrade;
use super::message::{BodyFraming, Garbled, Outgoing, Said};
use super::settings::{ForwardingFields, UpstreamRules};
use crate::exchange::request_body::RequestBody;

/// What is spoken for one request.
#[derive(Debug)]
pub(crate) enum Protocol {
    Http1 {
        reader: Reader,
        is_idempotent: bool,
        /// It is an extended CONNECT of the client.
        is_extended: bool,
    },
}

/// A request that was written.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) protocol: Protocol,
    pub(crate) framing: BodyFraming,
}

impl Protocol {
    /// Writes the head of a request.
    ///
    /// # Errors
    ///
    /// [`Unsendable`] says why it is refused.
    pub(crate) fn render(
        outgoing: &Outgoing<'_>,
        rules: &UpstreamRules,
        is_whole: bool,
        out: &mut Vec<u8>,
    ) -> Result<Rendered, Unsendable> {
        let style = match rules.forwarding {
            ForwardingFields::None => Style::None,
            ForwardingFields::XForwarded => Style::XForwarded,
            ForwardingFields::Forwarded => Style::Forwarded,
            ForwardingFields::Both => Style::Both,
        };
        let peer =
            if outgoing.client == outgoing.head.client() { Peer::Client } else { Peer::Proxy(outgoing.head.client()) };
        let forwarding = Forwarding { style, peer, host: rules.host.as_deref() };
        let coming = if is_whole { Coming::Nothing } else { Coming::More };
        let rendered = http1_request::render(outgoing, &forwarding, coming, out)?;
        let mut reader = Reader::default();
        reader.begin(match rendered.upgrade {
            Some(upgrade) => Expected::Upgrade(upgrade),
            None if outgoing.head.method() == "HEAD" => Expected::HeadOnly,
            None => Expected::Response,
        });
        let protocol = Self::Http1 {
            reader,
            is_idempotent: is_idempotent(outgoing.head.method()),
            is_extended: rendered.upgrade == Some(Upgrade::Extended),
        };
        Ok(Rendered { protocol, framing: rendered.body })
    }

    /// Whether the request has the same effect if it is sent twice (RFC 9110 section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        let Self::Http1 { is_idempotent, .. } = self;
        *is_idempotent
    }

    /// Whether a successful response says that the stream is a tunnel (RFC 8441 section 5).
    pub(crate) fn is_extended(&self) -> bool {
        let Self::Http1 { is_extended, .. } = self;
        *is_extended
    }

    /// Begins anew with the response, as the request is sent again.
    pub(crate) fn repeat(&mut self) {}

    /// Writes bytes of the body, framed.
    pub(crate) fn write_body(&mut self, content: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Http1 { .. } => chunks::write_chunk(content, out),
        }
    }

    /// Writes the end of the body.
    pub(crate) fn end_body(&mut self, body: &RequestBody, out: &mut Vec<u8>) {
        match self {
            Self::Http1 { .. } => chunks::end_chunks(body.trailers(), out),
        }
    }

    /// Reads bytes of the response.
    ///
    /// # Errors
    ///
    /// [`Garbled`] if they are none of a response.
    pub(crate) fn read(&mut self, input: &[u8], say: &mut impl FnMut(Said<'_>)) -> Result<usize, Garbled> {
        match self {
            Self::Http1 { reader, .. } => reader.read(input, say),
        }
    }

    /// Takes note that the upstream sends nothing more.
    ///
    /// # Errors
    ///
    /// [`Garbled::Cut`] if the response is not whole.
    pub(crate) fn end_of_input(&mut self, say: &mut impl FnMut(Said<'_>)) -> Result<(), Garbled> {
        match self {
            Self::Http1 { reader, .. } => reader.end_of_input(say),
        }
    }

    /// Whether the connection can take another request.
    pub(crate) fn keeps(&self) -> bool {
        match self {
            Self::Http1 { reader, .. } => reader.keeps(),
        }
    }
}

/// Whether a method is idempotent (RFC 9110 section 9.2.2).
fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
}
