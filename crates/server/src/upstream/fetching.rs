//! A request that a cache sends to an upstream: what comes goes to the cache, and to a client if there is one.
//!
//! The upstream's handler writes into a reply of its own, whose parts are moved to the client's as fast as the client takes
//! them. So the cache may give the client something else than the upstream sends, or ask the upstream once more.

use super::cache::answer::Answer;
use super::cache::fetch::{Begun, Fetch};
use super::cache::freshness::Now;
use super::links::Links;
use super::message::ResponseHead;
use super::owned_head::OwnedHead;
use crate::exchange::application::{Begin, Caller, Handler, RequestHead, Wake};
use crate::exchange::reply::{HeadOf, Reply, ReplyHead};
use crate::exchange::request_body::RequestBody;
use crate::exchange::wakes::Address;
use crate::io::clock;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Pieces that one turn takes where no client holds the upstream back; each has at most as many bytes as a reply holds.
const PIECES_MAX: u32 = 16;

/// The time, for a request that does not have that of its loop at hand.
pub(super) fn now() -> Now {
    let wall_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Now { wall_s, mono_ms: clock::now_ms() }
}

/// A request that is kept, so that the upstream can be asked later, or once more.
#[derive(Debug)]
pub(super) struct Origin {
    begin: Rc<dyn Begin>,
    head: OwnedHead,
    wake: Wake,
}

impl Origin {
    pub(super) fn new(begin: &Rc<dyn Begin>, head: &RequestHead<'_>, wake: Wake) -> Self {
        Self { begin: Rc::clone(begin), head: OwnedHead::of(head, head.target()), wake }
    }

    /// Begins to ask the upstream as a fetch has it; none if that makes a head of too many fields.
    fn ask(&self, fetch: &Fetch, at: Address) -> Option<Box<dyn Handler>> {
        let mut conditions = Vec::new();
        fetch.write_conditions(&mut conditions);
        self.head.with_others(fetch.left_away(), &conditions, |outgoing| {
            Rc::clone(&self.begin).begin(&outgoing.head, &self.wake.caller(at), true)
        })
    }
}

/// What the client gets of what the upstream sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gives {
    /// Its head has not come.
    Awaited,
    /// All.
    Body,
    /// Nothing; the cache stores it.
    Nothing,
}

/// A request on its way to an upstream, for a cache.
#[derive(Debug)]
pub(super) struct Fetching {
    links: Rc<Links>,
    at: Address,
    /// None if the upstream is asked once only.
    origin: Option<Origin>,
    inner: Box<dyn Handler>,
    fetch: Box<Fetch>,
    /// What the upstream's handler gives.
    own: Reply,
    /// The request has no body.
    none: RequestBody,
    gives: Gives,
    is_head: bool,
}

/// What became of a turn.
#[derive(Debug)]
pub(super) enum Went {
    /// More is to come.
    On,
    /// The client gets this, and the upstream is not needed any more.
    Answer(Box<Answer>),
    /// The upstream's response is whole, and the client has been given all that it gets.
    Whole,
    /// The upstream failed, and the client gets this error if it has got nothing.
    Failed(Option<u16>),
}

impl Fetching {
    /// How far the upstream's handler is, in words.
    pub(super) fn progress(&self) -> Option<String> {
        self.inner.progress()
    }

    /// Begins with a request that has just come, and that goes to the upstream as it is if the fetch lets it.
    pub(super) fn begin(
        (begin, links): (&Rc<dyn Begin>, &Rc<Links>),
        fetch: Box<Fetch>,
        head: &RequestHead<'_>,
        (caller, wake): (&Caller<'_>, Wake),
    ) -> Option<Self> {
        let mut conditions = Vec::new();
        fetch.write_conditions(&mut conditions);
        let is_head = head.method() == "HEAD";
        if head.request.is_conditional || !conditions.is_empty() {
            return Self::of(Origin::new(begin, head, wake), links, fetch, (caller.address, is_head));
        }
        let inner = Rc::clone(begin).begin(head, caller, true);
        Some(Self::with(None, links, (inner, fetch), (caller.address, is_head)))
    }

    /// Begins with a request that was kept.
    pub(super) fn of(origin: Origin, links: &Rc<Links>, fetch: Box<Fetch>, of: (Address, bool)) -> Option<Self> {
        let inner = origin.ask(&fetch, of.0)?;
        Some(Self::with(Some(origin), links, (inner, fetch), of))
    }

    fn with(
        origin: Option<Origin>,
        links: &Rc<Links>,
        (inner, fetch): (Box<dyn Handler>, Box<Fetch>),
        (at, is_head): (Address, bool),
    ) -> Self {
        let mut none = RequestBody::default();
        none.end();
        let own = Reply::new(is_head);
        Self { links: Rc::clone(links), at, origin, inner, fetch, own, none, gives: Gives::Awaited, is_head }
    }

    /// Goes on as far as is possible.
    pub(super) fn go_on(&mut self, mut client: Option<&mut Reply>) -> Went {
        for _ in 0..PIECES_MAX {
            let is_held_back = self.gives == Gives::Body
                && client.as_ref().is_some_and(|client| client.is_blocked() || client.has_held());
            self.own.hold_back(is_held_back);
            let went = self.inner.go_on(&mut self.none, &mut self.own);
            if let Some(client) = client.as_deref_mut() {
                self.own.move_interims(client);
                client.has_waited(self.own.take_waited());
            }
            if let Some(head) = self.own.take_head() {
                match self.take_head(head, client.as_deref_mut()) {
                    Some(Went::On) => continue,
                    Some(went) => return went,
                    None => {}
                }
            }
            let is_full = self.own.has_begun() && self.own.room() == 0;
            let has_moved = self.take_body(client.as_deref_mut());
            if went.is_err() {
                return self.fail();
            }
            if self.own.is_whole() {
                return self.end(client);
            }
            // What the upstream has sent beyond that makes no event.
            if !has_moved || !is_full || is_held_back || (self.gives == Gives::Body && client.is_some()) {
                return Went::On;
            }
        }
        self.links.wake(self.at);
        Went::On
    }

    /// Gives the head to the cache, which says what the client gets; `On` = the upstream is asked once more.
    fn take_head(&mut self, head: ReplyHead, client: Option<&mut Reply>) -> Option<Went> {
        let of = head.of;
        let mut head = ResponseHead { status: head.status, fields: head.fields, length: head.length };
        let given = match self.fetch.on_head(&head, now()) {
            Begun::Pass => {
                self.fetch.write_cache_status(&mut head.fields);
                self.gives = Gives::Body;
                ReplyHead { status: head.status, fields: head.fields, length: head.length, of }
            }
            Begun::Answer(answer) => return Some(Went::Answer(answer)),
            Begun::NotModified(fields) => {
                self.gives = Gives::Nothing;
                ReplyHead { status: 304, fields, length: None, of: HeadOf::Relayed }
            }
            Begun::FetchAgain => return Some(self.ask_again()),
        };
        if let Some(client) = client {
            client.begin_as(given);
        }
        None
    }

    fn ask_again(&mut self) -> Went {
        let Some(inner) = self.origin.as_ref().and_then(|origin| origin.ask(&self.fetch, self.at)) else {
            return self.fail();
        };
        self.inner = inner;
        self.own = Reply::new(self.is_head);
        Went::On
    }

    /// Gives the body to the cache and to the client; whether there was any.
    fn take_body(&mut self, client: Option<&mut Reply>) -> bool {
        if !self.own.has_held() {
            return false;
        }
        self.fetch.on_body(self.own.held());
        match client.filter(|_| self.gives == Gives::Body) {
            Some(client) => self.own.move_held(client),
            None => self.own.drop_held(),
        }
        true
    }

    fn end(&mut self, client: Option<&mut Reply>) -> Went {
        self.fetch.on_end(now());
        if let Some(client) = client {
            if self.gives == Gives::Body {
                self.own.move_trailers(client);
            }
            if !client.end_relayed() {
                return Went::Failed(None);
            }
        }
        Went::Whole
    }

    /// The upstream failed: before its head a stale response may answer; behind it nothing is stored, as the fetch is
    /// dropped before its end.
    fn fail(&mut self) -> Went {
        let answer = if self.gives == Gives::Awaited { self.fetch.on_failure(now()) } else { None };
        answer.map_or_else(|| Went::Failed(self.own.refused()), |answer| Went::Answer(Box::new(answer)))
    }
}
