//! The response of an application: its head, its body as a stream with a bound, its trailers.

use crate::http::request::is_token;
use std::fmt::Write as _;

/// Bytes of a response that an application may give before the client has taken them.
pub const OFFERED_BYTES_MAX: usize = 64 << 10;
/// Bytes of the fields of a head, or of trailers.
const FIELD_BYTES_MAX: usize = 32 << 10;

/// Why something is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// There is one head.
    #[error("the response has begun already")]
    Begun,
    /// A body needs a head before it.
    #[error("the response has not begun: call `begin` first")]
    NotBegun,
    /// A status that is none, or that of an interim response.
    #[error("{0} is no status of a response: 200 to 599 are")]
    Status(u16),
    /// A field that HTTP does not allow here, or that the server says itself.
    #[error("the field {0:?} cannot be set: it is no field, or the server frames messages by it")]
    Field(String),
    /// Fields of more than 32 KiB.
    #[error("the fields are larger than {FIELD_BYTES_MAX} bytes")]
    TooLarge,
    /// The body was said to be longer.
    #[error("the body lacks {0} bytes of the length that its head says")]
    Short(u64),
}

/// How far the response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There is no head yet.
    Awaited,
    /// The head is there; so many bytes of the body are to come, if its length was said.
    Body { left: Option<u64> },
    /// The body has ended.
    Ended,
}

/// What a head is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadOf {
    /// A response of this server: Date and Server are added.
    Response,
    /// A response of another server: they are added where it does not say them.
    Relayed,
    /// The connection is something else from here on (RFC 9110 section 7.8): what follows has no framing.
    Switch,
}

/// A head that is to be written.
#[derive(Debug)]
pub(crate) struct ReplyHead {
    pub(crate) status: u16,
    /// Lines of fields.
    pub(crate) fields: Vec<u8>,
    /// Bytes of the body, if that was said.
    pub(crate) length: Option<u64>,
    pub(crate) of: HeadOf,
}

/// The response to a request, as an application gives it: [`begin`](Self::begin), then [`write`](Self::write), then
/// [`end`](Self::end).
#[derive(Debug)]
pub struct Reply {
    stage: Stage,
    /// Not written yet.
    pub(super) head: Option<ReplyHead>,
    /// Bytes of the body that were not moved on yet.
    pub(super) held: Vec<u8>,
    /// Lines of fields behind the body.
    pub(super) trailers: Vec<u8>,
    /// The client has not taken what was given before.
    pub(super) is_full: bool,
    /// No body is sent, as for HEAD, 204 and 304.
    pub(super) is_bodiless: bool,
    /// The error that takes its place.
    pub(super) refused: Option<u16>,
    /// Interim responses that were not written yet: the status of each, and its lines of fields.
    pub(super) interims: Vec<(u16, Vec<u8>)>,
    /// Nanoseconds that the request waited for its turn, which are not told yet.
    waited_ns: u64,
    /// Bytes given that are neither of the head nor of the body, which are not counted yet.
    pub(super) framing_bytes: u64,
}

impl Reply {
    pub(crate) fn new(is_bodiless: bool) -> Self {
        let (held, trailers) = (Vec::new(), Vec::new());
        Self {
            stage: Stage::Awaited,
            head: None,
            held,
            trailers,
            is_full: false,
            is_bodiless,
            refused: None,
            interims: Vec::new(),
            waited_ns: 0,
            framing_bytes: 0,
        }
    }

    /// The request waited for so many nanoseconds until something could answer it.
    pub(crate) fn has_waited(&mut self, waited_ns: u64) {
        self.waited_ns += waited_ns;
    }

    /// The response goes on whose head has gone out elsewhere; what is given of it is as the client is to get it.
    pub(crate) fn continued() -> Self {
        Self { stage: Stage::Body { left: None }, ..Self::new(false) }
    }

    /// Among what is given are so many bytes of framing.
    pub(crate) fn has_framing(&mut self, bytes: u64) {
        self.framing_bytes += bytes;
    }

    /// Takes what [`Self::has_waited`] has told.
    pub(crate) fn take_waited(&mut self) -> u64 {
        std::mem::take(&mut self.waited_ns)
    }

    /// Begins the response. With `length_bytes` the body has exactly so many bytes; without it the end says so. The
    /// server adds Date and Server, and what frames the message.
    ///
    /// # Errors
    ///
    /// [`ReplyError`] says what is wrong; nothing was begun then.
    pub fn begin(&mut self, status: u16, fields: &[(&str, &str)], length_bytes: Option<u64>) -> Result<(), ReplyError> {
        if self.stage != Stage::Awaited {
            return Err(ReplyError::Begun);
        }
        if !(200..=599).contains(&status) {
            return Err(ReplyError::Status(status));
        }
        let fields = lines(fields)?;
        self.put_head(ReplyHead { status, fields, length: length_bytes, of: HeadOf::Response });
        Ok(())
    }

    fn put_head(&mut self, head: ReplyHead) {
        self.is_bodiless |= matches!(head.status, 204 | 304);
        self.stage = Stage::Body { left: head.length };
        self.head = Some(head);
    }

    /// Begins with the response of another server, whose lines of fields were filtered and checked.
    pub(crate) fn relay(&mut self, status: u16, fields: Vec<u8>, length: Option<u64>) {
        self.put_head(ReplyHead { status, fields, length, of: HeadOf::Relayed });
    }

    /// Makes the connection, or the stream, a tunnel: what comes and goes from here on is passed on as it is.
    pub(crate) fn switch(&mut self, fields: Vec<u8>) {
        self.is_bodiless = false;
        self.put_head(ReplyHead { status: 101, fields, length: None, of: HeadOf::Switch });
    }

    /// Gives an interim response, as long as there is no other; how many may be given is the caller's to bound.
    pub(crate) fn interim(&mut self, status: u16, fields: &[u8]) {
        if self.stage == Stage::Awaited {
            self.interims.push((status, fields.to_vec()));
        }
    }

    /// Whether the client has not taken all that it was given.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_full
    }

    /// The head that was given and not written yet; there may be more to be added to it.
    pub(crate) fn head_mut(&mut self) -> Option<&mut ReplyHead> {
        self.head.as_mut()
    }

    /// Takes the head that was given, for another reply.
    pub(crate) fn take_head(&mut self) -> Option<ReplyHead> {
        self.head.take()
    }

    /// The error that takes its place, if the handler has given up.
    pub(crate) fn refused(&self) -> Option<u16> {
        self.refused
    }

    /// Whether all of it was given.
    pub(crate) fn is_whole(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Begins with the head that was taken of another reply.
    pub(crate) fn begin_as(&mut self, head: ReplyHead) {
        self.put_head(head);
    }

    /// Holds the handler back that gives this one, or no longer.
    pub(crate) fn hold_back(&mut self, is_held_back: bool) {
        self.is_full = is_held_back;
    }

    /// Whether there is anything of the body that was not moved on.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The bytes of the body that were not moved on.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Forgets these bytes.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
    }

    /// Moves the bytes of the body to another reply, which has none and has a head of the same length.
    pub(crate) fn move_held(&mut self, to: &mut Self) {
        let bytes = self.held.len() as u64;
        if to.is_bodiless {
            self.held.clear();
        } else if to.held.is_empty() {
            std::mem::swap(&mut self.held, &mut to.held);
        } else {
            to.held.append(&mut self.held);
        }
        if let Stage::Body { left: Some(left) } = &mut to.stage {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Moves interim responses to another reply.
    pub(crate) fn move_interims(&mut self, to: &mut Self) {
        if to.stage == Stage::Awaited {
            to.interims.append(&mut self.interims);
        }
    }

    /// Moves the trailers to another reply.
    pub(crate) fn move_trailers(&mut self, to: &mut Self) {
        to.trailers.append(&mut self.trailers);
    }

    /// Adds lines of fields that go behind the body.
    pub(crate) fn put_trailers(&mut self, lines: &[u8]) {
        self.trailers.extend_from_slice(lines);
    }

    /// Says which error the client gets when the handler gives up before the response has begun; 502 otherwise.
    pub(crate) fn refuse(&mut self, status: u16) {
        self.refused = Some(status);
    }

    /// Ends the response of another server; false if it lacks some of its length.
    pub(crate) fn end_relayed(&mut self) -> bool {
        if matches!(self.stage, Stage::Body { left: Some(1..) }) && !self.is_bodiless {
            return false;
        }
        self.stage = Stage::Ended;
        true
    }

    /// Whether [`begin`](Self::begin) was called.
    pub fn has_begun(&self) -> bool {
        self.stage != Stage::Awaited
    }

    /// Bytes of the body that can be given now; 0 = the client takes what there is first, the body has its length, or
    /// it has not begun.
    pub fn room(&self) -> usize {
        let Stage::Body { left } = self.stage else { return 0 };
        let room = if self.is_full { 0 } else { OFFERED_BYTES_MAX - self.held.len() };
        left.map_or(room, |left| room.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    /// The same where the protocol of the other server knows where the body ends: behind the last byte of a body whose
    /// length was said, what ends the response is still to be received, such as END_REQUEST of FastCGI.
    pub(crate) fn relayed_room(&self) -> usize {
        if self.is_full || !matches!(self.stage, Stage::Body { .. }) { 0 } else { OFFERED_BYTES_MAX - self.held.len() }
    }

    /// Whether the head was written, so that what follows the request belongs to a tunnel.
    pub(crate) fn has_given_head(&self) -> bool {
        self.stage != Stage::Awaited && self.head.is_none()
    }

    /// Gives bytes of the body; returns how many there was room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        if !self.is_bodiless {
            self.held.extend_from_slice(&bytes[..taken]);
        }
        if let Stage::Body { left: Some(left) } = &mut self.stage {
            *left -= taken as u64;
        }
        taken
    }

    /// Ends the response. Trailers go where the version of HTTP has a place for them: not to HTTP/1.0, nor over
    /// HTTP/1.1 behind a body whose length was said.
    ///
    /// # Errors
    ///
    /// [`ReplyError`] if it has not begun, lacks some of its length, or a trailer is no field.
    pub fn end(&mut self, trailers: &[(&str, &str)]) -> Result<(), ReplyError> {
        match self.stage {
            Stage::Awaited => return Err(ReplyError::NotBegun),
            Stage::Body { left: Some(left @ 1..) } if !self.is_bodiless => return Err(ReplyError::Short(left)),
            Stage::Body { .. } | Stage::Ended => {}
        }
        self.trailers = lines(trailers)?;
        self.stage = Stage::Ended;
        Ok(())
    }

    pub(super) fn is_ended(&self) -> bool {
        self.stage == Stage::Ended
    }

    /// Bytes of the body, if all of it is here and nothing follows.
    pub(super) fn whole_length(&self) -> Option<u64> {
        let is_whole = self.is_ended() && !self.is_bodiless && self.trailers.is_empty();
        is_whole.then_some(self.held.len() as u64)
    }
}

/// Fields as the lines of a head.
fn lines(fields: &[(&str, &str)]) -> Result<Vec<u8>, ReplyError> {
    const FRAMING: [&str; 6] =
        ["content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "proxy-connection"];
    let mut text = String::new();
    for (name, value) in fields {
        let is_value = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        if !is_token(name.as_bytes()) || !is_value || FRAMING.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(ReplyError::Field((*name).to_owned()));
        }
        // Writing to memory does not fail.
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if text.len() > FIELD_BYTES_MAX { Err(ReplyError::TooLarge) } else { Ok(text.into_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_one_head_then_its_body_then_its_end() {
        let mut reply = Reply::new(false);
        assert_eq!((reply.write(b"early"), reply.room()), (0, 0));
        assert_eq!(reply.end(&[]), Err(ReplyError::NotBegun));
        for status in [0, 100, 103, 199, 600] {
            assert_eq!(reply.begin(status, &[], None), Err(ReplyError::Status(status)));
        }
        for (name, value) in [("a b", "c"), ("", "c"), ("a", "b\r\nc: d"), ("Content-Length", "4"), ("connection", "x")]
        {
            assert_eq!(reply.begin(200, &[(name, value)], None), Err(ReplyError::Field(name.to_owned())));
        }
        assert_eq!(reply.begin(200, &[("a", &"x".repeat(FIELD_BYTES_MAX))], None), Err(ReplyError::TooLarge));
        assert!(!reply.has_begun());
        assert_eq!(reply.begin(200, &[("A", "b")], Some(8)), Ok(()));
        assert_eq!(reply.begin(200, &[], None), Err(ReplyError::Begun));
        assert_eq!((reply.room(), reply.write(b"12345"), reply.end(&[])), (8, 5, Err(ReplyError::Short(3))));
        assert_eq!((reply.write(b"67890"), reply.room(), reply.end(&[("t", "v")])), (3, 0, Ok(())));
        assert_eq!(
            (&reply.held[..], &reply.trailers[..], reply.is_ended()),
            (&b"12345678"[..], &b"t: v\r\n"[..], true)
        );
    }

    #[test]
    fn no_more_is_given_than_its_bound_and_nothing_of_a_body_that_is_not_sent() {
        let mut reply = Reply::new(false);
        reply.begin(200, &[], None).expect("begins");
        assert_eq!(reply.write(&vec![0; OFFERED_BYTES_MAX + 5]), OFFERED_BYTES_MAX);
        assert_eq!((reply.room(), reply.write(b"x")), (0, 0));
        let mut reply = Reply::new(true);
        reply.begin(200, &[], Some(1 << 40)).expect("begins");
        assert_eq!((reply.write(b"abc"), reply.held.len(), reply.end(&[])), (3, 0, Ok(())));
    }
}
