//! A request that an application answers: its body comes as the application takes it, and the response goes as it gives
//! it. The connection's next request waits until then.

use super::{After, Connection, Fed, Phase, SavedFor};
use crate::exchange::application::{Applications, RequestHead};
use crate::exchange::drain::{Drain, Part};
use crate::exchange::life::Exchange;
use crate::exchange::streamed::Manner;
use crate::files::head::Persistence;
use crate::http::request::Request;
use crate::io::epoll::Readiness;
use crate::loop_state::LoopState;
use crate::policy::client_peer::ClientPeer;
use std::io;

/// Bytes that may stand between two pieces of a body's content: the size of a chunk with its extensions, or trailers.
const OVERHEAD_BYTES_MAX: u64 = 16 << 10;
/// Bytes of a body that the client has to send in each span of its time.
pub(super) const STRIDE_BYTES: usize = 16 << 10;

impl Connection {
    /// Has the application begin that was chosen for the request.
    #[cold]
    pub(super) fn begin_application(
        &mut self,
        (request, peer): (&Request<'_>, &ClientPeer<'_>),
        exchange: &mut Exchange,
        (applications, stopping): (&Applications, bool),
        has_more_input: bool,
    ) {
        // Whether the connection stays is found out once the response is over.
        self.after = After::Continue;
        self.drain = Drain::whole(request.framing, OVERHEAD_BYTES_MAX);
        self.body_bytes = 0;
        let persistence = Persistence::of(request.minor, request.keep_alive && !stopping);
        let manner = Manner { minor: request.minor, persistence, patience_ms: applications.patience_ms };
        let (client, is_secure) = (peer.client, peer.is_secure);
        let (socket, ends) = (peer.socket, Some(&self.ends));
        let head =
            RequestHead { request, client, peer: self.peer.ip(), is_secure, socket, ends, user: None, arm: None };
        if let Some(streamed) = exchange.streamed().filter(|_| self.drain.is_done()) {
            streamed.body.end();
        }
        exchange.begin_application(&head, &applications.caller(Some(applications.token), self.number), manner);
        match exchange.streamed() {
            Some(streamed) if streamed.body.is_ended() => {}
            Some(_) if request.expects_continue && !has_more_input => exchange.ask_for_body(),
            _ => {}
        }
    }

    /// Has the application go on, once all responses before its own were sent.
    ///
    /// # Errors
    ///
    /// `ConnectionAborted` if it breaks its response off; the client can tell, also where only the connection's end
    /// would say where the body ends.
    pub(super) fn drive_application(&mut self, state: &LoopState) -> io::Result<()> {
        let [only] = self.queue.as_mut_slice() else { return Ok(()) };
        if !only.is_awaited() {
            return Ok(());
        }
        let is_begun = only.status != 0;
        let went = only.go_on(&state.clock);
        if went.is_err() && only.streamed().is_some_and(|streamed| streamed.ends_with_connection()) {
            self.transport.cut();
        }
        went?;
        if !is_begun && only.is_tunnel() {
            self.drain = Drain::Raw;
        }
        if !is_begun && only.status != 0 && std::mem::take(&mut self.owes_alt_svc) {
            state.alt_svc.apply(only, true);
        }
        Ok(())
    }

    /// Goes on with what the client says through a tunnel while it takes nothing of what it is told: either direction is
    /// held back by its own reader only. The client's time begins anew with what it says.
    ///
    /// # Errors
    ///
    /// As for [`Self::feed`] and [`Self::drive_application`].
    #[cold]
    pub(super) fn pass_on_input(&mut self, state: &mut LoopState) -> io::Result<Fed> {
        self.drive_application(state)?;
        let fed = self.feed(state)?;
        if fed == Fed::Some {
            self.enter(Phase::Stall, state);
        }
        Ok(fed)
    }

    /// Whether the last response that is under way is that of an application.
    pub(super) fn is_answered_by_application(&self) -> bool {
        self.queue.last().is_some_and(Exchange::is_awaited)
    }

    /// Gives the application what has come of the body, or finds out who is waited for: the client or the application.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the client ends its side before the body is over, or while it waits for the response; what the
    /// socket answers.
    pub(super) fn feed(&mut self, state: &mut LoopState) -> io::Result<Fed> {
        let Some(body) = self.queue.last_mut().and_then(Exchange::streamed).map(|streamed| &streamed.body) else {
            return Ok(Fed::Nothing);
        };
        let is_owed = body.is_owed();
        let room = body.room().min(state.input.len());
        if !is_owed {
            if self.socket.has(Readiness::END) && self.drain.is_done() {
                // A client that ends its side while it waits has gone; the handler is dropped with the connection. What
                // is still to be read of its request comes first.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            return Ok(self.await_application(state));
        }
        if !self.saved.is_empty() {
            let mut saved = std::mem::take(&mut self.saved);
            let most = room.min(saved.len());
            let taken = self.put(&saved[..most], state)?;
            saved.drain(..taken);
            self.saved = saved;
            return Ok(Fed::Some);
        }
        if !self.socket.has(Readiness::INPUT) {
            if matches!(self.drain, Drain::Raw) {
                return Ok(self.await_application(state));
            }
            if self.phase != Phase::Body {
                self.enter(Phase::Body, state);
                self.body_bytes = 0;
            }
            return Ok(Fed::Nothing);
        }
        match self.transport.receive(&mut state.input[..room], &mut state.ring) {
            Ok(0) if matches!(self.drain, Drain::Raw) => {
                self.socket.set(Readiness::INPUT, false);
                self.end_tunnel_input();
                Ok(Fed::Some)
            }
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => {
                self.socket.set(
                    Readiness::INPUT,
                    received == room || self.socket.has(Readiness::END) || self.transport.is_read_out(),
                );
                self.body_bytes += received;
                if self.phase == Phase::Body && self.body_bytes >= STRIDE_BYTES {
                    self.enter(Phase::Body, state);
                    self.body_bytes = 0;
                }
                let input = std::mem::take(&mut state.input);
                let taken = self.put(&input[..received], state);
                if let Ok(taken) = taken {
                    // The next request.
                    self.saved.extend_from_slice(&input[taken..received]);
                }
                state.input = input;
                taken.map(|_| Fed::Some)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.remove(Readiness::INPUT);
                self.feed(state)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Fed::Some),
            Err(error) => Err(error),
        }
    }

    /// The client says nothing more through a tunnel; what comes the other way goes on.
    fn end_tunnel_input(&mut self) {
        if let Some(streamed) = self.queue.last_mut().and_then(Exchange::streamed) {
            streamed.body.end();
        }
    }

    /// The client owes nothing.
    fn await_application(&mut self, state: &LoopState) -> Fed {
        let is_blocked = self.is_tunnel() && (!self.socket.has(Readiness::ROOM) || self.transport.holds_output());
        if self.phase != Phase::Application && !is_blocked {
            self.enter(Phase::Application, state);
        }
        Fed::Nothing
    }

    /// Puts input into the body; returns how much of it belongs there.
    fn put(&mut self, input: &[u8], state: &mut LoopState) -> io::Result<usize> {
        let Self { queue, drain, .. } = self;
        let Some(streamed) = queue.last_mut().and_then(Exchange::streamed) else { return Ok(0) };
        let body = &mut streamed.body;
        let mut fits = true;
        let read = drain.read(input, &mut |part| match part {
            Part::Content(content) => body.put(content),
            Part::Trailer(bytes) => fits &= body.put_trailer(bytes),
        });
        let is_done = drain.is_done();
        match read {
            Ok(taken) if fits => {
                if is_done {
                    body.end();
                }
                Ok(taken)
            }
            _ => {
                if self.refuse_application(400, state) {
                    return Ok(input.len());
                }
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Answers a client that does not do its part in place of an application that has not begun its response; whether it
    /// did. What else of the body comes is discarded while the connection ends.
    pub(super) fn refuse_application(&mut self, status: u16, state: &LoopState) -> bool {
        let [only] = self.queue.as_mut_slice() else { return false };
        let has_refused = only.refuse(status, &state.clock);
        if has_refused {
            self.drain = Drain::Done;
            // More may follow, unread bytes of which would make the kernel reset the connection.
            self.socket.add(Readiness::INPUT);
        }
        has_refused
    }

    /// An application's response was sent: finds out what becomes of the connection, and of what is left of the body.
    pub(super) fn end_application(&mut self, place: usize, state: &LoopState) {
        let Some(streamed) = self.queue[place].streamed() else { return };
        let closes = streamed.closes();
        let is_small = self.drain.discard(state.limits.body_bytes_max).is_ok();
        self.after = match (self.drain.is_done(), closes) {
            // Unread bytes would make the kernel reset the connection under the response.
            (true, true) if self.saved.is_empty() && !self.socket.has(Readiness::INPUT) => After::Close,
            (_, true) => After::Linger,
            (_, false) if is_small => After::Continue,
            (_, false) => After::Linger,
        };
        if !self.saved_for.is_parked() {
            self.saved_for = if self.saved.is_empty() { SavedFor::Rest } else { SavedFor::Turn };
        }
    }

    /// Whether nothing is waited for but what an application gives.
    #[inline]
    pub(crate) fn waits_for_application(&self) -> bool {
        self.phase == Phase::Application && !self.transport.holds_output()
    }

    /// Whether what is to be sent is the whole response of an application behind which the connection stays: it may go out
    /// with the ring's next call.
    pub(super) fn may_wait_for_ring(&self) -> bool {
        let [only] = self.queue.as_slice() else { return false };
        only.is_whole_application() && self.after == After::Continue && self.socket.has(Readiness::ROOM)
    }

    /// Waits for room in the socket, if it waited for something else before.
    pub(super) fn block_on_room(&mut self, state: &LoopState) {
        if matches!(self.phase, Phase::Application | Phase::Body) {
            self.enter(Phase::Stall, state);
        }
    }

    /// Whether an application has kept the client waiting for too long.
    pub(crate) fn is_kept_waiting(&self, now_ms: u64) -> bool {
        self.phase == Phase::Application && self.queue.last().is_some_and(|last| last.is_late(now_ms))
    }
}
