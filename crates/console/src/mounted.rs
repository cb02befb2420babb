//! The console within a server's admin address: the rooms of that server.

use crate::guard::admit_mounted;
use crate::live::Live;
use crate::server::LiveServer;
use crate::serving::with_policy;
use crate::site::Site;
use std::sync::Arc;
use weir_endpoint::{Answer, Request};

/// Answers requests for paths below `/console/`.
#[derive(Debug)]
pub struct Mounted {
    site: Site,
}

impl Mounted {
    /// `version`: the one that the page shows.
    #[must_use]
    pub fn new(version: String, server: Arc<dyn LiveServer>) -> Self {
        Self { site: Site::without_runs(version, Some(Live::within(server))) }
    }

    /// The answer to a request. `may_ask`: it brought the token of the admin address, or that needs none.
    #[must_use]
    pub fn answer(&self, request: &Request, may_ask: bool) -> Answer {
        let answered = admit_mounted(request, may_ask).and_then(|rest| self.site.answer(rest, request));
        with_policy(answered.unwrap_or_else(|refusal| refusal.answer()))
    }
}
