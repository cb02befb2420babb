//! The user of a request, before it is answered.

use super::auth::Judged;
use super::host_names;
use super::hosts::Hosts;
use super::tables::Via;
use crate::http::request::Request;
use crate::http::target;
use crate::io::clock::Clock;

impl Hosts {
    /// The user whose name and password the request has, where the tables of its path ask for one and they are known to
    /// be right.
    pub(super) fn known_user(&mut self, request: &Request<'_>, clock: &Clock) -> Option<String> {
        let host = self.host(host_names::name_of(request))?;
        let mut decoded = std::mem::take(&mut self.decoded);
        let settings = target::resolve(request.target, true, &mut decoded)
            .ok()
            .map(|found| self.settings(host, Via::Nothing, Some(found.path)));
        self.decoded = decoded;
        let settings = settings?;
        match self.credentials.judge(settings.auth.as_ref()?, request.authorization, clock.now_ms) {
            Judged::Right(user) => Some(user),
            Judged::Wrong | Judged::Wait | Judged::Busy => None,
        }
    }
}
