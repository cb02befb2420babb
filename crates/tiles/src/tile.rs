//! Tiles: 1024 buckets of time, a lane for each CPU and task, and the requests that ended in each bucket.

use crate::follow::{Doing, Sink};
use crate::lane::{Lane, LaneBuilder};
use crate::locks::{FREE, Holders};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Buckets of a tile.
pub const BUCKETS: u16 = 1024;
/// A tile's buckets are so many times as fine as those of the level above.
pub const FINER: u64 = 4;
/// Lanes of tasks that a tile above level 0 tells; those that did least are left out and counted.
const MOST_TASKS_TOLD: usize = 512;

/// A tile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tile {
    /// Width of a bucket, nanoseconds.
    pub bucket_ns: u64,
    /// CPUs by number.
    pub cpus: BTreeMap<u32, Lane>,
    /// Tasks by number.
    pub tasks: BTreeMap<u32, Lane>,
    /// Locks by number: the task that held each while another waited for it, 0 while none waited.
    pub locks: BTreeMap<u32, Lane>,
    /// Requests that ended in a bucket: their count and the longest response time, nanoseconds.
    pub requests: BTreeMap<u16, (u64, u64)>,
}

/// A tile as it is written and served: lanes flattened into numbers.
#[derive(Debug, Serialize)]
struct Flat {
    level: i32,
    index: u64,
    exact: bool,
    bucket_ns: u64,
    /// For each lane its number, its first state, and for each entry bucket, end, count of shares, (key, share) each.
    cpus: Vec<Vec<u64>>,
    tasks: Vec<Vec<u64>>,
    locks: Vec<Vec<u64>>,
    /// (bucket, count, longest in nanoseconds) each.
    requests: Vec<u64>,
    /// Tasks whose lanes are not told.
    left_out: usize,
}

impl Tile {
    /// Four tiles, one after the other in time, as one of the level above.
    #[must_use]
    pub fn joined(four: [Option<&Self>; 4]) -> Self {
        let bucket_ns = four.iter().flatten().next().map_or(1, |tile| tile.bucket_ns * FINER);
        let lanes = |of: fn(&Self) -> &BTreeMap<u32, Lane>| {
            let mut numbers: Vec<u32> = four.iter().flatten().flat_map(|tile| of(tile).keys().copied()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let joined =
                |number: &u32| Lane::joined(four.map(|tile| tile.and_then(|tile| of(tile).get(number))), BUCKETS);
            numbers.iter().map(|number| (*number, joined(number))).collect()
        };
        let mut requests: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for (index, tile) in four.iter().enumerate() {
            for (bucket, (count, longest_ns)) in tile.iter().flat_map(|tile| &tile.requests) {
                let (sum, most) = requests.entry(index as u16 * (BUCKETS / 4) + bucket / 4).or_default();
                (*sum, *most) = (*sum + count, (*most).max(*longest_ns));
            }
        }
        let (cpus, tasks, locks) = (lanes(|tile| &tile.cpus), lanes(|tile| &tile.tasks), lanes(|tile| &tile.locks));
        Self { bucket_ns, cpus, tasks, locks, requests }
    }

    /// The tile as JSON, at its place in the levels.
    ///
    /// Tasks that did nothing are left out without a word; a tile above level 0 also leaves out those that did least.
    #[must_use]
    pub fn json(&self, level: i32, index: u64) -> Vec<u8> {
        let awake = |lane: &Lane| {
            !lane.entries.is_empty() || !matches!(Doing::of_code(lane.begin), Doing::Blocked(_) | Doing::Unknown)
        };
        let mut tasks: Vec<(&u32, &Lane)> = self.tasks.iter().filter(|(_, lane)| awake(lane)).collect();
        let waited_for = |lane: &Lane| !lane.entries.is_empty() || lane.begin != FREE;
        let locks = self.locks.iter().filter(|(_, lane)| waited_for(lane));
        let mut left_out = 0;
        if level > 0 && tasks.len() > MOST_TASKS_TOLD {
            tasks.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.entries.len()));
            left_out = tasks.len() - MOST_TASKS_TOLD;
            tasks.truncate(MOST_TASKS_TOLD);
            tasks.sort_by_key(|(pid, _)| **pid);
        }
        let flat = Flat {
            level,
            index,
            exact: false,
            bucket_ns: self.bucket_ns,
            cpus: self.cpus.iter().map(|(cpu, lane)| flat(*cpu, lane)).collect(),
            tasks: tasks.into_iter().map(|(pid, lane)| flat(*pid, lane)).collect(),
            locks: locks.map(|(lock, lane)| flat(*lock, lane)).collect(),
            requests: self
                .requests
                .iter()
                .flat_map(|(bucket, (count, most))| [u64::from(*bucket), *count, *most])
                .collect(),
            left_out,
        };
        // Numbers and vectors of numbers always have a JSON form.
        serde_json::to_vec(&flat).unwrap_or_default()
    }
}

/// A lane as numbers.
pub(crate) fn flat(number: u32, lane: &Lane) -> Vec<u64> {
    let mut flat = vec![u64::from(number), u64::from(lane.begin)];
    for entry in &lane.entries {
        flat.extend([u64::from(entry.bucket), u64::from(entry.end), entry.shares.len() as u64]);
        flat.extend(entry.shares.iter().flat_map(|(key, share)| [u64::from(*key), u64::from(*share)]));
    }
    flat
}

/// The lane of flattened numbers; `None` where they are none.
pub(crate) fn lane_of(flat: &[u64]) -> Option<(u32, Lane)> {
    let (head, mut rest) = flat.split_at_checked(2)?;
    let narrow = |number: u64| u32::try_from(number).ok();
    let mut lane = Lane { begin: narrow(head[1])?, entries: Vec::new() };
    while !rest.is_empty() {
        let (fixed, after) = rest.split_at_checked(3)?;
        let (shares, after) =
            after.split_at_checked(2 * usize::try_from(fixed[2]).ok().filter(|count| *count < 1024)?)?;
        let shares = shares.chunks_exact(2).map(|pair| Some((narrow(pair[0])?, u8::try_from(pair[1]).ok()?)));
        lane.entries.push(crate::lane::Entry {
            bucket: u16::try_from(fixed[0]).ok()?,
            end: narrow(fixed[1])?,
            shares: shares.collect::<Option<_>>()?,
        });
        rest = after;
    }
    Some((narrow(head[0])?, lane))
}

/// Fills a tile with what is followed.
#[derive(Debug)]
pub(crate) struct Filling {
    from_ns: u64,
    bucket_ns: u64,
    cpus: FxHashMap<u32, LaneBuilder>,
    tasks: FxHashMap<u32, LaneBuilder>,
    locks: FxHashMap<u32, LaneBuilder>,
    requests: BTreeMap<u16, (u64, u64)>,
}

impl Filling {
    pub(crate) fn new(from_ns: u64, bucket_ns: u64) -> Self {
        let (cpus, tasks, locks) = Default::default();
        Self { from_ns, bucket_ns, cpus, tasks, locks, requests: BTreeMap::new() }
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.from_ns + u64::from(BUCKETS) * self.bucket_ns
    }

    /// A request ended.
    pub(crate) fn request(&mut self, done_ns: u64, response_ns: u64) {
        if done_ns >= self.from_ns && done_ns < self.end_ns() {
            let (count, longest) = self.requests.entry(((done_ns - self.from_ns) / self.bucket_ns) as u16).or_default();
            (*count, *longest) = (*count + 1, (*longest).max(response_ns));
        }
    }

    pub(crate) fn finish(self) -> Tile {
        let lanes =
            |lanes: FxHashMap<u32, LaneBuilder>| lanes.into_iter().map(|(key, lane)| (key, lane.finish())).collect();
        Tile {
            bucket_ns: self.bucket_ns,
            cpus: lanes(self.cpus),
            tasks: lanes(self.tasks),
            locks: lanes(self.locks),
            requests: self.requests,
        }
    }

    fn within(&self, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let end = self.end_ns();
        (from_ns.clamp(self.from_ns, end) - self.from_ns, to_ns.clamp(self.from_ns, end) - self.from_ns)
    }
}

impl Sink for Filling {
    fn cpu(&mut self, cpu: u32, pid: u32, from_ns: u64, to_ns: u64) {
        let (from, to) = self.within(from_ns, to_ns);
        let bucket_ns = self.bucket_ns;
        self.cpus.entry(cpu).or_insert_with(|| LaneBuilder::new(bucket_ns)).add(pid, from, to);
    }

    fn task(&mut self, pid: u32, doing: Doing, from_ns: u64, to_ns: u64, _: u32) {
        let (from, to) = self.within(from_ns, to_ns);
        let bucket_ns = self.bucket_ns;
        self.tasks.entry(pid).or_insert_with(|| LaneBuilder::new(bucket_ns)).add(doing.code(), from, to);
    }
}

impl Holders for Filling {
    fn held(&mut self, lock: u32, holder: u32, from_ns: u64, to_ns: u64) {
        let (from, to) = self.within(from_ns, to_ns);
        let bucket_ns = self.bucket_ns;
        self.locks.entry(lock).or_insert_with(|| LaneBuilder::new(bucket_ns)).add(holder, from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_lane_survives_being_flattened(begin: u32, raw in prop::collection::vec((0..1024u16, any::<u32>(), prop::collection::vec((any::<u32>(), any::<u8>()), 0..6)), 0..20)) {
            let entries = raw.into_iter().map(|(bucket, end, shares)| crate::lane::Entry { bucket, end, shares }).collect();
            let lane = Lane { begin, entries };
            prop_assert_eq!(lane_of(&flat(7, &lane)), Some((7, lane)));
        }

        #[test]
        fn any_numbers_are_a_lane_or_none(numbers in prop::collection::vec(any::<u64>(), 0..40), small in prop::collection::vec(0..8u64, 0..40)) {
            let _ = lane_of(&numbers);
            let _ = lane_of(&small);
        }
    }

    #[test]
    fn requests_of_four_tiles_are_counted_in_one() {
        let mut filling = Filling::new(1_000, 10);
        filling.request(999, 5);
        filling.request(1_000, 7);
        filling.request(1_039, 9);
        filling.request(1_000 + 1024 * 10, 5);
        let tile = filling.finish();
        assert_eq!(tile.requests, BTreeMap::from([(0, (1, 7)), (3, (1, 9))]));
        let joined = Tile::joined([Some(&tile), None, Some(&tile), None]);
        assert_eq!(joined.requests, BTreeMap::from([(0, (2, 9)), (512, (2, 9))]));
        assert_eq!(joined.bucket_ns, 40);
    }
}
