//! How many questions of a sort are under way at a time: each holds a handler of the endpoint until its answer is there.

use crate::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Questions at a time to those of one sort that tell of themselves.
const MOST: usize = 2;

/// The places of the questions of one sort.
#[derive(Debug, Default)]
pub(crate) struct Places(Arc<AtomicUsize>);

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Places {
    /// A place for a question.
    ///
    /// # Errors
    /// [`Refusal::Asking`] where none is free.
    pub(crate) fn take(&self) -> Result<Place, Refusal> {
        // The place is there before it is counted whether it is one too many: so it is given back on any way out.
        let place = Place(Arc::clone(&self.0));
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        if before < MOST { Ok(place) } else { Err(Refusal::Asking { most: MOST }) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let places = Places::default();
        let taken: Vec<Place> = (0..MOST).map(|_| places.take().expect("a place")).collect();
        for _ in 0..3 {
            assert!(matches!(places.take(), Err(Refusal::Asking { .. })));
        }
        drop(taken);
        assert!(places.take().is_ok() && places.0.load(Ordering::Relaxed) == 0);
    }
}
