//! How wrong forecasts were, by metric and place.

use crate::forecast::Track;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Series of forecasts whose errors are followed at most.
const TRACKS_MAX: usize = 1024;

/// The errors of forecasts, by metric and atom.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tracks {
    pub(crate) tracks: Vec<(usize, Track)>,
    numbers: FxHashMap<u64, u32>,
}

impl Tracks {
    /// The number of the track of a metric's forecasts of a place; `None` where there are too many.
    pub(crate) fn of(&mut self, metric: usize, place: u32) -> Option<usize> {
        let key = (metric as u64) << 32 | u64::from(place);
        let next = self.tracks.len();
        let number = match self.numbers.get(&key) {
            Some(number) => *number as usize,
            None if next < TRACKS_MAX => {
                self.numbers.insert(key, next as u32);
                self.tracks.push((metric, Track::default()));
                next
            }
            None => return None,
        };
        Some(number)
    }

    /// Goes on with the tracks of other rules, by what the metrics and places are here.
    pub(crate) fn take_over(&mut self, from: &Self, here: impl Fn(usize, u32) -> Option<(usize, u32)>) {
        let mut known: Vec<(u32, u64)> = from.numbers.iter().map(|(key, number)| (*number, *key)).collect();
        known.sort_unstable();
        for (number, key) in known {
            let place = here((key >> 32) as usize, key as u32);
            let own = place.and_then(|(metric, place)| self.of(metric, place));
            if let (Some(own), Some((_, track))) = (own, from.tracks.get(number as usize)) {
                self.tracks[own].1.clone_from(track);
            }
        }
    }

    pub(crate) fn get(&mut self, number: usize) -> Option<&mut Track> {
        self.tracks.get_mut(number).map(|(_, track)| track)
    }
}
