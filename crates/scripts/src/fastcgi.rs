//! Records of FastCGI 1.0, as a program reads and writes them that answers requests (section 3.3 of its specification).

/// Bytes of a record's head.
pub const HEAD_BYTES: usize = 8;
/// Content of a record that a runner writes: a multiple of the padding, so that full records have none.
pub const CONTENT_BYTES_MAX: usize = 65_528;
const VERSION: u8 = 1;
/// The role of a program that answers requests (section 6.2).
const RESPONDER: u16 = 1;
/// The flag by which the connection is kept behind the request.
const KEEP_CONNECTION: u8 = 1;

/// Kinds of records (section 8).
pub mod kind {
    /// A request begins.
    pub const BEGIN_REQUEST: u8 = 1;
    /// The answer is not wanted any more.
    pub const ABORT_REQUEST: u8 = 2;
    /// The answer is whole.
    pub const END_REQUEST: u8 = 3;
    /// Variables; without content, they are whole.
    pub const PARAMS: u8 = 4;
    /// The request's body; without content, it is whole.
    pub const STDIN: u8 = 5;
    /// The response.
    pub const STDOUT: u8 = 6;
    /// What is for the log.
    pub const STDERR: u8 = 7;
}

/// A record that has come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'b> {
    /// Its kind.
    pub kind: u8,
    /// The number of its request.
    pub request: u16,
    /// What it says.
    pub content: &'b [u8],
    /// Its bytes with head and padding.
    pub bytes: usize,
}

/// What comes is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record has another version of FastCGI than 1")]
pub struct NoRecord;

/// The record at the start of some bytes; none if it has not come whole.
///
/// # Errors
///
/// [`NoRecord`] if it has another version.
pub fn next_record(bytes: &[u8]) -> Result<Option<Record<'_>>, NoRecord> {
    let Some((&[version, kind, high, low, content_high, content_low, padding, _], rest)) = bytes.split_first_chunk()
    else {
        return Ok(None);
    };
    if version != VERSION {
        return Err(NoRecord);
    }
    let length = usize::from(u16::from_be_bytes([content_high, content_low]));
    let behind = length + usize::from(padding);
    if rest.len() < behind {
        return Ok(None);
    }
    let request = u16::from_be_bytes([high, low]);
    Ok(Some(Record { kind, request, content: &rest[..length], bytes: HEAD_BYTES + behind }))
}

/// Whether a request that begins is for a responder, and whether the connection is kept behind it.
pub fn beginning(content: &[u8]) -> Option<(bool, bool)> {
    let &[role_high, role_low, flags, ..] = content else { return None };
    Some((u16::from_be_bytes([role_high, role_low]) == RESPONDER, flags & KEEP_CONNECTION != 0))
}

/// Pairs of names and values (section 3.4).
#[derive(Debug, Clone)]
pub struct Pairs<'b>(pub &'b [u8]);

impl<'b> Iterator for Pairs<'b> {
    /// The name and the value; none for a pair that is cut off, which ends the pairs.
    type Item = Option<(&'b [u8], &'b [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let pair = pair(self.0);
        self.0 = pair.map_or(&[], |(_, _, rest)| rest);
        Some(pair.map(|(name, value, _)| (name, value)))
    }
}

fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, bytes) = length(bytes)?;
    let (value, bytes) = length(bytes)?;
    let (name, bytes) = bytes.split_at_checked(name)?;
    let (value, bytes) = bytes.split_at_checked(value)?;
    Some((name, value, bytes))
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), rest));
    }
    let (&[a, b, c, d], rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_be_bytes([a & 0x7f, b, c, d])).ok()?, rest))
}

/// The head of a record with its padding, by the number of its request. The content has at most
/// [`CONTENT_BYTES_MAX`] bytes.
pub fn head(kind: u8, request: u16, content: usize) -> [u8; HEAD_BYTES] {
    debug_assert!(content <= CONTENT_BYTES_MAX);
    let ([request_high, request_low], [high, low]) = (request.to_be_bytes(), (content as u16).to_be_bytes());
    [VERSION, kind, request_high, request_low, high, low, padding(content) as u8, 0]
}

/// Bytes of padding behind a content.
pub fn padding(content: usize) -> usize {
    content.next_multiple_of(8) - content
}

/// Appends records with a content of any length.
pub fn push(kind: u8, request: u16, content: &[u8], out: &mut Vec<u8>) {
    for piece in content.chunks(CONTENT_BYTES_MAX) {
        out.extend_from_slice(&head(kind, request, piece.len()));
        out.extend_from_slice(piece);
        out.resize(out.len() + padding(piece.len()), 0);
    }
}

/// Appends the end of a request (section 5.5).
pub fn push_end(request: u16, status: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&head(kind::END_REQUEST, request, 8));
    out.extend_from_slice(&status.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_of_both_forms_are_read() {
        let long = vec![b'v'; 200];
        let mut bytes = vec![1, 0x80, 0, 0, 200, b'N'];
        bytes.extend_from_slice(&long);
        bytes.extend_from_slice(&[2, 0, b'A', b'B', 3, 9, b'x']);
        let pairs: Vec<_> = Pairs(&bytes).collect();
        assert_eq!(pairs, [Some((&b"N"[..], &long[..])), Some((&b"AB"[..], &b""[..])), None]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(content in prop::collection::vec(any::<u8>(), 0..300), times in 1_usize..300, cut in 0_usize..20) {
            let content = content.repeat(times);
            let mut out = Vec::new();
            push(kind::STDOUT, 7, &content, &mut out);
            push_end(7, 3, &mut out);
            let (mut at, mut read) = (0, Vec::new());
            while let Some(record) = next_record(&out[at..]).expect("records") {
                prop_assert_eq!(record.request, 7);
                prop_assert!(next_record(&out[at..at + record.bytes - 1 - cut.min(record.bytes - 1)]).expect("a part").is_none());
                if record.kind == kind::STDOUT { read.extend_from_slice(record.content); }
                at += record.bytes;
            }
            prop_assert_eq!(at, out.len());
            prop_assert_eq!(read, content);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = next_record(&bytes);
            prop_assert!(Pairs(&bytes).count() <= bytes.len());
        }
    }
}
