//! What the names of fields mean to an intermediary (RFC 9110 section 7.6).

/// Options of Connection that are looked up for each field; a message with more is refused.
const OPTIONS_MAX: usize = 32;

/// What a field is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// For the recipient at the end: passed on.
    EndToEnd,
    /// For this connection, or for a proxy: dropped.
    OfConnection,
    Connection,
    Te,
    Upgrade,
    ContentLength,
    TransferEncoding,
    Host,
    Expect,
    Cookie,
    MaxForwards,
    /// X-Forwarded-For.
    ForwardedFor,
    /// X-Forwarded-Proto.
    ForwardedProto,
    /// X-Forwarded-Host.
    ForwardedHost,
    /// Forwarded (RFC 7239).
    Forwarded,
    /// X-Real-IP, and other names that begin with X-Forwarded.
    ForwardedOther,
    /// Written with underscores, one that frames messages or that tells of the client. Interfaces such as CGI and WSGI
    /// make the same variable of both, so it could stand in for the real one.
    Lookalike,
}

/// What a field of this name is for.
#[inline]
pub(crate) fn of(name: &[u8]) -> Name {
    // The length sorts out nearly every name, at the price of one comparison.
    match name.len() {
        2 if is(name, b"te") => Name::Te,
        4 if is(name, b"host") => Name::Host,
        // No standard knows it, and scripts take it for the proxy that they are to use.
        5 if is(name, b"proxy") => Name::OfConnection,
        6 if is(name, b"cookie") => Name::Cookie,
        6 if is(name, b"expect") => Name::Expect,
        7 if is(name, b"upgrade") => Name::Upgrade,
        9 if is(name, b"forwarded") => Name::Forwarded,
        9 if is_like(name, b"x-real-ip") => own(name, Name::ForwardedOther),
        10 if is(name, b"connection") => Name::Connection,
        10 if is(name, b"keep-alive") => Name::OfConnection,
        12 if is(name, b"max-forwards") => Name::MaxForwards,
        14 if is_like(name, b"content-length") => own(name, Name::ContentLength),
        14 if is(name, b"http2-settings") => Name::OfConnection,
        16 if is(name, b"proxy-connection") => Name::OfConnection,
        17 if is_like(name, b"transfer-encoding") => own(name, Name::TransferEncoding),
        18 if is(name, b"proxy-authenticate") => Name::OfConnection,
        19 if is(name, b"proxy-authorization") => Name::OfConnection,
        25 if is(name, b"proxy-authentication-info") => Name::OfConnection,
        11.. if (name[0] | 0x20) == b'x' => forwarded(name),
        _ => Name::EndToEnd,
    }
}

/// A name that begins with `x`.
fn forwarded(name: &[u8]) -> Name {
    const PREFIX: &[u8; 11] = b"x-forwarded";
    if !name.get(..PREFIX.len()).is_some_and(|begin| is_like(begin, PREFIX)) {
        return Name::EndToEnd;
    }
    let name_of = match &name[PREFIX.len()..] {
        rest if is_like(rest, b"-for") => Name::ForwardedFor,
        rest if is_like(rest, b"-proto") => Name::ForwardedProto,
        rest if is_like(rest, b"-host") => Name::ForwardedHost,
        _ => Name::ForwardedOther,
    };
    own(name, name_of)
}

/// The meaning, unless the name only looks like it.
#[inline]
fn own(name: &[u8], meaning: Name) -> Name {
    if name.contains(&b'_') { Name::Lookalike } else { meaning }
}

/// Whether a name, which is a token, is this one, which is given in lower case: a letter in either case, and a hyphen,
/// is what no other byte of a token becomes by this bit.
#[inline]
pub(crate) fn is<const BYTES: usize>(name: &[u8], lower: &[u8; BYTES]) -> bool {
    let Ok(name) = <&[u8; BYTES]>::try_from(name) else { return false };
    name.iter().zip(lower).fold(0, |differs, (byte, lower)| differs | ((byte | 0x20) ^ lower)) == 0
}

/// The same, and an underscore counts as a hyphen.
#[inline]
fn is_like<const BYTES: usize>(name: &[u8], lower: &[u8; BYTES]) -> bool {
    let same = |(byte, lower): (&u8, &u8)| byte | 0x20 == *lower || (*byte == b'_' && *lower == b'-');
    name.len() == BYTES && name.iter().zip(lower).all(same)
}

/// Whether fields of this name may stand behind a body (RFC 9110 section 6.5.1): not those that frame or route the
/// message, modify the request, carry credentials or say how the content is read.
pub(crate) fn may_trail(name: &[u8]) -> bool {
    const NEVER: [&str; 17] = [
        "age",
        "authorization",
        "cache-control",
        "content-encoding",
        "content-range",
        "content-type",
        "date",
        "expires",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
        "set-cookie",
        "trailer",
        "www-authenticate",
    ];
    of(name) == Name::EndToEnd && !NEVER.iter().any(|never| name.eq_ignore_ascii_case(never.as_bytes()))
}

/// The members of a list, without the empty ones.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// More options of Connection than are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Fields that Connection names: they are for this connection only (RFC 9110 section 7.6.1).
#[derive(Debug, Default)]
pub(crate) struct Nominated<'m> {
    names: [&'m [u8]; OPTIONS_MAX],
    count: usize,
}

impl<'m> Nominated<'m> {
    /// Takes up a line of Connection.
    pub(crate) fn line(&mut self, value: &'m [u8]) -> Result<(), TooMany> {
        for option in members(value) {
            *self.names.get_mut(self.count).ok_or(TooMany)? = option;
            self.count += 1;
        }
        Ok(())
    }

    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.names[..self.count].iter().any(|nominated| nominated.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_either_case_and_with_underscores() {
        for (name, expected) in [
            ("TE", Name::Te),
            ("Tf", Name::EndToEnd),
            ("HOST", Name::Host),
            ("Proxy", Name::OfConnection),
            ("cookie", Name::Cookie),
            ("Content-Length", Name::ContentLength),
            ("Content_Length", Name::Lookalike),
            ("Content-Lengths", Name::EndToEnd),
            ("transfer-encoding", Name::TransferEncoding),
            ("Transfer_Encoding", Name::Lookalike),
            ("X-Forwarded-For", Name::ForwardedFor),
            ("x_forwarded-for", Name::Lookalike),
            ("X-Forwarded", Name::ForwardedOther),
            ("X-Forwarded-Prefix", Name::ForwardedOther),
            ("X-Forwarder", Name::EndToEnd),
            ("X-Real-IP", Name::ForwardedOther),
            ("X_Real_IP", Name::Lookalike),
            ("X-Custom", Name::EndToEnd),
            ("X_Custom_Field", Name::EndToEnd),
            ("Keep-Alive", Name::OfConnection),
            ("HTTP2-Settings", Name::OfConnection),
            ("", Name::EndToEnd),
        ] {
            assert_eq!(of(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn options_are_bounded() {
        let mut nominated = Nominated::default();
        assert_eq!(nominated.line(b" a, B ,, c"), Ok(()));
        assert!(nominated.has(b"A") && nominated.has(b"b") && !nominated.has(b"") && !nominated.has(b"d"));
        assert_eq!(nominated.line("x,".repeat(OPTIONS_MAX).as_bytes()), Err(TooMany));
    }
}
