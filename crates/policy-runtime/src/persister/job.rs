//! What the lines of the pipe to the persister are about.

/// What a line of the pipe is about: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersisterJob {
    /// A recording begins with this header.
    Header = b'H' as isize,
    /// A line of the recording.
    Line = b'L' as isize,
    /// A look at everything, to be kept.
    Look = b'E' as isize,
    /// A decision, to be kept.
    Decision = b'D' as isize,
    /// People are to be alerted.
    Alert = b'A' as isize,
    /// All of a tick was sent.
    Flush = b'F' as isize,
}

impl PersisterJob {
    pub(crate) const ALL: [Self; 6] = [Self::Header, Self::Line, Self::Look, Self::Decision, Self::Alert, Self::Flush];

    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|job| *job as u8 == byte)
    }
}
