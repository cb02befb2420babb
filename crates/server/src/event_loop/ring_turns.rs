//! What the loop does for connections on the ring, and how they come there and leave it.
//!
//! A connection begins with epoll. It joins the ring when it waits for its second request, so that connections which
//! are closed after one never come here. It leaves when it waits for something other than input: room for output, a
//! password check, or another protocol; and it joins again after some requests that needed none of these.

use crate::event_loop::client::Client;
use crate::event_loop::driver::{EventLoop, REQUESTS_BEFORE_JOINING};
use crate::http1::connection::Turn;
use crate::io::epoll::{self, Readiness};
use crate::transport::Lane;
use crate::transport::ring::upstreams::UPSTREAM;
use crate::transport::ring::{Arrival, Ring, Unsent};
use std::io;

impl EventLoop {
    /// Waits by the ring where anything is under way in it, else by epoll; how many events that has.
    #[inline]
    pub(crate) fn wait(&mut self, events: &mut [libc::epoll_event], timeout_ms: i32) -> io::Result<usize> {
        let Some(ring) = self.state.ring.as_mut() else { return self.epoll.wait(events, timeout_ms) };
        // What the last call brought was dealt with.
        ring.receptions.clear();
        let has_links = self.links.is_used();
        if has_links && self.links.has_submissions() {
            self.links.hand_over(ring);
        }
        // Connections that the last completion closed are still to be removed, without a wait before that.
        if !ring.is_in_use() && self.closing.is_empty() && !(has_links && self.links.has_closing()) {
            return self.epoll.wait(events, timeout_ms);
        }
        if self.state.owed.is_empty() {
            ring.enter(timeout_ms)?;
        } else {
            // What tells when they have gone does not wait for anything else.
            ring.enter(0)?;
            self.tell_owed();
            if let Some(ring) = self.state.ring.as_mut().filter(|ring| !ring.has_news()) {
                ring.enter(timeout_ms)?;
            }
        }
        // What was staged for them has gone, and their receptions have ended.
        let held = self.closing.iter().filter(|client| client.is_held_elsewhere);
        held.for_each(|client| epoll::end_both(client.fd()));
        self.closing.clear();
        if has_links && self.links.has_closing() {
            self.links.close_left();
        }
        let is_told = self.state.ring.as_mut().is_some_and(Ring::take_told);
        if is_told { self.epoll.wait(events, 0) } else { Ok(0) }
    }

    /// Tells of responses that have gone with the last call; those that a socket did not take have not.
    fn tell_owed(&mut self) {
        let Self { state, connections, .. } = self;
        let Some(ring) = &state.ring else { return };
        for (token, owed) in state.owed.drain(..) {
            match ring.unsent.iter().find(|unsent| unsent.token == token) {
                None => owed.tell(),
                Some(unsent) => match connections.get(token).filter(|_| unsent.rest.is_ok()) {
                    Some(client) => client.owe(owed),
                    // As aborted.
                    None => drop(owed),
                },
            }
        }
    }

    /// How many receptions the ring has brought.
    #[inline]
    pub(crate) fn receptions(&self) -> usize {
        self.state.ring.as_ref().map_or(0, Ring::count)
    }

    /// Goes on with what sockets did not take of what was staged; before anything else is sent.
    pub(crate) fn resume_unsent(&mut self) {
        let Some(ring) = self.state.ring.as_mut().filter(|ring| !ring.unsent.is_empty()) else { return };
        for Unsent { token, rest } in ring.take_unsent() {
            if token & UPSTREAM != 0 {
                self.links.note_unsent(token, &rest);
                continue;
            }
            let Some(client) = self.connections.get(token) else { continue };
            match rest {
                Ok(rest) => {
                    self.state.counts().ring_blocked.add(1);
                    client.block(&rest, &self.state);
                    self.turn(token, Readiness::NONE);
                }
                Err(_) => {
                    self.state.counts().connections_broken.add(1);
                    self.close(token);
                }
            }
        }
    }

    /// Lets a connection do what it can with what its reception has brought.
    #[inline]
    pub(crate) fn turn_received(&mut self, index: usize) {
        let Some(ring) = &mut self.state.ring else { return };
        if ring.is_of_upstream(index) {
            return self.turn_upstream(index);
        }
        let Some(reception) = ring.begin(index) else { return };
        let token = reception.token;
        let has_ended = matches!(ring.arrival, Arrival::End | Arrival::Failed(_));
        if let Some(client) = self.connections.get(token) {
            if reception.is_last {
                self.state.counters.0[self.state.index].ring_starved.add(u64::from(reception.is_starved));
                // A starved connection receives by system calls in this turn, lest it starve again, and joins again
                // later.
                let may_stay = !has_ended && !reception.is_starved && client.lane() == Lane::Ring;
                let stays = may_stay && ring.arm(client.fd(), token).is_ok();
                if !stays {
                    client.leave(Lane::Socket);
                }
            }
            self.turn(token, Readiness::INPUT.with(Readiness::END, has_ended));
        }
        if let Some(ring) = &mut self.state.ring
            && let Some(rest) = ring.rest()
            && let Some(client) = self.connections.get(token)
        {
            client.keep_input(&rest);
        }
    }

    /// Lets the request go on for whose connection with an upstream the ring has received something.
    #[cold]
    fn turn_upstream(&mut self, index: usize) {
        let Some(ring) = &mut self.state.ring else { return };
        let Some((token, user)) = self.links.take_in(ring, index) else { return };
        if let Some(address) = user {
            self.resume(address);
        }
        self.links.keep_rest(token);
    }

    /// Finds out what becomes of a connection on the ring after its turn.
    pub(crate) fn finish_turn_in_ring(&mut self, token: u64, turn: Turn) {
        let Some(ring) = &mut self.state.ring else { return };
        let Some(client) = self.connections.get(token) else { return };
        if let Some(rest) = ring.rest() {
            client.keep_input(&rest);
        }
        let is_staged = client.is_staged(&self.state.ring);
        if turn == Turn::Again || (is_staged && client.is_blocked()) {
            // What is staged goes out before its next turn.
            self.again.push(token);
        } else if client.is_blocked() || client.keeps_input() {
            self.leave_ring(token);
        }
    }

    /// The readiness of a turn that nothing was told for.
    pub(crate) fn readiness(&mut self, token: u64) -> Readiness {
        let is_socket = self.connections.get(token).is_none_or(|client| client.lane() == Lane::Socket);
        // The ring does not report room for output, so the connection tries to send.
        if is_socket { Readiness::NONE } else { Readiness::ROOM }
    }

    /// Has a connection of epoll join the ring; whether it did.
    pub(crate) fn join_ring(&mut self, token: u64) -> bool {
        let (Some(ring), Some(client)) = (&mut self.state.ring, self.connections.get(token)) else { return false };
        if !ring.has_room() {
            return false;
        }
        if client.registered.is_some() && self.epoll.remove(client.fd()).is_err() {
            return false;
        }
        client.registered = None;
        if ring.arm(client.fd(), token).is_err() {
            return false;
        }
        client.join(token);
        self.state.counters.0[self.state.index].ring_joined.add(1);
        true
    }

    /// Ends the reception of a connection on the ring, which goes on with epoll after the last completion of it.
    pub(crate) fn leave_ring(&mut self, token: u64) {
        let (Some(ring), Some(client)) = (&mut self.state.ring, self.connections.get(token)) else { return };
        if client.lane() == Lane::Ring && ring.cancel(token).is_ok() {
            client.leave(Lane::Leaving);
            client.before_joining = REQUESTS_BEFORE_JOINING;
            self.state.counters.0[self.state.index].ring_left.add(1);
        }
    }

    /// Keeps the descriptor of a connection that was closed until the ring has nothing more to do with it: another one
    /// could get its number meanwhile.
    pub(crate) fn close_in_ring(&mut self, token: u64, client: Client) {
        if let Some(ring) = self.state.ring.as_mut().filter(|_| client.lane() == Lane::Ring) {
            // It fails where the kernel takes nothing more, and then the loop ends with the next call.
            let _ = ring.cancel(token);
        }
        self.closing.push(client);
    }
}
