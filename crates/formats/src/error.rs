//! Why a trace cannot be read on.

/// A trace that cannot be read, or not to its end. What was handed out before stays true.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("byte {at}: {source}")]
    Io {
        /// The byte that was to be read.
        at: u64,
        /// Why.
        source: std::io::Error,
    },
    /// It ends within something.
    #[error("byte {at}: the file ends within {within}; was its copy or its recording cut short?")]
    Cut {
        /// Where it ends, or where what is cut begins.
        at: u64,
        /// What is cut.
        within: &'static str,
    },
    /// It says something that cannot be.
    #[error("byte {at}: {what}")]
    Wrong {
        /// Where.
        at: u64,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl ReadError {
    pub(crate) fn wrong(at: u64, what: impl Into<String>) -> Self {
        Self::Wrong { at, what: what.into() }
    }
}
