//! Questions to the adviser: what to do with a request, and how its client is connected.

use crate::files::resource::Resource;
use crate::http::request::Request;
use crate::policy::advice::{Advice, Link, Question};
use crate::policy::client_peer::{ClientPeer, Kept};
use crate::policy::link::Counted;
use crate::policy::policy_client::PolicyClient;
use std::rc::Rc;
use std::sync::Arc;

impl PolicyClient {
    /// Asks what to do with a request for content that is governed, at a time of the loop's clock. The caller then
    /// reports what it did with the advice ([`Self::begun`]).
    #[inline]
    pub(crate) fn ask(&self, request: &Request<'_>, resource: &Resource, peer: &ClientPeer<'_>, now_ms: u64) -> Advice {
        self.contents.look(resource, &self.shared_content);
        let of = (resource.asked_as.as_deref().unwrap_or_default(), resource.remembered.get());
        self.ask_about(request, of, peer, now_ms)
    }

    /// The same for a path, with what was remembered of it.
    #[inline]
    pub(super) fn ask_about(
        &self,
        request: &Request<'_>,
        (path, remembered): (&str, u64),
        peer: &ClientPeer<'_>,
        now_ms: u64,
    ) -> Advice {
        let mut link = self.link(peer, now_ms);
        let is_measured = request.hints.are_silent();
        if !is_measured {
            let told = request.hints.link();
            link.bandwidth_bps = link.bandwidth_bps.or(told.bandwidth_bps);
            link.rtt_s = link.rtt_s.or(told.rtt_s);
        }
        let (client, connection) = (peer.client, peer.connection);
        let takes_lease = is_measured && peer.leased.is_some();
        self.adviser.begin(&Question { path, client, connection, link, remembered, takes_lease })
    }

    /// Keeps for its connection what it was advised, where that is leased.
    #[cold]
    pub(crate) fn keep(self: &Rc<Self>, resource: &Rc<Resource>, peer: &ClientPeer<'_>, now_ms: u64, advice: &Advice) {
        let (Some(leased), Some(lease)) = (peer.leased, &advice.lease) else { return };
        leased.keep(Kept {
            lease: Arc::clone(lease),
            place: Rc::as_ptr(resource),
            resource: Rc::downgrade(resource),
            until_ms: self.links.borrow().until_ms(peer.connection, now_ms),
            is_chosen: advice.variant.is_some(),
            policy_client: Rc::clone(self),
            peer: peer.alone(),
        });
    }

    /// What is known of a client's connection now.
    #[inline]
    pub(super) fn link(&self, peer: &ClientPeer<'_>, now_ms: u64) -> Link {
        let at_hand = self.links.borrow().at_hand(peer.connection, now_ms);
        at_hand.unwrap_or_else(|| self.look(peer, now_ms))
    }

    #[cold]
    fn look(&self, peer: &ClientPeer<'_>, now_ms: u64) -> Link {
        let mut links = self.links.borrow_mut();
        if let Some(known) = links.known(peer.connection, now_ms) {
            return known;
        }
        let look = || peer.socket.and_then(Counted::read);
        let link = links.look(peer.connection, peer.client, now_ms, &self.priors, look);
        self.counts().links_evicted.add(std::mem::take(&mut links.evicted));
        self.counts().link_looks.add(std::mem::take(&mut links.looks));
        link
    }
}
