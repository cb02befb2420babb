//! How a request that was routed to an upstream begins there.

use super::group::Upstream;
use super::handler::Relay;
use super::handover::Inside;
use crate::exchange::application::{Begin, Caller, Handler, RequestHead};
use crate::http::target::Target;
use std::rc::Rc;

impl Begin for Upstream {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        Relay::begin(self, (head, head.target()), caller, (is_whole, None))
    }
}

/// The same for a request whose path stands for another one with the upstream, or that it may hand over.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) upstream: Rc<Upstream>,
    /// None for that of the request.
    pub(crate) target: Option<Box<str>>,
    /// Where a request leads that is handed over; none if the upstream may hand none over.
    pub(crate) inside: Option<Rc<dyn Inside>>,
}

impl Begin for Elsewhere {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        let (target, inside) = (self.target.as_deref().unwrap_or(head.target()), self.inside.clone());
        Relay::begin(Rc::clone(&self.upstream), (head, target), caller, (is_whole, inside))
    }
}

impl Upstream {
    /// What begins the answer to a request for this path; with `is_other` it is not the one that the client has asked for.
    pub(crate) fn entrance(
        self: &Rc<Self>,
        found: &Target<'_>,
        is_other: bool,
        inside: impl FnOnce() -> Rc<dyn Inside>,
    ) -> Rc<dyn Begin> {
        let target = self.common.target_for(found, is_other).map(String::into_boxed_str);
        let inside = self.common.rules.accel.then(inside);
        if target.is_none() && inside.is_none() {
            return Rc::<Self>::clone(self);
        }
        Rc::new(Elsewhere { upstream: Rc::clone(self), target, inside })
    }
}
