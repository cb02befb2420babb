//! Questions to the adviser about requests that something else than a file answers.

use crate::http::request::Request;
use crate::policy::advice::Advice;
use crate::policy::advised::Advised;
use crate::policy::client_peer::ClientPeer;
use crate::policy::governed_paths::Governed;
use crate::policy::policy_client::PolicyClient;
use std::rc::Rc;

impl PolicyClient {
    /// Asks what to do with a request for a path; none where no rule is for it. What is put into `advised` tells of the
    /// response's end when it is dropped.
    pub(crate) fn ask_of_path(
        self: &Rc<Self>,
        (request, path): (&Request<'_>, &[u8]),
        peer: &ClientPeer<'_>,
        now_ms: u64,
        advised: &mut Option<Advised>,
    ) -> Option<Advice> {
        let path = std::str::from_utf8(path).ok()?;
        // Before the question: what changes meanwhile is another edition.
        let edition = self.edition();
        let known = self.paths.borrow_mut().find(path, edition);
        let governed = known.unwrap_or_else(|| {
            let governed = if self.adviser.governs(path) { Governed::Yes(0) } else { Governed::No };
            self.paths.borrow_mut().remember(path, governed);
            governed
        });
        let Governed::Yes(remembered) = governed else { return None };
        let advice = self.ask_about(request, (path, remembered), &peer.alone(), now_ms);
        if advice.remember != remembered {
            self.paths.borrow_mut().remember(path, Governed::Yes(advice.remember));
        }
        self.note(peer, now_ms, &advice, advised);
        Some(advice)
    }
}
