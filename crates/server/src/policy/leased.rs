//! The last leased advice of a connection: its next request for the same path is answered without asking the adviser.

use crate::files::atom::Atom;
use crate::policy::caller::Caller;
use crate::policy::lease::Lease;
use crate::policy::policy_client::{Advised, PolicyClient};
use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The place of a connection for it.
#[derive(Default)]
pub(crate) struct Leased(Cell<Option<Rc<Kept>>>);

/// Advice that a connection has for one path, which is to answer with the file itself.
#[derive(Debug)]
// In this order: what each request looks at stands together.
#[repr(C)]
pub(crate) struct Kept {
    /// Where the content lies that it is about.
    pub(crate) place: *const Atom,
    pub(crate) lease: Arc<Lease>,
    /// When another look at the connection is due, by the loop's clock.
    pub(crate) until_ms: u64,
    /// It may be another one for another client.
    pub(crate) is_chosen: bool,
    /// So that no other content has that place. What nothing else keeps is not kept by this either.
    pub(crate) atom: Weak<Atom>,
    pub(crate) policy_client: Rc<PolicyClient>,
    pub(crate) caller: Caller<'static>,
}

/// A response under leased advice. Dropping it counts the response as over, whether it was finished or failed.
#[derive(Debug)]
pub(crate) struct Again {
    kept: Rc<Kept>,
    is_finished: bool,
}

impl Leased {
    /// Begins a response as the last one for the same, if that holds still.
    #[expect(clippy::inline_always, reason = "it is a part of the way of nearly every request that rules are for")]
    #[inline(always)]
    pub(crate) fn again(&self, atom: &Rc<Atom>, now_ms: u64) -> Option<Again> {
        let kept = self.0.take()?;
        let is_same = std::ptr::eq(kept.place, Rc::as_ptr(atom)) && now_ms < kept.until_ms;
        let has_begun = is_same && kept.lease.begin();
        let again = has_begun.then(|| Again { kept: Rc::clone(&kept), is_finished: false });
        self.0.set(Some(kept));
        again
    }

    /// From now on it is this.
    pub(crate) fn keep(&self, kept: Kept) {
        self.0.set(Some(Rc::new(kept)));
    }
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").finish_non_exhaustive()
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
    pub(crate) fn settle(&mut self, is_finished: bool) {
        self.is_finished = is_finished;
    }

    /// The same for a response that takes longer, so that its connection is looked at meanwhile.
    #[cold]
    pub(crate) fn advised(self) -> Advised {
        let (policy_client, caller) = (Rc::clone(&self.kept.policy_client), self.kept.caller);
        Advised::again(self, policy_client, caller)
    }
}

impl Drop for Again {
    #[inline]
    fn drop(&mut self) {
        self.kept.lease.end(!self.is_finished);
    }
}
