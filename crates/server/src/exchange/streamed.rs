//! A request that an application answers: its handler, its body, and the response as it becomes ready.

use super::application::{Answerer, Begin, Caller, Continued, Handler, PassedOn, RequestHead};
use super::relayed_form::{FRAME_BYTES_MAX, put_head};
use super::reply::Reply;
use super::request_body::RequestBody;
use crate::files::head::Persistence;
use crate::http::framing::Framing;
use crate::http::request::Method;
use std::fmt;
use std::io::Write as _;
use std::rc::Rc;

/// How far the application is.
enum Stage {
    /// It was chosen for the request, and does not know of it yet.
    Chosen(Answerer),
    /// It answers.
    Running(Box<dyn Handler>),
    /// Another server makes the response.
    Continued(Box<dyn Continued>),
    /// It has answered.
    Over,
    /// It gave up, or was given up.
    Failed,
    /// Its client did not do its part, and is answered otherwise.
    Cancelled,
}

/// How a response is framed that is given piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// By the protocol, or by a length in its head.
    Outside,
    /// By chunks (RFC 9112 section 7.1).
    Chunks,
    /// By the end of the connection, as HTTP/1.0 has it.
    UntilClose,
    /// Not at all: what comes is passed on as it is, in both directions.
    Tunnel,
}

/// How a response is to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// As [`crate::http::request::Request::minor`] has it.
    pub(crate) minor: u8,
    pub(crate) persistence: Persistence,
    /// How long the application may keep the client waiting, in milliseconds.
    pub(crate) patience_ms: u64,
}

/// How far a response came that goes on at another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Far {
    /// As in [`Manner`].
    pub(crate) minor: u8,
    /// Whether the connection ends behind it, in HTTP/1.
    pub(crate) closes: bool,
    /// Whether only that says where its body ends.
    pub(crate) ends_with_connection: bool,
    /// Bytes that the socket has taken.
    pub(crate) sent_bytes: u64,
    /// Of what was made of it, so many are neither of the head nor of the body.
    pub(crate) framing_bytes: u64,
}

/// Why a response ends otherwise than its application wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// The application gave up, or broke its word.
    Aborted,
    /// It kept the client waiting for too long.
    Late,
    /// It answers with this error and nothing else.
    Refused(u16),
}

/// Such a request.
pub(crate) struct Streamed {
    stage: Stage,
    pub(crate) body: RequestBody,
    pub(super) reply: Reply,
    pub(super) frames: Frames,
    pub(super) manner: Manner,
    /// Until then the application may keep the client waiting.
    pub(super) patience_until_ms: u64,
    /// Bytes of pieces that were sent and have given their place to others.
    pub(super) released_bytes: u64,
    /// Bytes of these and of the piece that is sent which are neither of the head nor of the body.
    pub(super) framing_bytes: u64,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Chosen(answerer) => format!("{answerer:?}"),
            Stage::Running(handler) => format!("{handler:?}"),
            Stage::Continued(handler) => format!("{handler:?}"),
            Stage::Over => "over".to_owned(),
            Stage::Failed => "given up".to_owned(),
            Stage::Cancelled => "cancelled".to_owned(),
        };
        formatter.debug_struct("Streamed").field("stage", &stage).field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl Streamed {
    /// A request that was routed to an application.
    pub(crate) fn chosen(answerer: Answerer) -> Self {
        Self {
            stage: Stage::Chosen(answerer),
            body: RequestBody::default(),
            reply: Reply::new(false),
            frames: Frames::Outside,
            manner: Manner { minor: 1, persistence: Persistence::Closes, patience_ms: 0 },
            patience_until_ms: u64::MAX,
            released_bytes: 0,
            framing_bytes: 0,
        }
    }

    /// A response whose head has gone out elsewhere: the handler gives what the client gets of it, framed.
    pub(crate) fn continued(handler: Box<dyn Continued>, far: Far) -> Self {
        let persistence = if far.closes { Persistence::Closes } else { Persistence::Stays };
        let mut body = RequestBody::default();
        body.end();
        Self {
            stage: Stage::Continued(handler),
            body,
            reply: Reply::continued(),
            frames: if far.ends_with_connection { Frames::UntilClose } else { Frames::Outside },
            // The server that makes it knows how long that may take.
            manner: Manner { minor: far.minor, persistence, patience_ms: u64::MAX },
            patience_until_ms: u64::MAX,
            released_bytes: far.sent_bytes,
            framing_bytes: far.framing_bytes,
        }
    }

    /// Whether another server makes it, and there is more of it than what has come.
    pub(crate) fn is_continued(&self) -> bool {
        matches!(self.stage, Stage::Continued(_)) && !self.reply.is_ended()
    }

    /// Ends here what another server makes, for a third one to go on with: what has come and was not sent is put behind
    /// `before`, framed as it came. None if that cannot be; then the response is over.
    pub(crate) fn pass_on(&mut self, mut before: Vec<u8>) -> Option<PassedOn> {
        let Stage::Continued(handler) = std::mem::replace(&mut self.stage, Stage::Failed) else { return None };
        // Of at most 64 KiB that came.
        let mut framing = std::mem::take(&mut self.reply.framing_bytes) as u32;
        for piece in self.reply.held.chunks(FRAME_BYTES_MAX) {
            put_head(&mut before, std::mem::take(&mut framing), piece.len());
            before.extend_from_slice(piece);
        }
        if framing > 0 {
            put_head(&mut before, framing, 0);
        }
        let PassedOn { socket, before: rest } = handler.pass_on()?;
        before.extend_from_slice(&rest);
        Some(PassedOn { socket, before })
    }

    /// How far the response came, for another server that goes on sending it.
    pub(crate) fn far(&self, sent_bytes: u64) -> Far {
        Far {
            minor: self.manner.minor,
            closes: self.closes(),
            ends_with_connection: self.ends_with_connection(),
            sent_bytes,
            framing_bytes: self.framing_bytes,
        }
    }

    /// Bytes of framing so far, those of the piece that is sent included.
    pub(crate) fn framing_bytes(&self) -> u64 {
        self.framing_bytes
    }

    /// Has the application begin.
    pub(super) fn begin(&mut self, head: &RequestHead<'_>, caller: &Caller<'_>, manner: Manner) {
        let Stage::Chosen(answerer) = &self.stage else { return };
        if head.request.framing == Framing::None && head.request.minor < 2 {
            self.body.end();
        }
        if head.request.minor >= 2 && head.request.method_text == "CONNECT" {
            // Unless the response says otherwise. Until then the client owes nothing.
            self.frames = Frames::Tunnel;
        }
        self.manner = manner;
        self.reply.is_bodiless = head.request.method == Method::Head;
        let handler = match answerer {
            Answerer::Application(application) => application.0.begin(head, caller.wake()),
            Answerer::Local(local) => {
                self.manner.patience_ms = u64::MAX;
                Rc::clone(local).begin(head, caller, self.body.is_ended())
            }
        };
        self.stage = Stage::Running(handler);
    }

    /// Puts something around what begins the answer, if that is of the loop and has not begun. An application of the
    /// program has no steps that the server knows of.
    pub(super) fn wrap(&mut self, wrap: impl FnOnce(Rc<dyn Begin>) -> Rc<dyn Begin>) {
        if let Stage::Chosen(Answerer::Local(local)) = &mut self.stage {
            *local = wrap(Rc::clone(local));
        }
    }

    /// Whether it has begun.
    pub(crate) fn is_begun(&self) -> bool {
        !matches!(self.stage, Stage::Chosen(_))
    }

    /// Whether nothing more comes of it than what was moved on.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over | Stage::Failed | Stage::Cancelled)
    }

    /// Whether the connection ends behind the response, in HTTP/1.
    pub(crate) fn closes(&self) -> bool {
        self.manner.persistence == Persistence::Closes
    }

    /// Whether the application has kept the client waiting for too long.
    pub(super) fn is_late(&self, now_ms: u64) -> bool {
        self.patience_until_ms <= now_ms
    }

    /// Whether it gave up, or was given up.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.stage, Stage::Failed)
    }

    /// Whether its client did not do its part.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(self.stage, Stage::Cancelled)
    }

    pub(super) fn cancel(&mut self) {
        self.stage = Stage::Cancelled;
        self.manner.persistence = Persistence::Closes;
    }

    pub(super) fn give_up(&mut self) {
        self.stage = Stage::Failed;
    }

    /// Whether only the connection's end says where the body ends.
    pub(crate) fn ends_with_connection(&self) -> bool {
        // Behind an upgrade each side ends when it wants to.
        self.frames == Frames::UntilClose
    }

    /// Has the handler go on. What it gives is held until it is moved on. The client has taken all that was given before
    /// or has not; with `took_now` it took some since the last time, so that the application owes something only now.
    pub(super) fn drive(&mut self, is_taken: bool, took_now: bool, now_ms: u64) -> Result<(), GivenUp> {
        let handler: &mut dyn Handler = match &mut self.stage {
            Stage::Running(handler) => &mut **handler,
            Stage::Continued(handler) => &mut **handler,
            Stage::Chosen(_) | Stage::Over | Stage::Failed | Stage::Cancelled => return Ok(()),
        };
        if self.reply.is_ended() {
            return Ok(());
        }
        let is_first = self.patience_until_ms == u64::MAX;
        self.reply.is_full = !is_taken;
        let before = (self.body.bytes().len(), self.reply.held.len(), self.reply.has_begun());
        let went = handler.go_on(&mut self.body, &mut self.reply);
        went.map_err(|_| self.reply.refused.map_or(GivenUp::Aborted, GivenUp::Refused))?;
        let has_moved = before != (self.body.bytes().len(), self.reply.held.len(), self.reply.has_begun());
        // While it is the client's turn the application owes nothing.
        if has_moved || is_first || took_now || !is_taken || self.body.is_owed() {
            self.patience_until_ms = now_ms.saturating_add(self.manner.patience_ms);
        } else if now_ms >= self.patience_until_ms && !self.reply.is_ended() {
            return Err(GivenUp::Late);
        }
        Ok(())
    }

    /// Moves what the handler has given to the end of `out`, framed; ends the response where it has ended.
    pub(super) fn move_on(&mut self, out: &mut Vec<u8>) {
        let held = &mut self.reply.held;
        let before = out.len();
        let body_bytes = held.len();
        if !held.is_empty() {
            match self.frames {
                Frames::Tunnel if out.is_empty() => *out = std::mem::take(held),
                Frames::Outside | Frames::UntilClose if out.is_empty() => std::mem::swap(out, held),
                Frames::Outside | Frames::UntilClose | Frames::Tunnel => out.append(held),
                Frames::Chunks => {
                    // Writing to memory does not fail.
                    let _ = write!(out, "{body_bytes:x}\r\n");
                    out.append(held);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        if self.reply.is_ended() {
            if self.frames == Frames::Chunks {
                out.extend_from_slice(b"0\r\n");
                out.extend_from_slice(&self.reply.trailers);
                out.extend_from_slice(b"\r\n");
            }
            // The handler is dropped once it is not needed, and not only when the client has taken the last byte.
            self.stage = Stage::Over;
        }
        self.framing_bytes += (out.len() - before - body_bytes) as u64 + std::mem::take(&mut self.reply.framing_bytes);
    }

    /// Lines of fields behind the body, for protocols that have a frame for them.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.reply.trailers
    }
}
