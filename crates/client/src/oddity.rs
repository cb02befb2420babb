//! What servers do beside the standard, and clients take all the same: taken, counted, told.

/// A way in which a response departs from the standard without leaving its end in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// Empty lines before the status line (RFC 9112 2.2).
    LineBefore,
    /// The status line's protocol is not `HTTP/1.0` or `HTTP/1.1`, such as `http/1.1` or `HTTP/2`.
    Version,
    /// The status line has other blanks than the standard wants, or none behind the status.
    StatusBlanks,
    /// A header line goes on in the next one (RFC 9112 5.2).
    Folded,
    /// Blanks between a header's name and its colon (RFC 9112 5.1).
    BlankBeforeColon,
    /// A line that is no header: without a colon or a name, or with a blank before the first one.
    Stray,
    /// A header's name has characters that no name has.
    Name,
    /// A control character in a value or the reason, taken as a blank (RFC 9110 5.5).
    Control,
    /// A line that ends without a carriage return (RFC 9112 2.2).
    BareLineFeed,
    /// A carriage return that ends no line (RFC 9112 2.2).
    BareReturn,
    /// The same length several times (RFC 9112 6.3).
    RepeatedLength,
    /// A length beside chunks, which count (RFC 9112 6.3).
    LengthAndChunks,
    /// Transfer-Encoding in HTTP/1.0 (RFC 9112 6.1).
    ChunksOfOld,
    /// A Transfer-Encoding that says nothing: `identity`, or none.
    NoCoding,
    /// A chunk's line with blanks or other bytes where an extension would stand (RFC 9112 7.1).
    ChunkLine,
    /// Bytes behind a response that nothing asked for (RFC 9112 6.3).
    Surplus,
}

impl Oddity {
    /// Every oddity.
    pub const ALL: [Self; 16] = [
        Self::LineBefore,
        Self::Version,
        Self::StatusBlanks,
        Self::Folded,
        Self::BlankBeforeColon,
        Self::Stray,
        Self::Name,
        Self::Control,
        Self::BareLineFeed,
        Self::BareReturn,
        Self::RepeatedLength,
        Self::LengthAndChunks,
        Self::ChunksOfOld,
        Self::NoCoding,
        Self::ChunkLine,
        Self::Surplus,
    ];

    /// How reports call it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::LineBefore => "empty line before the status line",
            Self::Version => "odd version in the status line",
            Self::StatusBlanks => "odd blanks in the status line",
            Self::Folded => "folded header line",
            Self::BlankBeforeColon => "blank before a header's colon",
            Self::Stray => "line that is no header",
            Self::Name => "odd character in a header's name",
            Self::Control => "control character in a header",
            Self::BareLineFeed => "line that ends without a carriage return",
            Self::BareReturn => "carriage return within a line",
            Self::RepeatedLength => "the same Content-Length twice",
            Self::LengthAndChunks => "Content-Length beside Transfer-Encoding",
            Self::ChunksOfOld => "Transfer-Encoding in HTTP/1.0",
            Self::NoCoding => "Transfer-Encoding without a coding",
            Self::ChunkLine => "odd bytes beside a chunk's size",
            Self::Surplus => "bytes behind a response",
        }
    }
}

/// A set of oddities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Oddities(u32);

impl Oddities {
    /// Whether it is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds one.
    #[inline]
    pub fn note(&mut self, oddity: Oddity) {
        self.0 |= 1 << oddity as u32;
    }

    /// Adds one if it is there.
    pub fn note_if(&mut self, is_there: bool, oddity: Oddity) {
        self.0 |= u32::from(is_there) << oddity as u32;
    }

    /// Adds those of another set.
    #[inline]
    pub fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether it holds this one.
    #[must_use]
    pub fn has(self, oddity: Oddity) -> bool {
        self.0 >> oddity as u32 & 1 == 1
    }

    /// Those that it holds.
    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL.into_iter().filter(move |oddity| self.has(*oddity))
    }
}
