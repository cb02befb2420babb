//! A response that the adviser was asked about, until its end.

use crate::files::resource::Resource;
use crate::io::clock::now_ms;
use crate::policy::advice::{Advice, DecidedBy, DecidedQuestion, Question};
use crate::policy::client_peer::ClientPeer;
use crate::policy::codec_swap::{Stream, StreamPlace, Swapped};
use crate::policy::leased::Again;
use crate::policy::link::LOOK_MS;
use crate::policy::policy_client::PolicyClient;
use std::io;
use std::rc::Rc;

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
    peer: ClientPeer<'static>,
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
    pub(crate) fn again(again: Again, policy_client: Rc<PolicyClient>, peer: ClientPeer<'static>) -> Self {
        Self {
            policy_client,
            peer,
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

    /// Of a response that came from another server, which goes on with this stream. The rules here are told of it as of
    /// one that begins; a refusal comes too late.
    #[cold]
    pub(crate) fn moved(
        policy_client: &Rc<PolicyClient>,
        peer: &ClientPeer<'_>,
        (mut stream, path, released_bytes): (Stream, &[u8], u64),
    ) -> Self {
        let now_ms = now_ms();
        let path = std::str::from_utf8(path).unwrap_or_default();
        let advice = if policy_client.adviser.governs(path) {
            let (client, connection, link) = (peer.client, peer.connection, policy_client.link(peer, now_ms));
            let question = Question { path, client, connection, link, remembered: 0, takes_lease: false };
            policy_client.adviser.begin(&question)
        } else {
            Advice::default()
        };
        if let Some(names) = advice.variant {
            stream.wish_first(names.into(), now_ms);
        }
        Self {
            policy_client: Rc::clone(policy_client),
            peer: peer.alone(),
            ticket: advice.ticket,
            again: None,
            looked_ms: now_ms,
            bytes: 0,
            is_finished: false,
            is_chosen: true,
            stale: None,
            is_stale: false,
            released_bytes,
            stream: Some(Box::new(stream)),
        }
    }

    /// Where its stream is, if it is made piece by piece.
    pub(crate) fn stream_place(&self) -> Option<StreamPlace> {
        self.stream.as_ref().map(|stream| stream.place(self.released_bytes))
    }

    /// The rules that have decided about it; none where that cannot be told.
    #[cold]
    pub(crate) fn decided_by(&self, decisions_before: Option<u64>) -> Option<Vec<DecidedBy>> {
        if self.again.is_some() {
            // A lease is given only where nothing was decided.
            return Some(Vec::new());
        }
        let (client, connection) = (self.peer.client, self.peer.connection);
        let question = DecidedQuestion { ticket: self.ticket, client, connection, decisions_before };
        self.policy_client.adviser.decided_by(&question)
    }

    /// The first 16 times that its stream went on in another variant.
    #[cold]
    pub(crate) fn swapped(&self) -> &[Swapped] {
        self.stream.as_ref().map_or(&[], |stream| stream.swapped())
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
        let link = self.policy_client.link(&self.peer, now_ms);
        let wanted = self.policy_client.adviser.during(self.peer.connection, link);
        if let Some(stream) = &mut self.stream {
            stream.pace(link);
            if let Some(wanted) = stream.wish(wanted, now_ms) {
                let by = || self.policy_client.adviser.decided_last(self.peer.connection);
                stream.want(&wanted, &self.policy_client, by);
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
    pub(crate) fn finish(&mut self, bytes: u64, is_finished: bool) {
        (self.bytes, self.is_finished) = (bytes, is_finished);
        self.again.iter_mut().for_each(|again| again.finish(is_finished));
    }
}

impl Drop for Advised {
    fn drop(&mut self) {
        if self.again.is_none() {
            self.policy_client.adviser.end(self.peer.connection, self.ticket, self.bytes, !self.is_finished);
        }
    }
}

impl Again {
    /// The same for a response that takes longer, so that its connection is looked at meanwhile.
    #[cold]
    pub(crate) fn advised(self) -> Advised {
        let (policy_client, peer) = (Rc::clone(&self.kept.policy_client), self.kept.peer);
        Advised::again(self, policy_client, peer)
    }
}

impl PolicyClient {
    /// A response begins as it was advised: what is put into `advised` tells of its end when it is dropped.
    #[inline]
    pub(crate) fn begun(
        self: &Rc<Self>,
        resource: &Resource,
        peer: &ClientPeer<'_>,
        now_ms: u64,
        advice: &Advice,
        advised: &mut Option<Advised>,
    ) {
        resource.remembered.set(advice.remember);
        self.note(peer, now_ms, advice, advised);
    }

    /// The same where no file answers.
    #[inline]
    pub(super) fn note(
        self: &Rc<Self>,
        peer: &ClientPeer<'_>,
        now_ms: u64,
        advice: &Advice,
        advised: &mut Option<Advised>,
    ) {
        *advised = Some(Advised {
            policy_client: Rc::clone(self),
            peer: peer.alone(),
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
}
