//! Fields that may come in several lines, which are one list (RFC 9110 section 5.3).

use crate::http::framing::Framing;

/// Further lines of list fields that one head may have, of all such fields together; more are answered with 431. Each
/// has a place in every request, so that they are few.
pub(crate) const FURTHER_LINES_MAX: usize = 3;

/// A field whose value is a list, and whose lines are one list (RFC 9110 section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListField {
    AcceptEncoding,
    IfMatch,
    IfNoneMatch,
}

/// The lines of a list field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'r> {
    pub(crate) first: &'r [u8],
    pub(crate) of: ListField,
    pub(crate) further: &'r [Option<(ListField, &'r [u8])>; FURTHER_LINES_MAX],
}

impl<'r> Lines<'r> {
    /// The only line; none where there are several.
    #[inline]
    pub(crate) fn only(&self) -> Option<&'r [u8]> {
        if self.further[0].is_none() || self.iter().nth(1).is_none() { Some(self.first) } else { None }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'r [u8]> + use<'r> {
        let of = self.of;
        let further = self.further.iter().flatten().filter(move |line| line.0 == of).map(|line| line.1);
        std::iter::once(self.first).chain(further)
    }
}

/// What the lines of Transfer-Encoding say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferCodings {
    /// There is no line.
    None,
    /// One line, which is `chunked`.
    Chunked,
    /// Several lines, each of which is `chunked`.
    ChunkedTwice,
    /// Other codings, and `chunked` as the last one.
    CodedAndChunked,
    /// The last coding is not `chunked`.
    Open,
}

impl TransferCodings {
    /// With one more line.
    #[cold]
    pub(crate) fn and(self, value: &[u8]) -> Self {
        const CHUNKED: &[u8] = b"chunked";
        let ends_chunked =
            value.len() >= CHUNKED.len() && value[value.len() - CHUNKED.len()..].eq_ignore_ascii_case(CHUNKED);
        match (self, value.eq_ignore_ascii_case(CHUNKED)) {
            _ if !ends_chunked => Self::Open,
            (Self::None, true) => Self::Chunked,
            (Self::Chunked | Self::ChunkedTwice, true) => Self::ChunkedTwice,
            _ => Self::CodedAndChunked,
        }
    }

    /// How the body is framed, if this says it. Anything that does not end in `chunked` has no end that could be found,
    /// and `chunked` twice is none (RFC 9112 sections 6.1 and 6.3).
    #[inline]
    pub(crate) fn framing(self) -> Result<Option<Framing>, u16> {
        match self {
            Self::None => Ok(None),
            Self::Chunked => Ok(Some(Framing::Chunked)),
            Self::ChunkedTwice | Self::Open => Err(400),
            Self::CodedAndChunked => Err(501),
        }
    }
}
