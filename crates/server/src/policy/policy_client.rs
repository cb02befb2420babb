//! A loop's side of the adviser: it asks about requests, measures clients' links, and reports how responses ended.

use crate::counters::{Counters, LoopCounters};
use crate::files::atom::Atom;
use crate::files::shared_content::SharedContent;
use crate::http::request::Request;
use crate::io::clock::now_ms;
use crate::policy::advice::{Advice, Adviser, Link, Question};
use crate::policy::caller::Caller;
use crate::policy::codec_swap::{Indexes, Stream};
use crate::policy::insight::Contents;
use crate::policy::leased::{Again, Kept};
use crate::policy::link::{Counted, LOOK_MS, Links};
use crate::policy::link_prior::Priors;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// One loop's.
#[derive(Debug)]
pub(crate) struct PolicyClient {
    adviser: Arc<dyn Adviser>,
    links: RefCell<Links>,
    priors: Arc<Priors>,
    contents: Arc<Contents>,
    shared_content: Arc<SharedContent>,
    indexes: RefCell<Indexes>,
    counters: Counters,
    /// Which of the counters are this loop's.
    index: usize,
}

impl PolicyClient {
    /// For the loop whose counters have this number.
    pub(crate) fn new(
        adviser: Arc<dyn Adviser>,
        (priors, contents, shared_content): (Arc<Priors>, Arc<Contents>, Arc<SharedContent>),
        counters: Counters,
        index: usize,
    ) -> Self {
        let (links, indexes) = (RefCell::default(), RefCell::default());
        Self { adviser, links, priors, contents, shared_content, indexes, counters, index }
    }

    /// Whether there are rules for a path; those that are no text have none.
    pub(crate) fn governs(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.adviser.governs(path))
    }

    /// Whether clients are to say of their links what they know, for a path that is governed.
    pub(crate) fn asks_hints(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.adviser.asks_hints(path))
    }

    /// Whether what has changed may be sent still as it was.
    pub(crate) fn may_be_stale(&self) -> bool {
        self.adviser.may_be_stale()
    }

    /// The number of the rules that hold.
    pub(crate) fn edition(&self) -> u64 {
        self.adviser.edition()
    }

    /// Asks what to do with a request for content that is governed, at a time of the loop's clock. The caller then
    /// reports what it did with the advice ([`Self::begun`]).
    #[inline]
    pub(crate) fn ask(&self, request: &Request<'_>, atom: &Atom, caller: &Caller<'_>, now_ms: u64) -> Advice {
        self.contents.look(atom, &self.shared_content);
        let mut link = self.link(caller, now_ms);
        let is_measured = request.hints.are_silent();
        if !is_measured {
            let told = request.hints.link();
            link.bandwidth_bps = link.bandwidth_bps.or(told.bandwidth_bps);
            link.rtt_s = link.rtt_s.or(told.rtt_s);
        }
        let (client, connection) = (caller.client, caller.connection);
        let (path, remembered) = (atom.asked_as.as_deref().unwrap_or_default(), atom.remembered.get());
        let takes_lease = is_measured && caller.leased.is_some();
        self.adviser.begin(&Question { path, client, connection, link, remembered, takes_lease })
    }

    /// Keeps for its connection what it was advised, where that is leased.
    #[cold]
    pub(crate) fn keep(self: &Rc<Self>, atom: &Rc<Atom>, caller: &Caller<'_>, now_ms: u64, advice: &Advice) {
        let (Some(leased), Some(lease)) = (caller.leased, &advice.lease) else { return };
        leased.keep(Kept {
            lease: Arc::clone(lease),
            place: Rc::as_ptr(atom),
            atom: Rc::downgrade(atom),
            until_ms: self.links.borrow().until_ms(caller.connection, now_ms),
            is_chosen: advice.variant.is_some(),
            policy_client: Rc::clone(self),
            caller: caller.alone(),
        });
    }

    /// A response begins as it was advised: what is put into `advised` tells of its end when it is dropped.
    #[inline]
    pub(crate) fn begun(
        self: &Rc<Self>,
        atom: &Atom,
        caller: &Caller<'_>,
        now_ms: u64,
        advice: &Advice,
        advised: &mut Option<Advised>,
    ) {
        atom.remembered.set(advice.remember);
        *advised = Some(Advised {
            policy_client: Rc::clone(self),
            caller: caller.alone(),
            ticket: advice.ticket,
            again: None,
            looked_ms: now_ms,
            bytes: 0,
            is_finished: false,
            is_chosen: false,
            stale: advice.stale_ms_max.map(|ms_max| MayBeStale { ms_max, known_ms: now_ms }),
            is_stale: false,
            released_bytes: 0,
            stream: None,
        });
    }

    /// What is known of a client's connection now.
    #[inline]
    fn link(&self, caller: &Caller<'_>, now_ms: u64) -> Link {
        let at_hand = self.links.borrow().at_hand(caller.connection, now_ms);
        at_hand.unwrap_or_else(|| self.look(caller, now_ms))
    }

    #[cold]
    fn look(&self, caller: &Caller<'_>, now_ms: u64) -> Link {
        let mut links = self.links.borrow_mut();
        if let Some(known) = links.known(caller.connection, now_ms) {
            return known;
        }
        let look = || caller.socket.and_then(Counted::read);
        let link = links.look(caller.connection, caller.client, now_ms, &self.priors, look);
        self.counts().links_evicted.add(std::mem::take(&mut links.evicted));
        self.counts().link_looks.add(std::mem::take(&mut links.looks));
        link
    }

    pub(crate) fn counts(&self) -> &LoopCounters {
        &self.counters.0[self.index]
    }

    pub(crate) fn indexes(&self) -> &RefCell<Indexes> {
        &self.indexes
    }
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MayBeStale {
    /// So long ago, in milliseconds, it was the present state at most.
    pub(crate) ms_max: u64,
    /// When what it is made of was known to be the present state, by the loop's clock.
    pub(crate) known_ms: u64,
}

impl MayBeStale {
    /// The age of what was the present state at a time, in whole seconds (RFC 9111 section 4.2.3); none if that is too
    /// long ago.
    pub(crate) fn age_s(self, known_ms: u64, now_ms: u64) -> Option<u64> {
        let age_ms = now_ms.saturating_sub(known_ms);
        (age_ms <= self.ms_max).then_some(age_ms / 1000)
    }
}

/// A response that the adviser was asked about. The adviser is told of its end when this is dropped.
#[derive(Debug)]
pub(crate) struct Advised {
    policy_client: Rc<PolicyClient>,
    caller: Caller<'static>,
    ticket: u64,
    /// The lease tells of its end in place of the ticket.
    again: Option<Again>,
    /// By the loop's clock.
    looked_ms: u64,
    bytes: u64,
    is_finished: bool,
    /// It may be another one for another client.
    pub(crate) is_chosen: bool,
    /// How old the answer may be, if it may be older than without rules.
    pub(crate) stale: Option<MayBeStale>,
    /// It is not known to be what the files have at present.
    pub(crate) is_stale: bool,
    /// Bytes of the response that were sent and are not kept any more.
    pub(crate) released_bytes: u64,
    /// Where the rest comes from, if it is made piece by piece.
    pub(crate) stream: Option<Box<Stream>>,
}

impl Advised {
    /// Of what was advised by a lease.
    pub(crate) fn again(again: Again, policy_client: Rc<PolicyClient>, caller: Caller<'static>) -> Self {
        Self {
            policy_client,
            caller,
            ticket: 0,
            is_chosen: again.is_chosen(),
            again: Some(again),
            looked_ms: now_ms(),
            bytes: 0,
            is_finished: false,
            stale: None,
            is_stale: false,
            released_bytes: 0,
            stream: None,
        }
    }

    /// Tells how long the request had to wait, in nanoseconds.
    #[cold]
    pub(crate) fn waited(&self, waited_ns: u64) {
        self.policy_client.adviser.waited(self.ticket, waited_ns);
    }

    /// Measures the connection if that is due, and has a stream go on in another variant if the adviser says so.
    pub(crate) fn look(&mut self) {
        let now_ms = now_ms();
        if now_ms.saturating_sub(self.looked_ms) < LOOK_MS {
            return;
        }
        self.looked_ms = now_ms;
        let link = self.policy_client.link(&self.caller, now_ms);
        let wanted = self.policy_client.adviser.during(self.caller.connection, link);
        if let Some(stream) = &mut self.stream {
            stream.pace(link);
            if let Some(wanted) = wanted {
                stream.want(&wanted, &self.policy_client);
            }
        }
    }

    /// Makes the next piece of a stream, behind what `out` holds.
    ///
    /// # Errors
    ///
    /// `StaleNetworkFileHandle` if the file has changed; else what the file system answers.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.look();
        let Self { stream, policy_client, .. } = self;
        stream.as_mut().map_or(Ok(()), |stream| stream.fill(out, policy_client))
    }

    /// Whether there is more to come than what was made.
    pub(crate) fn continues(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.is_over())
    }

    /// Takes note of how it ended, for the word on it.
    pub(crate) fn settle(&mut self, bytes: u64, is_finished: bool) {
        (self.bytes, self.is_finished) = (bytes, is_finished);
        self.again.iter_mut().for_each(|again| again.settle(is_finished));
    }
}

impl Drop for Advised {
    fn drop(&mut self) {
        if self.again.is_none() {
            self.policy_client.adviser.end(self.caller.connection, self.ticket, self.bytes, !self.is_finished);
        }
    }
}
