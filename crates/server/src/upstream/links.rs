//! The sockets of a loop that lead to upstreams: which event is for which request, and which of them are idle.
//!
//! An event for a socket gives the client's connection a turn whose request uses that socket; the request's handler then
//! reads it. So a response passes through no queue and no other thread on its way.

use super::context::UpstreamContext;
use super::ring_state::{OnRing, Submissions};
use super::secure::{Agreed, Session};
use crate::exchange::application::Wake;
use crate::exchange::wakes::{Address, Waked, Wakes};
use crate::io::epoll::{self, Epoll, Interest, Readiness};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Tokens with this bit are of links. It is the highest of the bits that say the place of a connection, of which there
/// are never so many.
pub(crate) const LINK_BIT: u64 = 1 << 31;
/// What stands for a connection where a probe waits, and no client: the number that goes with it says which.
pub(crate) const PROBE_TOKEN: u64 = LINK_BIT | 1;
/// What stands for a connection where one with an upstream waits that many requests share: the number that goes with it
/// says which.
pub(crate) const SHARED_TOKEN: u64 = LINK_BIT | 2;
/// What stands for a connection where the loop is to look which connections with upstreams it need not keep.
pub(crate) const KEPT_TOKEN: u64 = LINK_BIT | 3;
/// Deadlines that differ in these bits alone are looked at together, at the last of them, so that many different ones
/// do not cost a look each.
const TOGETHER_MS: u64 = 3;
/// Bytes that are received at once: as many as a response may be given before its client has taken them.
pub(crate) const RECEIVED_BYTES_MAX: usize = crate::exchange::reply::OFFERED_BYTES_MAX;

/// Pieces of memory that are kept, and their bytes: those of a new one, and of the largest.
const SPARE_MAX: usize = 64;
const SPARE_BYTES: usize = 1 << 10;
const SPARE_BYTES_MAX: usize = 4 << 10;

/// What a socket is known to have to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing; an event will tell.
    Awaited,
    /// Something.
    There,
    /// Perhaps something, and then the end.
    Ended,
}

/// What a request and the loop both know of what the request waits for.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) input: Cell<Input>,
    /// The socket may have room for output.
    pub(super) has_room: Cell<bool>,
    /// The request that waits; none while a connection is idle.
    pub(super) user: Cell<Option<Address>>,
    /// When that request gives up waiting, by [`crate::io::clock::Clock::now_ms`].
    deadline_ms: Cell<u64>,
    /// What epoll tells of the socket.
    pub(super) interest: Cell<Interest>,
    pub(super) ring: OnRing,
}

/// All links of a loop.
#[derive(Debug)]
pub(crate) struct Links {
    pub(super) epoll: Rc<Epoll>,
    pub(super) context: Arc<UpstreamContext>,
    slots: RefCell<Slots>,
    /// Requests that go on although no socket has an event.
    ready: RefCell<Vec<Address>>,
    /// An idle link has an event: its peer has closed it, or sent what nothing has asked for.
    pub(super) has_stale: Cell<bool>,
    /// Connections that many requests share, by their numbers.
    shared: RefCell<HashMap<u64, Weak<dyn Turns>>>,
    /// Whether anything was ever waited for, so that a server of files asks nothing else in each round.
    is_used: Cell<bool>,
    next_shared: Cell<u64>,
    now_ms: Cell<u64>,
    /// No deadline is before this time. It may be earlier than all of them: a deadline that is put off leaves it as it
    /// is, so that this costs a request one comparison.
    due_ms: Cell<u64>,
    pub(super) input: RefCell<Box<[u8]>>,
    /// What waits for the loop's ring.
    pub(super) submissions: Submissions,
    /// Memory of requests that were sent, for others.
    spare: RefCell<Vec<Vec<u8>>>,
    /// Has the loop look which connections it need not keep; none outside of a loop.
    wake: OnceCell<Wake>,
}

/// A connection that many requests share: it has turns of its own.
pub(super) trait Turns: fmt::Debug {
    /// Goes on as far as is possible.
    fn turn(&self);
}

#[derive(Debug, Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    /// Moves on with each occupant, so that an event for a former one finds no link.
    generation: u32,
    link: Option<Rc<Shared>>,
}

/// Something that a request waits for, until a deadline.
#[derive(Debug)]
pub(crate) struct Waiting {
    token: u64,
    shared: Rc<Shared>,
    links: Rc<Links>,
}

/// A connection with an upstream; dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Link {
    // In this order: the socket leaves epoll before its token may be another one's. None only while it is dropped.
    socket: Option<OwnedFd>,
    waiting: Waiting,
    /// What goes out before all else.
    first: Vec<u8>,
    secure: Option<Box<RefCell<Session>>>,
    /// Whether what comes is acknowledged at once while more is to come.
    acknowledges: bool,
}

impl Links {
    pub(crate) fn new(epoll: Rc<Epoll>, context: Arc<UpstreamContext>) -> Rc<Self> {
        let input = vec![0; RECEIVED_BYTES_MAX].into_boxed_slice();
        Rc::new(Self {
            epoll,
            context,
            slots: RefCell::default(),
            ready: RefCell::default(),
            has_stale: Cell::new(false),
            shared: RefCell::default(),
            is_used: Cell::new(false),
            next_shared: Cell::new(0),
            now_ms: Cell::new(crate::io::clock::now_ms()),
            due_ms: Cell::new(u64::MAX),
            input: RefCell::new(input),
            submissions: Submissions::default(),
            spare: RefCell::default(),
            wake: OnceCell::new(),
        })
    }

    /// Says by what other threads call the loop.
    pub(crate) fn use_wakes(&self, wakes: &Arc<Wakes>) {
        let address = Address { token: Some(KEPT_TOKEN), connection: 0 };
        let _ = self.wake.set(Wake(Arc::new(Waked {
            wakes: Arc::clone(wakes),
            address,
            is_waked: AtomicBool::new(false),
        })));
    }

    /// What has the loop look which connections it need not keep.
    pub(super) fn wake_of_kept(&self) -> Option<&Wake> {
        self.wake.get()
    }

    /// Takes a socket up for a request; `is_connected` says that nothing has to be waited for before it is used.
    ///
    /// # Errors
    ///
    /// What `epoll_ctl` answers.
    pub(crate) fn enter(self: &Rc<Self>, socket: OwnedFd, user: Address, is_connected: bool) -> io::Result<Link> {
        let waiting = self.wait(user, u64::MAX);
        waiting.shared.has_room.set(is_connected);
        waiting.shared.ring.set_fd(socket.as_raw_fd());
        let interest = if is_connected { Interest::Input } else { Interest::InputAndRoom };
        waiting.shared.interest.set(interest);
        self.epoll.add(socket.as_raw_fd(), waiting.token, interest)?;
        Ok(Link { socket: Some(socket), waiting, first: Vec::new(), secure: None, acknowledges: false })
    }

    /// Has a request go on when its time is over, if the value is still there.
    pub(crate) fn wait(self: &Rc<Self>, user: Address, deadline_ms: u64) -> Waiting {
        let shared = Rc::new(Shared {
            input: Cell::new(Input::Awaited),
            has_room: Cell::new(false),
            user: Cell::new(Some(user)),
            deadline_ms: Cell::new(deadline_ms),
            interest: Cell::new(Interest::Input),
            ring: OnRing::new(),
        });
        let token = self.slots.borrow_mut().insert(Rc::clone(&shared));
        self.is_used.set(true);
        self.look_at(deadline_ms);
        Waiting { token, shared, links: Rc::clone(self) }
    }

    /// Notes what a socket has become ready for; the request that is to go on.
    pub(crate) fn note(&self, token: u64, readiness: Readiness) -> Option<Address> {
        let slots = self.slots.borrow();
        let shared = slots.find(token)?;
        if readiness.has(Readiness::END) {
            shared.input.set(Input::Ended);
        } else if readiness.has(Readiness::INPUT) && shared.input.get() == Input::Awaited {
            shared.input.set(Input::There);
        }
        if readiness.has(Readiness::ROOM) {
            shared.has_room.set(true);
            if shared.ring.has_output() {
                self.push_output(shared);
            }
        }
        let user = shared.user.get();
        if user.is_none() {
            self.has_stale.set(true);
        }
        user
    }

    /// What is known of a socket, or of something else that is waited for.
    pub(super) fn shared(&self, token: u64) -> Option<Rc<Shared>> {
        self.slots.borrow().find(token).map(Rc::clone)
    }

    /// Has a request go on in this round, or the next one.
    pub(crate) fn wake(&self, address: Address) {
        self.is_used.set(true);
        self.ready.borrow_mut().push(address);
    }

    /// A number for a connection that many requests share, and where its events are to go.
    pub(super) fn shared_address(&self) -> Address {
        let number = self.next_shared.replace(self.next_shared.get().wrapping_add(1));
        Address { token: Some(SHARED_TOKEN), connection: number }
    }

    /// Has the events of a connection that many requests share go to it.
    pub(super) fn share(&self, address: Address, turns: Weak<dyn Turns>) {
        self.shared.borrow_mut().insert(address.connection, turns);
    }

    /// Forgets a connection that many requests shared.
    pub(super) fn unshare(&self, address: Address) {
        self.shared.borrow_mut().remove(&address.connection);
    }

    /// Gives a connection a turn that many requests share, if it is still there.
    pub(crate) fn turn_shared(&self, number: u64) {
        let found = self.shared.borrow().get(&number).and_then(Weak::upgrade);
        if let Some(found) = found {
            found.turn();
        }
    }

    /// Takes the requests that are to go on.
    pub(crate) fn take_ready(&self) -> Vec<Address> {
        if self.ready.borrow().is_empty() { Vec::new() } else { std::mem::take(&mut self.ready.borrow_mut()) }
    }

    /// Whether the loop has to ask for what there is to do.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.get()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Whether idle links have events since the last time that this was asked.
    pub(crate) fn take_stale(&self) -> bool {
        self.has_stale.take()
    }

    /// Memory for a request, which is empty.
    pub(super) fn take_memory(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(SPARE_BYTES))
    }

    /// Gives memory back, of which not much is kept.
    pub(super) fn give_memory(&self, mut memory: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX && (SPARE_BYTES..=SPARE_BYTES_MAX).contains(&memory.capacity()) {
            memory.clear();
            spare.push(memory);
        }
    }

    /// Tells the time, and has requests go on whose time is over.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
        let (mut due_ms, slots, mut ready) = (u64::MAX, self.slots.borrow(), self.ready.borrow_mut());
        for shared in slots.all.iter().filter_map(|slot| slot.link.as_ref()) {
            match shared.user.get() {
                Some(user) if shared.deadline_ms.get() <= now_ms => ready.push(user),
                Some(_) => due_ms = due_ms.min(shared.deadline_ms.get()),
                None => {}
            }
        }
        self.due_ms.set(due_ms | TOGETHER_MS);
    }

    /// Has the loop look at deadlines at this time, or earlier.
    pub(crate) fn look_at(&self, deadline_ms: u64) {
        let together_ms = deadline_ms | TOGETHER_MS;
        if together_ms < self.due_ms.get() {
            self.due_ms.set(together_ms);
        }
    }

    /// Whether a deadline may be over.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.get() <= now_ms
    }

    /// When a deadline may be over; the type's most without any.
    #[inline]
    pub(crate) fn due_ms(&self) -> u64 {
        self.due_ms.get()
    }

    /// Tells the time.
    pub(crate) fn set_now(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
    }

    /// Monotonic milliseconds, as the loop's clock has them.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Whether there are none, not even idle ones.
    pub(crate) fn is_empty(&self) -> bool {
        let slots = self.slots.borrow();
        slots.all.len() == slots.free.len()
    }
}

impl Slots {
    fn insert(&mut self, shared: Rc<Shared>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot { generation: 0, link: None });
            // Descriptors are bounded far below this type's most.
            (self.all.len() - 1) as u32
        });
        let slot = &mut self.all[index as usize];
        // Its highest bit stays free, as tokens near the top are of other things.
        slot.generation = slot.generation.wrapping_add(1) & (u32::MAX >> 1);
        slot.link = Some(shared);
        u64::from(slot.generation) << 32 | LINK_BIT | u64::from(index)
    }

    fn find(&self, token: u64) -> Option<&Rc<Shared>> {
        let slot = self.all.get((token & (LINK_BIT - 1)) as usize)?;
        slot.link.as_ref().filter(|_| u64::from(slot.generation) == token >> 32)
    }

    fn remove(&mut self, token: u64) {
        let index = (token & (LINK_BIT - 1)) as u32;
        if let Some(slot) = self.all.get_mut(index as usize)
            && slot.link.take().is_some()
        {
            self.free.push(index);
        }
    }
}

impl Link {
    pub(crate) fn fd(&self) -> RawFd {
        self.waiting.shared.ring.fd()
    }

    /// Ends as a link of this loop: its socket, with what was not received of it. None where something else has to do with
    /// that: the loop's ring, or TLS.
    pub(super) fn into_socket(mut self) -> Option<OwnedFd> {
        if self.waiting.shared.ring.is_used() || self.secure.is_some() {
            return None;
        }
        let socket = self.socket.take()?;
        // It stays open elsewhere, and epoll would tell of it as long as that is so.
        let _ = self.waiting.links.epoll.remove(socket.as_raw_fd());
        Some(socket)
    }

    /// Its token, and what it shares with the loop.
    pub(super) fn of(&self) -> (u64, &Shared) {
        (self.waiting.token, &self.waiting.shared)
    }

    pub(super) fn links(&self) -> &Links {
        &self.waiting.links
    }

    /// Whether nothing has come and nothing has ended while it was idle. TLS may have had something to say by itself.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_told = self.waiting.shared.input.get() != Input::Awaited;
        !is_told || (self.secure.is_some() && matches!(self.receive(1, |_| ()), Ok(None)))
    }

    /// Has bytes go out before all else, and then TLS spoken.
    pub(super) fn begin_with(&mut self, first: Vec<u8>, session: Option<Session>) {
        self.first = first;
        self.secure = session.map(|session| Box::new(RefCell::new(session)));
    }

    /// Has what comes over TCP acknowledged at once while more is to come. A program that writes its response in pieces, and
    /// leaves them to the algorithm of Nagle, would have the last one wait 40 ms for an acknowledgement (RFC 1122, 4.2.3.2).
    pub(super) fn acknowledge_at_once(&mut self) {
        self.acknowledges = true;
    }

    /// Says that more is to come than what was received so far.
    pub(super) fn await_more(&self) {
        if self.acknowledges {
            // The kernel forgets it with the next request (tcp(7)). Where it fails, the connection has ended.
            let _ = epoll::set_int_option(&self.fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
        }
    }

    pub(super) fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// Gives it to a request, or to none.
    pub(crate) fn set_user(&self, user: Option<Address>) {
        self.waiting.shared.user.set(user);
        if user.is_none() {
            self.waiting.shared.deadline_ms.set(u64::MAX);
        }
    }

    /// Says until when its user waits.
    pub(crate) fn set_deadline(&self, deadline_ms: u64) {
        self.waiting.set_deadline(deadline_ms);
    }

    /// Whether its user may wait without end.
    pub(crate) fn has_no_deadline(&self) -> bool {
        self.waiting.has_no_deadline()
    }

    /// What its user waits for.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Whether its user has waited long enough.
    pub(crate) fn is_due(&self) -> bool {
        self.waiting.is_due()
    }

    /// Whether it may have something to be read.
    pub(crate) fn has_input(&self) -> bool {
        self.waiting.shared.input.get() != Input::Awaited
    }

    /// Whether there is nothing more to be read, not even the end.
    pub(crate) fn is_read_out(&self) -> bool {
        // What was received filled the memory exactly, or there is more.
        let is_empty = !self.has_input() || matches!(self.receive(1, |_| ()), Ok(None));
        is_empty && !self.waiting.shared.ring.has_output()
    }

    /// Has it read although no event has told of input: where a socket takes nothing more, what its peer sent before
    /// may be there, and so may the end.
    pub(crate) fn look(&self) {
        self.waiting.shared.input.set(Input::Ended);
    }

    /// Whether it may take output.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.shared.has_room.get()
    }

    /// Whether it can be used: it is connected, what goes before all else has gone, and both sides have agreed on keys.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub(crate) fn opened(&mut self) -> io::Result<Option<Agreed>> {
        if !self.has_room() {
            return Ok(None);
        }
        epoll::socket_error(self.fd())?;
        while !self.first.is_empty() {
            match epoll::send_bytes(self.fd(), &self.first, 0) {
                Ok(sent) => drop(self.first.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.await_room()?;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(secure) = &self.secure else { return Ok(Some(Agreed::default())) };
        let agreed = secure.borrow_mut().handshake(self.fd())?;
        if secure.borrow().holds_output() {
            self.await_room()?;
        }
        if agreed.is_some() && !self.has_input() {
            // What came behind the handshake was received with it, and makes no event.
            self.waiting.shared.input.set(Input::There);
        }
        Ok(agreed)
    }

    /// Hands on what TLS holds because there was no room for it.
    ///
    /// # Errors
    ///
    /// What the socket answers.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(secure) = self.secure.as_ref().filter(|secure| secure.borrow().holds_output()) else { return Ok(()) };
        let pushed = secure.borrow_mut().push(self.fd());
        match pushed {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_room(),
            pushed => pushed,
        }
    }

    /// Says that nothing more follows.
    pub(crate) fn end_side(&self) {
        if let Some(secure) = &self.secure {
            secure.borrow_mut().end_side(self.fd());
        }
        epoll::end_side(self.fd());
    }

    fn await_room(&mut self) -> io::Result<()> {
        let Waiting { token, shared, links } = &self.waiting;
        shared.has_room.set(false);
        let before = shared.interest.replace(Interest::InputAndRoom);
        if !shared.ring.is_with_epoll() {
            links.leave(shared, *token);
        } else if before != Interest::InputAndRoom {
            links.epoll.modify(self.fd(), *token, Interest::InputAndRoom)?;
        }
        Ok(())
    }

    /// Sends some of the pieces; 0 = there is no room, and an event tells when there is.
    ///
    /// # Errors
    ///
    /// What the socket answers.
    pub(crate) fn send(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        if !self.has_room() {
            return Ok(0);
        }
        if let Some(staged) = self.stage(pieces) {
            return Ok(staged);
        }
        let sent = match (&self.secure, pieces) {
            (Some(secure), _) => secure.borrow_mut().send(self.fd(), pieces),
            (None, [piece]) => epoll::send_bytes(self.fd(), piece, 0),
            (None, _) => epoll::send(self.fd(), pieces, 0),
        };
        if self.secure.as_ref().is_some_and(|secure| secure.borrow().holds_output()) {
            self.await_room()?;
        }
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.await_room()?;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            sent => sent,
        }
    }

    /// Receives at most so many bytes and gives them to `take`; none = there is nothing for now. 0 bytes are the end of
    /// what the upstream sends.
    ///
    /// # Errors
    ///
    /// What the socket answers.
    pub(crate) fn receive<T>(&self, bytes_max: usize, take: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        if !self.waiting.shared.ring.is_used() {
            return self.receive_by_call(bytes_max, take);
        }
        match self.receive_by_ring(bytes_max, take) {
            Ok(received) => received,
            Err(take) => self.receive_by_call(bytes_max, take),
        }
    }

    fn receive_by_call<T>(&self, bytes_max: usize, take: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        let mut input = self.waiting.links.input.borrow_mut();
        let room = bytes_max.min(input.len());
        let received = match &self.secure {
            None => epoll::receive(self.fd(), &mut input[..room]),
            Some(secure) => secure.borrow_mut().receive(self.fd(), &mut input[..room]),
        };
        match received {
            Ok(received) if self.secure.is_some() => {
                let is_drained = self.secure.as_ref().is_some_and(|secure| secure.borrow().is_drained());
                if is_drained && self.waiting.shared.input.get() == Input::There {
                    self.waiting.shared.input.set(Input::Awaited);
                }
                Ok(Some(take(&input[..received])))
            }
            Ok(received) => {
                // Less than there was room for is all that there is; what comes later makes an event, and so does an end
                // that was not told yet.
                if received > 0 && received < room && self.waiting.shared.input.get() == Input::There {
                    self.waiting.shared.input.set(Input::Awaited);
                }
                Ok(Some(take(&input[..received])))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.waiting.shared.input.set(Input::Awaited);
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(secure) = &self.secure {
            secure.borrow_mut().end_side(self.fd());
        }
        if !self.waiting.shared.ring.is_with_epoll()
            && let Some(socket) = self.socket.take()
        {
            self.waiting.links.close_later(self.waiting.token, socket);
        }
    }
}

impl Waiting {
    /// Whether the time is over.
    pub(crate) fn is_due(&self) -> bool {
        self.shared.deadline_ms.get() <= self.links.now_ms.get()
    }

    /// Says until when it is waited.
    pub(crate) fn set_deadline(&self, deadline_ms: u64) {
        self.shared.deadline_ms.set(deadline_ms);
        self.links.look_at(deadline_ms);
    }

    /// Whether it may be waited without end.
    pub(crate) fn has_no_deadline(&self) -> bool {
        self.shared.deadline_ms.get() == u64::MAX
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.links.slots.borrow_mut().remove(self.token);
    }
}
