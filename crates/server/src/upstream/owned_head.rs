//! A request's head that is kept until its body has come: FastCGI, SCGI and uwsgi need the length of the body first, and
//! not every client says it.

use super::endpoints::Endpoints;
use super::message::Outgoing;
use crate::exchange::application::RequestHead;
use crate::http::client_certificate::ToldCertificate;
use crate::http::limits::Limits;
use crate::http::parse;
use crate::http::request::{AllFields, Parsed, Request};
use std::net::IpAddr;
use weir_arm::Identity;

/// A head in memory of its own.
#[derive(Debug)]
pub(crate) struct OwnedHead {
    /// As HTTP/1.1 has it.
    text: Vec<u8>,
    target: Box<str>,
    minor: u8,
    client: IpAddr,
    peer: IpAddr,
    is_secure: bool,
    endpoints: Endpoints,
    user: Option<Box<str>>,
    request_id: Option<u64>,
    certificate: Option<Box<ToldCertificate>>,
    arm: Option<Identity>,
}

impl OwnedHead {
    /// Keeps a head, and the target that the upstream is asked for.
    pub(crate) fn of(head: &RequestHead<'_>, target: &str) -> Self {
        Self::known(head, target, (Endpoints::of(head), None))
    }

    /// The same where the addresses, and the number that scripts and messages have of it, are known.
    pub(crate) fn known(
        head: &RequestHead<'_>,
        target: &str,
        (endpoints, request_id): (Endpoints, Option<u64>),
    ) -> Self {
        let mut text = Vec::with_capacity(1024);
        for piece in [head.method(), " ", head.target(), " HTTP/1.1\r\n"] {
            text.extend_from_slice(piece.as_bytes());
        }
        for (name, value) in head.fields() {
            let name = match name {
                ":authority" => "host",
                name if name.starts_with(':') => continue,
                name => name,
            };
            for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
                text.extend_from_slice(piece);
            }
        }
        text.extend_from_slice(b"\r\n");
        let (minor, client, peer) = (head.request.minor, head.client, head.peer);
        Self {
            text,
            target: target.into(),
            minor,
            client,
            peer,
            is_secure: head.is_secure,
            endpoints,
            user: head.user.map(Box::from),
            request_id,
            certificate: head.request.certificate.cloned().map(Box::new),
            arm: head.arm,
        }
    }

    /// Makes it a request by GET for another target of the same server; HEAD stays as it is.
    pub(crate) fn get_in_place(&mut self, target: &str) {
        let line = memchr::memchr(b'\n', &self.text).map_or(0, |end| end + 1);
        let method = if self.text.starts_with(b"HEAD ") { "HEAD" } else { "GET" };
        let mut text = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
        // Its body, if it had one, belongs to what it was sent to.
        for line in self.text[line..].split_inclusive(|byte| *byte == b'\n') {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            let is_of_body = ["content-length", "content-type", "transfer-encoding", "expect", "trailer"]
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
            if !is_of_body {
                text.extend_from_slice(line);
            }
        }
        (self.text, self.target) = (text, target.into());
    }

    /// Does something with the request, which is read again; None if it cannot be read.
    pub(crate) fn with<T>(&self, what: impl FnOnce(&Outgoing<'_>) -> T) -> Option<T> {
        self.parse(&self.text, what)
    }

    /// The same without the fields of some names, in lower case, and with other lines of fields.
    pub(crate) fn with_others<T>(
        &self,
        left_away: &[&str],
        added: &[u8],
        what: impl FnOnce(&Outgoing<'_>) -> T,
    ) -> Option<T> {
        let mut text = Vec::with_capacity(self.text.len() + added.len());
        for line in self.text.split_inclusive(|byte| *byte == b'\n').filter(|line| *line != b"\r\n") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            if !left_away.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes())) {
                text.extend_from_slice(line);
            }
        }
        text.extend_from_slice(added);
        text.extend_from_slice(b"\r\n");
        self.parse(&text, what)
    }

    fn parse<T>(&self, text: &[u8], what: impl FnOnce(&Outgoing<'_>) -> T) -> Option<T> {
        let bytes_max = text.len();
        let limits = Limits { head_bytes_max: bytes_max, target_bytes_max: bytes_max, ..Limits::default() };
        let mut request = Request::empty();
        let Parsed::Complete(_) = parse::parse_into(text, &limits, &mut request) else { return None };
        request.minor = self.minor;
        request.all = AllFields::Head(text);
        request.certificate = self.certificate.as_deref();
        let (client, peer, user) = (self.client, self.peer, self.user.as_deref());
        let head = RequestHead {
            request: &request,
            client,
            peer,
            is_secure: self.is_secure,
            socket: None,
            ends: None,
            user,
            arm: self.arm,
        };
        let Endpoints { client_port, local } = self.endpoints;
        let (target, request_id) = (&*self.target, self.request_id);
        Some(what(&Outgoing { head, target, client, client_port, local, user, request_id }))
    }
}
