//! What the rules say of a request that a server elsewhere answers, before that is asked.

use super::asker::{Asker, NS_PER_MS};
use super::hosts::Hosts;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::Exchange;
use crate::files::head::Persistence;
use crate::http::request::Method;
use crate::policy::advice::Names;
use crate::policy::client_peer::ClientPeer;

/// What becomes of it.
#[derive(Debug)]
pub(super) enum Governed {
    /// It was refused.
    Refused,
    /// It goes on.
    Goes(Allowed),
}

/// What is allowed to its answer, and chosen for it.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// For how long the answer may be stale, in seconds.
    pub(super) stale_max_s: u64,
    /// The variant that is chosen for it, where that is not the best one.
    pub(super) variant: Option<Box<str>>,
}

impl Hosts {
    /// Asks the rules about a path that an upstream answers.
    pub(super) fn govern(
        &self,
        path: &[u8],
        asker: &Asker<'_>,
        (peer, persistence): (&ClientPeer<'_>, Persistence),
        out: &mut Exchange,
    ) -> Governed {
        let Asker { request, clock, counters, .. } = *asker;
        let Some(policy_client) = &self.share.policy_client else { return Governed::Goes(Allowed::default()) };
        let advised = &mut out.record.advised;
        let advice = policy_client.ask_of_path((request, path), peer, clock.now_ms, advised);
        let Some(advice) = advice else { return Governed::Goes(Allowed::default()) };
        counters.advised.add(1);
        if let (Some(advised), Some(place)) = (&out.record.advised, &out.record.place)
            && place.waited_ms() > 0
        {
            advised.waited(place.waited_ms() * NS_PER_MS);
        }
        if let Some(seconds) = advice.refuse_retry_after_s {
            counters.advice_refused.add(1);
            let fields = format!("Retry-After: {seconds}\r\nCache-Control: no-store\r\n");
            let extra = Extra { fields: fields.as_bytes(), head_only: request.method == Method::Head };
            error_page::write(out, 503, extra, clock, persistence);
            return Governed::Refused;
        }
        // Behind the chosen one stand those that are for it where it is missing, which only files are.
        let names = advice.variant.as_ref().filter(|names| **names != Names::Full);
        let variant = names.and_then(|names| names.split_ascii_whitespace().next()).map(Box::from);
        out.record.advised.iter_mut().for_each(|advised| advised.is_chosen = variant.is_some());
        Governed::Goes(Allowed { stale_max_s: advice.stale_ms_max.unwrap_or(0) / 1000, variant })
    }
}
