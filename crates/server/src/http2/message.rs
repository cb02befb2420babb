//! A block of fields as a request, strict where a lenient reading could smuggle something. HTTP/2 (RFC 9113 section 8)
//! and HTTP/3 (RFC 9114 section 4) have the same rules; the sections named here are those of the former.

use crate::http::fields::Fields;
use crate::http::limits::Limits;
use crate::http::request::{self, Request, is_token};
use crate::http::target;

/// Fields in one request; more are answered with 431.
pub(crate) const FIELDS_MAX: usize = 96;

/// Why fields are no request that could be answered as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Against the standard: an error of the stream (section 8.1.1).
    Malformed,
    /// Answered with this status.
    Status(u16),
}

/// Reads the fields of a request of HTTP/2 or HTTP/3, as `version` says.
pub(crate) fn request<'f>(fields: &'f Fields, version: u8, limits: &Limits) -> Result<Request<'f>, Unfit> {
    if fields.is_too_large {
        return Err(Unfit::Status(431));
    }
    let mut pseudo = Pseudo::default();
    // One more for the authority, which counts as Host.
    let mut regular = [httparse::EMPTY_HEADER; FIELDS_MAX + 1];
    let mut count = 0;
    let mut host = None;
    for (name, value) in fields.iter() {
        if !is_value(value) {
            return Err(Unfit::Malformed);
        }
        if let [b':', name @ ..] = name {
            if count > 0 || !pseudo.take(name, value) {
                return Err(Unfit::Malformed);
            }
            continue;
        }
        if !is_name(name) || is_of_connection(name, value) {
            return Err(Unfit::Malformed);
        }
        let name = std::str::from_utf8(name).map_err(|_| Unfit::Malformed)?;
        if name == "host" {
            // A second one is refused like one that differs from the authority.
            let differs = |authority: &[u8]| !authority.eq_ignore_ascii_case(value);
            if host.replace(value).is_some() || pseudo.authority.is_some_and(differs) {
                return Err(Unfit::Malformed);
            }
        }
        *regular.get_mut(count).ok_or(Unfit::Status(431))? = httparse::Header { name, value };
        count += 1;
    }
    let text = |bytes: &'f [u8]| std::str::from_utf8(bytes).map_err(|_| Unfit::Malformed);
    let method = text(pseudo.method.filter(|method| is_token(method)).ok_or(Unfit::Malformed)?)?;
    if host.is_none()
        && let Some(authority) = pseudo.authority
    {
        *regular.get_mut(count).ok_or(Unfit::Status(431))? = httparse::Header { name: "host", value: authority };
        count += 1;
    }
    // A stream that becomes a tunnel for a protocol (RFC 8441 section 4, RFC 9220 section 3) has a path as other requests
    // have one.
    let is_tunnel = pseudo.protocol.is_some();
    if is_tunnel && (method != "CONNECT" || pseudo.authority.is_none()) {
        return Err(Unfit::Malformed);
    }
    let target = if method == "CONNECT" && !is_tunnel {
        if pseudo.path.is_some() || pseudo.scheme.is_some() {
            return Err(Unfit::Malformed);
        }
        pseudo.authority
    } else {
        let is_path = |path: &[u8]| path.first() == Some(&b'/') || (path == b"*" && method == "OPTIONS");
        pseudo.path.filter(|path| pseudo.scheme.is_some() && is_path(path))
    };
    let target = target.ok_or(Unfit::Malformed)?;
    if target.len() > limits.target_bytes_max {
        return Err(Unfit::Status(414));
    }
    if !target.iter().all(|&byte| target::is_of_target(byte)) {
        return Err(Unfit::Malformed);
    }
    // As over HTTP/1.1.
    let target = std::str::from_utf8(target).map_err(|_| Unfit::Status(400))?;
    request::of_fields(method, target, version, &regular[..count]).map_err(Unfit::Status)
}

/// Whether these can end a request's body (section 8.1): no pseudo-fields, and well-formed.
pub(crate) fn are_trailers(fields: &Fields) -> bool {
    fields.iter().all(|(name, value)| is_name(name) && is_value(value) && !is_of_connection(name, value))
}

/// The fields that stand for the request line (section 8.3.1).
#[derive(Default)]
struct Pseudo<'f> {
    method: Option<&'f [u8]>,
    scheme: Option<&'f [u8]>,
    authority: Option<&'f [u8]>,
    path: Option<&'f [u8]>,
    /// What a tunnel is for.
    protocol: Option<&'f [u8]>,
}

impl<'f> Pseudo<'f> {
    /// Keeps one; false if it is unknown or there already.
    fn take(&mut self, name: &[u8], value: &'f [u8]) -> bool {
        let place = match name {
            b"method" => &mut self.method,
            b"scheme" if is_scheme(value) => &mut self.scheme,
            b"authority" => &mut self.authority,
            b"path" => &mut self.path,
            b"protocol" if is_token(value) => &mut self.protocol,
            _ => return false,
        };
        place.replace(value).is_none()
    }
}

/// Whether it can be a scheme (RFC 3986 section 3.1).
fn is_scheme(text: &[u8]) -> bool {
    // Nearly all are one of these.
    matches!(text, b"https" | b"http") || is_other_scheme(text)
}

#[cold]
fn is_other_scheme(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphabetic)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// Which bytes a name may have: those of a token, without capital letters (section 8.2.1).
static OF_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let (marks, mut byte) = (b"!#$%&'*+-.^_`|~", 0);
    while byte < marks.len() {
        table[marks[byte] as usize] = true;
        byte += 1;
    }
    byte = 0;
    while byte < table.len() {
        table[byte] |= (byte as u8).is_ascii_lowercase() || (byte as u8).is_ascii_digit();
        byte += 1;
    }
    table
};

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| OF_NAME[usize::from(byte)])
}

/// No control characters, and no space around it (section 8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first())
        && !is_space(value.last())
        && value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// Fields that say something about a connection of HTTP/1.1 (section 8.2.2).
fn is_of_connection(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"te" => value != b"trailers",
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => true,
        _ => false,
    }
}
