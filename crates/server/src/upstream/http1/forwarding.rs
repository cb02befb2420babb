//! What an upstream is told of the client: Via (RFC 9110 section 7.6.3), Forwarded (RFC 7239) and X-Forwarded-*.

use super::chunks;
use super::digits;
use super::names::{self, Name};
use crate::upstream::message::Outgoing;
use std::net::IpAddr;

/// In which fields the client is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    /// In none; what an untrusted client sent of them is dropped all the same.
    None,
    /// Forwarded (RFC 7239).
    Forwarded,
    /// X-Forwarded-For, -Proto and -Host, and X-Real-IP.
    #[default]
    XForwarded,
    Both,
}

/// Which peer has sent the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Peer {
    /// The client itself. What it says of other clients is replaced.
    #[default]
    Client,
    /// A proxy at this address, which is trusted. What it says of its client is kept, and its own address is added.
    Proxy(IpAddr),
}

/// Which fields of a trusted proxy are its own. Those of the other kind may have come from its client, and are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Believed {
    #[default]
    Both,
    XForwarded,
    Forwarded,
}

/// How a request is forwarded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Forwarding<'f> {
    pub(crate) style: Style,
    pub(crate) peer: Peer,
    pub(crate) believed: Believed,
    /// The value of Host that the upstream gets in place of the client's: a host and perhaps a port.
    pub(crate) host: Option<&'f str>,
}

/// Fields of a trusted proxy that have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Told(u8);

impl Told {
    pub(super) const FOR: Self = Self(1);
    pub(super) const PROTO: Self = Self(2);
    pub(super) const HOST: Self = Self(4);
    pub(super) const FORWARDED: Self = Self(8);

    pub(super) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Forwarding<'_> {
    /// Whether lines of a trusted proxy wait until this server's part is added to them.
    pub(super) fn adds_to(&self, told: Told) -> bool {
        match self.style {
            Style::None => false,
            Style::Forwarded => told == Told::FORWARDED,
            Style::XForwarded => told == Told::FOR,
            Style::Both => true,
        }
    }

    /// Writes the fields. `host` is what the client asked for; `told` are those of a trusted proxy, of which the lists
    /// are not written yet.
    pub(super) fn write(&self, asked: &Outgoing<'_>, host: Option<&[u8]>, told: Told, out: &mut Vec<u8>) {
        out.extend_from_slice(match asked.head.version() {
            10 => b"Via: 1.0 weir\r\n",
            11 => b"Via: 1.1 weir\r\n",
            20 => b"Via: 2.0 weir\r\n",
            _ => b"Via: 3.0 weir\r\n",
        });
        if matches!(self.style, Style::XForwarded | Style::Both) {
            self.write_x_forwarded(asked, host, told, out);
        }
        if matches!(self.style, Style::Forwarded | Style::Both) {
            self.write_forwarded(asked, host, told, out);
        }
    }

    fn write_x_forwarded(&self, asked: &Outgoing<'_>, host: Option<&[u8]>, told: Told, out: &mut Vec<u8>) {
        out.extend_from_slice(b"X-Forwarded-For: ");
        if told.has(Told::FOR) {
            write_lines(asked, Name::ForwardedFor, out);
        }
        for address in self.addresses(asked, told.has(Told::FOR)) {
            digits::address(address, out);
            out.extend_from_slice(b", ");
        }
        end_list(out);
        if !told.has(Told::PROTO) {
            out.extend_from_slice(b"X-Forwarded-Proto: ");
            out.extend_from_slice(scheme(asked));
            out.extend_from_slice(b"\r\n");
        }
        if let Some(host) = host.filter(|_| !told.has(Told::HOST)) {
            out.extend_from_slice(b"X-Forwarded-Host: ");
            out.extend_from_slice(host);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"X-Real-IP: ");
        digits::address(asked.client, out);
        out.extend_from_slice(b"\r\n");
    }

    fn write_forwarded(&self, asked: &Outgoing<'_>, host: Option<&[u8]>, told: Told, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Forwarded: ");
        if told.has(Told::FORWARDED) {
            write_lines(asked, Name::Forwarded, out);
        }
        for address in self.addresses(asked, told.has(Told::FORWARDED)) {
            // An address of IPv6 stands in brackets and quotes (RFC 7239 section 6).
            let is_v4 = address.to_canonical().is_ipv4();
            out.extend_from_slice(if is_v4 { b"for=" } else { b"for=\"[" });
            digits::address(address, out);
            out.extend_from_slice(if is_v4 { b"" } else { b"]\"" });
            out.extend_from_slice(b", ");
        }
        // The last element is this server's, which says more.
        out.truncate(out.len() - b", ".len());
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(scheme(asked));
        if let Some(host) = host {
            // A host has neither a quote nor a backslash (RFC 3986 section 3.2.2).
            out.extend_from_slice(b";host=\"");
            out.extend_from_slice(host);
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The addresses that this server adds: that which has sent the request, and before it the client's where the proxy
    /// has told of it in another field.
    fn addresses(&self, asked: &Outgoing<'_>, is_listed: bool) -> impl Iterator<Item = IpAddr> {
        let (client, sender) = match self.peer {
            Peer::Client => (None, asked.client),
            Peer::Proxy(address) => (Some(asked.client).filter(|client| !is_listed && *client != address), address),
        };
        client.into_iter().chain([sender])
    }
}

fn scheme(asked: &Outgoing<'_>) -> &'static [u8] {
    if asked.head.is_secure() { b"https" } else { b"http" }
}

/// Writes the members of a proxy's lines, with a comma behind each.
fn write_lines(asked: &Outgoing<'_>, of: Name, out: &mut Vec<u8>) {
    for (_, value) in asked.head.fields().filter(|(name, _)| names::of(name.as_bytes()) == of) {
        for member in names::members(value).filter(|member| chunks::is_value(member)) {
            out.extend_from_slice(member);
            out.extend_from_slice(b", ");
        }
    }
}

/// Ends a line whose last member has a comma behind it.
fn end_list(out: &mut Vec<u8>) {
    out.truncate(out.len() - b", ".len());
    out.extend_from_slice(b"\r\n");
}
