//! Why bytes of another host are no figures.

/// Why bytes of another host are no figures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CarriedError {
    /// They end too early.
    #[error("a message ends too early")]
    Short,
    /// A number is too large, or written in more bytes than it needs.
    #[error("a number in a message is out of range")]
    Number,
    /// A text is not UTF-8.
    #[error("a text in a message is not UTF-8")]
    Text,
    /// A histogram's buckets do not ascend, or lie beyond an hour.
    #[error("a histogram in a message has buckets that none has")]
    Histogram,
    /// Figures that contradict each other.
    #[error("figures in a message contradict each other: {what}")]
    Contradiction {
        /// Which.
        what: &'static str,
    },
    /// More bytes than the message has.
    #[error("{bytes} bytes are left behind a message")]
    Left {
        /// How many.
        bytes: usize,
    },
}
