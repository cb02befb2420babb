//! Writes the head of a request for an upstream.
//!
//! The fields of a request over HTTP/1.1 are copied as they came, in runs of those that are passed on as they are. What
//! frames the message, what belongs to the connection and what tells of the client is written anew, so that the
//! upstream sees one message of one length.

use super::chunks::{is_value, put};
use super::digits;
use super::forwarding::Told;
pub(crate) use super::forwarding::{Believed, Forwarding, Peer, Style};
use super::names::{self, Name, Nominated, members};
use super::upgrade::{self, Upgrade};
use crate::http::framing::Framing;
use crate::http::request::{AllFields, decimal, is_token};
use crate::http::target;
use crate::upstream::message::{BodyFraming, Outgoing};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes that a head has at most beside the target and the fields of the client, as a rule.
const OWN_BYTES: usize = 320;

/// Whether bytes of a body may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coming {
    /// The client may send some.
    More,
    /// The client has ended the request, and has sent none.
    Nothing,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) body: BodyFraming,
    /// The upstream may answer with 101, and both sides speak another protocol from then on.
    pub(crate) upgrade: Option<Upgrade>,
}

/// Why a request is not sent to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsendable {
    /// TRACE shows a client the fields that the server has added, and CONNECT would open a tunnel.
    #[error("the method TRACE or CONNECT is not sent to upstreams")]
    Method,
    /// A target that servers read in different ways.
    #[error("the target is no path that can be sent to an upstream")]
    Target,
    /// A field that is none, or a Connection with too many options.
    #[error("a field of the request cannot be sent to an upstream")]
    Field,
    /// Max-Forwards is 0: this server is the last that the request is for (RFC 9110 section 7.6.2).
    #[error("the request is for this server itself: its Max-Forwards is 0")]
    LastHop,
    /// The kernel gave no random bytes for a Sec-WebSocket-Key.
    #[error("there are no random bytes for the handshake of WebSocket")]
    NoRandom,
}

impl Unsendable {
    /// The status that the client gets; 204 for an OPTIONS that ends here.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Method => 405,
            Self::Target | Self::Field => 400,
            Self::LastHop => 204,
            Self::NoRandom => 503,
        }
    }
}

/// Writes the head of a request behind what `out` has.
///
/// # Errors
///
/// [`Unsendable`] says why the request is refused; `out` is as before then.
pub(crate) fn render(
    asked: &Outgoing<'_>,
    forwarding: &Forwarding<'_>,
    coming: Coming,
    out: &mut Vec<u8>,
) -> Result<Rendered, Unsendable> {
    let begin = out.len();
    let rendered = Writer::new(asked, forwarding, out).head(coming);
    if rendered.is_err() {
        out.truncate(begin);
    }
    rendered
}

/// Options of Connection, and what other fields of the connection say.
#[derive(Debug, Clone, Copy, Default)]
struct Connection<'r> {
    options: Options,
    /// The value of Upgrade; an empty one stands for several lines.
    upgrade: Option<&'r [u8]>,
}

/// A set of what Connection and TE say.
#[derive(Debug, Clone, Copy, Default)]
struct Options(u8);

impl Options {
    const UPGRADE: u8 = 1;
    /// TE has `trailers`.
    const TRAILERS: u8 = 2;
    /// A Cookie was written.
    const COOKIE: u8 = 4;

    fn add(&mut self, option: u8) {
        self.0 |= option;
    }

    fn has(self, option: u8) -> bool {
        self.0 & option != 0
    }
}

/// How the lines of fields were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Done,
    /// A field of theirs concerns others before it: they are taken again, one by one.
    Again,
}

struct Writer<'a, 'r> {
    asked: &'a Outgoing<'r>,
    forwarding: &'a Forwarding<'a>,
    connection: Connection<'r>,
    told: Told,
    out: &'a mut Vec<u8>,
}

impl<'a, 'r> Writer<'a, 'r> {
    fn new(asked: &'a Outgoing<'r>, forwarding: &'a Forwarding<'a>, out: &'a mut Vec<u8>) -> Self {
        Self { asked, forwarding, connection: Connection::default(), told: Told::default(), out }
    }

    fn head(mut self, coming: Coming) -> Result<Rendered, Unsendable> {
        let request = self.asked.head.request;
        let fields_bytes = match request.all {
            AllFields::Unknown => 0,
            AllFields::Head(head) => head.len(),
            AllFields::Block(fields) => fields.bytes.len() + fields.bytes.len() / 4,
        };
        self.out.reserve(fields_bytes + self.asked.target.len() + OWN_BYTES);
        let protocol = self.extended_protocol()?;
        let host = self.begin(protocol)?;
        let fields_at = self.out.len();
        let pass = match request.all {
            AllFields::Head(head) => self.lines(head)?,
            AllFields::Block(_) | AllFields::Unknown => Pass::Again,
        };
        if pass == Pass::Again {
            self.out.truncate(fields_at);
            (self.connection, self.told) = (Connection::default(), Told::default());
            self.fields()?;
        }
        let (body, upgrade) = match protocol {
            Some(protocol) => {
                self.extended(protocol)?;
                (BodyFraming::None, Some(Upgrade::Extended))
            }
            None => (self.framing(coming), self.connection()),
        };
        self.forwarding.write(self.asked, host, self.told, self.out);
        self.out.extend_from_slice(b"\r\n");
        Ok(Rendered { body, upgrade })
    }

    /// The protocol of an extended CONNECT (RFC 8441); an error for methods that are not sent.
    fn extended_protocol(&self) -> Result<Option<&'r [u8]>, Unsendable> {
        let head = &self.asked.head;
        match head.method() {
            "CONNECT" if head.version() >= 20 => {
                let mut pseudo = head.fields().take_while(|(name, _)| name.starts_with(':'));
                let protocol = pseudo.find(|(name, _)| *name == ":protocol").map(|(_, protocol)| protocol);
                let is_good = |protocol: &&[u8]| is_token(protocol) && upgrade::is_passable(protocol);
                protocol.filter(is_good).map(Some).ok_or(Unsendable::Method)
            }
            "CONNECT" | "TRACE" => Err(Unsendable::Method),
            _ => Ok(None),
        }
    }

    /// Writes the request line and Host; returns the host that the client asked for.
    fn begin(&mut self, protocol: Option<&[u8]>) -> Result<Option<&'r [u8]>, Unsendable> {
        let request = self.asked.head.request;
        let method = if protocol.is_some() { "GET" } else { request.method_text };
        if !is_token(method.as_bytes()) {
            return Err(Unsendable::Field);
        }
        self.out.extend_from_slice(method.as_bytes());
        self.out.push(b' ');
        self.target(protocol.is_some())?;
        self.out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        // The host of an absolute form overrides Host (RFC 9112 section 3.2.2).
        let host = match request.target.as_bytes() {
            [b'/', ..] => request.host,
            absolute => target::authority_of(absolute).or(request.host),
        };
        let own = self.forwarding.host.map(str::as_bytes);
        match own.or(host) {
            Some(host) if is_value(host) => self.out.extend_from_slice(host),
            Some(_) => return Err(Unsendable::Field),
            None => self.local_host(),
        }
        self.out.extend_from_slice(b"\r\n");
        Ok(host)
    }

    /// Stands in for the Host of HTTP/1.0, which need not have one.
    fn local_host(&mut self) {
        let Some(local) = self.asked.local else { return };
        let is_v4 = local.ip().to_canonical().is_ipv4();
        self.out.extend_from_slice(if is_v4 { b"" } else { b"[" });
        digits::address(local.ip(), self.out);
        self.out.extend_from_slice(if is_v4 { b"" } else { b"]" });
        if local.port() != if self.asked.head.is_secure() { 443 } else { 80 } {
            self.out.push(b':');
            digits::decimal(u64::from(local.port()), self.out);
        }
    }

    /// Writes a target of any form as a path, or as `*`.
    fn target(&mut self, is_extended: bool) -> Result<(), Unsendable> {
        let text = self.asked.target.as_bytes();
        match text {
            [b'/', ..] => return self.path(text),
            b"*" if self.asked.head.method() == "OPTIONS" => {
                self.out.push(b'*');
                return Ok(());
            }
            _ if is_extended => return Err(Unsendable::Target),
            _ => {}
        }
        let authority = target::authority_of(text).ok_or(Unsendable::Target)?;
        let scheme = memchr::memmem::find(text, b"//").ok_or(Unsendable::Target)? + b"//".len();
        match &text[scheme + authority.len()..] {
            // RFC 9112 section 3.2.4.
            [] if self.asked.head.method() == "OPTIONS" => {
                self.out.push(b'*');
                Ok(())
            }
            rest @ [b'/', ..] => self.path(rest),
            rest => {
                self.out.push(b'/');
                self.path(rest)
            }
        }
    }

    /// Writes bytes of a path and its query.
    fn path(&mut self, path: &[u8]) -> Result<(), Unsendable> {
        if path.iter().fold(true, |plain, &byte| plain & (byte > b' ') & (byte < 0x7f) & (byte != b'#')) {
            self.out.extend_from_slice(path);
            return Ok(());
        }
        for &byte in path {
            match byte {
                // Some servers take a byte such as that of a no-break space for the end of the target.
                0x80.. => {
                    let digit = |four: u8| b"0123456789ABCDEF"[usize::from(four)];
                    self.out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
                }
                b'#' | 0x7f | ..=b' ' => return Err(Unsendable::Target),
                _ => self.out.push(byte),
            }
        }
        Ok(())
    }

    /// Writes the fields of a head that came over HTTP/1, whole runs at once where they are passed on as they are.
    fn lines(&mut self, head: &'r [u8]) -> Result<Pass, Unsendable> {
        // Empty lines may stand before the request line (RFC 9112 section 2.2).
        let begin = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(head.len());
        let Some(line_bytes) = memchr::memchr(b'\n', &head[begin..]) else { return Ok(Pass::Again) };
        let mut at = begin + line_bytes + 1;
        let mut run = at;
        while let Some(line_bytes) = memchr::memchr(b'\n', &head[at..]) {
            let line = &head[at..=at + line_bytes];
            // The line without one is the last.
            let Some(colon) = memchr::memchr(b':', line) else { break };
            let name = &line[..colon];
            let meaning = names::of(name);
            if meaning != Name::EndToEnd || !line.ends_with(b"\r\n") {
                self.out.extend_from_slice(&head[run..at]);
                run = at + line.len();
                let value = line[colon + 1..].trim_ascii();
                if self.of_line(meaning, name, value)? == Pass::Again {
                    return Ok(Pass::Again);
                }
            }
            at += line.len();
        }
        self.out.extend_from_slice(&head[run..at]);
        Ok(Pass::Done)
    }

    /// Takes a field of HTTP/1 that is not copied as it is.
    fn of_line(&mut self, meaning: Name, name: &'r [u8], value: &'r [u8]) -> Result<Pass, Unsendable> {
        match meaning {
            Name::Cookie if self.connection.options.has(Options::COOKIE) => return Ok(Pass::Again),
            Name::Cookie => {
                self.connection.options.add(Options::COOKIE);
                put(name, value, self.out);
            }
            Name::Connection => {
                for option in members(value) {
                    match option {
                        _ if option.eq_ignore_ascii_case(b"upgrade") => self.connection.options.add(Options::UPGRADE),
                        // What these name is dropped anyway.
                        _ if names::of(option) == Name::OfConnection => {}
                        _ if option.eq_ignore_ascii_case(b"close") || names::is(option, b"te") => {}
                        _ => return Ok(Pass::Again),
                    }
                }
            }
            _ => self.field(meaning, name, value)?,
        }
        Ok(Pass::Done)
    }

    /// Writes the fields one by one: those of HTTP/2 and HTTP/3, and those of HTTP/1 that concern each other.
    fn fields(&mut self) -> Result<(), Unsendable> {
        let head = self.asked.head;
        let of = |wanted: Name| head.fields().filter(move |(name, _)| names::of(name.as_bytes()) == wanted);
        let mut nominated = Nominated::default();
        // HTTP/2 and HTTP/3 have no such field.
        if head.version() < 20 {
            of(Name::Connection).try_for_each(|(_, value)| nominated.line(value)).map_err(|_| Unsendable::Field)?;
        }
        if nominated.has(b"upgrade") {
            self.connection.options.add(Options::UPGRADE);
        }
        for (name, value) in head.fields() {
            if name.starts_with(':') {
                continue;
            }
            let (meaning, name) = (names::of(name.as_bytes()), name.as_bytes());
            if !is_token(name) || !is_value(value) {
                return Err(Unsendable::Field);
            }
            match meaning {
                Name::EndToEnd | Name::Cookie if nominated.has(name) => {}
                Name::Cookie if self.connection.options.has(Options::COOKIE) => {}
                // Those of several lines are one (RFC 9113 section 8.2.3).
                Name::Cookie => {
                    self.connection.options.add(Options::COOKIE);
                    self.out.extend_from_slice(b"Cookie: ");
                    let begin = self.out.len();
                    for (_, value) in of(Name::Cookie).filter(|(_, value)| is_value(value)) {
                        if self.out.len() > begin {
                            self.out.extend_from_slice(b"; ");
                        }
                        self.out.extend_from_slice(value);
                    }
                    self.out.extend_from_slice(b"\r\n");
                }
                _ => self.field(meaning, name, value)?,
            }
        }
        Ok(())
    }

    /// Takes a field, except Connection and Cookie.
    fn field(&mut self, meaning: Name, name: &'r [u8], value: &'r [u8]) -> Result<(), Unsendable> {
        match meaning {
            Name::EndToEnd => put(name, value, self.out),
            // These are written anew, or are for this server.
            Name::Host | Name::ContentLength | Name::TransferEncoding | Name::Expect => {}
            Name::OfConnection | Name::Connection | Name::Cookie | Name::Lookalike => {}
            Name::Te => {
                if members(value).any(|member| member.eq_ignore_ascii_case(b"trailers")) {
                    self.connection.options.add(Options::TRAILERS);
                }
            }
            Name::Upgrade => {
                let is_first = self.connection.upgrade.is_none();
                self.connection.upgrade = Some(if is_first { value } else { b"" });
            }
            Name::MaxForwards if self.asked.head.method() == "OPTIONS" => {
                match decimal(value).ok_or(Unsendable::Field)? {
                    0 => return Err(Unsendable::LastHop),
                    hops => {
                        self.out.extend_from_slice(b"Max-Forwards: ");
                        digits::decimal(hops - 1, self.out);
                        self.out.extend_from_slice(b"\r\n");
                    }
                }
            }
            Name::MaxForwards => put(name, value, self.out),
            Name::ForwardedFor => self.of_proxy(Told::FOR, name, value),
            Name::ForwardedProto => self.of_proxy(Told::PROTO, name, value),
            Name::ForwardedHost => self.of_proxy(Told::HOST, name, value),
            Name::Forwarded => self.of_proxy(Told::FORWARDED, name, value),
            Name::ForwardedOther => {
                // X-Real-IP is written anew.
                let is_trusted = matches!(self.forwarding.peer, Peer::Proxy(_));
                let is_own = name.len() == b"x-real-ip".len()
                    && matches!(self.forwarding.style, Style::XForwarded | Style::Both);
                if is_trusted && !is_own {
                    put(name, value, self.out);
                }
            }
        }
        Ok(())
    }

    /// Takes a field that tells of the client, which only a trusted proxy may.
    fn of_proxy(&mut self, told: Told, name: &[u8], value: &[u8]) {
        let is_believed = match self.forwarding.believed {
            Believed::Both => true,
            Believed::XForwarded => told != Told::FORWARDED,
            Believed::Forwarded => told == Told::FORWARDED,
        };
        if self.forwarding.peer == Peer::Client || !is_believed {
            return;
        }
        let is_list = matches!(told, Told::FOR | Told::FORWARDED);
        if is_list && self.forwarding.adds_to(told) {
            // An empty list is none to add to.
            if members(value).next().is_some() {
                self.told.add(told);
            }
            return;
        }
        // Of several lines of what is no list the first counts.
        if is_list || !self.told.has(told) {
            put(name, value, self.out);
        }
        self.told.add(told);
    }

    /// Writes how the body is framed.
    fn framing(&mut self, coming: Coming) -> BodyFraming {
        let head = &self.asked.head;
        match head.request.framing {
            Framing::Length(bytes) => {
                self.out.extend_from_slice(b"Content-Length: ");
                digits::decimal(bytes, self.out);
                self.out.extend_from_slice(b"\r\n");
                if bytes == 0 { BodyFraming::None } else { BodyFraming::Length(bytes) }
            }
            Framing::None if head.version() < 20 || coming == Coming::Nothing => {
                // Some servers wait for a body, or refuse the request, without it (RFC 9110 section 8.6).
                if matches!(head.method(), "POST" | "PUT" | "PATCH") {
                    self.out.extend_from_slice(b"Content-Length: 0\r\n");
                }
                BodyFraming::None
            }
            Framing::None | Framing::Chunked => {
                self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                BodyFraming::Framed
            }
        }
    }

    /// Writes what this connection's fields say: an upgrade that the client asks for over HTTP/1.1, and TE.
    fn connection(&mut self) -> Option<Upgrade> {
        let request = self.asked.head.request;
        let Connection { options, upgrade } = self.connection;
        let may_upgrade = request.minor == 1 && request.framing == Framing::None && options.has(Options::UPGRADE);
        let protocols = upgrade.filter(|protocols| may_upgrade && upgrade::is_passable(protocols));
        let takes_trailers = options.has(Options::TRAILERS);
        match (protocols, takes_trailers) {
            (None, false) => return None,
            (None, true) => self.out.extend_from_slice(b"Connection: TE\r\n"),
            (Some(_), false) => self.out.extend_from_slice(b"Connection: upgrade\r\n"),
            (Some(_), true) => self.out.extend_from_slice(b"Connection: upgrade, TE\r\n"),
        }
        if takes_trailers {
            self.out.extend_from_slice(b"TE: trailers\r\n");
        }
        put(b"Upgrade", protocols?, self.out);
        Some(Upgrade::Passed)
    }

    /// Writes an extended CONNECT as HTTP/1.1 asks for the same (RFC 8441 section 5).
    fn extended(&mut self, protocol: &[u8]) -> Result<(), Unsendable> {
        self.out.extend_from_slice(b"Connection: upgrade\r\n");
        put(b"Upgrade", protocol, self.out);
        let is_key = |name: &str| name.eq_ignore_ascii_case("sec-websocket-key");
        if protocol.eq_ignore_ascii_case(b"websocket") && !self.asked.head.fields().any(|(name, _)| is_key(name)) {
            let (mut nonce, mut key) = ([0; 16], [0; 24]);
            SystemRandom::new().fill(&mut nonce).map_err(|_| Unsendable::NoRandom)?;
            let bytes = STANDARD.encode_slice(nonce, &mut key).map_err(|_| Unsendable::NoRandom)?;
            put(b"Sec-WebSocket-Key", &key[..bytes], self.out);
        }
        Ok(())
    }
}
