//! What is spoken with an upstream, behind one interface without dynamic calls.

use super::fastcgi::{self, response::FastCgiResponse};
use super::gateway::response::{ClosingResponse, Wants};
use super::group::Upstream;
use super::http1::chunks;
use super::http1::request::{self as http1_request, Coming, Forwarding, Peer, Style};
use super::http1::response::{Expected, Reader};
use super::http1::upgrade::Upgrade;
use super::message::{BodyFraming, Garbled, Outgoing, Said};
use super::settings::{ForwardingFields, Speaks};
use super::{scgi, uwsgi};
use crate::exchange::request_body::RequestBody;

/// What is spoken for one request.
#[derive(Debug)]
pub(crate) enum Protocol {
    Http1 {
        reader: Reader,
        /// It is an extended CONNECT of the client.
        is_extended: bool,
    },
    FastCgi(FastCgiResponse),
    /// SCGI and uwsgi, whose bodies go out as they are.
    Closing(ClosingResponse),
}

/// A request that was written.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) protocol: Protocol,
    pub(crate) framing: BodyFraming,
}

/// What is known of the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// What its head says.
    Head,
    /// The request has ended, and has none.
    Nothing,
    /// It is held, and has so many bytes.
    Held(u64),
}

/// A status with which a request is refused that no upstream can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsendable(pub(crate) u16);

impl Protocol {
    /// Writes the head of a request.
    ///
    /// # Errors
    ///
    /// [`Unsendable`] if it is refused.
    pub(crate) fn render(
        outgoing: &Outgoing<'_>,
        upstream: &Upstream,
        known: Known,
        out: &mut Vec<u8>,
    ) -> Result<Rendered, Unsendable> {
        let (common, scripts) = (&upstream.common, &upstream.scripts);
        let rules = &common.rules;
        let Some(gateway) = &common.gateway else { return Self::render_http1(outgoing, upstream, known, out) };
        let wants = if outgoing.head.method() == "HEAD" { Wants::Head } else { Wants::All };
        let spooled = match known {
            Known::Head => None,
            Known::Nothing => Some(0),
            Known::Held(bytes) => Some(bytes),
        };
        let scratch = &mut *scripts.scratch();
        let exists = &mut |script: &[u8]| scripts.exists(&gateway.root, script);
        let (framing, protocol) = match rules.speaks {
            Speaks::Scgi => {
                let framing = scgi::render(outgoing, gateway, spooled, exists, scratch, out);
                (framing, Self::Closing(ClosingResponse::new(wants)))
            }
            Speaks::Uwsgi => {
                let framing = uwsgi::render(outgoing, gateway, spooled, exists, scratch, out);
                (framing, Self::Closing(ClosingResponse::new(wants)))
            }
            Speaks::FastCgi | Speaks::Http1 | Speaks::Http2 | Speaks::Negotiated => {
                let framing = fastcgi::request::render(outgoing, gateway, spooled, exists, scratch, out);
                (framing, Self::FastCgi(FastCgiResponse::new(wants)))
            }
        };
        let framing = framing.map_err(|why| Unsendable(why.status()))?;
        Ok(Rendered { protocol, framing })
    }

    fn render_http1(
        outgoing: &Outgoing<'_>,
        upstream: &Upstream,
        known: Known,
        out: &mut Vec<u8>,
    ) -> Result<Rendered, Unsendable> {
        let rules = &upstream.common.rules;
        let style = match rules.forwarding {
            ForwardingFields::None => Style::None,
            ForwardingFields::XForwarded => Style::XForwarded,
            ForwardingFields::Forwarded => Style::Forwarded,
            ForwardingFields::Both => Style::Both,
        };
        let socket = outgoing.head.peer;
        let peer = if outgoing.client == socket { Peer::Client } else { Peer::Proxy(socket) };
        let forwarding = Forwarding { style, peer, believed: upstream.believed.get(), host: rules.host.as_deref() };
        let coming = if known == Known::Nothing { Coming::Nothing } else { Coming::More };
        let rendered = http1_request::render(outgoing, &forwarding, coming, out);
        let rendered = rendered.map_err(|why| Unsendable(why.status()))?;
        let mut reader = Reader::default();
        reader.begin(match rendered.upgrade {
            Some(upgrade) => Expected::Upgrade(upgrade),
            None if outgoing.head.method() == "HEAD" => Expected::HeadOnly,
            None => Expected::Response,
        });
        let is_extended = rendered.upgrade == Some(Upgrade::Extended);
        Ok(Rendered { protocol: Self::Http1 { reader, is_extended }, framing: rendered.body })
    }

    /// Begins anew with the response, as the request is sent to another server.
    pub(crate) fn repeat(&mut self) {
        match self {
            Self::Http1 { reader, .. } => reader.repeat(),
            Self::FastCgi(reader) => *reader = FastCgiResponse::new(reader.wants()),
            Self::Closing(reader) => *reader = ClosingResponse::new(reader.wants()),
        }
    }

    /// Whether a successful response says that the stream is a tunnel (RFC 8441 section 5).
    pub(crate) fn is_extended(&self) -> bool {
        matches!(self, Self::Http1 { is_extended: true, .. })
    }

    /// Writes bytes of the body, framed.
    pub(crate) fn write_body(&self, content: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Http1 { .. } => chunks::write_chunk(content, out),
            Self::FastCgi(_) => fastcgi::request::write_body(content, out),
            Self::Closing(_) => out.extend_from_slice(content),
        }
    }

    /// Writes the end of the body.
    pub(crate) fn end_body(&self, body: &RequestBody, out: &mut Vec<u8>) {
        match self {
            Self::Http1 { .. } => chunks::end_chunks(body.trailers(), out),
            Self::FastCgi(_) => fastcgi::request::end_body(out),
            Self::Closing(_) => {}
        }
    }

    /// Reads bytes of the response; none are the end of what the upstream sends.
    ///
    /// # Errors
    ///
    /// As [`Self::read`] and [`Self::end_of_input`].
    pub(crate) fn take(&mut self, input: &[u8], say: &mut impl FnMut(Said<'_>)) -> Result<(), Garbled> {
        if input.is_empty() { self.end_of_input(say) } else { self.read(input, say).map(drop) }
    }

    /// Reads bytes of the response.
    ///
    /// # Errors
    ///
    /// [`Garbled`] if they are none of a response.
    pub(crate) fn read(&mut self, input: &[u8], say: &mut impl FnMut(Said<'_>)) -> Result<usize, Garbled> {
        match self {
            Self::Http1 { reader, .. } => reader.read(input, say),
            Self::FastCgi(reader) => reader.read(input, say),
            Self::Closing(reader) => reader.read(input, say),
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
            Self::FastCgi(reader) => reader.end_of_input(say),
            Self::Closing(reader) => reader.end_of_input(say),
        }
    }

    /// The exit status of a program that was not content, behind its response.
    pub(crate) fn exit_status(&self) -> Option<u32> {
        if let Self::FastCgi(reader) = self { Some(reader.app_status()).filter(|status| *status != 0) } else { None }
    }

    /// Whether the connection can take another request.
    pub(crate) fn keeps(&self) -> bool {
        match self {
            Self::Http1 { reader, .. } => reader.keeps(),
            Self::FastCgi(reader) => reader.keeps(),
            Self::Closing(_) => false,
        }
    }
}
