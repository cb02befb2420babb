//! The last leased advice of a connection: its next request for the same path is answered without asking the adviser.

use crate::files::resource::Resource;
use crate::policy::client_peer::{Kept, Leased};
use std::rc::Rc;

/// A response under leased advice. Dropping it counts the response as over, whether it was finished or failed.
#[derive(Debug)]
pub(crate) struct Again {
    pub(super) kept: Rc<Kept>,
    is_finished: bool,
}

impl Leased {
    /// Begins a response as the last one for the same, if that holds still.
    #[expect(clippy::inline_always, reason = "it is a part of the way of nearly every request that rules are for")]
    #[inline(always)]
    pub(crate) fn again(&self, resource: &Rc<Resource>, now_ms: u64) -> Option<Again> {
        let kept = self.0.take()?;
        let is_same = std::ptr::eq(kept.place, Rc::as_ptr(resource)) && now_ms < kept.until_ms;
        let has_begun = is_same && kept.lease.begin();
        let again = has_begun.then(|| Again { kept: Rc::clone(&kept), is_finished: false });
        self.0.set(Some(kept));
        again
    }
}

impl Again {
    /// Whether it may be another one for another client.
    #[inline]
    pub(crate) fn is_chosen(&self) -> bool {
        self.kept.is_chosen
    }

    /// Takes note of how it ended.
    #[inline]
    pub(crate) fn finish(&mut self, is_finished: bool) {
        self.is_finished = is_finished;
    }
}

impl Drop for Again {
    #[inline]
    fn drop(&mut self) {
        self.kept.lease.end(!self.is_finished);
    }
}
