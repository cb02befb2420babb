//! How a request that was routed to an upstream begins there.

use super::group::Upstream;
use super::handler::Relay;
use crate::exchange::application::{Begin, Caller, Handler, RequestHead};
use crate::http::target::Target;
use std::rc::Rc;

impl Begin for Upstream {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        Relay::begin(self, (head, head.target()), caller, is_whole)
    }
}

/// The same for a request whose path stands for another one with the upstream.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    pub(crate) upstream: Rc<Upstream>,
    pub(crate) target: Box<str>,
}

impl Begin for Elsewhere {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        Relay::begin(Rc::clone(&self.upstream), (head, &self.target), caller, is_whole)
    }
}

impl Upstream {
    /// What begins the answer to a request for this path; with `is_other` it is not the one that the client has asked for.
    pub(crate) fn entrance(self: &Rc<Self>, found: &Target<'_>, is_other: bool) -> Rc<dyn Begin> {
        match self.common.target_for(found, is_other) {
            Some(target) => Rc::new(Elsewhere { upstream: Rc::clone(self), target: target.into_boxed_str() }),
            None => Rc::<Self>::clone(self),
        }
    }
}
