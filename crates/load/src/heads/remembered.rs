//! What is kept of the block of fields that was given last: what it decides, its cookies, and all its fields.

use crate::heads::Head;
use crate::heads::head::keep_field;

/// The longest block that is remembered, in bytes.
const BLOCK_BYTES_MAX: usize = 1024;

/// A block means the same wherever it stands, as the server keeps no table: one that comes again byte for byte is not
/// decoded again.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    head: Option<Head>,
    bytes: Vec<u8>,
    keeps_cookies: bool,
    keeps_fields: bool,
    fields: Vec<u8>,
    /// Values one behind the other, and where each ends.
    cookies: Vec<u8>,
    cookie_ends: Vec<usize>,
}

impl Remembered {
    pub(crate) fn keep_cookies(&mut self) {
        self.keeps_cookies = true;
    }

    pub(crate) fn keep_fields(&mut self) {
        self.keeps_fields = true;
    }

    /// A line of `name: value` for each field of the last block, where they are kept.
    pub(crate) fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// The values of the last block's `set-cookie` fields, where they are kept.
    pub(crate) fn cookies(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.cookie_ends.iter().copied());
        begins.zip(&self.cookie_ends).map(|(begin, end)| &self.cookies[begin..*end])
    }

    /// What the block says, if it is the last one again.
    #[inline]
    pub(crate) fn again(&self, block: &[u8]) -> Option<Head> {
        self.head.filter(|_| self.bytes == block)
    }

    /// Another block is decoded.
    pub(crate) fn begin(&mut self) {
        if self.keeps_cookies || self.keeps_fields {
            // What is kept is to be of the block that is remembered, if one is.
            self.head = None;
            self.cookies.clear();
            self.cookie_ends.clear();
            self.fields.clear();
        }
    }

    /// The block has this field.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.keeps_fields {
            keep_field(&mut self.fields, name, value);
        }
    }

    /// The block sets this cookie.
    pub(crate) fn cookie(&mut self, value: &[u8]) {
        if self.keeps_cookies {
            self.cookies.extend_from_slice(value);
            self.cookie_ends.push(self.cookies.len());
        }
    }

    /// The block is decoded.
    pub(crate) fn end(&mut self, block: &[u8], head: Head) {
        if block.len() <= BLOCK_BYTES_MAX {
            self.head = Some(head);
            self.bytes.clear();
            self.bytes.extend_from_slice(block);
        }
    }
}
