//! The files and the references of SURGE (Barford and Crovella 1998, "Generating Representative Web Workloads for Network
//! and Server Performance Evaluation").
//!
//! Sizes: a lognormal body below the cutover, a Pareto tail from there on; which share of the files lies in the tail
//! follows from the body.
//! References: how often each file is asked for follows Zipf's law, and how long ago it was asked for last the lognormal
//! distances of a stack of files, of which the one last asked for lies on top.

use crate::workload::distribution::{lognormal, pareto};
use std::sync::Arc;

/// The most files of a set.
pub const FILES_MAX: u32 = 1_000_000;
/// Mean and deviation of the logarithm of a size in the body, in bytes.
pub const BODY: (f64, f64) = (9.357, 1.318);
/// Where the tail begins, in bytes, and its exponent.
pub const TAIL: (f64, f64) = (133_000.0, 1.1);
/// Mean and deviation of the logarithm of the distance in the stack.
pub const LOCALITY: (f64, f64) = (1.5, 0.80);
/// The files of a round in proportion to which there are references in it.
const REFERENCES_A_FILE: f64 = 50.0;
/// Files of a directory.
const FILES_A_DIRECTORY: u32 = 1000;
/// Places of the stack on each side of the drawn one whose files are chosen from, in proportion to what is left of them.
const BESIDE: usize = 1;

/// A set of files.
#[derive(Debug, Clone, PartialEq)]
pub struct Surge {
    pub(crate) files: u32,
    pub(crate) seed: u64,
    sizes: Arc<[u64]>,
}

impl Surge {
    /// So many files, 1 to [`FILES_MAX`]; their sizes and contents begin with `seed`.
    #[must_use]
    pub fn new(files: u32, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let sizes = (0..files.min(FILES_MAX)).map(|_| draw_size(&mut random)).collect();
        Self { files, seed, sizes }
    }

    #[inline]
    pub(crate) fn size(&self, file: u32) -> u64 {
        self.sizes.get(file as usize).copied().unwrap_or(0)
    }
}

/// The size of a file, in bytes.
fn draw_size(random: &mut fastrand::Rng) -> u64 {
    let body = lognormal(BODY, random);
    let size = if body < TAIL.0 { body } else { pareto(TAIL, random) };
    (size.round() as u64).max(1)
}

pub(crate) fn path(file: u32) -> String {
    format!("s{:03}/f{:03}", file / FILES_A_DIRECTORY, file % FILES_A_DIRECTORY)
}

/// Makes a path that of another file.
pub(crate) fn patch(file: u32, path: &mut [u8]) {
    let digits = |place: &mut [u8], mut number: u32| {
        for digit in place.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    digits(&mut path[1..4], file / FILES_A_DIRECTORY);
    digits(&mut path[6..9], file % FILES_A_DIRECTORY);
}

/// Says which file is asked for next, without end: in rounds, in each of which every file has its share.
#[derive(Debug)]
pub(crate) struct References {
    random: fastrand::Rng,
    /// What is left of each file in this round.
    left: Vec<u32>,
    /// Files of which something is left; the one asked for last is the last.
    stack: Vec<u32>,
}

impl References {
    pub(crate) fn new(files: u32, random: fastrand::Rng) -> Self {
        let places = files as usize;
        Self { random, left: vec![0; places], stack: Vec::with_capacity(places) }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        if self.stack.is_empty() {
            self.begin_round();
        }
        let depth = self.stack.len();
        let distance = (lognormal(LOCALITY, &mut self.random).round() as usize).clamp(1, depth);
        let (nearest, farthest) = (distance.saturating_sub(BESIDE).max(1), (distance + BESIDE).min(depth));
        let weight = |distance: usize| u64::from(self.left[self.stack[depth - distance] as usize]);
        // Above 0: what nothing is left of is not in the stack.
        let whole: u64 = (nearest..=farthest).map(weight).sum();
        let mut wanted = self.random.u64(..whole);
        let mut chosen = nearest;
        while wanted >= weight(chosen) {
            wanted -= weight(chosen);
            chosen += 1;
        }
        // Only what lies above it in the stack moves.
        let file = self.stack.remove(depth - chosen);
        self.left[file as usize] -= 1;
        if self.left[file as usize] > 0 {
            self.stack.push(file);
        }
        file
    }

    /// Gives each file its share of the next round, and puts the files in an order by chance.
    fn begin_round(&mut self) {
        let files = self.left.len();
        let harmonic: f64 = (1..=files).map(|rank| 1.0 / rank as f64).sum();
        let whole = REFERENCES_A_FILE * files as f64;
        // Shares are rounded so that their sums are exact, and a share below 1 is one as often as it ought to be.
        let (mut sum, mut given) = (self.random.f64(), 0u64);
        for (file, left) in self.left.iter_mut().enumerate() {
            sum += whole / ((file + 1) as f64 * harmonic);
            *left = (sum as u64 - given) as u32;
            given = sum as u64;
        }
        self.stack.extend((0..files as u32).filter(|file| self.left[*file as usize] > 0));
        self.random.shuffle(&mut self.stack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::distribution::judge;

    #[test]
    fn sizes_have_a_lognormal_body_and_a_pareto_tail() {
        for seed in 1..=5 {
            let set = Surge::new(20_000, seed);
            let body = |size: f64| judge::normal((size.ln() - BODY.0) / BODY.1);
            let until = |size: f64| match size < TAIL.0 {
                true => body(size),
                false => 1.0 - (1.0 - body(TAIL.0)) * (TAIL.0 / size).powf(TAIL.1),
            };
            judge::assert_follows(set.sizes.iter().map(|size| *size as f64), until);
        }
        // About 3 % of the files lie in the tail.
        let tail = Surge::new(20_000, 1).sizes.iter().filter(|size| **size >= 133_000).count();
        assert!((560..720).contains(&tail), "{tail}");
        // More files begin with the same ones.
        assert_eq!(Surge::new(10, 3).sizes[..], Surge::new(20, 3).sizes[..10]);
    }

    /// The references of whole rounds.
    fn round(files: u32, seed: u64) -> Vec<u32> {
        let mut references = References::new(files, fastrand::Rng::with_seed(seed));
        let mut all = vec![references.next()];
        while !references.stack.is_empty() {
            all.push(references.next());
        }
        all
    }

    #[test]
    fn each_round_has_the_shares_of_zipf() {
        let files = 1000;
        let all = round(files, 2);
        let mut seen = vec![0u32; files as usize];
        for file in &all {
            seen[*file as usize] += 1;
        }
        let harmonic: f64 = (1..=files).map(|rank| 1.0 / f64::from(rank)).sum();
        for (rank, seen) in (1..).zip(&seen) {
            let expected = all.len() as f64 / (f64::from(rank) * harmonic);
            // Nearer than chance would be: a share is rounded, not drawn.
            assert!((f64::from(*seen) - expected).abs() < 1.5, "{rank}: {seen} of {expected}");
        }
    }

    #[test]
    fn distances_in_the_stack_are_lognormal() {
        for seed in 1..=3 {
            let (mut stack, mut distances) = (Vec::new(), Vec::new());
            // The last third of a round has few files left, and their distances are cut by that.
            let all = round(2000, seed);
            for file in &all[..all.len() * 2 / 3] {
                if let Some(place) = stack.iter().rposition(|other| other == file) {
                    distances.push((stack.len() - place) as f64);
                    stack.remove(place);
                }
                stack.push(*file);
            }
            distances.sort_unstable_by(f64::total_cmp);
            let until = |distance: f64| judge::normal(((distance + 0.5).ln() - LOCALITY.0) / LOCALITY.1);
            let off = judge::distance_of_steps(&distances, until);
            // Files that are chosen beside the drawn place, and those that are used up, bend it a little.
            assert!(off < 0.05, "seed {seed}: {off}");
            // Without the stack, references by chance alone are far from it.
            let mut random = fastrand::Rng::with_seed(seed);
            let even: Vec<f64> = (0..10_000).map(|_| f64::from(random.u32(1..2000))).collect();
            assert!(judge::distance_of_steps(&even, until) > 0.5);
        }
    }

    #[test]
    fn a_seed_repeats_its_references() {
        let first: Vec<u32> = round(100, 7).into_iter().take(6).collect();
        assert_eq!(first, [13, 78, 13, 25, 52, 84]);
        assert_ne!(round(100, 7), round(100, 8));
    }
}
