//! How far an answer is, and whether to go on.

use std::sync::Arc;

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Tables are made, once; so many events were read.
    Reading {
        /// Events.
        events: u64,
    },
    /// The question is answered; of a raw table so many events were read (0: none is).
    Asking {
        /// Events.
        events: u64,
    },
}

/// Is told how far an answer is, and stops it by false.
pub type Watch = Arc<dyn Fn(Progress) -> bool + Send + Sync>;
