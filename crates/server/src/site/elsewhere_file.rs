//! What is known of a file whose content lies on another machine.

use crate::files::elsewhere::Named;

/// A file whose content lies elsewhere.
#[derive(Debug)]
pub(super) struct ElsewhereFile {
    pub(super) named: Named,
    /// Where the file lies, from the root.
    pub(super) path: Vec<u8>,
    pub(super) content_type: String,
    /// `Content-Encoding` with its line end, where the file itself is coded.
    pub(super) coding_field: String,
    pub(super) etag: String,
    pub(super) modified_s: Option<u64>,
    /// `ETag`, `Last-Modified` and `Vary`, line ends included.
    pub(super) validators: String,
}

impl ElsewhereFile {
    /// Where it lies, from the root.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The fields of a response with the whole content, but for its length.
    pub(super) fn whole_fields(&self) -> String {
        let Self { content_type, coding_field, validators, .. } = self;
        format!("Content-Type: {content_type}\r\n{coding_field}{validators}Accept-Ranges: bytes\r\n")
    }
}
