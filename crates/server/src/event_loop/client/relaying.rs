//! Responses of a connection that has moved, of which this server goes on making the bytes: what is asked for them was
//! asked here. Each goes to the other node by a socket, in the form of [`crate::exchange::relayed_form`].

use crate::exchange::life::Exchange;
use crate::exchange::relayed_form::{FRAME_BYTES_MAX, put_end, put_head};
use crate::exchange::send::{Sent, Sink, flush};
use crate::http1::connection::Turn;
use crate::io::clock::Clock;
use crate::loop_state::LoopState;
use crate::upstream::links::Link;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;

/// Bytes that are made before the socket has taken those before.
const MADE_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// The responses of a connection that has moved.
#[derive(Debug)]
pub(crate) struct Relaying(Vec<Relay>);

/// One response.
#[derive(Debug)]
pub(crate) struct Relay {
    exchange: Exchange,
    link: Link,
    /// Whether trailers go along: in HTTP/1 they are among the bytes of the body.
    has_trailers: bool,
    /// Bytes of framing that the other node was told of.
    framing_bytes: u64,
    made: Made,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Going,
    /// All of it was made; the rest of that goes out.
    Made,
}

/// What becomes of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Waits,
    /// It went out whole.
    Ended,
    /// It cannot go on, or the other node takes no more of it.
    Broken,
}

/// Frames that are made, and how much of them has gone out.
#[derive(Debug, Default)]
struct Made {
    bytes: Vec<u8>,
    sent: usize,
    /// Framing that stands in the next frame.
    framing: u32,
}

impl Relaying {
    pub(crate) fn new(relays: Vec<Relay>) -> Self {
        Self(relays)
    }

    /// Goes on with what can go on.
    pub(crate) fn turn(&mut self, state: &LoopState) -> Turn {
        self.0.retain_mut(|relay| match relay.turn(&state.clock) {
            Step::Waits => true,
            Step::Ended => false,
            Step::Broken => {
                state.counts().relays_broken.add(1);
                false
            }
        });
        if self.0.is_empty() { Turn::Close } else { Turn::Wait }
    }
}

impl Relay {
    /// A response that goes on by this socket; of one that came so far before, the other node knows its framing.
    pub(crate) fn new(exchange: Exchange, link: Link) -> Self {
        let has_trailers = exchange.far(false).is_some_and(|far| far.minor >= 2);
        let framing_bytes = exchange.framing_bytes();
        Self { exchange, link, has_trailers, framing_bytes, made: Made::default(), stage: Stage::Going }
    }

    fn turn(&mut self, clock: &Clock) -> Step {
        // The other node says nothing but that it takes no more.
        if self.link.has_input() && !matches!(self.link.receive(1, |_| ()), Ok(None)) {
            return Step::Broken;
        }
        loop {
            match self.made.push(&mut self.link) {
                Err(_) => return Step::Broken,
                Ok(false) => return Step::Waits,
                Ok(true) if self.stage == Stage::Made => return Step::Ended,
                Ok(true) => {}
            }
            if self.make(clock).is_err() {
                return Step::Broken;
            }
            if self.made.bytes.is_empty() {
                return Step::Waits;
            }
        }
    }

    /// Makes what can be made now.
    fn make(&mut self, clock: &Clock) -> io::Result<()> {
        if self.exchange.is_awaited() {
            self.exchange.go_on(clock)?;
        }
        let framing_bytes = self.exchange.framing_bytes();
        // Of a piece of at most 64 KiB.
        self.made.framing = (framing_bytes - self.framing_bytes) as u32;
        let (outcome, _) = flush(std::slice::from_mut(&mut self.exchange), &mut self.made);
        let is_whole = matches!(outcome?, Sent::All) && self.exchange.is_finished();
        if is_whole {
            let trailers = self.exchange.streamed().filter(|_| self.has_trailers);
            let trailers = trailers.map_or_else(Vec::new, |streamed| streamed.trailers().to_vec());
            let framing = std::mem::take(&mut self.made.framing);
            put_end(&mut self.made.bytes, framing, &trailers);
            self.stage = Stage::Made;
        }
        if self.made.framing == 0 {
            self.framing_bytes = framing_bytes;
        }
        Ok(())
    }
}

impl Made {
    /// Has the socket take what was made; whether it took all.
    fn push(&mut self, link: &mut Link) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            match link.send(&[IoSlice::new(&self.bytes[self.sent..])])? {
                0 => return Ok(false),
                sent => self.sent += sent,
            }
        }
        // Its memory is given back: a stream of events mostly waits.
        (self.bytes, self.sent) = (Vec::new(), 0);
        Ok(true)
    }

    /// Bytes of a frame that there is room for.
    fn room(&self) -> io::Result<usize> {
        let room = MADE_BYTES_MAX.saturating_sub(self.bytes.len());
        if room == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(room) }
    }

    fn begin_frame(&mut self, length: usize) {
        put_head(&mut self.bytes, std::mem::take(&mut self.framing), length);
    }
}

impl Sink for Made {
    fn send(&mut self, pieces: &[IoSlice<'_>], _more: bool) -> io::Result<usize> {
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let length = wanted.min(self.room()?);
        self.begin_frame(length);
        let mut left = length;
        for piece in pieces {
            let now = piece.len().min(left);
            self.bytes.extend_from_slice(&piece[..now]);
            left -= now;
        }
        Ok(length)
    }

    fn send_file(&mut self, file: &File, is_unchanged: &dyn Fn() -> bool, start: u64, len: u64) -> io::Result<u64> {
        let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(self.room()?);
        let mut bytes = vec![0; wanted];
        let read = file.read_at(&mut bytes, start)?;
        // After the bytes are here, so that no change falls between the look and them.
        if !is_unchanged() {
            return Err(io::ErrorKind::StaleNetworkFileHandle.into());
        }
        if read > 0 {
            self.begin_frame(read);
            self.bytes.extend_from_slice(&bytes[..read]);
        }
        Ok(read as u64)
    }
}
