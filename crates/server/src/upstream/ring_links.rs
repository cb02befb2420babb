//! Connections with upstreams on the loop's io_uring: their input comes by receptions that stay armed, and small requests
//! go out with the ring's next call, so that a proxied request needs no system call of its own.
//!
//! A connection begins with epoll, and joins the ring when it becomes idle for the first time. It leaves where more comes
//! than one buffer holds, where its request does not take what came, and where its socket has no room; after some more
//! requests it joins again. What is to be done by the ring is noted here, and handed over before the ring's next call.

use super::links::{Input, LINK_BIT, Link, Links, RECEIVED_BYTES_MAX, Shared};
use super::ring_state::{Arrived, Order, Staged};
use crate::exchange::wakes::Address;
use crate::io::epoll::{self, Interest};
use crate::transport::Lane;
use crate::transport::ring::Ring;
use crate::transport::ring::upstreams::{UPSTREAM, UPSTREAM_BUFFER_BYTES, UpstreamArrival};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

/// Bytes of requests that wait for the ring's next call: those of one connection, and those of all.
const STAGED_BYTES_MAX: usize = 4 << 10;
const STAGED_ALL_BYTES_MAX: usize = 256 << 10;
/// Requests after which a connection that has left joins again.
const REQUESTS_BEFORE_JOINING: u8 = 16;

/// A token as the ring has it, which uses the highest bit of places otherwise.
fn ring_token(token: u64) -> u64 {
    token & !LINK_BIT | UPSTREAM
}

fn link_token(token: u64) -> u64 {
    token & !UPSTREAM | LINK_BIT
}

impl Links {
    /// Whether the loop has a ring.
    pub(crate) fn use_ring(&self, has_ring: bool) {
        self.submissions.has_ring.set(has_ring);
    }

    /// Whether sockets wait for the ring's next call to be closed.
    #[inline]
    pub(crate) fn has_closing(&self) -> bool {
        self.submissions.has_closing.get()
    }

    /// Whether anything waits for the ring's next call.
    #[inline]
    pub(crate) fn has_submissions(&self) -> bool {
        self.submissions.has_any.get()
    }

    /// Closes sockets that the ring has nothing more to do with, after its call.
    pub(crate) fn close_left(&self) {
        self.submissions.closing.borrow_mut().clear();
        self.submissions.has_closing.set(false);
    }

    /// Keeps the descriptor of a connection that is closed until the ring has ended its reception: another one could get
    /// its number meanwhile.
    pub(super) fn close_later(&self, token: u64, socket: OwnedFd) {
        self.submissions.order(Order::Cancel(token));
        self.submissions.closing.borrow_mut().push(socket);
        self.submissions.has_closing.set(true);
    }

    /// Has an idle connection received for by the ring from now on, if that is its turn.
    pub(super) fn join(&self, link: &Link) {
        let (token, shared) = link.of();
        let on = &shared.ring;
        let is_able = self.submissions.has_ring.get() && !link.is_secure();
        if !is_able || on.lane.get() != Lane::Socket || shared.input.get() != Input::Awaited {
            return;
        }
        if on.joins_in.get() > 0 {
            return on.joins_in.set(on.joins_in.get() - 1);
        }
        if on.is_used.get() || self.epoll.remove(on.fd()).is_err() {
            return;
        }
        on.lane.set(Lane::Ring);
        on.is_used.set(true);
        self.submissions.order(Order::Arm(token));
    }

    /// Hands over what waits.
    #[cold]
    pub(crate) fn hand_over(&self, ring: &mut Ring) {
        self.submissions.has_any.set(false);
        // What fails here orders something anew, for the next call.
        let mut orders = self.submissions.orders.take();
        for order in orders.drain(..) {
            match order {
                Order::Arm(token) => {
                    // Also where it leaves already: the last completion has it return.
                    let Some(shared) = self.shared(token).filter(|shared| !shared.ring.is_with_epoll()) else {
                        continue;
                    };
                    if ring.arm_upstream(shared.ring.fd(), ring_token(token)).is_err() {
                        self.return_to_epoll(&shared, token);
                    }
                }
                // It fails where the kernel takes nothing more, and then the loop ends with the next call.
                Order::Cancel(token) => drop(ring.cancel(ring_token(token))),
            }
        }
        if self.submissions.orders.borrow().is_empty() {
            self.submissions.orders.replace(orders);
        }
        let mut staged = self.submissions.staged.borrow_mut();
        let Staged { ends, bytes } = &mut *staged;
        let mut start = 0;
        for (token, end) in ends.drain(..) {
            let request = &bytes[start..end];
            start = end;
            // Whose connection was closed goes nowhere.
            let Some(shared) = self.shared(token) else { continue };
            shared.ring.is_staged.set(false);
            if !ring.stage(shared.ring.fd(), ring_token(token), &[IoSlice::new(request)], false) {
                self.keep_output(&shared, token, request);
            }
        }
        bytes.clear();
        drop(staged);
        // Those that left because there was no room; nothing is staged any more.
        if self.has_submissions() {
            self.hand_over(ring);
        }
    }

    /// Takes in what the ring has received; the request that is to go on.
    pub(crate) fn take_in(&self, ring: &mut Ring, index: usize) -> Option<(u64, Option<Address>)> {
        let reception = ring.take_upstream(index, &mut self.input.borrow_mut())?;
        let token = link_token(reception.token);
        let shared = self.shared(token)?;
        let on = &shared.ring;
        match reception.arrival {
            UpstreamArrival::Bytes(bytes) => {
                self.submissions.arrived.set(Arrived { token, start: 0, end: bytes });
                if shared.input.get() == Input::Awaited {
                    shared.input.set(Input::There);
                }
                if bytes == UPSTREAM_BUFFER_BYTES {
                    // It sends much, which is received in larger pieces by calls.
                    self.leave(&shared, token);
                }
            }
            UpstreamArrival::End(code) => {
                on.ended.set(Some(code));
                shared.input.set(Input::Ended);
            }
            UpstreamArrival::Nothing => {}
        }
        if reception.is_last {
            let may_stay = !reception.is_starved && on.lane.get() == Lane::Ring && on.ended.get().is_none();
            if may_stay {
                self.submissions.order(Order::Arm(token));
            } else {
                self.return_to_epoll(&shared, token);
            }
        }
        let user = shared.user.get();
        if user.is_none() && shared.input.get() != Input::Awaited {
            self.has_stale.set(true);
        }
        Some((token, user))
    }

    /// Keeps what its request did not take of what was received.
    pub(crate) fn keep_rest(&self, token: u64) {
        let Arrived { start, end, .. } = self.submissions.arrived.take();
        if start == end {
            return;
        }
        let Some(shared) = self.shared(token) else { return };
        shared.ring.input.borrow_mut().extend_from_slice(&self.input.borrow()[start..end]);
        self.leave(&shared, token);
    }

    /// Takes note of what a socket did not take of a staged request.
    #[cold]
    pub(crate) fn note_unsent(&self, token: u64, rest: &io::Result<Vec<u8>>) {
        let token = link_token(token);
        let Some(shared) = self.shared(token) else { return };
        match rest {
            Ok(rest) => self.keep_output(&shared, token, rest),
            // What its server has said before, and its end, are received.
            Err(_) => shared.ring.is_refused.set(true),
        }
    }

    #[cold]
    fn keep_output(&self, shared: &Shared, token: u64, rest: &[u8]) {
        shared.ring.output.borrow_mut().extend_from_slice(rest);
        shared.has_room.set(false);
        shared.interest.set(Interest::InputAndRoom);
        self.leave(shared, token);
    }

    /// Sends what is left of a staged request, as there is room.
    #[cold]
    pub(super) fn push_output(&self, shared: &Shared) {
        let mut output = shared.ring.output.borrow_mut();
        while !output.is_empty() {
            match epoll::send_bytes(shared.ring.fd(), &output, 0) {
                Ok(taken) => drop(output.drain(..taken)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return shared.has_room.set(false),
                Err(_) => {
                    shared.ring.is_refused.set(true);
                    return output.clear();
                }
            }
        }
    }

    /// Ends the reception of a connection, which goes on with epoll after the last completion of it.
    pub(super) fn leave(&self, shared: &Shared, token: u64) {
        let on = &shared.ring;
        if on.lane.get() == Lane::Ring {
            on.lane.set(Lane::Leaving);
            on.joins_in.set(REQUESTS_BEFORE_JOINING);
            self.submissions.order(Order::Cancel(token));
        }
    }

    /// Has epoll tell of a connection again; of what is there already it tells at once.
    fn return_to_epoll(&self, shared: &Shared, token: u64) {
        let on = &shared.ring;
        on.lane.set(Lane::Socket);
        on.joins_in.set(REQUESTS_BEFORE_JOINING);
        if on.ended.get().is_none()
            && let Err(error) = self.epoll.add(on.fd(), token, shared.interest.get())
        {
            on.ended.set(error.raw_os_error());
            shared.input.set(Input::Ended);
        }
    }
}

impl Link {
    /// Whether the socket has refused a request that counted as sent; it is told once.
    pub(super) fn take_refused(&self) -> bool {
        self.of().1.ring.is_refused.take()
    }

    /// Has a small request wait for the ring's next call: how many bytes of it; none = it goes out by a call of its own.
    /// 0 = its turn comes after that call, and its request goes on then.
    pub(super) fn stage(&self, pieces: &[IoSlice<'_>]) -> Option<usize> {
        let (token, shared) = self.of();
        let on = &shared.ring;
        if !on.is_used.get() {
            return None;
        }
        let links = self.links();
        let mut staged = links.submissions.staged.borrow_mut();
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let fits = len <= STAGED_BYTES_MAX && staged.bytes.len() + len <= STAGED_ALL_BYTES_MAX;
        if on.is_staged.get() {
            if !fits || staged.ends.last().is_none_or(|(last, _)| *last != token) {
                shared.user.get().into_iter().for_each(|user| links.wake(user));
                return Some(0);
            }
            staged.ends.pop();
        } else if on.lane.get() != Lane::Ring || !fits {
            return None;
        }
        pieces.iter().for_each(|piece| staged.bytes.extend_from_slice(piece));
        let end = staged.bytes.len();
        staged.ends.push((token, end));
        on.is_staged.set(true);
        links.submissions.has_any.set(true);
        Some(len)
    }

    /// Receives what the ring has received; the inner one is none where the socket has to be asked.
    pub(super) fn receive_by_ring<T>(
        &self,
        bytes_max: usize,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<io::Result<Option<T>>, impl FnOnce(&[u8]) -> T> {
        let (token, shared) = self.of();
        let (on, links) = (&shared.ring, self.links());
        let room = bytes_max.min(RECEIVED_BYTES_MAX);
        let mut kept = on.input.borrow_mut();
        if !kept.is_empty() {
            let taken = kept.len().min(room);
            let said = take(&kept[..taken]);
            kept.drain(..taken);
            return Ok(Ok(Some(said)));
        }
        drop(kept);
        let arrived = links.submissions.arrived.get();
        if arrived.token == token && arrived.start < arrived.end {
            let end = arrived.end.min(arrived.start + room);
            links.submissions.arrived.set(Arrived { start: end, ..arrived });
            if end == arrived.end && shared.input.get() == Input::There {
                shared.input.set(Input::Awaited);
            }
            return Ok(Ok(Some(take(&links.input.borrow()[arrived.start..end]))));
        }
        match on.ended.get() {
            Some(0) => return Ok(Ok(Some(take(&[])))),
            Some(code) => return Ok(Err(io::Error::from_raw_os_error(code))),
            None => {}
        }
        if on.lane.get() == Lane::Socket {
            on.is_used.set(!on.output.borrow().is_empty());
            return Err(take);
        }
        shared.input.set(Input::Awaited);
        Ok(Ok(None))
    }
}
