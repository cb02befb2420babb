//! A block of fields whose further frames are awaited.

use crate::http::frames::frame::Head;

/// A block of fields that goes on.
#[derive(Debug)]
pub(super) struct Continued {
    pub(super) head: Head,
    pub(super) block: Vec<u8>,
    pub(super) depends_on: Option<u32>,
}
