//! A connection of HTTP/2 that moves: whether it can, what it is as a value, and how it goes on elsewhere.

use super::super::continued::Continued;
use super::super::stream::Stream;
use super::{Connection, Phase};
use crate::exchange::application;
use crate::exchange::goaway::Goaway;
use crate::exchange::life::Exchange;
use crate::files::resource::Resource;
use crate::http::frames::allowance::Allowance;
use crate::http::frames::frame::{Head, kind};
use crate::http::frames::hpack::Decoder;
use crate::http1::connection::moving::{FRAME_BYTES, bytes_of, check_exchange, exchange, pending};
use crate::loop_state::LoopState;
use crate::policy::sessions::{AdoptError, SESSION_BYTES_MAX, TakeError};
use crate::process::session::{
    self, ContentName, Ending, GoawayState, Http2, RELAYS_MAX, STREAMS_MAX, Session, Table, Wait,
};
use crate::tls;
use crate::transport::Transport;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Bytes that the client's table of fields and what is remembered of streams take in a session at most.
const TABLES_BYTES: usize = 8 << 10;

impl Connection {
    /// Whether it can move as it is; it need not be off the ring yet.
    pub(crate) fn check_movable(&self) -> Result<(), TakeError> {
        if let Some(stays) = self.transport.stays() {
            return Err(stays.into());
        }
        if self.is_failed || self.is_done || self.phase == Phase::Linger {
            return Err(TakeError::Ending);
        }
        self.streams.iter().try_for_each(check_stream)?;
        let block = self.continued.as_ref().map_or(0, |continued| continued.block.len());
        let held = self.saved.len() + block + self.unsent.len() + self.control.len() + self.transport.held_bytes();
        let streams: usize = self.streams.iter().map(|stream| bytes_of(&stream.exchange)).sum();
        if held + streams + FRAME_BYTES + TABLES_BYTES > SESSION_BYTES_MAX || self.streams.len() > STREAMS_MAX {
            return Err(TakeError::TooLarge);
        }
        if self.relays() > RELAYS_MAX {
            return Err(TakeError::TooLarge);
        }
        Ok(())
    }

    /// How many of its responses this server would go on making.
    pub(crate) fn relays(&self) -> usize {
        self.streams.iter().filter(|stream| stream.exchange.far(false).is_some()).count()
    }

    /// As of a connection of HTTP/1.
    ///
    /// # Errors
    ///
    /// [`TakeError::Tls`]; it goes on as before, or ends if its keys are lost.
    pub(crate) fn make_movable(&mut self) -> Result<(), TakeError> {
        Ok(self.transport.leave_rustls()?)
    }

    /// The contents of its responses, in the order of its streams.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Rc<Resource>> {
        self.streams.iter().filter_map(|stream| stream.exchange.resource())
    }

    /// Ends here as what goes on elsewhere, as one of HTTP/1 does.
    pub(crate) fn into_session(
        self,
        (peer, client): (SocketAddr, Option<SocketAddr>),
        names: impl IntoIterator<Item = ContentName>,
        relays: &mut Vec<Exchange>,
        state: &LoopState,
    ) -> (OwnedFd, Session) {
        let now_ms = state.clock.now_ms;
        let mut http2 = self.frames_state(now_ms);
        let mut names = names.into_iter();
        let (socket, input, output, tls) = self.transport.into_parts();
        let mut responses = Vec::with_capacity(self.streams.len());
        for stream in self.streams {
            http2.streams.push(stream_value(&stream, now_ms));
            responses.push(pending(stream.exchange, &mut names, false, relays));
        }
        (http2.unsent, http2.control) = (self.unsent, self.control);
        let session = Session {
            peer,
            client,
            ending: Ending::Stays,
            wait: match self.phase {
                Phase::Head => Wait::Head,
                Phase::Idle => Wait::Idle,
                Phase::Queue | Phase::Stall | Phase::Linger => Wait::Room,
            },
            left_ms: left_ms(self.phase_deadline_ms, now_ms),
            body_bytes: 0,
            saved: self.saved,
            input,
            output,
            tls,
            responses,
            http2: Some(Box::new(http2)),
        };
        (socket, session)
    }

    /// What it has beside its responses and its output.
    fn frames_state(&self, now_ms: u64) -> Http2 {
        let (bytes_max, entries) = self.decoder.table();
        let table = Table { bytes_max, entries: entries.map(|(text, value_at)| (text.to_vec(), value_at)).collect() };
        let continued = self.continued.as_ref().map(|continued| session::Continued {
            stream: continued.head.stream,
            flags: continued.head.flags,
            depends_on: continued.depends_on,
            block: continued.block.clone(),
        });
        Http2 {
            table,
            has_preface: self.has_preface,
            has_settings: self.has_settings,
            continued,
            // Far below this type's bound, as streams are.
            next: self.next as u32,
            last: self.last,
            abandoned: self.abandoned.iter().copied().collect(),
            unsent: Vec::new(),
            carries_streams: self.carries_streams,
            control: Vec::new(),
            window: self.window,
            stream_window: self.stream_window,
            table_bytes: self.table_bytes,
            table_is_due: self.table_is_due,
            receive_window: self.receive_window,
            tokens: self.allowance.tokens(),
            goaway: match self.goaway {
                Goaway::Unsaid => GoawayState::Unsaid,
                Goaway::Awaited { until_ms } => GoawayState::Awaited { left_ms: left_ms(until_ms, now_ms) },
                Goaway::Announced { until_ms } => GoawayState::Announced { left_ms: left_ms(until_ms, now_ms) },
                Goaway::Said => GoawayState::Said,
            },
            has_heard: self.has_heard,
            is_new: self.is_new,
            owes_alt_svc: self.owes_alt_svc,
            streams: Vec::with_capacity(self.streams.len()),
        }
    }

    /// One that goes on with a session of HTTP/2; its contents are in the order of its responses.
    ///
    /// # Errors
    ///
    /// `Malformed` if this server takes no frame as long as what has come of one.
    pub(crate) fn of_session(
        socket: OwnedFd,
        peer: SocketAddr,
        (session, http2): (Session, Http2),
        contents: impl IntoIterator<Item = Rc<Resource>>,
        handlers: impl IntoIterator<Item = Box<dyn application::Continued>>,
        state: &LoopState,
    ) -> Result<Self, AdoptError> {
        if session.saved.len() >= state.input.len() {
            return Err(AdoptError::Malformed { part: "a frame" });
        }
        let tls = session.tls.as_ref().map(|tls| {
            let read = tls::Session::read_back(tls, &state.counters, state.index);
            read.map(Box::new).ok_or(AdoptError::Malformed { part: "its TLS" })
        });
        let transport = Transport::moved(socket, (&session.input, &session.output), tls.transpose()?);
        let mut connection = Self::bare(transport, peer, state);
        let now_ms = state.clock.now_ms;
        let (mut contents, mut handlers) = (contents.into_iter(), handlers.into_iter());
        let streams = http2.streams.iter().zip(session.responses);
        let one = |(of, one)| stream(of, exchange(one, &mut contents, &mut handlers, state), now_ms);
        connection.streams = streams.map(one).collect();
        connection.phase = match session.wait {
            Wait::Head => Phase::Head,
            Wait::Idle => Phase::Idle,
            Wait::Body | Wait::Room => Phase::Stall,
        };
        connection.phase_deadline_ms = now_ms.saturating_add(session.left_ms);
        connection.deadline_ms = connection.phase_deadline_ms;
        connection.saved = session.saved;
        connection.take_frames_state(http2, now_ms);
        Ok(connection)
    }

    fn take_frames_state(&mut self, http2: Http2, now_ms: u64) {
        self.decoder = Decoder::of_table(http2.table.bytes_max, http2.table.entries);
        self.has_preface = http2.has_preface;
        self.has_settings = http2.has_settings;
        self.continued = http2.continued.map(|continued| Continued {
            // How long the first frame was is not asked any more.
            head: Head { len: 0, kind: kind::HEADERS, flags: continued.flags, stream: continued.stream },
            block: continued.block,
            depends_on: continued.depends_on,
        });
        self.next = http2.next as usize;
        self.last = http2.last;
        self.abandoned = http2.abandoned.into();
        (self.unsent, self.control) = (http2.unsent, http2.control);
        self.carries_streams = http2.carries_streams;
        (self.window, self.stream_window) = (http2.window, http2.stream_window);
        (self.table_bytes, self.table_is_due) = (http2.table_bytes, http2.table_is_due);
        self.receive_window = http2.receive_window;
        self.allowance = Allowance::of_tokens(http2.tokens, now_ms);
        let until_ms = |left_ms: u64| now_ms.saturating_add(left_ms);
        self.goaway = match http2.goaway {
            GoawayState::Unsaid => Goaway::Unsaid,
            GoawayState::Awaited { left_ms } => Goaway::Awaited { until_ms: until_ms(left_ms) },
            GoawayState::Announced { left_ms } => Goaway::Announced { until_ms: until_ms(left_ms) },
            GoawayState::Said => Goaway::Said,
        };
        self.has_heard = http2.has_heard;
        self.is_new = http2.is_new;
        self.owes_alt_svc &= http2.owes_alt_svc;
    }
}

/// What is left until then; the largest number = without end.
fn left_ms(at_ms: u64, now_ms: u64) -> u64 {
    if at_ms == u64::MAX { at_ms } else { at_ms.saturating_sub(now_ms) }
}

/// Whether a stream can move. The body of its request is discarded, so that its length is no matter.
fn check_stream(stream: &Stream) -> Result<(), TakeError> {
    match &stream.parked {
        Some(parked) if parked.waits => return Err(TakeError::Waiting),
        Some(_) => return Err(TakeError::Password),
        None => {}
    }
    // A head goes out in one piece, and the request's body was all for what answers it here.
    check_exchange(&stream.exchange, stream.head_is_sent && stream.is_received)
}

fn stream_value(stream: &Stream, now_ms: u64) -> session::Stream {
    session::Stream {
        id: stream.id,
        window: stream.window,
        is_held: stream.is_held,
        is_received: stream.is_received,
        body_expected: stream.body_expected,
        body_bytes: stream.body_bytes,
        body_unacknowledged: stream.body_unacknowledged,
        age_ms: now_ms.saturating_sub(stream.since_ms),
    }
}

/// The stream whose response is sent from here.
fn stream(of: &session::Stream, exchange: Exchange, now_ms: u64) -> Stream {
    Stream {
        id: of.id,
        window: of.window,
        is_held: of.is_held,
        is_received: of.is_received,
        body_expected: of.body_expected,
        body_bytes: of.body_bytes,
        body_unacknowledged: of.body_unacknowledged,
        since_ms: now_ms.saturating_sub(of.age_ms),
        // A head goes out in one piece.
        head_is_sent: exchange.response.offset > 0 || exchange.is_awaited(),
        exchange,
        parked: None,
        early: None,
    }
}
