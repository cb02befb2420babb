//! Records of FastCGI 1.0 (section 3.3 of its specification).

/// Bytes of a record's head.
pub(crate) const HEAD_BYTES: usize = 8;
/// Bytes of a record's content.
pub(crate) const CONTENT_BYTES_MAX: usize = 65_535;
/// Contents are padded to a multiple of this, as the specification recommends.
const ALIGNMENT: usize = 8;
/// The version of the protocol.
const VERSION: u8 = 1;
/// Each request of ours has this number: there is one at a time on a connection.
pub(crate) const REQUEST: u16 = 1;

/// Kinds of records.
pub(crate) mod kind {
    pub(crate) const BEGIN_REQUEST: u8 = 1;
    #[cfg(test)]
    pub(crate) const ABORT_REQUEST: u8 = 2;
    pub(crate) const END_REQUEST: u8 = 3;
    pub(crate) const PARAMS: u8 = 4;
    pub(crate) const STDIN: u8 = 5;
    pub(crate) const STDOUT: u8 = 6;
    pub(crate) const STDERR: u8 = 7;
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) kind: u8,
    /// 0 in records about the connection.
    pub(crate) request: u16,
    /// Bytes of content.
    pub(crate) content: u16,
    /// Bytes of padding behind the content.
    pub(crate) padding: u8,
}

impl RecordHead {
    /// The head of a record of ours; the content has at most [`CONTENT_BYTES_MAX`] bytes.
    pub(crate) fn ours(kind: u8, content: usize) -> Self {
        debug_assert!(content <= CONTENT_BYTES_MAX);
        let padding = content.next_multiple_of(ALIGNMENT) - content;
        Self { kind, request: REQUEST, content: content as u16, padding: padding as u8 }
    }

    pub(crate) fn bytes(self) -> [u8; HEAD_BYTES] {
        let ([request_high, request_low], [high, low]) = (self.request.to_be_bytes(), self.content.to_be_bytes());
        [VERSION, self.kind, request_high, request_low, high, low, self.padding, 0]
    }

    /// Reads a head; none if it is of another version.
    pub(crate) fn read(bytes: [u8; HEAD_BYTES]) -> Option<Self> {
        let [version, kind, request_high, request_low, high, low, padding, _] = bytes;
        let (request, content) = (u16::from_be_bytes([request_high, request_low]), u16::from_be_bytes([high, low]));
        (version == VERSION).then_some(Self { kind, request, content, padding })
    }
}

/// Appends a record with its padding; the content has at most [`CONTENT_BYTES_MAX`] bytes.
pub(crate) fn push(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    let head = RecordHead::ours(kind, content.len());
    out.extend_from_slice(&head.bytes());
    out.extend_from_slice(content);
    pad(head, out);
}

/// Appends the padding of a record.
pub(crate) fn pad(head: RecordHead, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; ALIGNMENT][..usize::from(head.padding)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_padded_and_read_back() {
        for length in [0, 1, 7, 8, 9, 65_528, 65_529, CONTENT_BYTES_MAX] {
            let mut out = Vec::new();
            push(kind::STDIN, &vec![7; length], &mut out);
            assert!(out.len().is_multiple_of(8));
            let head = RecordHead::read(out[..8].try_into().expect("8 bytes")).expect("our version");
            assert_eq!((head.kind, head.request, usize::from(head.content)), (kind::STDIN, REQUEST, length));
            assert_eq!(out.len(), HEAD_BYTES + length + usize::from(head.padding));
        }
        assert_eq!(RecordHead::read([2, 6, 0, 1, 0, 0, 0, 0]), None);
    }
}
