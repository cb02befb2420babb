//! What a handler answers, and how it becomes a body.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pieces of a body that wait for a client that is slow.
const PIECES_WAITING: usize = 4;
/// A piece of a body is so long at most, in bytes.
const PIECE: usize = 64 << 10;

/// Told once the last of a body is on its way, or why it is not.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// The body of an answer.
pub enum Content {
    /// All of it.
    Whole(Vec<u8>),
    /// What a reader gives, piece by piece as the client takes it.
    Stream {
        /// Read in the handler's thread.
        reader: Box<dyn Read + Send>,
        /// How many bytes it gives, if that is known; without, the client learns the end from the coding.
        length: Option<u64>,
        /// Told at the end.
        done: Done,
    },
}

impl std::fmt::Debug for Content {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => write!(formatter, "Whole({} bytes)", bytes.len()),
            Self::Stream { length, .. } => write!(formatter, "Stream({length:?} bytes)"),
        }
    }
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The status code, 100 to 999; another one is told as 500.
    pub status: u16,
    /// Header fields in their order; those that HTTP does not allow are left out. `Content-Length` is made by itself.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub content: Content,
}

impl Answer {
    /// A whole body of a media type.
    #[must_use]
    pub fn whole(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        Self { status, headers, content: Content::Whole(body.into()) }
    }

    /// A line of plain text.
    #[must_use]
    pub fn line(status: u16, text: &str) -> Self {
        Self::whole(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    /// The response, and what is still to be read for it.
    pub(crate) fn into_response(self) -> (Response<Pieces>, Option<Pump>) {
        let (body, length, pump) = match self.content {
            Content::Whole(bytes) => {
                let length = Some(bytes.len() as u64);
                (Pieces::Whole(Some(Bytes::from(bytes))), length, None)
            }
            Content::Stream { reader, length, done } => {
                let (sender, receiver) = channel(PIECES_WAITING);
                (Pieces::Stream { receiver, left: length }, length, Some(Pump { reader, sender, done }))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes()))
                && name != CONTENT_LENGTH
            {
                response.headers_mut().append(name, value);
            }
        }
        // Neither has a body, and a length would be one of something else (RFC 9110, 8.6).
        if let Some(length) = length.filter(|_| !matches!(self.status, 100..=199 | 204)) {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        (response, pump)
    }
}

/// A piece of a body, none at its end.
type Piece = io::Result<Option<Bytes>>;

/// What reads the body of an answer, in a thread that may block.
pub(crate) struct Pump {
    reader: Box<dyn Read + Send>,
    sender: Sender<Piece>,
    done: Done,
}

impl Pump {
    /// Reads to the end, as fast as the client takes it.
    pub(crate) fn run(mut self) {
        let mut buffer = vec![0; PIECE];
        let ended = loop {
            let read = match self.reader.read(&mut buffer) {
                Ok(0) => Ok(None),
                Ok(length) => Ok(Some(Bytes::copy_from_slice(&buffer[..length]))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let last = match &read {
                Ok(Some(_)) => None,
                Ok(None) => Some(Ok(())),
                Err(error) => Some(Err(io::Error::new(error.kind(), error.to_string()))),
            };
            let has_gone = self.sender.blocking_send(read).is_err();
            match last {
                // Who has all that it was told of need not hear of the end.
                Some(ended) => break ended,
                None if has_gone => {
                    break Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client went before the end"));
                }
                None => {}
            }
        };
        (self.done)(ended);
    }
}

/// A body on its way.
pub(crate) enum Pieces {
    Whole(Option<Bytes>),
    Stream { receiver: Receiver<Piece>, left: Option<u64> },
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream { receiver, left } => receiver.poll_recv(context).map(|piece| match piece {
                Some(Ok(Some(bytes))) => {
                    if let Some(left) = left {
                        *left = left.saturating_sub(bytes.len() as u64);
                    }
                    Some(Ok(Frame::data(bytes)))
                }
                Some(Ok(None)) => None,
                Some(Err(error)) => Some(Err(error)),
                // The pump has ended without a word: what breaks off must not look whole.
                None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream { left, .. } => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream { left: Some(left), .. } => SizeHint::with_exact(*left),
            Self::Stream { left: None, .. } => SizeHint::default(),
        }
    }
}
