//! One request on a connection of HTTP/2, and what has come of its response (RFC 9113 section 5.1).

use crate::upstream::message::{Garbled, ResponseHead, Said};
use std::collections::VecDeque;

/// Bytes of a response that are held until its client takes them: the window of a stream.
pub(crate) const HELD_BYTES_MAX: i64 = 64 << 10;
/// Interim responses that wait to be passed on.
const INTERIMS_MAX: usize = 32;

/// What the response is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expects {
    Response,
    /// That to HEAD, which has no body.
    HeadOnly,
    /// A tunnel (RFC 8441): what the client of an upgrade is told beside the fields of the response.
    Tunnel(Vec<u8>),
}

/// Why a stream has ended before its response was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFault {
    /// The upstream has not looked at the request: REFUSED_STREAM, or GOAWAY (RFC 9113 section 8.7).
    Refused,
    /// RST_STREAM with another code.
    Reset(u32),
    /// What came is no response.
    Garbled(Garbled),
    /// The connection has ended.
    Lost,
}

/// How far the response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    Head,
    /// So many bytes of the body are to come, if that was said.
    Body(Option<u64>),
    /// Nothing more.
    Nothing,
}

#[derive(Debug)]
enum Early {
    Interim(u16, Vec<u8>),
    Head(ResponseHead),
}

/// A request, and what has come of its response.
#[derive(Debug)]
pub(crate) struct Stream<U> {
    pub(super) user: U,
    /// It stands among those whose users are to be told.
    pub(super) is_told: bool,
    pub(super) expects: Expects,
    coming: Coming,
    early: VecDeque<Early>,
    body: Vec<u8>,
    /// Of these so many bytes were taken.
    taken: usize,
    trailers: Vec<u8>,
    end: Option<Result<(), StreamFault>>,
    /// Bytes that the upstream may send.
    window_in: i64,
    /// Bytes that were taken and not given back to its window.
    credit: i64,
    /// Bytes that the upstream takes.
    pub(super) window_out: i64,
    /// We have not ended the request.
    pub(super) is_sending: bool,
    /// Its user has more to send than there is room for.
    pub(super) wants_room: bool,
}

impl<U> Stream<U> {
    pub(super) fn new(user: U, expects: Expects, window_out: i64, is_sending: bool) -> Self {
        Self {
            user,
            is_told: false,
            expects,
            coming: Coming::Head,
            early: VecDeque::new(),
            body: Vec::new(),
            taken: 0,
            trailers: Vec::new(),
            end: None,
            window_in: HELD_BYTES_MAX,
            credit: 0,
            window_out,
            is_sending,
            wants_room: false,
        }
    }

    /// Whether the upstream may send more.
    pub(super) fn is_receiving(&self) -> bool {
        self.coming != Coming::Nothing
    }

    /// Ends it before its time.
    pub(super) fn fail(&mut self, fault: StreamFault) {
        self.coming = Coming::Nothing;
        self.is_sending = false;
        // What is whole stays so.
        self.end.get_or_insert(Err(fault));
    }

    /// Takes up a head; it is the last of the stream if `ends`.
    pub(super) fn take_head(&mut self, mut head: ResponseHead, ends: bool) -> Result<(), Garbled> {
        if head.status < 200 {
            if ends || head.status == 101 {
                return Err(Garbled::Head("its interim response is none of HTTP/2"));
            }
            if self.early.len() >= INTERIMS_MAX {
                return Err(Garbled::Head("it has too many interim responses before it"));
            }
            if head.status != 100 {
                self.early.push_back(Early::Interim(head.status, head.fields));
            }
            return Ok(());
        }
        let mut left = head.length;
        match &mut self.expects {
            Expects::Tunnel(lines) if head.status < 300 => {
                (head.status, head.length, left) = (101, None, None);
                head.fields.append(lines);
            }
            Expects::HeadOnly => left = Some(0),
            _ => {}
        }
        if matches!(head.status, 204 | 304) {
            left = Some(0);
            head.length = head.length.filter(|_| head.status == 304);
        }
        self.early.push_back(Early::Head(head));
        self.coming = Coming::Body(left);
        if ends { self.finish() } else { Ok(()) }
    }

    /// Whether its head has come.
    pub(super) fn has_head(&self) -> bool {
        self.coming != Coming::Head
    }

    /// Takes up bytes of the body, of `frame_bytes` with their padding; false if there was no window for them.
    pub(super) fn take_body(&mut self, content: &[u8], frame_bytes: i64, ends: bool) -> Result<bool, Garbled> {
        let Coming::Body(left) = &mut self.coming else {
            return Err(Garbled::Body("it comes before its head"));
        };
        self.window_in -= frame_bytes;
        if self.window_in < 0 {
            return Ok(false);
        }
        // The padding is not held.
        self.credit += frame_bytes - content.len() as i64;
        if let Some(left) = left {
            *left = left.checked_sub(content.len() as u64).ok_or(Garbled::Body("it is longer than was said"))?;
        }
        if self.taken > 0 {
            self.body.drain(..self.taken);
            self.taken = 0;
        }
        self.body.extend_from_slice(content);
        if ends {
            self.finish()?;
        }
        Ok(true)
    }

    /// Takes up the fields behind the body.
    pub(super) fn take_trailers(&mut self, lines: Vec<u8>) -> Result<(), Garbled> {
        self.trailers = lines;
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Garbled> {
        if matches!(self.coming, Coming::Body(Some(1..))) {
            return Err(Garbled::Cut);
        }
        self.coming = Coming::Nothing;
        self.end = Some(Ok(()));
        Ok(())
    }

    /// Gives on what has come, of the body no more than there is room for; returns whether that was anything.
    ///
    /// # Errors
    ///
    /// Why the stream has ended, behind all that has come before.
    pub(super) fn take(&mut self, room: usize, say: &mut dyn FnMut(Said<'_>)) -> Result<bool, StreamFault> {
        let mut has_moved = false;
        while let Some(early) = self.early.pop_front() {
            has_moved = true;
            match early {
                Early::Interim(status, fields) => say(Said::Interim { status, fields: &fields }),
                Early::Head(head) => {
                    // There is room for the body once the head was given on.
                    say(Said::Head(head));
                    return Ok(true);
                }
            }
        }
        let held = &self.body[self.taken..];
        let bytes = held.len().min(room);
        if bytes > 0 {
            say(Said::Body(&held[..bytes]));
            has_moved = true;
            self.taken += bytes;
            self.credit += bytes as i64;
        }
        if self.taken < self.body.len() {
            return Ok(has_moved);
        }
        // Its memory is given back: many streams mostly wait.
        (self.body, self.taken) = (Vec::new(), 0);
        match self.end {
            Some(Ok(())) => {
                if !self.trailers.is_empty() {
                    say(Said::Trailers(&std::mem::take(&mut self.trailers)));
                }
                say(Said::End);
                Ok(true)
            }
            Some(Err(fault)) if !has_moved => Err(fault),
            _ => Ok(has_moved),
        }
    }

    /// Bytes that its window is to be opened by, once that is worth a frame.
    pub(super) fn take_credit(&mut self) -> Option<u32> {
        if self.credit < HELD_BYTES_MAX / 2 || !self.is_receiving() {
            return None;
        }
        let credit = std::mem::take(&mut self.credit);
        self.window_in += credit;
        u32::try_from(credit).ok()
    }
}
