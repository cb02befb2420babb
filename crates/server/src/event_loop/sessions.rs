//! Orders to loops about sessions: what other threads ask for, and the mailbox of each loop.
//!
//! The thread that asks reads files and makes digests; a loop only stops connections, opens files and goes on with
//! connections, each between two events. It is woken for an order as for any other, so that it has nothing to look at
//! while no session moves.

use super::followed::{LoopCopies, LoopCopy};
use super::session_answer::Answer;
use crate::files::held::{ContentKey, Held, KnownContents, Opened};
use crate::http::response::{Digest, Piece, Response, Variant};
use crate::io::ends::Ends;
use crate::io::epoll::Waker;
use crate::policy::codec_swap::StreamPlace;
use crate::policy::control::Controls;
use crate::policy::popularity::{AskedPath, merged};
use crate::policy::session_copies::{CopyRound, SessionCopies, SessionCopy, TlsKeys};
use crate::policy::sessions::{
    AdoptError, OpenSession, SESSION_BYTES_MAX, SessionAccess, TakeError, TakenRelay, TakenSession,
};
use crate::process::session::{ContentName, Pending, Session};
use crate::telemetry::admin::connected::{Connections, Ended, Stop};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a loop may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long all of them together may take where the admin address asks, which has other visitors.
const VISIT_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a session that are asked for at once.
const BYTES_MAX: u64 = 16 << 20;

/// The way to the loops for threads that move sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    mailboxes: Box<[Mailbox]>,
    controls: Arc<Controls>,
    known: Mutex<KnownContents>,
    /// The loop that takes the next one in.
    next: AtomicUsize,
    /// By this a thread is told that there are copies to be asked for.
    copies: Mutex<Option<Waker>>,
}

/// What a loop is asked for.
#[derive(Debug, Default)]
struct Mailbox {
    has_orders: AtomicBool,
    orders: Mutex<Waiting>,
}

/// Orders that wait for a loop.
#[derive(Debug)]
enum Waiting {
    Orders(Vec<Order>),
    /// The loop has ended.
    Ended,
}

impl Default for Waiting {
    fn default() -> Self {
        Self::Orders(Vec::new())
    }
}

/// The two ends of a connection's socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct SocketEnds {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

/// An order to a loop.
#[derive(Debug)]
pub(super) enum Order {
    /// Says which connections are open.
    List(Answer<Vec<OpenSession>>),
    /// Says how many connections of HTTP/3 have requests under way.
    Http3(Answer<Vec<usize>>),
    /// Says which files were asked for since it said so last.
    Asked(Answer<Vec<AskedPath>>),
    /// Says what a connection's responses are taken from, and lets it go on.
    Look(SocketEnds, Answer<Result<Seen, TakeError>>),
    /// Stops a connection and gives it away.
    Take(SocketEnds, Answer<Result<Stopped, TakeError>>),
    /// Opens a file.
    Open(ContentKey, Answer<Result<Opened, AdoptError>>),
    /// Goes on with a connection.
    Adopt(Box<Adopted>, Answer<Result<(), Refused>>),
    /// Copies connections whose responses take long, with their keys or not; also those that were copied already, if it is
    /// said.
    Copy(TlsKeys, CopyRound, Answer<LoopCopies>),
    /// Says who is connected: all, or those of an address.
    Connected(Option<IpAddr>, Answer<Connections>),
    /// Ends connections or a request.
    Stop(Stop, Answer<Ended>),
    /// Lets a connection begin whose socket was in repair mode; not after this time.
    Begin { token: u64, until: Instant },
}

/// What a connection that can move has under way.
#[derive(Debug)]
pub(super) struct Seen {
    /// What its responses are taken from, in their order, and where in it those are that are made in pieces.
    pub(super) contents: Vec<(Held, Option<StreamPlace>)>,
    /// How many other ones this server would go on making.
    pub(super) relays: usize,
}

/// The form of a content, its name, and how far a response came that is made of it in pieces.
type SeenContent = (Variant, ContentName, Option<StreamPlace>);

/// A connection that was stopped. The digests of its contents are not put in yet.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) socket: OwnedFd,
    pub(super) session: Session,
    /// In the order of the responses.
    pub(super) contents: Vec<Held>,
    /// By these comes what is made here of its responses, or by another server, in their order.
    pub(super) relays: Vec<TakenRelay>,
}

/// A connection that is to go on.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) socket: OwnedFd,
    pub(super) session: Session,
    /// In the order of the responses, with the digests that are known.
    pub(super) contents: Vec<(Held, Option<Digest>)>,
    /// By these comes what another server makes of its responses, in their order.
    pub(super) relays: Vec<TakenRelay>,
    /// It was taken from this server, and has its place here still.
    pub(super) comes_back: bool,
}

/// A connection that a loop does not take.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) error: AdoptError,
    /// It, for another loop.
    pub(super) adopted: Option<Box<Adopted>>,
}

impl Sessions {
    pub(super) fn new(loops: usize, controls: Arc<Controls>) -> Self {
        let mailboxes = (0..loops).map(|_| Mailbox::default()).collect();
        Self { mailboxes, controls, known: Mutex::default(), next: AtomicUsize::new(0), copies: Mutex::default() }
    }

    /// The orders that wait for a loop.
    #[inline]
    pub(super) fn take_orders(&self, index: usize) -> Vec<Order> {
        match self.mailboxes.get(index) {
            Some(mailbox) if mailbox.has_orders.load(Ordering::Acquire) => mailbox.take(),
            _ => Vec::new(),
        }
    }

    /// Asks a loop; an order to one that has ended comes back.
    pub(super) fn post(&self, index: usize, order: Order) -> Option<Order> {
        let Some(mailbox) = self.mailboxes.get(index) else { return Some(order) };
        match &mut *mailbox.orders() {
            Waiting::Orders(orders) => orders.push(order),
            Waiting::Ended => return Some(order),
        }
        mailbox.has_orders.store(true, Ordering::Release);
        self.controls.wake(index);
        None
    }

    /// There are copies to be asked for, or ends of responses to be told.
    pub(super) fn tell_of_copies(&self) {
        self.copies().iter().for_each(Waker::wake);
    }

    fn copies(&self) -> MutexGuard<'_, Option<Waker>> {
        // A thread that panicked with the lock held left a whole value.
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A loop has ended, and does nothing more.
    pub(super) fn end(&self, index: usize) {
        let Some(mailbox) = self.mailboxes.get(index) else { return };
        if let Waiting::Orders(orders) = std::mem::replace(&mut *mailbox.orders(), Waiting::Ended) {
            orders.into_iter().for_each(Order::pass);
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownContents> {
        // A thread that panicked with the lock held left whole entries.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all loops, of which at most one has what it is about.
    fn ask_all<T>(&self, nothing: impl Fn() -> T, order: impl Fn(Answer<T>) -> Order) -> Option<T> {
        let answer = Answer::of(self.mailboxes.len());
        for index in 0..self.mailboxes.len() {
            if self.post(index, order(answer.clone())).is_some() {
                answer.pass(nothing());
            }
        }
        answer.wait(PATIENCE)
    }

    /// What all loops say together.
    fn gather<T>(&self, order: impl Fn(Answer<Vec<T>>) -> Order) -> Vec<T> {
        let of_loop = |index| {
            let answer = Answer::of(1);
            let posted = self.post(index, order(answer.clone())).is_none();
            posted.then(|| answer.wait(PATIENCE)).flatten().unwrap_or_default()
        };
        (0..self.mailboxes.len()).flat_map(of_loop).collect()
    }

    /// What each loop says within a second, all asked at once; those that say nothing have `None`. Loops that have ended
    /// are left out.
    pub(super) fn ask_each<T>(&self, order: impl Fn(Answer<T>) -> Order) -> Vec<Option<T>> {
        let ask = |index| {
            let answer = Answer::of(1);
            self.post(index, order(answer.clone())).is_none().then_some(answer)
        };
        let asked: Vec<Answer<T>> = (0..self.mailboxes.len()).filter_map(ask).collect();
        let until = Instant::now() + VISIT_PATIENCE;
        asked.into_iter().map(|answer| answer.wait(until.saturating_duration_since(Instant::now()))).collect()
    }

    /// Asks the first loop that has not ended.
    fn ask_one<T>(&self, mut order: Order, answer: &Answer<T>) -> Option<T> {
        for index in 0..self.mailboxes.len() {
            match self.post(index, order) {
                None => return answer.wait(PATIENCE),
                Some(back) => order = back,
            }
        }
        None
    }

    /// The contents of a session, known by their digests; what is not known is looked for below the site's root.
    fn find(&self, session: &Session) -> Result<Vec<(Held, Option<Digest>)>, AdoptError> {
        let named = session.responses.iter().filter_map(|pending| Some((pending, pending.content.as_ref()?)));
        named.map(|(pending, name)| self.find_one(pending, name)).collect()
    }

    fn find_one(&self, pending: &Pending, name: &ContentName) -> Result<(Held, Option<Digest>), AdoptError> {
        let variant = pending.response.variant;
        let key = ContentKey { site: name.site, path: name.path.clone(), variant, is_made: name.is_made };
        let path = || String::from_utf8_lossy(&name.path).into_owned();
        let known = self.known().find(&key, name.digest);
        let held = if let Some(held) = known {
            held
        } else {
            let answer = Answer::of(1);
            let order = Order::Open(key.clone(), answer.clone());
            let opened = self.ask_one(order, &answer).unwrap_or(Err(AdoptError::NoAnswer))?;
            let no_content = |source| AdoptError::NoContent { path: path(), site: name.site, source };
            let held = Held::load(key, opened).map_err(no_content)?;
            let held = held.filter(|held| held.digest() == Some(name.digest));
            let held = held.ok_or_else(|| AdoptError::OtherContent { path: path(), site: name.site })?;
            self.known().remember(&held, name.digest);
            held
        };
        let end = pending.response.parts.iter().map(|part| part.end).max().unwrap_or(0);
        let end = pending.swapped.as_ref().map_or(end, |place| place.at);
        if end > held.size() {
            return Err(AdoptError::Malformed { part: "the parts of a response" });
        }
        Ok((held, Some(name.digest)))
    }

    /// What the responses of a connection are taken from, with its digests, while it goes on; and how many others it has
    /// that this server would go on making.
    fn look(&self, ends: SocketEnds) -> Result<(Vec<SeenContent>, usize), TakeError> {
        let SocketEnds { peer, local } = ends;
        let nothing = || Err(TakeError::NoConnection { peer, local });
        let looked = self.ask_all(nothing, |answer| Order::Look(ends, answer));
        let name = |(held, swapped): (Held, Option<StreamPlace>)| {
            let digest = self.digest(&held).ok_or(TakeError::Content)?;
            let ContentKey { site, path, variant, is_made } = held.key;
            Ok((variant, ContentName { site, path, digest, is_made }, swapped))
        };
        let Seen { contents, relays } = looked.unwrap_or(Err(TakeError::NoAnswer))?;
        let names: Result<_, TakeError> = contents.into_iter().map(name).collect();
        Ok((names?, relays))
    }

    /// The digest of content that is held.
    fn digest(&self, held: &Held) -> Option<Digest> {
        let digest = held.digest()?;
        self.known().remember(held, digest);
        Some(digest)
    }

    /// A loop's copy as bytes; none if its file is another one by now, or there is too much of it.
    fn finish_copy(&self, copy: LoopCopy) -> Option<SessionCopy> {
        let LoopCopy { mut session, content, peer, local, progress, facts, socket } = copy;
        if let Some(held) = content {
            let digest = self.digest(&held)?;
            let names = session.responses.iter_mut().filter_map(|pending| pending.content.as_mut());
            names.for_each(|name| name.digest = digest);
        }
        let session = session.write();
        let is_small = session.len() <= SESSION_BYTES_MAX;
        let (offset, response_bytes) = (progress.offset, progress.bytes);
        is_small.then_some(SessionCopy { peer, local, session, offset, response_bytes, facts, socket })
    }

    /// Has a loop go on with a connection, one that takes it.
    fn hand_over(&self, adopted: Adopted) -> Result<(), AdoptError> {
        let loops = self.mailboxes.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut adopted, mut error) = (Box::new(adopted), AdoptError::NoAnswer);
        for index in (0..loops).map(|place| first.wrapping_add(place) % loops) {
            let answer = Answer::of(1);
            let refused = match self.post(index, Order::Adopt(adopted, answer.clone())) {
                None => answer.wait(PATIENCE).ok_or(AdoptError::NoAnswer)?.err(),
                Some(Order::Adopt(adopted, _)) => Some(Refused { error, adopted: Some(adopted) }),
                Some(_) => return Err(AdoptError::NoAnswer),
            };
            match refused {
                None => return Ok(()),
                // A loop of the reserve rests, or this one is about to end.
                Some(Refused { error: why, adopted: Some(back) }) => (adopted, error) = (back, why),
                Some(Refused { error, adopted: None }) => return Err(error),
            }
        }
        Err(error)
    }

    /// Goes on with what was stopped just now.
    fn undo(&self, stopped: Stopped) {
        let Stopped { socket, session, contents, relays } = stopped;
        let contents = contents.into_iter().map(|held| (held, None)).collect();
        if let Err(error) = self.hand_over(Adopted { socket, session, contents, relays, comes_back: true }) {
            tracing::warn!(%error, "a connection that was stopped cannot go on and was closed");
        }
    }
}

impl Mailbox {
    fn orders(&self) -> MutexGuard<'_, Waiting> {
        // A thread that panicked with the lock held left whole orders.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn take(&self) -> Vec<Order> {
        let mut waiting = self.orders();
        self.has_orders.store(false, Ordering::Release);
        match &mut *waiting {
            Waiting::Orders(orders) => std::mem::take(orders),
            Waiting::Ended => Vec::new(),
        }
    }
}

impl Order {
    /// The loop that it is for says nothing.
    pub(super) fn pass(self) {
        match self {
            Self::List(answer) => answer.pass(Vec::new()),
            Self::Http3(answer) => answer.pass(Vec::new()),
            Self::Asked(answer) => answer.pass(Vec::new()),
            Self::Look(_, answer) => answer.pass(Err(TakeError::NoAnswer)),
            Self::Take(_, answer) => answer.pass(Err(TakeError::NoAnswer)),
            Self::Open(_, answer) => answer.pass(Err(AdoptError::NoAnswer)),
            Self::Adopt(adopted, answer) => {
                answer.pass(Err(Refused { error: AdoptError::NoAnswer, adopted: Some(adopted) }));
            }
            Self::Copy(.., answer) => answer.pass(LoopCopies::default()),
            Self::Connected(_, answer) => answer.pass(Connections::default()),
            Self::Stop(_, answer) => answer.pass(Ended::default()),
            Self::Begin { .. } => {}
        }
    }
}

impl SessionAccess for Sessions {
    fn list(&self) -> Vec<OpenSession> {
        self.gather(Order::List)
    }

    fn http3_under_way(&self) -> u64 {
        self.gather(Order::Http3).iter().sum::<usize>() as u64
    }

    fn asked(&self) -> Vec<AskedPath> {
        merged(self.gather(Order::Asked).into_iter())
    }

    fn preview(&self, peer: SocketAddr, local: SocketAddr) -> Result<Vec<u8>, TakeError> {
        let (names, relays) = self.look(SocketEnds { peer, local })?;
        // No address of its own: the previews of all downloads of a file are the same.
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        Ok(Session::preview(any, names, relays).write().to_vec())
    }

    fn take(&self, peer: SocketAddr, local: SocketAddr) -> Result<TakenSession, TakeError> {
        let ends = SocketEnds { peer, local };
        let nothing = || TakeError::NoConnection { peer, local };
        // While it goes on: a file may be large.
        self.look(ends)?;
        let taken = self.ask_all(|| Err(nothing()), |answer| Order::Take(ends, answer));
        let mut stopped = taken.unwrap_or(Err(TakeError::NoAnswer))?;
        let digests: Option<Vec<Digest>> = stopped.contents.iter().map(|held| self.digest(held)).collect();
        let Some(digests) = digests else {
            // It goes on with the descriptor that it has, and ends where the file is another one.
            self.undo(stopped);
            return Err(TakeError::Content);
        };
        let names = stopped.session.responses.iter_mut().filter_map(|pending| pending.content.as_mut());
        names.zip(&digests).for_each(|(name, digest)| name.digest = *digest);
        let (session, known_bytes) = (stopped.session.write(), stopped.session.known_bytes());
        if session.len() > SESSION_BYTES_MAX {
            self.undo(stopped);
            return Err(TakeError::TooLarge);
        }
        Ok(TakenSession { fd: stopped.socket, session, known_bytes, relays: stopped.relays })
    }

    fn copy(&self, keys: TlsKeys, round: CopyRound) -> SessionCopies {
        let mut all = SessionCopies::default();
        for index in 0..self.mailboxes.len() {
            let answer = Answer::of(1);
            let posted = self.post(index, Order::Copy(keys, round, answer.clone())).is_none();
            let Some(found) = posted.then(|| answer.wait(PATIENCE)).flatten() else { continue };
            all.copies.extend(found.copies.into_iter().filter_map(|copy| self.finish_copy(copy)));
            all.ended.extend(found.ended);
            for (why, count) in found.left_out {
                *all.left_out.entry(why).or_default() += count;
            }
        }
        all
    }

    fn tell_of_copies_by(&self, eventfd: OwnedFd) {
        let waker = Waker::from(eventfd);
        // What was found before it came is told as well.
        waker.wake();
        *self.copies() = Some(waker);
    }

    fn give_back(&self, taken: TakenSession) {
        let given = Session::read(&taken.session).and_then(|session| {
            let contents = self.find(&session)?;
            let (socket, relays) = (taken.fd, taken.relays);
            self.hand_over(Adopted { socket, session, contents, relays, comes_back: true })
        });
        if let Err(error) = given {
            tracing::warn!(%error, "a connection that was given back cannot go on and was closed");
        }
    }

    fn bytes(&self, session: &[u8], from: u64, len: u64) -> Result<Vec<u8>, AdoptError> {
        let session = Session::read(session)?;
        let contents = self.find(&session)?;
        let known_bytes = session.known_bytes();
        if len > BYTES_MAX || from.checked_add(len).is_none_or(|end| end > known_bytes) {
            return Err(AdoptError::Range { known_bytes, from, len });
        }
        let Session { tls, responses, .. } = session;
        let Some(first) = responses.into_iter().next().filter(|_| len > 0) else { return Ok(Vec::new()) };
        let held = first.content.as_ref().and_then(|_| contents.first()).map(|(held, _)| held);
        let mut response = first.response;
        let mut out = Vec::new();
        let Some(tls) = tls else { return append_response(&mut response, held, (from, len), &mut out).map(|()| out) };
        let mut failed = None;
        let place = (response.offset, response.len());
        let sealed = tls.seal_again(place, (from, len), |from, len, out| {
            append_response(&mut response, held, (from, len), out).map_err(|error| failed = Some(error)).ok()
        });
        sealed.ok_or_else(|| failed.unwrap_or(AdoptError::Malformed { part: "its TLS" }))
    }

    fn adopt(&self, session: &[u8], fd: OwnedFd, relays: Vec<TakenRelay>, peer: SocketAddr) -> Result<(), AdoptError> {
        let session = Session { peer, ..Session::read(session)? };
        let contents = self.find(&session)?;
        if Ends::of(fd.as_raw_fd()).local.is_none() {
            return Err(AdoptError::Socket { source: std::io::Error::from_raw_os_error(libc::ENOTSOCK) });
        }
        for fd in relays.iter().map(|relay| &relay.socket).chain([&fd]) {
            set_nonblocking(fd).map_err(|source| AdoptError::Socket { source })?;
        }
        self.hand_over(Adopted { socket: fd, session, contents, relays, comes_back: false })
    }
}

/// Appends bytes of a response, from the byte `from` on; less where it has no such content.
fn append_response(
    response: &mut Response,
    held: Option<&Held>,
    (from, len): (u64, u64),
    out: &mut Vec<u8>,
) -> Result<(), AdoptError> {
    response.offset = from;
    // The bound is far below this type's.
    let end = out.len() + len as usize;
    for piece in response.rest() {
        let wanted = end - out.len();
        match (piece, held) {
            _ if wanted == 0 => break,
            (Piece::Head(bytes), _) => out.extend_from_slice(&bytes[..bytes.len().min(wanted)]),
            (Piece::Content { start, len }, Some(held)) => {
                let now = usize::try_from(len).unwrap_or(usize::MAX).min(wanted);
                if !held.append(start, now, out) {
                    let path = String::from_utf8_lossy(&held.key.path).into_owned();
                    return Err(AdoptError::OtherContent { path, site: held.key.site });
                }
            }
            (Piece::Content { .. }, None) => break,
        }
    }
    Ok(())
}

/// A loop must not wait for a socket (fcntl(2)); one that comes from elsewhere may be of another kind.
pub(super) fn set_nonblocking(fd: &OwnedFd) -> std::io::Result<()> {
    // SAFETY: the descriptor is open, and the calls take no pointers.
    let flags = crate::io::epoll::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    crate::io::epoll::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    // SAFETY: as above.
    crate::io::epoll::check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}
