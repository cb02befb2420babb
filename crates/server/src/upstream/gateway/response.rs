//! The response of a program (RFC 3875 section 6), and a response of HTTP/1 that ends with its connection, which
//! programs behind SCGI and uwsgi give as well.

use crate::http::request::{decimal, is_token};
use crate::upstream::message::{FIELDS_MAX, Garbled, HEAD_BYTES_MAX, HandOver, Instead, ResponseHead, Said};

/// Whether the request wants the body of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// The method is HEAD: a length that the head says is that of another response, and a body is passed over.
    Head,
    /// Any other method.
    All,
}

/// How far the response is.
#[derive(Debug)]
enum Stage {
    /// In its head. These bytes have come, and no line that ends it begins before `scanned`.
    Head { held: Vec<u8>, scanned: usize },
    /// In its body; so many bytes are to come, if the head says so.
    Body { left: Option<u64> },
    /// There is no body: bytes are passed over.
    Bodiless,
}

/// What came behind the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// Bytes, which were cut off.
    Excess,
}

/// Reads one response.
#[derive(Debug)]
pub(crate) struct CgiResponse {
    wants: Wants,
    stage: Stage,
    behind: Behind,
}

impl CgiResponse {
    pub(crate) fn new(wants: Wants) -> Self {
        Self { wants, stage: Stage::Head { held: Vec::new(), scanned: 0 }, behind: Behind::Nothing }
    }

    pub(crate) fn wants(&self) -> Wants {
        self.wants
    }

    /// Reads a piece, all of it: bytes behind the length that the head says are cut off.
    pub(crate) fn read(&mut self, input: &[u8], said: &mut impl FnMut(Said<'_>)) -> Result<(), Garbled> {
        let body = match &mut self.stage {
            Stage::Head { held, scanned } => {
                if held.is_empty() {
                    // Mostly the whole head is in the first piece and is read where it lies.
                    match end_of_head(input, scanned)? {
                        Some(end) => {
                            let (head, body) = input.split_at(end);
                            self.stage = begin(head, self.wants, said)?;
                            body
                        }
                        None => {
                            held.extend_from_slice(input);
                            return Ok(());
                        }
                    }
                } else {
                    let before = held.len();
                    // What lies behind the largest head is of no use to it.
                    held.extend_from_slice(&input[..input.len().min(HEAD_BYTES_MAX + 1 - before)]);
                    let Some(end) = end_of_head(held, scanned)? else { return Ok(()) };
                    self.stage = begin(&held[..end], self.wants, said)?;
                    // The head ends in this piece: it had not ended before.
                    &input[end - before..]
                }
            }
            Stage::Body { .. } | Stage::Bodiless => input,
        };
        self.read_body(body, said);
        Ok(())
    }

    fn read_body(&mut self, body: &[u8], said: &mut impl FnMut(Said<'_>)) {
        let taken = match &mut self.stage {
            Stage::Body { left: Some(left) } => {
                let taken = body.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                taken
            }
            Stage::Body { left: None } => body.len(),
            Stage::Head { .. } | Stage::Bodiless => 0,
        };
        if taken > 0 {
            said(Said::Body(&body[..taken]));
        }
        // A program may give a body where none is wanted, and that is passed over.
        if taken < body.len() && matches!(self.stage, Stage::Body { .. }) {
            self.behind = Behind::Excess;
        }
    }

    /// Whether the response is whole, by what its head says.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.stage, Stage::Body { left: Some(0) } | Stage::Bodiless)
    }

    /// Whether more bytes came than the head says; they were cut off.
    pub(crate) fn has_excess(&self) -> bool {
        self.behind == Behind::Excess
    }

    /// The program has ended its output.
    pub(crate) fn end(&mut self) -> Result<(), Garbled> {
        match self.stage {
            Stage::Head { .. } | Stage::Body { left: Some(1..) } => Err(Garbled::Cut),
            Stage::Body { left: None | Some(0) } | Stage::Bodiless => Ok(()),
        }
    }
}

/// Where the body begins; none if the head has not ended. No line before `scanned` is empty.
fn end_of_head(bytes: &[u8], scanned: &mut usize) -> Result<Option<usize>, Garbled> {
    while let Some(length) = memchr::memchr(b'\n', &bytes[*scanned..]) {
        let line = &bytes[*scanned..*scanned + length];
        *scanned += length + 1;
        if *scanned > HEAD_BYTES_MAX {
            return Err(Garbled::TooLarge);
        }
        if matches!(line, b"" | b"\r") {
            return Ok(Some(*scanned));
        }
    }
    if bytes.len() > HEAD_BYTES_MAX { Err(Garbled::TooLarge) } else { Ok(None) }
}

/// What a head says besides the fields for the client.
#[derive(Debug, Default)]
struct Marks<'h> {
    status: Option<u16>,
    location: Option<&'h [u8]>,
    hand_over: Option<HandOver>,
    /// Of a line `HTTP/1.1 200 OK`, before which a field Status says nothing.
    is_http: bool,
}

/// Reads a whole head, gives it on, and says what is next.
fn begin(head: &[u8], wants: Wants, said: &mut impl FnMut(Said<'_>)) -> Result<Stage, Garbled> {
    let mut response = ResponseHead { status: 0, fields: Vec::with_capacity(head.len()), length: None };
    let mut marks = Marks::default();
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
    if let Some(status) = lines.peek().and_then(|line| line.strip_prefix(b"HTTP/1.")) {
        // The digit of the version and a space.
        marks.status = Some(status_of(status.get(2..).unwrap_or_default())?);
        marks.is_http = true;
        lines.next();
    }
    let mut fields = 0;
    for line in lines.take_while(|line| !line.is_empty()) {
        fields += 1;
        if fields > FIELDS_MAX {
            return Err(Garbled::TooLarge);
        }
        read_field(line, &mut response, &mut marks)?;
    }
    if fields == 0 && !marks.is_http {
        return Err(Garbled::Head("it has no field"));
    }
    Ok(decide(response, marks, wants, said))
}

/// Reads the line of a field.
fn read_field<'h>(line: &'h [u8], response: &mut ResponseHead, marks: &mut Marks<'h>) -> Result<(), Garbled> {
    let colon = memchr::memchr(b':', line).ok_or(Garbled::Head("a line of it is no field"))?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if !is_token(name) {
        return Err(Garbled::Head("the name of a field is no token"));
    }
    if value.iter().any(|&byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        return Err(Garbled::Head("the value of a field has a control byte"));
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match name.len() {
        6 if is("status") => {
            if !marks.is_http {
                marks.status = Some(status_of(value)?);
            }
            return Ok(());
        }
        8 if is("location") => marks.location = Some(value),
        10 if is("x-sendfile") => {
            marks.hand_over = Some(HandOver::File(value.to_vec()));
            return Ok(());
        }
        14 if is("content-length") => {
            let length = decimal(value).ok_or(Garbled::Head("its Content-Length is no number"))?;
            if response.length.is_some_and(|before| before != length) {
                return Err(Garbled::Head("it has two lengths"));
            }
            response.length = Some(length);
            return Ok(());
        }
        16 if is("x-accel-redirect") => {
            marks.hand_over = Some(HandOver::Path(value.to_vec()));
            return Ok(());
        }
        // Those of a connection, which the program does not have: the server frames the body itself.
        2 if is("te") => return Ok(()),
        7 if is("trailer") || is("upgrade") => return Ok(()),
        10 if is("connection") || is("keep-alive") => return Ok(()),
        16 if is("proxy-connection") => return Ok(()),
        17 if is("transfer-encoding") => return Ok(()),
        _ => {}
    }
    for part in [name, b": ", value, b"\r\n"] {
        response.fields.extend_from_slice(part);
    }
    Ok(())
}

/// The status at the beginning of a value or of the rest of a status line.
fn status_of(text: &[u8]) -> Result<u16, Garbled> {
    const BAD: Garbled = Garbled::Head("its status is none of 200 to 599");
    let (digits, rest) = text.split_at_checked(3).ok_or(BAD)?;
    if !matches!(rest.first(), None | Some(b' ')) || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    if (200..=599).contains(&status) { Ok(status) } else { Err(BAD) }
}

/// Whether this is a path of this server: two slashes begin the name of another one.
fn is_path(text: &[u8]) -> bool {
    matches!(text, [b'/'] | [b'/', b'!'..=b'.' | b'0'..=b'~' | 0x80.., ..])
}

/// Gives the head on.
fn decide(mut head: ResponseHead, marks: Marks<'_>, wants: Wants, said: &mut impl FnMut(Said<'_>)) -> Stage {
    let location = marks.location;
    head.status = match (marks.status, location) {
        (Some(status), _) => status,
        (None, Some(path)) if is_path(path) && marks.hand_over.is_none() => {
            said(Said::Instead(Instead::Path(path.to_vec())));
            return Stage::Bodiless;
        }
        (None, Some(_)) => 302,
        (None, None) => 200,
    };
    if let Some(to) = marks.hand_over {
        // An empty name is what programs say that hand nothing over.
        let is_fit = match &to {
            HandOver::Path(path) => is_path(path),
            HandOver::File(file) => !file.is_empty(),
        };
        if is_fit {
            head.length = None;
            said(Said::Instead(Instead::HandOver { to, head }));
            return Stage::Bodiless;
        }
    }
    let (length, status) = (head.length, head.status);
    said(Said::Head(head));
    if wants == Wants::Head || matches!(status, 204 | 304) { Stage::Bodiless } else { Stage::Body { left: length } }
}

/// Reads the response of a program that closes its connection behind it, as those of SCGI and uwsgi do.
#[derive(Debug)]
pub(crate) struct ClosingResponse {
    response: CgiResponse,
    is_ended: bool,
}

impl ClosingResponse {
    pub(crate) fn new(wants: Wants) -> Self {
        Self { response: CgiResponse::new(wants), is_ended: false }
    }

    pub(crate) fn wants(&self) -> Wants {
        self.response.wants()
    }

    /// Reads a piece; returns how many of its bytes belong to the response. After [`Said::End`] none do.
    ///
    /// # Errors
    ///
    /// [`Garbled`] if it is no response.
    pub(crate) fn read(&mut self, input: &[u8], said: &mut impl FnMut(Said<'_>)) -> Result<usize, Garbled> {
        if self.is_ended {
            return Ok(0);
        }
        self.response.read(input, said)?;
        // A response whose length is known need not wait for the end of the connection.
        if self.response.is_whole() {
            self.is_ended = true;
            said(Said::End);
        }
        Ok(input.len())
    }

    /// The connection has ended.
    ///
    /// # Errors
    ///
    /// [`Garbled::Cut`] if the response was not whole.
    pub(crate) fn end_of_input(&mut self, said: &mut impl FnMut(Said<'_>)) -> Result<(), Garbled> {
        if !self.is_ended {
            self.response.end()?;
            self.is_ended = true;
            said(Said::End);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What was said, with pieces of the body joined, and how it ended.
    fn read(pieces: &[&[u8]], wants: Wants) -> (Vec<String>, Result<(), Garbled>) {
        let mut response = ClosingResponse::new(wants);
        let (mut parts, mut body) = (Vec::new(), Vec::new());
        let mut said = |part: Said<'_>| match part {
            Said::Body(bytes) => body.extend_from_slice(bytes),
            part => parts.push(format!("{part:?}")),
        };
        let outcome = pieces.iter().try_for_each(|piece| response.read(piece, &mut said).map(drop));
        let outcome = outcome.and_then(|()| response.end_of_input(&mut said));
        parts.push(body.escape_ascii().to_string());
        (parts, outcome)
    }

    fn head(text: &str) -> Result<ResponseHead, Garbled> {
        let mut found = None;
        let mut said = |part: Said<'_>| match part {
            Said::Head(head) => found = Some(head),
            Said::Body(_) | Said::End => {}
            other => panic!("{other:?}"),
        };
        CgiResponse::new(Wants::All).read(text.as_bytes(), &mut said)?;
        Ok(found.expect("a head"))
    }

    fn instead(text: &str) -> Instead {
        let mut found = None;
        let mut said = |part: Said<'_>| match part {
            Said::Instead(instead) => found = Some(instead),
            other => panic!("{other:?}"),
        };
        let mut response = CgiResponse::new(Wants::All);
        response.read(text.as_bytes(), &mut said).expect("a response");
        assert!(response.is_whole() && !response.has_excess());
        found.expect("something instead")
    }

    #[test]
    fn heads_have_a_status_and_fields() {
        for (text, status, fields, length) in [
            ("Content-Type: a/b\n\nx", 200, "Content-Type: a/b\r\n", None),
            ("Status: 404 Not Found\r\nX:y\r\n\r\n", 404, "X: y\r\n", None),
            ("X: y\r\nstatus: 500\r\n\r\n", 500, "X: y\r\n", None),
            ("Location: http://a/\n\n", 302, "Location: http://a/\r\n", None),
            ("Location: //a/b\n\n", 302, "Location: //a/b\r\n", None),
            ("Location: x\n\n", 302, "Location: x\r\n", None),
            ("Location: /x\nStatus: 301\n\n", 301, "Location: /x\r\n", None),
            ("HTTP/1.1 201 Created\r\nA: b\r\n\r\n", 201, "A: b\r\n", None),
            ("HTTP/1.0 201\nStatus: 404\nA: b\n\n", 201, "A: b\r\n", None),
            ("HTTP/1.1 200 OK\r\n\r\n", 200, "", None),
            ("A: \t b \t\nContent-Length: 3\nContent-Length: 3\n\nabc", 200, "A: b\r\n", Some(3)),
            ("A: b\nConnection: x\nTransfer-Encoding: chunked\nUpgrade: h2\n\n", 200, "A: b\r\n", None),
            ("A: b\nX-Sendfile:\nX-Accel-Redirect:\n\n", 200, "A: b\r\n", None),
            ("A: b\nX-Accel-Redirect: //evil/x\n\n", 200, "A: b\r\n", None),
        ] {
            let fields = fields.as_bytes().to_vec();
            assert_eq!(head(text), Ok(ResponseHead { status, fields, length }), "{text:?}");
        }
    }

    #[test]
    fn bad_heads_are_refused() {
        for text in [
            "\n",
            "\r\n\r\n",
            "x\n\n",
            ": y\n\n",
            "a b: c\n\n",
            "A: b\n folded: x\n\n",
            "A: b\rc\n\n",
            "A: b\0\n\n",
            "Status: 99\n\n",
            "Status: 600\n\n",
            "Status: 100\n\n",
            "Status: 2000\n\n",
            "Status: x\n\n",
            "Status:\n\n",
            "HTTP/1.1 \n\n",
            "HTTP/1.1\n\n",
            "HTTP/1.1 101 x\n\n",
            "HTTP/2 200\nA: b\n\n",
            "Content-Length: -1\n\n",
            "Content-Length: 1\nContent-Length: 2\n\n",
        ] {
            assert!(matches!(head(text), Err(Garbled::Head(_))), "{text:?}");
        }
        let many = "A: b\n".repeat(FIELDS_MAX + 1) + "\n";
        assert_eq!(head(&many), Err(Garbled::TooLarge));
        let long = "A: ".to_owned() + &"b".repeat(HEAD_BYTES_MAX);
        assert_eq!(CgiResponse::new(Wants::All).read(long.as_bytes(), &mut |_| {}), Err(Garbled::TooLarge));
    }

    #[test]
    fn a_program_may_leave_the_answer_to_the_server() {
        assert_eq!(instead("Location: /a?b\n\nbody"), Instead::Path(b"/a?b".to_vec()));
        assert_eq!(instead("Location: /\n\n"), Instead::Path(b"/".to_vec()));
        let head = |status| ResponseHead { status, fields: b"Content-Type: a/b\r\n".to_vec(), length: None };
        let text = "Content-Type: a/b\nContent-Length: 4\nX-Accel-Redirect: /hidden/x\n\nbody";
        let to = HandOver::Path(b"/hidden/x".to_vec());
        assert_eq!(instead(text), Instead::HandOver { to, head: head(200) });
        let text = "Status: 403\nContent-Type: a/b\nX-Sendfile: /srv/x y\n\n";
        let to = HandOver::File(b"/srv/x y".to_vec());
        assert_eq!(instead(text), Instead::HandOver { to, head: head(403) });
    }

    #[test]
    fn bodies_have_the_length_that_is_said() {
        let text = |wants, text: &str| {
            let (parts, outcome) = read(&[text.as_bytes()], wants);
            (parts.len(), parts.last().cloned().unwrap_or_default(), outcome)
        };
        assert_eq!(text(Wants::All, "A: b\n\nbody"), (3, "body".into(), Ok(())));
        assert_eq!(text(Wants::All, "A: b\nContent-Length: 2\n\nbody"), (3, "bo".into(), Ok(())));
        assert_eq!(text(Wants::All, "A: b\nContent-Length: 5\n\nbody"), (2, "body".into(), Err(Garbled::Cut)));
        assert_eq!(text(Wants::All, "A: b\n"), (1, String::new(), Err(Garbled::Cut)));
        assert_eq!(text(Wants::All, ""), (1, String::new(), Err(Garbled::Cut)));
        assert_eq!(text(Wants::Head, "A: b\nContent-Length: 5\n\n"), (3, String::new(), Ok(())));
        assert_eq!(text(Wants::All, "Status: 304\nContent-Length: 5\n\n"), (3, String::new(), Ok(())));
        assert_eq!(text(Wants::All, "Status: 204\n\nbody"), (3, String::new(), Ok(())));
        let mut response = CgiResponse::new(Wants::All);
        response.read(b"Content-Length: 1\n\nab", &mut |_| {}).expect("a response");
        assert!(response.has_excess() && response.is_whole());
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(
            text in "(HTTP/1.1 200 OK\r?\n)?((Status: [1-6][0-9]{2}|Content-Length: [0-9]|Location: /?x|X-Sendfile: x|[aB]{1,3}: ?[xy]{0,4}|.)\r?\n){0,5}(\r?\n)?[a-z\n]{0,12}",
            cuts in proptest::collection::vec(0_usize..200, 0..8),
        ) {
            let input = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(input.len())).collect();
            cuts.push(input.len());
            cuts.sort_unstable();
            let mut start = 0;
            let mut pieces = Vec::new();
            for cut in cuts {
                pieces.push(&input[start..cut]);
                start = cut;
            }
            prop_assert_eq!(read(&pieces, Wants::All), read(&[input], Wants::All));
        }

        #[test]
        fn any_bytes_are_read_without_panic(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&[&input], Wants::All);
        }
    }
}
