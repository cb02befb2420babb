//! A lane of a tile: what went on in each bucket of time, told only where something changed.

/// Keys of a bucket that are told apart; those with the least time are left out.
const MOST_KEYS: usize = 6;
/// The share of a whole bucket.
pub(crate) const WHOLE: u8 = 255;

/// A bucket in which something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The bucket, from 0 to 1023.
    pub bucket: u16,
    /// What went on at its end, and does up to the next entry.
    pub end: u32,
    /// What had which share of it, in 255ths, largest first; what is missing is unknown.
    pub shares: Vec<(u32, u8)>,
}

/// A lane: of a CPU its tasks by number, of a task its states by code ([`crate::Doing::code`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lane {
    /// What went on before the first entry.
    pub begin: u32,
    /// Where something changed, ascending.
    pub entries: Vec<Entry>,
}

impl Lane {
    /// What went on at the begin of a bucket.
    #[must_use]
    pub fn at(&self, bucket: u16) -> u32 {
        let next = self.entries.partition_point(|entry| entry.bucket < bucket);
        next.checked_sub(1).map_or(self.begin, |before| self.entries[before].end)
    }

    /// What went on at the end of the tile.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.entries.last().map_or(self.begin, |entry| entry.end)
    }

    /// Four lanes, one after the other in time, as one of buckets four times as wide.
    #[must_use]
    pub fn joined(four: [Option<&Self>; 4], buckets: u16) -> Self {
        let begin = four.iter().flatten().next().filter(|_| four[0].is_some()).map_or(0, |lane| lane.begin);
        let mut joined = Self { begin, entries: Vec::new() };
        let mut state = begin;
        for (index, lane) in four.into_iter().enumerate() {
            let first = index as u16 * (buckets / 4);
            let Some(lane) = lane else {
                if state != 0 {
                    state = 0;
                    joined.entries.push(Entry { bucket: first, end: 0, shares: Vec::new() });
                }
                continue;
            };
            let changed = lane.begin != state;
            state = lane.begin;
            let mut entries = lane.entries.iter().peekable();
            if changed && entries.peek().is_none_or(|entry| entry.bucket >= 4) {
                joined.entries.push(Entry { bucket: first, end: state, shares: vec![(state, WHOLE)] });
            }
            while let Some(entry) = entries.peek() {
                let group = entry.bucket / 4;
                let mut sums: Vec<(u32, u64)> = Vec::new();
                for bucket in group * 4..group * 4 + 4 {
                    match entries.next_if(|entry| entry.bucket == bucket) {
                        Some(entry) => {
                            entry.shares.iter().for_each(|(key, share)| add(&mut sums, *key, u64::from(*share)));
                            state = entry.end;
                        }
                        None => add(&mut sums, state, u64::from(WHOLE)),
                    }
                }
                let shares = shares(&sums, 4 * u64::from(WHOLE));
                joined.entries.push(Entry { bucket: first + group, end: state, shares });
            }
        }
        joined
    }
}

fn add(sums: &mut Vec<(u32, u64)>, key: u32, amount: u64) {
    match sums.iter_mut().find(|(other, _)| *other == key) {
        Some((_, sum)) => *sum += amount,
        None => sums.push((key, amount)),
    }
}

/// Sums as shares of a whole, largest first. What is there at all has at least the smallest share, so that a single
/// short event stays visible from afar.
fn shares(sums: &[(u32, u64)], whole: u64) -> Vec<(u32, u8)> {
    let mut sums = sums.to_vec();
    sums.sort_by_key(|(key, sum)| (std::cmp::Reverse(*sum), *key));
    sums.truncate(MOST_KEYS);
    let share = |sum: u64| (u128::from(sum) * u128::from(WHOLE) / u128::from(whole.max(1))).clamp(1, u128::from(WHOLE));
    sums.into_iter().filter(|(_, sum)| *sum > 0).map(|(key, sum)| (key, share(sum) as u8)).collect()
}

/// Makes a lane of stretches in the order of time.
#[derive(Debug, Clone)]
pub struct LaneBuilder {
    bucket_ns: u64,
    lane: Lane,
    bucket: u64,
    sums: Vec<(u32, u64)>,
    last: u32,
    any: bool,
}

impl LaneBuilder {
    /// An empty lane of buckets of this width, nanoseconds, at least 1.
    #[must_use]
    pub fn new(bucket_ns: u64) -> Self {
        Self { bucket_ns: bucket_ns.max(1), lane: Lane::default(), bucket: 0, sums: Vec::new(), last: 0, any: false }
    }

    /// Adds a stretch, its times from the begin of the tile.
    pub fn add(&mut self, key: u32, from_ns: u64, to_ns: u64) {
        if to_ns <= from_ns {
            return;
        }
        if !self.any && from_ns == 0 {
            (self.lane.begin, self.last) = (key, key);
        }
        self.any = true;
        let width = self.bucket_ns;
        let (first, last) = (from_ns / width, (to_ns - 1) / width);
        if first != self.bucket {
            self.close();
            self.bucket = first;
        }
        let first_end = (first + 1) * width;
        add(&mut self.sums, key, to_ns.min(first_end) - from_ns);
        self.last = key;
        if last > first {
            self.close();
            // Buckets between are all of this key, as the entry before them says.
            self.bucket = last;
            add(&mut self.sums, key, to_ns - last * width);
        }
    }

    /// The lane.
    #[must_use]
    pub fn finish(mut self) -> Lane {
        self.close();
        self.lane
    }

    fn close(&mut self) {
        let sums = std::mem::take(&mut self.sums);
        let unchanged = sums == [(self.lane.end(), self.bucket_ns)];
        if sums.is_empty() || unchanged {
            return;
        }
        let shares = shares(&sums, self.bucket_ns);
        self.lane.entries.push(Entry { bucket: self.bucket as u16, end: self.last, shares });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUCKETS: u16 = 64;
    const WIDTH: u64 = 100;

    fn built(stretches: &[(u32, u64)]) -> Lane {
        let mut builder = LaneBuilder::new(WIDTH);
        let mut at = 0;
        for (key, length) in stretches {
            let to = (at + length).min(u64::from(BUCKETS) * WIDTH);
            builder.add(*key, at, to);
            at = to;
        }
        builder.finish()
    }

    /// What a lane says of each bucket, as shares of a key.
    fn of_key(lane: &Lane, key: u32, buckets: u16) -> Vec<f64> {
        (0..buckets)
            .map(|bucket| match lane.entries.iter().find(|entry| entry.bucket == bucket) {
                Some(entry) => entry.shares.iter().filter(|(other, _)| *other == key).map(|(_, s)| f64::from(*s)).sum(),
                None => f64::from(u8::from(lane.at(bucket) == key)) * 255.0,
            })
            .collect()
    }

    #[test]
    fn only_changes_are_told() {
        let lane = built(&[(1, 1_000), (2, 50), (1, 950), (3, 10_000)]);
        assert_eq!(lane.begin, 1);
        assert_eq!(
            lane.entries,
            [
                Entry { bucket: 10, end: 1, shares: vec![(1, 127), (2, 127)] },
                Entry { bucket: 20, end: 3, shares: vec![(3, 255)] }
            ]
        );
        assert_eq!((lane.at(10), lane.at(11), lane.at(21), lane.end()), (1, 1, 3, 3));
    }

    proptest! {
        #[test]
        fn every_bucket_has_its_time(stretches in prop::collection::vec((1..5u32, 1..700u64), 1..40)) {
            let lane = built(&stretches);
            let mut expected = vec![[0u64; 5]; usize::from(BUCKETS)];
            let mut at = 0;
            let end = u64::from(BUCKETS) * WIDTH;
            for (key, length) in stretches.iter().copied().chain([(0, end)]) {
                for ns in at..(at + length).min(end) {
                    let key = if key == 0 { stretches[stretches.len() - 1].0 } else { key };
                    expected[(ns / WIDTH) as usize][key as usize] += 1;
                }
                at = (at + length).min(end);
            }
            let covered = stretches.iter().map(|(_, length)| length).sum::<u64>().min(end) / WIDTH;
            for key in 1..5u32 {
                let found = of_key(&lane, key, BUCKETS);
                for bucket in 0..covered as usize {
                    let share = 255.0 * expected[bucket][key as usize] as f64 / WIDTH as f64;
                    prop_assert!((found[bucket] - share).abs() <= 1.0, "bucket {} key {}: {} {}", bucket, key, found[bucket], share);
                }
            }
        }

        #[test]
        fn four_joined_keep_the_time_of_each(lanes in prop::collection::vec(prop::collection::vec((1..5u32, 1..700u64), 10..60), 4)) {
            let four: Vec<Lane> = lanes.iter().map(|stretches| {
                let mut stretches = stretches.clone();
                stretches.push((2, 100_000));
                built(&stretches)
            }).collect();
            let joined = Lane::joined([Some(&four[0]), Some(&four[1]), Some(&four[2]), Some(&four[3])], BUCKETS);
            prop_assert!(joined.entries.windows(2).all(|pair| pair[0].bucket < pair[1].bucket));
            for key in 1..5u32 {
                let fine: Vec<f64> = four.iter().flat_map(|lane| of_key(lane, key, BUCKETS)).collect();
                let coarse = of_key(&joined, key, BUCKETS);
                for (group, found) in fine.chunks(4).zip(coarse) {
                    prop_assert!((group.iter().sum::<f64>() / 4.0 - found).abs() <= 4.0);
                }
            }
            prop_assert_eq!(joined.end(), four[3].end());
        }
    }
}
