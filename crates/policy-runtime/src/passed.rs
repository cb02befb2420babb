//! Sessions for which nothing was decided: they are counted by kind rather than told to the rules one by one.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_server::Link;

/// Kinds that are counted in one period; sessions of further kinds are told to the rules.
const KINDS_MAX: usize = 8192;

/// The number of sessions of each kind. A kind keeps its number until `drain`.
#[derive(Debug, Default)]
pub(crate) struct PassedSessions {
    numbers: FxHashMap<Alike, u32>,
    kinds: Vec<(Alike, Arc<str>, u32)>,
}

/// A kind of sessions: one place in the statistics, and links that the rules cannot tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Alike {
    place: u32,
    /// The bits of the value; those of NaN if it is unknown.
    bandwidth: u64,
    rtt: u64,
}

impl PassedSessions {
    /// Counts a session and returns the number of its kind. `None`: it has no path, or there are too many kinds.
    pub(crate) fn count(&mut self, place: u32, link: Link, path: impl FnOnce() -> Option<Arc<str>>) -> Option<u32> {
        let alike = Alike::new(place, link);
        if let Some(number) = self.numbers.get(&alike).copied() {
            return self.count_again(number, 1).then_some(number);
        }
        if self.kinds.len() >= KINDS_MAX {
            return None;
        }
        let path = path()?;
        let number = self.kinds.len() as u32;
        self.numbers.insert(alike, number);
        self.kinds.push((alike, path, 1));
        Some(number)
    }

    /// Counts more sessions of the kind with this number. `false`: there is no such kind.
    #[inline]
    pub(crate) fn count_again(&mut self, number: u32, more: u32) -> bool {
        let kind = self.kinds.get_mut(number as usize);
        kind.map(|(_, _, sessions)| *sessions = sessions.saturating_add(more)).is_some()
    }

    /// Takes out all kinds: path, link as the rules would have seen it, and number of sessions.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Arc<str>, Link, u32)> {
        self.numbers.clear();
        self.kinds.drain(..).map(|(alike, path, sessions)| (path, alike.link(), sessions))
    }
}

impl Alike {
    fn new(place: u32, link: Link) -> Self {
        let bits = |value: Option<f64>| value.unwrap_or(f64::NAN).to_bits();
        Self { place, bandwidth: bits(link.bandwidth_bps), rtt: bits(link.rtt_s) }
    }

    /// What the rules would have been told of their links.
    fn link(self) -> Link {
        let known = |bits| Some(f64::from_bits(bits)).filter(|value| !value.is_nan());
        Link { bandwidth_bps: known(self.bandwidth), rtt_s: known(self.rtt) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_pass_are_counted_by_kind_within_a_bound() {
        let mut passed = PassedSessions::default();
        let link = |bandwidth_bps| Link { bandwidth_bps, rtt_s: None };
        let known = |number: usize| link(Some(number as f64));
        let mut count = |of| passed.count(3, of, || Some("/a".into()));
        (0..KINDS_MAX - 1).for_each(|number| assert_eq!(count(known(number)), Some(number as u32)));
        (0..3).for_each(|_| assert_eq!(count(link(None)), Some(KINDS_MAX as u32 - 1)));
        assert_eq!((count(known(KINDS_MAX)), count(known(7))), (None, Some(7)));
        assert!(passed.count_again(7, 1) && !passed.count_again(KINDS_MAX as u32, 1));
        let taken: Vec<_> = passed.drain().collect();
        assert_eq!(taken.len(), KINDS_MAX);
        assert!(!passed.count_again(7, 1), "numbers are those of what is still there");
        let count = |of: Link| {
            let one = taken.iter().find(|(path, link, _)| **path == *"/a" && *link == of);
            one.map(|(_, _, sessions)| *sessions)
        };
        assert_eq!((count(link(None)), count(known(7)), count(known(8))), (Some(3), Some(3), Some(1)));
        assert_eq!(passed.count(3, link(None), || None), None, "it would have no path");
        assert_eq!(passed.count(3, link(None), || Some("/b".into())), Some(0));
    }
}
