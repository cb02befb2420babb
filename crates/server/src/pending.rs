//! A response on its way: the value, the content it is taken from, and what its end will put into the log.

use crate::access_log::LogLine;
use crate::arm_requests::Told;
use crate::atom::Atom;
use crate::response::Response;
use std::rc::Rc;

/// A response that is being sent. The handle to the content is here and not in the value.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) response: Response,
    pub(crate) atom: Option<Rc<Atom>>,
    /// The status code, for counts and the log.
    pub(crate) status: u16,
    /// Bytes of the head proper: what follows in the stream is the body.
    pub(crate) head_bytes: u64,
    pub(crate) log: LogLine,
    /// The business transaction that it is.
    pub(crate) arm: Told,
}

impl Pending {
    pub(crate) fn reset(&mut self) {
        self.response.reset();
        self.atom = None;
        self.status = 0;
        self.head_bytes = 0;
        self.log.clear();
        self.arm = Told::default();
    }

    /// Some of the responses were sent; tells this one, if it is told, of its first bytes.
    pub(crate) fn sent_some(&mut self) {
        if self.response.offset > 0 {
            self.arm.sent_some();
        }
    }

    /// Whether the content is still what the head has said of it.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.atom.as_ref().is_none_or(|atom| atom.is_unchanged())
    }

    /// Bytes of the body that the socket has taken.
    pub(crate) fn body_sent_bytes(&self) -> u64 {
        self.response.offset.saturating_sub(self.head_bytes)
    }
}
