//! A request for which the rules have chosen a variant: a field tells the upstream which one.

use super::owned_head::OwnedHead;
use crate::exchange::application::{Aborted, Begin, Caller, Handler, RequestHead};
use crate::exchange::reply::Reply;
use crate::exchange::request_body::RequestBody;
use std::rc::Rc;

/// The field that says which variant was chosen, in lower case. An application whose answer depends on it says so by
/// Vary, so that caches tell the answers apart.
const FIELD: &str = "weir-variant";

/// Begins the answer with a field that tells of the variant.
#[derive(Debug)]
pub(crate) struct Varied {
    pub(crate) inner: Rc<dyn Begin>,
    /// A name of the policy: letters, digits and some signs.
    pub(crate) variant: Box<str>,
}

impl Begin for Varied {
    fn begin(self: Rc<Self>, head: &RequestHead<'_>, caller: &Caller<'_>, is_whole: bool) -> Box<dyn Handler> {
        let line = format!("Weir-Variant: {}\r\n", self.variant);
        let inner = Rc::clone(&self.inner);
        let begun = OwnedHead::of(head, head.target())
            .with_others(&[FIELD], line.as_bytes(), |outgoing| inner.begin(&outgoing.head, caller, is_whole));
        // With one field more the head may have too many.
        begun.unwrap_or_else(|| Box::new(TooLarge))
    }
}

/// A request that has no room for the field.
#[derive(Debug)]
struct TooLarge;

impl Handler for TooLarge {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        reply.refuse(431);
        Err(Aborted)
    }
}
