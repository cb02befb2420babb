//! The paths that a node is asked for most, each in a place of its own that is gossiped only when it changes.

use super::reading::{GossipTextError, number};
use std::collections::HashMap;

/// Paths that a node names.
pub const POPULAR_MAX: usize = 100;
/// Bytes of a path; longer ones are left out.
pub const PATH_BYTES_MAX: usize = 255;
/// A rate is gossiped again once it is so much larger or smaller.
const CHANGE: f64 = 1.25;
const TENTHS: f64 = 10.0;
/// A path and a rate.
const TEXT_BYTES_MAX: usize = PATH_BYTES_MAX + 20;

/// How often a path is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// From the root of a site.
    pub path: String,
    /// Requests in a second.
    pub requests_per_s: f64,
}

/// What a place says: a path, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot(pub Option<Asked>);

impl Slot {
    /// The text: the rate in tenths, a space and the path; empty for nothing.
    pub fn to_text(&self) -> String {
        let text = |asked: &Asked| format!("{} {}", tenths(asked.requests_per_s), asked.path);
        self.0.as_ref().map_or_else(String::new, text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`GossipTextError`], if it is none.
    pub fn parse(text: &str) -> Result<Self, GossipTextError> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let read = || {
            let (rate, path) = text.split_once(' ')?;
            let is_path = (1..=PATH_BYTES_MAX).contains(&path.len());
            let requests_per_s = number(rate)? as f64 / TENTHS;
            is_path.then(|| Self(Some(Asked { path: path.to_owned(), requests_per_s })))
        };
        (text.len() <= TEXT_BYTES_MAX).then(read).flatten().ok_or(GossipTextError { what: "path" })
    }
}

fn tenths(rate: f64) -> u64 {
    (rate.clamp(0.0, 1e12) * TENTHS).round() as u64
}

/// Which path has which place.
#[derive(Debug)]
pub(super) struct Slots(Vec<Option<Asked>>);

impl Default for Slots {
    fn default() -> Self {
        Self(vec![None; POPULAR_MAX])
    }
}

impl Slots {
    /// Sets what is asked for most; returns the places that say something else from now on.
    pub(super) fn set(&mut self, asked: &[Asked]) -> Vec<(usize, Slot)> {
        let mut asked: Vec<&Asked> = asked
            .iter()
            .filter(|asked| (1..=PATH_BYTES_MAX).contains(&asked.path.len()) && tenths(asked.requests_per_s) > 0)
            .collect();
        asked.sort_by(|one, other| {
            other.requests_per_s.total_cmp(&one.requests_per_s).then_with(|| one.path.cmp(&other.path))
        });
        asked.truncate(POPULAR_MAX);
        let mut wanted: HashMap<&str, f64> =
            asked.iter().map(|asked| (asked.path.as_str(), asked.requests_per_s)).collect();
        let mut changed = Vec::new();
        for (place, slot) in self.0.iter_mut().enumerate() {
            let Some(has) = slot else { continue };
            match wanted.remove(has.path.as_str()) {
                Some(rate) if is_near(has.requests_per_s, rate) => {}
                Some(rate) => {
                    has.requests_per_s = rate;
                    changed.push(place);
                }
                None => {
                    *slot = None;
                    changed.push(place);
                }
            }
        }
        let new = asked.iter().filter(|asked| wanted.remove(asked.path.as_str()).is_some());
        let mut free = 0;
        for asked in new {
            while self.0.get(free).is_some_and(Option::is_some) {
                free += 1;
            }
            let Some(slot) = self.0.get_mut(free) else { break };
            *slot = Some((*asked).clone());
            changed.push(free);
        }
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().map(|place| (place, Slot(self.0[place].clone()))).collect()
    }
}

fn is_near(before: f64, now: f64) -> bool {
    now <= before * CHANGE && before <= now * CHANGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(path: &str, requests_per_s: f64) -> Asked {
        Asked { path: path.to_owned(), requests_per_s }
    }

    #[test]
    fn only_what_changes_is_said_again() {
        let mut slots = Slots::default();
        assert_eq!(slots.set(&[asked("/a", 10.0), asked("/b", 5.0)]).len(), 2);
        assert_eq!(slots.set(&[asked("/a", 11.0), asked("/b", 4.5)]), []);
        assert_eq!(slots.set(&[asked("/a", 20.0), asked("/b", 4.5)]), [(0, Slot(Some(asked("/a", 20.0))))]);
        assert_eq!(slots.set(&[asked("/b", 5.0), asked("/c", 5.0)]), [(0, Slot(Some(asked("/c", 5.0))))]);
        assert_eq!(slots.set(&[]), [(0, Slot(None)), (1, Slot(None))]);
    }

    #[test]
    fn the_most_asked_ones_have_the_places() {
        let many: Vec<Asked> = (1..=300).map(|rate| asked(&format!("/{rate}"), f64::from(rate))).collect();
        let mut slots = Slots::default();
        let set = slots.set(&many);
        assert_eq!(set.len(), POPULAR_MAX);
        assert!(set.iter().all(|(_, slot)| slot.0.as_ref().is_some_and(|asked| asked.requests_per_s > 200.0)));
        let long = [asked(&"x".repeat(PATH_BYTES_MAX + 1), 1e6), asked("/never", 0.0)];
        assert!(slots.set(&long).iter().all(|(_, slot)| slot.0.is_none()));
    }

    proptest! {
        #[test]
        fn places_hold_what_was_set(rounds in proptest::collection::vec(
            proptest::collection::vec((0..150_u32, 0..1000_u32), 0..150), 1..6,
        )) {
            let (mut slots, mut told) = (Slots::default(), vec![Slot(None); POPULAR_MAX]);
            for round in rounds {
                let unique: HashMap<u32, u32> = round.into_iter().collect();
                let all: Vec<Asked> =
                    unique.iter().map(|(path, rate)| asked(&format!("/{path}"), f64::from(*rate))).collect();
                for (place, slot) in slots.set(&all) {
                    told[place] = Slot::parse(&slot.to_text()).expect("was written");
                }
                let shown: Vec<&Asked> = told.iter().filter_map(|slot| slot.0.as_ref()).collect();
                prop_assert_eq!(shown.len(), unique.values().filter(|rate| **rate > 0).count().min(POPULAR_MAX));
                for has in shown {
                    let number: u32 = has.path[1..].parse().expect("a number");
                    prop_assert!(is_near(has.requests_per_s, f64::from(unique[&number])), "{:?}", has);
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,300}") {
            if let Ok(slot) = Slot::parse(&text) {
                prop_assert_eq!(slot.to_text(), text);
            }
        }
    }
}
