//! Atoms as all loops together have seen them, and their readings.

use crate::loop_stats::{PATHS_MAX, Taken};
use crate::rulebook::Rulebook;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_adapt::crowd::Crowd;
use weir_adapt::{Engine, Resource, Sketch, Where};

/// Atoms that are followed one by one, of all loops.
const ATOMS_MAX: usize = PATHS_MAX;
/// Quiet atoms that a tick looks at and forgets at most, where there is little room left for others.
const SOUGHT_MAX: usize = 2048;
const FREED_MAX: usize = 256;
/// What a recording holds of each atom, even if no present rule asks for it: a replay may use other rules.
const WRITTEN: [Resource; 4] = [Resource::Rate, Resource::Errors, Resource::Active, Resource::Wait];
/// What is measured of an atom.
const MEASURED: [Resource; 6] =
    [Resource::Rate, Resource::Errors, Resource::ErrorShare, Resource::Active, Resource::Wait, Resource::Queue];
/// Ticks for which an atom is told of after the last window that some rule has of it.
const TICKS_AFTER: u64 = 3;
/// How long the last reading of an atom without requests holds. The next request gives a new one.
const QUIET_VALID_MS: u64 = 24 * 3600 * 1000;

/// All atoms.
#[derive(Debug)]
pub(crate) struct Atoms {
    all: Vec<Atom>,
    numbers: FxHashMap<Arc<str>, u32>,
    /// As many as there is room for.
    atoms_max: usize,
    /// Of each loop's statistics, by their places.
    places: Vec<Vec<Place>>,
    /// Numbers that were given up, and where the next of them is looked for.
    free: Vec<u32>,
    search_from: usize,
    /// Those that are told of at each tick.
    lively: Vec<u32>,
    /// What some rule asks for.
    asked: Vec<Resource>,
    quiet_after: u64,
    pub(crate) refused: u64,
    /// Atoms beyond those that are followed.
    pub(crate) dropped: u64,
}

/// A place of a loop's statistics.
#[derive(Debug)]
struct Place {
    path: Arc<str>,
    /// The number here and its generation; a number of `u32::MAX`: there was no room.
    atom: (u32, u32),
    /// Responses under way at the last tick.
    under_way: u32,
}

#[derive(Debug)]
struct Atom {
    path: Arc<str>,
    /// Counts the atoms that have had this number.
    generation: u32,
    requests: u64,
    refused: u64,
    failed: u64,
    waited_ns: u64,
    under_way: u32,
    quiet_ticks: u64,
    is_lively: bool,
    /// Requests a second in the last tick.
    rate_per_s: f64,
}

/// A reading of an atom: of which, what, the value, and how long it holds if not as others do.
pub(crate) type AtomReading = (u32, Resource, f64, Option<u64>);

impl Default for Atoms {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            numbers: FxHashMap::default(),
            atoms_max: ATOMS_MAX,
            places: Vec::new(),
            free: Vec::new(),
            search_from: 0,
            lively: Vec::new(),
            asked: Vec::new(),
            quiet_after: 0,
            refused: 0,
            dropped: 0,
        }
    }
}

impl Atoms {
    /// Other rules ask for other readings.
    pub(crate) fn ask(&mut self, engine: &Engine, tick_ms: u64, is_recorded: bool) {
        let asked = MEASURED.map(|resource| (resource, engine.window_ms(resource, Where::Atom)));
        let is_told = |(resource, window_ms): &(Resource, Option<u64>)| {
            (window_ms.is_some() || (is_recorded && WRITTEN.contains(resource))).then_some(*resource)
        };
        self.asked = asked.iter().filter_map(is_told).collect();
        let longest_ms = asked.iter().filter_map(|(_, window_ms)| *window_ms).max().unwrap_or(0);
        self.quiet_after = longest_ms.div_ceil(tick_ms) + TICKS_AFTER;
        // They are told of anew.
        self.lively = self.numbers.values().copied().collect();
        self.lively.sort_unstable();
        for number in &self.lively {
            let atom = &mut self.all[*number as usize];
            (atom.quiet_ticks, atom.is_lively) = (0, true);
        }
    }

    /// Adds what a loop has seen: the one of this number.
    pub(crate) fn take(&mut self, number: usize, taken: &Taken, crowd: &mut Crowd, popular: &mut Sketch) {
        while self.places.len() <= number {
            self.places.push(Vec::new());
        }
        for (at, path) in &taken.paths {
            let place = Place { path: Arc::clone(path), atom: self.number_of(path), under_way: 0 };
            let places = &mut self.places[number];
            // A new one is the next one, or another path had it.
            match places.get_mut(*at as usize) {
                Some(before) => *before = place,
                None => places.push(place),
            }
        }
        for (path, requests) in &taken.placeless {
            popular.push(path, *requests);
        }
        for (at, tally, under_way) in &taken.tallies {
            let Some(Place { path, atom: (atom, generation), .. }) = self.places[number].get(*at as usize) else {
                continue;
            };
            let (mut atom, generation) = (*atom, *generation);
            if self.all.get(atom as usize).is_none_or(|known| known.generation != generation) {
                // There was no room for it, or it was forgotten meanwhile.
                let path = Arc::clone(path);
                let place = Place { atom: self.number_of(&path), under_way: 0, path };
                atom = place.atom.0;
                self.places[number][*at as usize] = place;
            }
            let before = &mut self.places[number][*at as usize].under_way;
            if tally.requests > 0 {
                crowd.asked(u64::from(atom), tally.requests);
            }
            let Some(known) = self.all.get_mut(atom as usize) else {
                popular.push(&self.places[number][*at as usize].path, tally.requests);
                continue;
            };
            known.requests += tally.requests;
            known.refused += tally.refused;
            known.failed += tally.failed;
            known.waited_ns = known.waited_ns.saturating_add(tally.waited_ns);
            self.refused += tally.refused;
            known.under_way = (known.under_way + under_way).saturating_sub(std::mem::replace(before, *under_way));
            known.quiet_ticks = 0;
            if !std::mem::replace(&mut known.is_lively, true) {
                self.lively.push(atom);
            }
            popular.push(&known.path, tally.requests);
        }
        taken.seen.iter().for_each(|seen| crowd.came(seen.client, seen.network));
        crowd.passed_over(taken.fileless, taken.clientless);
    }

    /// The number of an atom and its generation; a number of `u32::MAX`: there is no room for it.
    fn number_of(&mut self, path: &Arc<str>) -> (u32, u32) {
        if let Some(number) = self.numbers.get(path) {
            return (*number, self.all[*number as usize].generation);
        }
        if self.all.len() >= self.atoms_max && self.free.is_empty() {
            self.dropped += 1;
            return (u32::MAX, 0);
        }
        let mut atom = Atom {
            path: Arc::clone(path),
            generation: 0,
            requests: 0,
            refused: 0,
            failed: 0,
            waited_ns: 0,
            under_way: 0,
            quiet_ticks: 0,
            is_lively: true,
            rate_per_s: 0.0,
        };
        let number = match self.free.pop() {
            Some(number) => {
                let before = &mut self.all[number as usize];
                atom.generation = before.generation.wrapping_add(1);
                *before = atom;
                number
            }
            None => {
                self.all.push(atom);
                self.all.len() as u32 - 1
            }
        };
        self.numbers.insert(Arc::clone(path), number);
        self.lively.push(number);
        (number, self.all[number as usize].generation)
    }

    /// Whether there is no room left for other paths.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    fn room(&self) -> usize {
        self.atoms_max - self.all.len() + self.free.len()
    }

    /// Has quiet atoms make room for others, within what a tick may do: those that `forget` lets go, as no rule is active
    /// for them.
    pub(crate) fn make_room(&mut self, mut forget: impl FnMut(&str) -> bool) {
        if self.room() >= FREED_MAX.min(self.atoms_max) || self.all.is_empty() {
            return;
        }
        let mut freed = 0;
        for _ in 0..SOUGHT_MAX.min(self.all.len()) {
            self.search_from = (self.search_from + 1) % self.all.len();
            let atom = &self.all[self.search_from];
            let is_known = self.numbers.get(&atom.path) == Some(&(self.search_from as u32));
            if !is_known || atom.is_lively || atom.under_way > 0 || !forget(&atom.path) {
                continue;
            }
            self.numbers.remove(&atom.path);
            // A new generation invalidates the number where it is still kept.
            let atom = &mut self.all[self.search_from];
            atom.generation = atom.generation.wrapping_add(1);
            self.free.push(self.search_from as u32);
            freed += 1;
            if freed == FREED_MAX {
                break;
            }
        }
    }

    /// The readings of a tick that took so many seconds.
    pub(crate) fn readings(&mut self, seconds: f64, readings: &mut Vec<AtomReading>) {
        readings.clear();
        let Self { all, asked, lively, quiet_after, .. } = self;
        lively.retain(|number| {
            let atom = &mut all[*number as usize];
            let is_quiet = atom.requests == 0 && atom.under_way == 0;
            atom.quiet_ticks = if is_quiet { atom.quiet_ticks + 1 } else { 0 };
            atom.is_lively = atom.quiet_ticks <= *quiet_after;
            // Its last reading says that nothing comes, and holds on.
            let valid_ms = (!atom.is_lively).then_some(QUIET_VALID_MS);
            let requests = atom.requests as f64;
            atom.rate_per_s = requests / seconds;
            // The mean of the requests of this tick. Without one there is no mean: the last mean holds until it is too
            // old, or until the atom counts as quiet. A wait that is told after the tick of its request counts with the
            // next ones.
            let wait_s = (atom.requests > 0).then(|| atom.waited_ns as f64 / 1e9 / requests);
            let wait_s = wait_s.or_else(|| (!atom.is_lively).then_some(0.0));
            for resource in asked.iter() {
                let value = match resource {
                    Resource::Rate => Some(requests / seconds),
                    Resource::Errors => Some(atom.failed as f64 / seconds),
                    // What was refused by a rule is no failure; of nothing nothing fails.
                    Resource::ErrorShare => {
                        Some((100.0 * atom.failed as f64 / (atom.requests - atom.refused).max(1) as f64).min(100.0))
                    }
                    Resource::Active => Some(f64::from(atom.under_way)),
                    Resource::Wait => wait_s,
                    // Those that wait are the rate times the wait of each (Little).
                    Resource::Queue => wait_s.map(|wait_s| requests / seconds * wait_s),
                    _ => None,
                };
                readings.extend(value.map(|value| (*number, *resource, value, valid_ms)));
            }
            if wait_s.is_some() {
                atom.waited_ns = 0;
            }
            (atom.requests, atom.refused, atom.failed) = (0, 0, 0);
            atom.is_lively
        });
    }

    /// Tells the rules.
    pub(crate) fn tell(&self, at_ms: u64, readings: &[AtomReading], rules: &mut Rulebook) {
        for (number, resource, value, valid_ms) in readings {
            rules.read_atom(at_ms, *resource, &self.all[*number as usize].path, *value, *valid_ms);
        }
    }

    /// How many are followed.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// How many requests a second came for an atom in the last tick.
    pub(crate) fn rate_per_s(&self, path: &str) -> Option<f64> {
        self.all.get(self.find(path)? as usize).map(|atom| atom.rate_per_s)
    }

    /// The number of an atom by its path.
    pub(crate) fn find(&self, path: &str) -> Option<u32> {
        self.numbers.get(path).copied()
    }
}
