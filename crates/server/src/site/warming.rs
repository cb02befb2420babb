//! What is to be loaded before the first request for it.

use crate::http::pattern::Pattern;
use std::collections::VecDeque;
use std::vec::IntoIter;

/// Directories that wait to be looked at; what comes beyond them is counted and left out.
pub(super) const WAITING_MAX: usize = 16_384;

/// What is to be loaded.
#[derive(Debug, Default)]
pub(super) struct Warming {
    /// Paths with what they are to match; those of directories end with a slash.
    pub(super) waiting: VecDeque<(Vec<u8>, Pattern)>,
    /// The directory that is gone through.
    pub(super) listed: Option<Listed>,
}

/// A directory whose names are looked at one after the other.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) path: Vec<u8>,
    pub(super) names: IntoIter<Vec<u8>>,
    pub(super) pattern: Pattern,
}
