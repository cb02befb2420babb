//! The transactions that may be parents: the running ones, each with its client, and most of those that ended lately.

use crate::keyed::Keyed;
use std::collections::HashMap;
use std::hash::BuildHasher;
use weir_wire::arm::Handle;

/// Running ones that are known.
pub const MOST_RUNNING: usize = 131_072;
/// Places of ended ones, a power of two.
const ENDED: usize = 65_536;

/// Where a transaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The client's number.
    pub client: u32,
    /// The handle in it.
    pub handle: Handle,
}

/// The spans that are known.
#[derive(Debug)]
pub struct Spans {
    running: HashMap<u64, Place, Keyed>,
    /// The transaction that began last. It is not in `running`, as mostly it is the next to end. A span of 0 = none.
    last: (u64, Place),
    /// Ended spans: a seeded hash, which no client can predict, gives each its place; a later span may overwrite it. At
    /// ten thousand a second most stay known for some seconds. An end writes one word, and the table never grows. 0 =
    /// free; no span is 0.
    ended: Vec<u64>,
    keyed: Keyed,
}

impl Default for Spans {
    fn default() -> Self {
        let nowhere = Place { client: 0, handle: Handle(0) };
        Self { running: HashMap::default(), last: (0, nowhere), ended: vec![0; ENDED], keyed: Keyed::default() }
    }
}

impl Spans {
    /// One begins.
    pub fn begin(&mut self, span: u64, place: Place) {
        let (before, its_place) = std::mem::replace(&mut self.last, (span, place));
        if before != 0 && before != span && self.running.len() < MOST_RUNNING {
            self.running.insert(before, its_place);
        }
    }

    /// One ends: it is known for a while.
    pub fn end(&mut self, span: u64) {
        let is_last = span != 0 && self.last.0 == span;
        if is_last {
            self.last.0 = 0;
        }
        // A span that began twice (only a faulty client does so) is removed from both places.
        let is_among = !self.running.is_empty() && self.running.remove(&span).is_some();
        if is_last || is_among {
            let at = self.place(span);
            self.ended[at] = span;
        }
    }

    /// Whether one is known, and where it runs if it still does.
    #[must_use]
    pub fn find(&self, span: u64) -> Option<Option<Place>> {
        if span == 0 {
            return None;
        }
        if self.last.0 == span {
            return Some(Some(self.last.1));
        }
        match self.running.get(&span) {
            Some(place) => Some(Some(*place)),
            None => (self.ended[self.place(span)] == span).then_some(None),
        }
    }

    fn place(&self, span: u64) -> usize {
        self.keyed.hash_one(span) as usize % ENDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_ones_are_known_until_many_others_have_ended() {
        let mut spans = Spans::default();
        let place = |span| Place { client: 7, handle: Handle(span) };
        assert_eq!((spans.find(0), spans.find(1)), (None, None));
        let mut end_of = |span: u64| {
            spans.begin(span, place(span));
            assert_eq!(spans.find(span), Some(Some(place(span))));
            spans.end(span);
            assert_eq!(spans.find(span), Some(None));
        };
        let last = 4 * ENDED as u64;
        (1..=last).for_each(&mut end_of);
        spans.end(last + 1);
        assert_eq!(spans.find(last + 1), None, "it never began");
        // Of the last thousand all but a few, of the first ones hardly any, and no more than there are places.
        let known = |from: u64, to: u64| (from..=to).filter(|span| spans.find(*span).is_some()).count();
        assert!(known(last - 999, last) > 970, "{}", known(last - 999, last));
        assert!(known(1, 1000) < 60, "{}", known(1, 1000));
        assert!(known(1, last) <= ENDED && spans.running.is_empty());
    }

    #[test]
    fn running_spans_are_found_in_any_order_of_ends() {
        let mut spans = Spans::default();
        let place = |span| Place { client: span as u32, handle: Handle(span) };
        for order in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]] {
            (1..=4).for_each(|span| spans.begin(span, place(span)));
            for (at, span) in order.into_iter().enumerate() {
                let runs = |span: &u64| spans.find(*span) == Some(Some(place(*span)));
                assert!(order[at..].iter().all(runs) && !order[..at].iter().any(runs));
                spans.end(span);
            }
        }
        // A client that says the same twice has one; and it is another's place by then.
        spans.begin(5, place(5));
        spans.begin(5, place(6));
        assert_eq!((spans.find(5), spans.running.len()), (Some(Some(place(6))), 0));
        spans.begin(6, place(6));
        spans.begin(5, place(5));
        spans.end(5);
        assert_eq!((spans.find(5), spans.find(6)), (Some(None), Some(Some(place(6)))));
        spans.begin(5, place(5));
        spans.begin(7, place(7));
        spans.begin(5, place(5));
        spans.end(5);
        assert_eq!((spans.find(5), spans.running.len()), (Some(None), 2));
    }
}
