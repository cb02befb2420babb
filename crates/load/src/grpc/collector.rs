//! Where the messages of answers go that are wanted, as those of a server's reflection.

use std::sync::{Mutex, PoisonError};

/// The longest message that is kept, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The most messages that are kept; the first.
const MESSAGES_MAX: usize = 16;

/// Messages of answers.
#[derive(Debug, Default)]
pub(crate) struct Collector(Mutex<Vec<Vec<u8>>>);

impl Collector {
    /// Adds a piece to a message that is kept; tells whether there was room for it.
    pub(crate) fn add(&self, kept: &mut Vec<u8>, piece: &[u8]) -> bool {
        let fits = kept.len() + piece.len() <= MESSAGE_BYTES_MAX;
        if fits {
            kept.extend_from_slice(piece);
        }
        fits
    }

    /// A message is whole.
    pub(crate) fn push(&self, message: Vec<u8>) {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() < MESSAGES_MAX {
            messages.push(message);
        }
    }

    /// The first message.
    pub(crate) fn first(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }
}
