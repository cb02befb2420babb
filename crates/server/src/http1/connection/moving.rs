//! A connection that moves: whether it can, what it is as a value, and how it goes on elsewhere.

use super::{After, Connection, Phase, SavedFor};
use crate::exchange::application::Continued;
use crate::exchange::drain::Drain;
use crate::exchange::life::{Exchange, Source};
use crate::files::resource::Resource;
use crate::http::response::Response;
use crate::io::epoll::Readiness;
use crate::loop_state::LoopState;
use crate::policy::advised::Advised;
use crate::policy::client_peer::ClientPeer;
use crate::policy::codec_swap::{StreamPlace, keep_unsent_low};
use crate::policy::sessions::{AdoptError, BODY_BYTES_MAX, SESSION_BYTES_MAX, TakeError};
use crate::process::session::{ContentName, Ending, PARTS_MAX, Pending, RESPONSES_MAX, Session, Wait};
use crate::telemetry::access_log::LogLine;
use crate::tls;
use crate::transport::Transport;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Bytes that the numbers and lengths of a response take in a session, and more than that.
pub(crate) const FRAME_BYTES: usize = 256;

impl Connection {
    /// Whether it can move as it is; it need not be off the ring yet.
    pub(crate) fn check_movable(&self) -> Result<(), TakeError> {
        if let Some(stays) = self.transport.stays() {
            return Err(stays.into());
        }
        match (self.after, self.phase, self.saved_for) {
            _ if self.transport.agreed_on_http2() => return Err(TakeError::Protocol { protocol: "HTTP/2" }),
            (After::Upgrade, ..) => return Err(TakeError::Protocol { protocol: "HTTP/2" }),
            (_, Phase::Linger, _) => return Err(TakeError::Ending),
            (After::Close | After::Linger, ..) if !self.is_sending() => return Err(TakeError::Ending),
            (_, _, SavedFor::Password) => return Err(TakeError::Password),
            (_, _, SavedFor::Bound) => return Err(TakeError::Waiting),
            _ => {}
        }
        let may_be_relayed = self.queue.len() == 1 && matches!(self.drain, Drain::Done);
        self.queue.iter().try_for_each(|exchange| check_exchange(exchange, may_be_relayed))?;
        match self.drain {
            Drain::Done => {}
            Drain::Length(bytes) if bytes <= BODY_BYTES_MAX => {}
            Drain::Length(_) | Drain::Chunked { .. } => return Err(TakeError::Body),
            Drain::Raw => return Err(TakeError::Tunnel),
        }
        let bytes = self.saved.len() + self.transport.held_bytes() + self.queue.iter().map(bytes_of).sum::<usize>();
        if bytes + FRAME_BYTES > SESSION_BYTES_MAX || self.queue.len() > RESPONSES_MAX {
            return Err(TakeError::TooLarge);
        }
        Ok(())
    }

    /// Makes ready what cannot be written down as it is: keys of TLS.
    ///
    /// # Errors
    ///
    /// [`TakeError::Tls`]; it goes on as before, or ends if its keys are lost.
    pub(crate) fn make_movable(&mut self) -> Result<(), TakeError> {
        self.transport.leave_rustls()?;
        if let [only] = self.queue.as_slice()
            && only.resource().is_some()
            && only.stream_place().is_none()
        {
            self.transport.keep_records((only.response.offset, only.response.len()));
        }
        Ok(())
    }

    /// How many of its responses this server would go on making.
    pub(crate) fn relays(&self) -> usize {
        self.queue.iter().filter(|exchange| exchange.far(false).is_some()).count()
    }

    /// The contents of its responses, in their order.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Rc<Resource>> {
        self.queue.iter().filter_map(Exchange::resource)
    }

    /// The same, and how far those came that are made in pieces.
    pub(crate) fn contents_seen(&self) -> impl Iterator<Item = (Rc<Resource>, Option<StreamPlace>)> {
        let seen = |exchange: &Exchange| Some((Rc::clone(exchange.resource()?), exchange.stream_place()));
        self.queue.iter().filter_map(seen)
    }

    /// Ends here as what goes on elsewhere: it can move, and no ring has to do with it. The digests of the contents,
    /// which have these names, are still to be put in.
    pub(crate) fn into_session(
        self,
        (peer, client): (SocketAddr, Option<SocketAddr>),
        names: impl IntoIterator<Item = ContentName>,
        relays: &mut Vec<Exchange>,
        state: &LoopState,
    ) -> (OwnedFd, Session) {
        let mut names = names.into_iter();
        let (socket, input, output, tls) = self.transport.into_parts();
        let ends = self.after != After::Continue;
        let responses = self.queue.into_iter().map(|exchange| pending(exchange, &mut names, ends, relays)).collect();
        let session = Session {
            peer,
            client,
            ending: match self.after {
                After::Close => Ending::Closes,
                After::Linger => Ending::Lingers,
                After::Continue | After::Upgrade => Ending::Stays,
            },
            wait: match self.phase {
                Phase::Head => Wait::Head,
                Phase::Idle => Wait::Idle,
                Phase::Body => Wait::Body,
                Phase::Stall | Phase::Linger | Phase::Parked | Phase::Application => Wait::Room,
            },
            left_ms: match self.deadline_ms {
                u64::MAX => u64::MAX,
                at => at.saturating_sub(state.clock.now_ms),
            },
            body_bytes: if let Drain::Length(bytes) = self.drain { bytes } else { 0 },
            saved: self.saved,
            input,
            output,
            tls,
            responses,
            http2: None,
        };
        (socket, session)
    }

    /// One that goes on with a session; its contents are in the order of its responses.
    ///
    /// # Errors
    ///
    /// `Malformed` if this server takes no head as long as what has come of one.
    pub(crate) fn of_session(
        socket: OwnedFd,
        peer: SocketAddr,
        session: Session,
        contents: impl IntoIterator<Item = Rc<Resource>>,
        handlers: impl IntoIterator<Item = Box<dyn Continued>>,
        state: &LoopState,
    ) -> Result<Self, AdoptError> {
        // What another server makes is alone, behind the whole of its request.
        if session.relays() > 0 && (session.responses.len() > 1 || session.body_bytes > 0) {
            return Err(AdoptError::Malformed { part: "the order of responses" });
        }
        if session.saved.len() >= state.input.len() {
            return Err(AdoptError::Malformed { part: "the head of a request" });
        }
        let first = session.responses.first().map(|first| (first.response.offset, first.response.len()));
        let tls = session.tls.as_ref().map(|tls| {
            let read = tls::Session::read_back(tls, &state.counters, state.index);
            read.filter(|read| read.may_seal(first)).map(Box::new).ok_or(AdoptError::Malformed { part: "its TLS" })
        });
        let transport = Transport::moved(socket, (&session.input, &session.output), tls.transpose()?);
        let mut connection = Self::new(transport, peer, state);
        let (mut contents, mut handlers) = (contents.into_iter(), handlers.into_iter());
        for mut one in session.responses {
            let (place, site) = (one.swapped.take(), one.content.as_ref().map_or(0, |content| content.site));
            let mut exchange = exchange(one, &mut contents, &mut handlers, state);
            if let Some(place) = place {
                go_on_in_pieces(&mut exchange, (place, site), &connection.client_peer(), state)?;
            }
            connection.queue.push(exchange);
        }
        connection.after = match session.ending {
            Ending::Stays => After::Continue,
            Ending::Closes => After::Close,
            Ending::Lingers => After::Linger,
        };
        if session.body_bytes > 0 {
            connection.drain = Drain::Length(session.body_bytes);
        }
        if !session.saved.is_empty() {
            (connection.saved, connection.saved_for) = (session.saved, SavedFor::Turn);
            if state.arm.is_some() {
                connection.saved_since_ns = weir_arm::now_ns();
            }
        }
        connection.phase = match session.wait {
            Wait::Head => Phase::Head,
            Wait::Idle => Phase::Idle,
            Wait::Body => Phase::Body,
            Wait::Room => Phase::Stall,
        };
        // What it waits for has its time from where it began to wait, and no more here.
        connection.deadline_ms = state.clock.now_ms.saturating_add(session.left_ms);
        connection.socket.add(Readiness::INPUT);
        Ok(connection)
    }
}

/// Whether a response can move; `may_be_relayed` says that another server may go on with it while this one makes it.
pub(crate) fn check_exchange(exchange: &Exchange, may_be_relayed: bool) -> Result<(), TakeError> {
    match &exchange.source {
        Source::Application(_) if exchange.is_tunnel() => return Err(TakeError::Tunnel),
        Source::Application(_) | Source::Stored(_) if may_be_relayed && exchange.far(false).is_some() => return Ok(()),
        Source::Application(_) | Source::Stored(_) => return Err(TakeError::Application),
        Source::Head | Source::Content(_) => {}
    }
    // Where the piece has gone out, the next one is to be made.
    let is_sound = exchange.status != 0 && !exchange.is_finished();
    if !is_sound || exchange.response.parts.len() > PARTS_MAX {
        return Err(TakeError::TooLarge);
    }
    Ok(())
}

/// Bytes that a response takes in a session, or some more.
pub(crate) fn bytes_of(exchange: &Exchange) -> usize {
    let path = exchange.resource().map_or(0, |resource| resource.path.len());
    let place = exchange.stream_place().map_or(0, |place| place.path.len() + place.name.len());
    let parts = exchange.response.parts.len() * 24;
    exchange.response.head.len() + exchange.record.log.len() + path + place + parts + FRAME_BYTES
}

/// The response as a value. What this server goes on making of it is added to `relays`; `ends` says that its connection
/// ends behind it.
pub(crate) fn pending(
    mut exchange: Exchange,
    names: &mut impl Iterator<Item = ContentName>,
    ends: bool,
    relays: &mut Vec<Exchange>,
) -> Pending {
    let (has_content, swapped) = (exchange.resource().is_some(), exchange.stream_place());
    exchange.move_on();
    if let Some(far) = exchange.far(ends) {
        let record = std::mem::take(&mut exchange.record);
        let pending = Pending {
            status: exchange.status,
            head_bytes: exchange.head_bytes,
            line: record.log.to_text(),
            host: record.log.host.as_ref().map(|host| host.name.to_string()),
            far: Some(far),
            ..Pending::default()
        };
        relays.push(exchange);
        return pending;
    }
    let content = if has_content { names.next() } else { None };
    Pending {
        status: exchange.status,
        head_bytes: exchange.head_bytes,
        content,
        line: exchange.record.log.to_text(),
        host: exchange.record.log.host.as_ref().map(|host| host.name.to_string()),
        response: std::mem::take(&mut exchange.response),
        far: None,
        swapped,
    }
}

/// Has a response go on piece by piece, from where it came to at another server.
fn go_on_in_pieces(
    exchange: &mut Exchange,
    (place, site): (StreamPlace, u32),
    peer: &ClientPeer<'_>,
    state: &LoopState,
) -> Result<(), AdoptError> {
    let (path, released_bytes) = (place.path.clone(), place.released_bytes);
    let Source::Content(resource) = std::mem::take(&mut exchange.source) else {
        return Err(AdoptError::Malformed { part: "the content of a response" });
    };
    exchange.response.resource = None;
    let found = state.router.stream_moved((site, place), &resource, (&state.counters, state.index));
    let (policy_client, stream) = found.map_err(|source| AdoptError::Socket { source })?;
    let stream = stream.ok_or(AdoptError::Malformed { part: "the frames of its sound" })?;
    if let Some(socket) = peer.socket {
        keep_unsent_low(socket);
    }
    exchange.record.advised = Some(Advised::moved(&policy_client, peer, (stream, &path, released_bytes)));
    Ok(())
}

/// The response as a value that is sent from here.
pub(crate) fn exchange(
    pending: Pending,
    contents: &mut impl Iterator<Item = Rc<Resource>>,
    handlers: &mut impl Iterator<Item = Box<dyn Continued>>,
    state: &LoopState,
) -> Exchange {
    let resource = pending.content.and_then(|_| contents.next());
    let relayed = pending.far.and_then(|far| Some(Source::continued(handlers.next()?, far)));
    let mut exchange = Exchange {
        response: Response { resource: resource.as_ref().map(|resource| resource.id), ..pending.response },
        source: relayed.or(resource.map(Source::Content)).unwrap_or_default(),
        status: pending.status,
        head_bytes: pending.head_bytes,
        ..Exchange::default()
    };
    exchange.record.log = LogLine::of_text(pending.line);
    exchange.record.log.host = pending.host.and_then(|name| state.router.host_counts(&name));
    exchange
}
