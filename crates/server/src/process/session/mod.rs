//! A live connection as a value: what one server gives away and another one goes on with.
//!
//! It moves in these steps, of which the callers of `Control` carry the value and the socket:
//!
//! 1. *asked*: files of the responses under way are digested while the connection goes on;
//! 2. *stopped*: its loop takes it off the ring or out of epoll and makes a [`Session`] of it;
//! 3. *prepared*: the other server finds the same files by their paths and digests;
//! 4. *adopted*: a loop there makes a connection of it and goes on; or *given back*, the same where it was.

mod http2;
mod http2_form;
mod reading;
mod writing;

pub(crate) use http2::{ABANDONED_MAX, Continued, GoawayState, Http2, STREAMS_MAX, Stream, Table};

use crate::exchange::streamed::Far;
use crate::http::response::{Digest, Part, Response, Variant};
use crate::policy::codec_swap::StreamPlace;
use crate::telemetry::access_log::LineText;
use crate::tls::TlsSession;
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// The version of the form, of which a session is written in the oldest that can say it, for servers that know no other
/// one. This one has sound that may go on in another variant.
pub(crate) const VERSION: u8 = 3;
/// The version before, which has responses that another server makes.
pub(crate) const RELAYED_VERSION: u8 = 2;
/// The version before that, which has neither.
pub(crate) const PLAIN_VERSION: u8 = 1;
/// Responses of a session that another server goes on making: each has a descriptor, of which a message carries so many.
pub(crate) const RELAYS_MAX: usize = 64;
/// The protocol: HTTP/1, in the clear or not.
const HTTP1: u8 = 1;
/// The protocol: HTTP/2, in the clear or not.
const HTTP2: u8 = 2;
/// Responses of HTTP/1 under way: as many as one round answers, and some.
pub(crate) const RESPONSES_MAX: usize = 64;
/// Parts of one response.
pub(crate) const PARTS_MAX: usize = 1024;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 4096;
/// Bytes of a line of the log.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A live connection as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// The client's end of the socket.
    pub(crate) peer: SocketAddr,
    /// The client, where a proxy has passed the connection on.
    pub(crate) client: Option<SocketAddr>,
    pub(crate) ending: Ending,
    pub(crate) wait: Wait,
    /// How long it waits for that at most, in milliseconds; the largest number = without end.
    pub(crate) left_ms: u64,
    /// Bytes of a request's body that are still to be discarded.
    pub(crate) body_bytes: u64,
    /// Input that is not used up.
    pub(crate) saved: Vec<u8>,
    /// Input behind that.
    pub(crate) input: Vec<u8>,
    /// Output that no response holds any more and that was not sent.
    pub(crate) output: Vec<u8>,
    /// Where it speaks TLS.
    pub(crate) tls: Option<TlsSession>,
    /// In the order of their requests.
    pub(crate) responses: Vec<Pending>,
    /// Where it speaks HTTP/2.
    pub(crate) http2: Option<Box<Http2>>,
}

/// What the connection does once its responses are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Stays,
    Closes,
    /// It closes once the client has, or has had time to.
    Lingers,
}

/// What it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Head,
    Idle,
    Body,
    Room,
}

/// A response that is not sent to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) response: Response,
    pub(crate) status: u16,
    /// Bytes of the head proper.
    pub(crate) head_bytes: u64,
    /// Where its parts are taken from; none only without parts and pieces.
    pub(crate) content: Option<ContentName>,
    pub(crate) line: LineText,
    /// The name of the host that answers, for its counts.
    pub(crate) host: Option<String>,
    /// How far it came, where another server goes on making it; the response has no bytes then.
    pub(crate) far: Option<Far>,
    /// Where the next piece is to be taken from, if it is made piece by piece; its content is the file of that piece then,
    /// and the response is the piece that is being sent.
    pub(crate) swapped: Option<StreamPlace>,
}

/// Content by its place and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentName {
    /// The place of its site in the configuration.
    pub(crate) site: u32,
    /// From the root of that site.
    pub(crate) path: Vec<u8>,
    pub(crate) digest: Digest,
    /// Whether the form was made of the file.
    pub(crate) is_made: bool,
}

/// The session as it was before the last `bytes` bytes were given to the kernel, so that the server which goes on with it
/// gives them to the kernel again; none if that cannot be told of it, as for frames of HTTP/2.
pub fn rewind_session(session: &[u8], bytes: u64) -> Option<Vec<u8>> {
    let mut session = Session::read(session).ok()?;
    if bytes > session.known_bytes() {
        return None;
    }
    let first = &mut session.responses.first_mut()?.response;
    match &mut session.tls {
        None => first.offset -= bytes,
        Some(tls) => (*tls, first.offset) = tls.rewound(bytes, (first.offset, first.len()))?,
    }
    Some(session.write().to_vec())
}

/// The session with its response having come so far: to where the client has acknowledged. Over TLS that is a byte of the
/// records of a session that was copied. None if it has not one response that is longer than that, or something else is
/// under way as well.
pub fn place_session(session: &[u8], offset: u64) -> Option<Zeroizing<Vec<u8>>> {
    let mut session = Session::read(session).ok()?;
    let is_plain = session.http2.is_none() && session.output.is_empty();
    let [only] = session.responses.as_mut_slice() else { return None };
    let offset = match &mut session.tls {
        None => offset,
        Some(tls) => {
            let (placed, offset) = tls.placed(offset, only.response.len())?;
            *tls = placed;
            offset
        }
    };
    if !is_plain || only.far.is_some() || only.swapped.is_some() || offset >= only.response.len() {
        return None;
    }
    only.response.offset = offset;
    Some(session.write())
}

impl Session {
    /// One that has nothing but these contents, to be looked for.
    pub(crate) fn preview(
        peer: SocketAddr,
        contents: Vec<(Variant, ContentName, Option<StreamPlace>)>,
        relays: usize,
    ) -> Self {
        let pending = |(variant, content, swapped): (_, _, Option<StreamPlace>)| {
            // One byte of it: none would be no content. Of what is made in pieces the place says which file it is.
            let parts = if swapped.is_some() { Vec::new() } else { vec![Part { head_end: 0, start: 0, end: 1 }] };
            let response = Response { variant, parts, ..Response::default() };
            Pending { response, status: 200, content: Some(content), swapped, ..Pending::default() }
        };
        let far = Far { minor: 1, closes: true, ends_with_connection: false, sent_bytes: 0, framing_bytes: 0 };
        // One is enough for a server to say that it knows none.
        let relayed = (0..relays.min(1)).map(|_| Pending { status: 200, far: Some(far), ..Pending::default() });
        Self {
            peer,
            client: None,
            ending: Ending::Closes,
            wait: Wait::Idle,
            left_ms: 0,
            body_bytes: 0,
            saved: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            tls: None,
            http2: None,
            // Streams of HTTP/2 may be more; what is missing is looked for when the session comes.
            responses: relayed.chain(contents.into_iter().map(pending)).take(RESPONSES_MAX).collect(),
        }
    }

    /// How many of its responses another server goes on making.
    pub(crate) fn relays(&self) -> usize {
        self.responses.iter().filter(|pending| pending.far.is_some()).count()
    }

    /// Whether one of its responses may go on in another variant.
    pub(crate) fn is_swapped(&self) -> bool {
        self.responses.iter().any(|pending| pending.swapped.is_some())
    }

    /// How many of the bytes that were given to the kernel last it can make again.
    pub(crate) fn known_bytes(&self) -> u64 {
        // Behind what the responses know something else is still to be sent; of frames nothing is known.
        if !self.output.is_empty() || self.http2.is_some() {
            return 0;
        }
        match (&self.tls, self.responses.as_slice()) {
            (None, responses) => responses.first().map_or(0, |first| first.response.offset),
            (Some(tls), [only]) => tls.known_bytes((only.response.offset, only.response.len())),
            (Some(_), _) => 0,
        }
    }

    /// Bytes that are still to be sent.
    pub(crate) fn bytes_to_go(&self) -> u64 {
        let of = |pending: &Pending| pending.response.len().saturating_sub(pending.response.offset);
        let frames = self.http2.as_ref().map_or(0, |http2| http2.unsent.len() + http2.control.len());
        (self.output.len() + frames) as u64 + self.responses.iter().map(of).sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
