//! A request: what the fields of its head say that matters here, and its framing (RFC 9112).

use crate::http::client_certificate::ToldCertificate;
use crate::http::client_hints::Hints;
use crate::http::fields::Fields;
use crate::http::framing::Framing;
use crate::http::limits::Limits;
use crate::http::list_fields::{FURTHER_LINES_MAX, Lines, ListField, TransferCodings};
use crate::http::{authority, field_lines, target};

/// Header fields in one head; more are answered with 431.
pub(crate) const FIELDS_MAX: usize = 96;
/// The request method, as far as this server tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Options,
    Other,
}

/// A parsed head; everything borrows from the input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'b> {
    pub(crate) method: Method,
    pub(crate) method_text: &'b str,
    pub(crate) target: &'b str,
    /// The minor version: 0, or 1 for that and all higher ones (RFC 9110 section 2.5); 2 stands for HTTP/2, and 3 for
    /// HTTP/3.
    pub(crate) minor: u8,
    pub(crate) keep_alive: bool,
    pub(crate) framing: Framing,
    /// The client waits for a word before it sends the body.
    pub(crate) expects_continue: bool,
    /// Any of the fields from `range` down to `if_unmodified_since` is present.
    pub(crate) is_conditional: bool,
    /// The field Host.
    pub(crate) host: Option<&'b [u8]>,
    pub(crate) range: Option<&'b [u8]>,
    /// The first line of it; see [`Request::accept_encoding_lines`].
    pub(crate) accept_encoding: Option<&'b [u8]>,
    pub(crate) if_range: Option<&'b [u8]>,
    /// The first line of it; see [`Request::if_match_lines`].
    pub(crate) if_match: Option<&'b [u8]>,
    /// The first line of it; see [`Request::if_none_match_lines`].
    pub(crate) if_none_match: Option<&'b [u8]>,
    pub(crate) if_modified_since: Option<&'b [u8]>,
    pub(crate) if_unmodified_since: Option<&'b [u8]>,
    pub(crate) referrer: Option<&'b [u8]>,
    pub(crate) user_agent: Option<&'b [u8]>,
    /// W3C Trace Context, and the same as ARM says it, in hexadecimal digits.
    pub(crate) traceparent: Option<&'b [u8]>,
    pub(crate) arm_correlator: Option<&'b [u8]>,
    pub(crate) authorization: Option<&'b [u8]>,
    /// All fields, for what looks at others than those above.
    pub(crate) all: AllFields<'b>,
    /// What is told of the client's certificate, once a table has found out.
    pub(crate) certificate: Option<&'b ToldCertificate>,
    /// What the client says of its network.
    pub(crate) hints: Hints,
    /// Lines of list fields behind their first, in the order of the head.
    pub(crate) further_lines: [Option<(ListField, &'b [u8])>; FURTHER_LINES_MAX],
}

/// Where all fields of a request are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AllFields<'b> {
    /// Not at hand.
    Unknown,
    /// In a head of HTTP/1: the request line, lines of fields, an empty line.
    Head(&'b [u8]),
    /// In a block of HTTP/2 or HTTP/3.
    Block(&'b Fields),
}

/// What a piece of input is.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made, and a box would be an allocation")]
pub(crate) enum Head<'b> {
    /// A head of this many bytes.
    Complete(Request<'b>, #[cfg_attr(not(test), allow(dead_code, reason = "who tests it asks"))] usize),
    /// The beginning of one.
    Partial,
    /// Nothing that can be answered but with this status and a close.
    Rejected(u16),
}

/// The same, of which the request is where it was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A head of this many bytes.
    Complete(usize),
    Partial,
    Rejected(u16),
}

#[inline]
pub(crate) fn is_within(target: &str, head_bytes: usize, limits: &Limits) -> Result<(), u16> {
    if target.len() > limits.target_bytes_max {
        return Err(414);
    }
    if head_bytes > limits.head_bytes_max { Err(431) } else { Ok(()) }
}

/// What a request is that was taken apart already, or the status that refuses it.
#[inline(always)]
pub(crate) fn of_fields<'b>(
    method_text: &'b str,
    target: &'b str,
    minor: u8,
    fields: &[httparse::Header<'b>],
) -> Result<Request<'b>, u16> {
    let mut request = Request::empty();
    request.fill(method_text, target, minor, fields)?;
    Ok(request)
}

/// Says whether more input could still make a head of acceptable size.
#[cold]
pub(crate) fn partial(input: &[u8], limits: &Limits) -> Parsed {
    let line_done = memchr::memchr(b'\n', input).is_some();
    // The method and the version take a few bytes of the request line too.
    if !line_done && input.len() > limits.target_bytes_max + 64 {
        return Parsed::Rejected(414);
    }
    if input.len() > limits.head_bytes_max {
        return Parsed::Rejected(431);
    }
    Parsed::Partial
}

/// Whether this is a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn method(text: &str) -> Method {
    match text {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        _ => Method::Other,
    }
}

impl<'b> Request<'b> {
    /// Names and values of all fields in their order; none where they are not at hand. In HTTP/2 and HTTP/3 those that
    /// begin with a colon stand for the request line.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + use<'b> {
        let (head, block) = match self.all {
            AllFields::Unknown => (&b""[..], None),
            AllFields::Head(head) => {
                // Behind the request line, which was parsed, and the empty lines that may stand before it.
                let begin = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(head.len());
                let line = memchr::memchr(b'\n', &head[begin..]).map_or(head.len(), |bytes| begin + bytes + 1);
                (&head[line..], None)
            }
            AllFields::Block(fields) => (&b""[..], Some(fields.iter())),
        };
        let of_block = block.into_iter().flatten();
        let of_block = of_block.filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)));
        field_lines::pairs(head).chain(of_block)
    }

    /// Both digits of the version as logs have it.
    #[inline]
    pub(crate) fn version(&self) -> [u8; 2] {
        match self.minor {
            0 => *b"10",
            1 => *b"11",
            2 => *b"20",
            _ => *b"30",
        }
    }

    /// One that says nothing.
    #[inline]
    pub(crate) fn empty() -> Self {
        Self {
            method: Method::Other,
            method_text: "",
            target: "",
            minor: 0,
            keep_alive: false,
            framing: Framing::None,
            expects_continue: false,
            is_conditional: false,
            host: None,
            range: None,
            accept_encoding: None,
            if_range: None,
            if_match: None,
            if_none_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
            referrer: None,
            user_agent: None,
            traceparent: None,
            arm_correlator: None,
            authorization: None,
            all: AllFields::Unknown,
            certificate: None,
            hints: Hints::default(),
            further_lines: [None; FURTHER_LINES_MAX],
        }
    }

    /// The lines of Accept-Encoding, which are one list; none without the field.
    #[inline]
    pub(crate) fn accept_encoding_lines(&self) -> Option<Lines<'_>> {
        self.lines(self.accept_encoding, ListField::AcceptEncoding)
    }

    /// The lines of If-Match.
    pub(crate) fn if_match_lines(&self) -> Option<Lines<'_>> {
        self.lines(self.if_match, ListField::IfMatch)
    }

    /// The lines of If-None-Match.
    pub(crate) fn if_none_match_lines(&self) -> Option<Lines<'_>> {
        self.lines(self.if_none_match, ListField::IfNoneMatch)
    }

    #[inline]
    fn lines(&self, first: Option<&'b [u8]>, of: ListField) -> Option<Lines<'_>> {
        Some(Lines { first: first?, of, further: &self.further_lines })
    }

    #[inline]
    pub(crate) fn fill(
        &mut self,
        method_text: &'b str,
        target: &'b str,
        minor: u8,
        fields: &[httparse::Header<'b>],
    ) -> Result<(), u16> {
        (self.method, self.method_text) = (method(method_text), method_text);
        (self.target, self.minor, self.keep_alive) = (target, minor, minor >= 1);
        if target.as_bytes().first() != Some(&b'/') && !target::is_other_form(self.method_text, target.as_bytes()) {
            return Err(400);
        }
        self.read_fields(fields)
    }

    fn read_fields(&mut self, fields: &[httparse::Header<'b>]) -> Result<(), u16> {
        let mut hosts = 0;
        let mut length: Option<u64> = None;
        let mut transfer = TransferCodings::None;
        let mut ranges = 0;
        let mut closes = false;
        for field in fields {
            let value = field.value;
            // The length sorts out nearly every field that means nothing here, at the price of one comparison.
            match field.name.len() {
                3 if is(field.name, b"rtt") => self.hints.rtt(value),
                3 if is(field.name, b"ect") => self.hints.effective_type(value),
                4 if is(field.name, b"host") => {
                    hosts += 1;
                    if !authority::is_host(value) {
                        return Err(400);
                    }
                    self.host = Some(value);
                }
                5 if is(field.name, b"range") => {
                    ranges += 1;
                    self.is_conditional = true;
                    self.range = Some(value);
                }
                6 if is(field.name, b"expect") => {
                    if !value.eq_ignore_ascii_case(b"100-continue") && !lists_only_continue(value) {
                        return Err(417);
                    }
                    self.expects_continue = self.minor >= 1;
                }
                7 if is(field.name, b"referer") => self.referrer = self.referrer.or(Some(value)),
                8 if is(field.name, b"if-match") => self.line(ListField::IfMatch, value)?,
                8 if is(field.name, b"if-range") => self.condition(|request| &mut request.if_range, value),
                8 if is(field.name, b"downlink") => self.hints.downlink(value),
                9 if is(field.name, b"save-data") => self.hints.save_data(value),
                10 if is(field.name, b"connection") => closes |= self.connection(value),
                10 if is(field.name, b"user-agent") => self.user_agent = self.user_agent.or(Some(value)),
                11 if is(field.name, b"traceparent") => self.traceparent = once(self.traceparent, value),
                13 if is(field.name, b"if-none-match") => self.line(ListField::IfNoneMatch, value)?,
                // Of two a server before this one may have judged the other.
                13 if is(field.name, b"authorization") && self.authorization.is_some() => return Err(400),
                13 if is(field.name, b"authorization") => self.authorization = Some(value),
                14 if is(field.name, b"arm-correlator") => self.arm_correlator = once(self.arm_correlator, value),
                14 if is(field.name, b"content-length") => {
                    let bytes = decimal(value).ok_or(400_u16)?;
                    if length.is_some_and(|before| before != bytes) {
                        return Err(400);
                    }
                    length = Some(bytes);
                }
                15 if is(field.name, b"accept-encoding") => self.line(ListField::AcceptEncoding, value)?,
                17 if is(field.name, b"if-modified-since") => {
                    self.condition(|request| &mut request.if_modified_since, value);
                }
                17 if is(field.name, b"transfer-encoding") => transfer = transfer.and(value),
                19 if is(field.name, b"if-unmodified-since") => {
                    self.condition(|request| &mut request.if_unmodified_since, value);
                }
                _ => {}
            }
        }
        if hosts != 1 && (self.minor >= 1 || hosts > 1) {
            return Err(400);
        }
        if ranges > 1 {
            // Two lines of a field that is not a list mean nothing; without a range the whole is sent.
            self.range = None;
        }
        // `close` takes precedence over other options, on this line and on others (RFC 9112 section 9.3).
        self.keep_alive &= !closes;
        self.framing = framing(length, transfer.framing()?, self.minor)?;
        Ok(())
    }

    /// Keeps a line of a list field; `Err` where there are more than are kept.
    #[inline]
    fn line(&mut self, of: ListField, value: &'b [u8]) -> Result<(), u16> {
        self.is_conditional |= of != ListField::AcceptEncoding;
        let first = match of {
            ListField::AcceptEncoding => &mut self.accept_encoding,
            ListField::IfMatch => &mut self.if_match,
            ListField::IfNoneMatch => &mut self.if_none_match,
        };
        if first.is_none() {
            *first = Some(value);
            return Ok(());
        }
        self.further_line(of, value)
    }

    #[cold]
    fn further_line(&mut self, of: ListField, value: &'b [u8]) -> Result<(), u16> {
        let free = self.further_lines.iter_mut().find(|line| line.is_none()).ok_or(431_u16)?;
        *free = Some((of, value));
        Ok(())
    }

    /// Keeps the only line of a condition that is no list.
    fn condition(&mut self, field: impl Fn(&mut Self) -> &mut Option<&'b [u8]>, value: &'b [u8]) {
        self.is_conditional = true;
        let field = field(self);
        *field = once(*field, value);
    }

    /// Reads a line of Connection; whether it has `close`.
    fn connection(&mut self, value: &[u8]) -> bool {
        if value.eq_ignore_ascii_case(b"close") {
            return true;
        }
        let mut closes = false;
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            closes |= option.eq_ignore_ascii_case(b"close");
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            }
        }
        closes
    }
}

/// How the body is framed by its length or by its coding; both together would be two answers.
#[inline]
fn framing(length: Option<u64>, coding: Option<Framing>, minor: u8) -> Result<Framing, u16> {
    match (length, coding) {
        (None, None) => Ok(Framing::None),
        (Some(bytes), None) => Ok(Framing::Length(bytes)),
        (None, Some(framing)) if minor == 1 => Ok(framing),
        _ => Err(400),
    }
}

/// The value of a field that is no list: two lines of it mean nothing, and an empty value is what every reader of it
/// passes over (RFC 9110 sections 13.1.3 and 13.1.5).
#[inline]
fn once<'b>(before: Option<&'b [u8]>, value: &'b [u8]) -> Option<&'b [u8]> {
    if before.is_none() { Some(value) } else { Some(b"") }
}

/// Whether every member of an Expect list is the one that is known (RFC 9110 section 10.1.1).
#[cold]
fn lists_only_continue(value: &[u8]) -> bool {
    let mut members = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty());
    members.all(|member| member.eq_ignore_ascii_case(b"100-continue"))
}

/// Whether a field has this name, which is given in lower case. Names are tokens (RFC 9110 section 5.6.2), so that a
/// letter in either case, and a hyphen, is what nothing else becomes by this bit; without a way out before its end it
/// is a comparison or two.
#[inline]
fn is<const BYTES: usize>(name: &str, lower: &[u8; BYTES]) -> bool {
    let Ok(name) = <&[u8; BYTES]>::try_from(name.as_bytes()) else { return false };
    name.iter().zip(lower).fold(0, |differs, (byte, lower)| differs | ((byte | 0x20) ^ lower)) == 0
}

/// A number written with digits only: no sign, no space.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Nineteen digits fit into 64 bits.
    Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parse::parse;
    use proptest::prelude::*;

    fn outcome(text: &str) -> Result<Framing, u16> {
        match parse(text.as_bytes(), &Limits::default()) {
            Head::Complete(request, head_bytes) => {
                assert_eq!(head_bytes, text.len());
                Ok(request.framing)
            }
            Head::Rejected(status) => Err(status),
            Head::Partial => panic!("partial: {text}"),
        }
    }

    #[test]
    fn framing_is_strict() {
        for (fields, expected) in [
            ("", Ok(Framing::None)),
            ("Content-Length: 5\r\n", Ok(Framing::Length(5))),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Ok(Framing::Length(5))),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", Err(400)),
            ("Content-Length: 5, 5\r\n", Err(400)),
            ("Content-Length: +5\r\n", Err(400)),
            ("Content-Length: -1\r\n", Err(400)),
            ("Content-Length: 99999999999999999999\r\n", Err(400)),
            ("Transfer-Encoding: chunked\r\n", Ok(Framing::Chunked)),
            ("Transfer-Encoding: Chunked\r\n", Ok(Framing::Chunked)),
            ("Transfer-Encoding: gzip, chunked\r\n", Err(501)),
            ("Transfer-Encoding: identity\r\n", Err(400)),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(400)),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Err(400)),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", Err(501)),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", Err(400)),
            ("Expect: 100-continue\r\nExpect: 100-continue\r\n", Ok(Framing::None)),
            ("Expect: 100-continue, 100-Continue,\r\n", Ok(Framing::None)),
            ("Expect: 100-continue, magic\r\n", Err(417)),
            ("Authorization: Basic YTpi\r\nAuthorization: Basic Yjpj\r\n", Err(400)),
            ("Content-Length : 5\r\n", Err(400)),
            ("Host: b\r\n", Err(400)),
            ("Expect: magic\r\n", Err(417)),
        ] {
            assert_eq!(outcome(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")), expected, "{fields}");
        }
        assert_eq!(outcome("GET / HTTP/1.1\r\n\r\n"), Err(400));
        assert_eq!(outcome("GET / HTTP/1.0\r\n\r\n"), Ok(Framing::None));
        assert_eq!(outcome("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(400));
        assert_eq!(outcome("GET / HTTP/2.0\r\n\r\n"), Err(505));
        assert_eq!(outcome("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), Err(400));
    }

    proptest! {
        #[test]
        fn names_are_known_in_either_case(name in "[!#$%&'*+.^_`|~0-9A-Za-z-]{4,5}|[rR][aA][nN][gG][eE]|if-[mM]atch") {
            prop_assert_eq!(is(&name, b"range"), name.eq_ignore_ascii_case("range"));
            prop_assert_eq!(is(&name, b"if-match"), name.eq_ignore_ascii_case("if-match"));
        }
    }

    /// A request of these fields; what is asked of it is returned.
    fn with_fields<T>(fields: &str, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        match parse(text.as_bytes(), &Limits::default()) {
            Head::Complete(request, _) => ask(&request),
            head => panic!("not complete: {text} {head:?}"),
        }
    }

    #[test]
    fn lines_of_a_list_are_one_list() {
        // RFC 9110 section 5.3.
        let joined = |lines: Option<Lines<'_>>| {
            let lines: Vec<_> = lines.iter().flat_map(Lines::iter).map(String::from_utf8_lossy).collect();
            lines.join("|")
        };
        let fields = "Accept-Encoding: br\r\nIf-Match: \"a\"\r\nAccept-Encoding: gzip\r\nIf-None-Match: \"c\"\r\n\
            If-Match: \"b\"\r\n";
        with_fields(fields, |request| {
            assert_eq!(joined(request.accept_encoding_lines()), "br|gzip");
            assert_eq!(joined(request.if_match_lines()), "\"a\"|\"b\"");
            assert_eq!(joined(request.if_none_match_lines()), "\"c\"");
            assert!(request.is_conditional && request.accept_encoding_lines().expect("is there").only().is_none());
            assert_eq!(request.if_none_match_lines().expect("is there").only(), Some(&b"\"c\""[..]));
        });
        assert!(with_fields("", |request| request.if_match_lines().is_none()));
        let many = "If-None-Match: \"a\"\r\n".repeat(FURTHER_LINES_MAX + 1);
        assert_eq!(outcome(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")), Ok(Framing::None));
        assert_eq!(
            outcome(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}If-Match: *\r\nIf-Match: *\r\n\r\n")),
            Err(431)
        );
    }

    #[test]
    fn two_lines_of_what_is_no_list_mean_nothing() {
        // RFC 9110 sections 13.1.3 to 13.1.5 and 14.2.
        let date = "Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let twice = |name: &str| format!("{name}: {date}{name}: {date}");
        let empty = Some(Vec::new());
        let value = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
        assert_eq!(with_fields(&twice("If-Modified-Since"), |request| value(request.if_modified_since)), empty);
        assert_eq!(with_fields(&twice("If-Unmodified-Since"), |request| value(request.if_unmodified_since)), empty);
        assert_eq!(with_fields(&twice("If-Range"), |request| value(request.if_range)), empty);
        assert_eq!(with_fields("Range: bytes=0-1\r\nRange: bytes=2-3\r\n", |request| value(request.range)), None);
        let agents = "User-Agent: one\r\nUser-Agent: two\r\n";
        assert_eq!(with_fields(agents, |request| value(request.user_agent)), Some(b"one".to_vec()));
    }

    #[test]
    fn keep_alive_follows_version_and_connection() {
        for (version, connection, expected) in [
            ("1.1", "", true),
            ("1.1", "Connection: close\r\n", false),
            ("1.1", "Connection: foo, Close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
            ("1.0", "Connection: keep-alive, close\r\n", false),
            ("1.1", "Connection: close\r\nConnection: keep-alive\r\n", false),
            ("1.1", "Connection: keep-alive\r\nConnection: te, close\r\n", false),
            ("1.0", "Connection: close\r\nConnection: keep-alive\r\n", false),
            ("1.0", "Connection: te\r\nConnection: keep-alive\r\n", true),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{connection}\r\n");
            let Head::Complete(request, _) = parse(text.as_bytes(), &Limits::default()) else {
                panic!("not complete: {text}")
            };
            assert_eq!(request.keep_alive, expected, "{text}");
        }
    }
}
