//! Which file of a mix is asked for next.

use crate::requests::alias::Alias;
use crate::workload::distribution::Zipf;
use crate::workload::fileset::FileSet;
use crate::workload::mix::Mix;
use crate::workload::specweb96::{CLASSES, FILES_A_DIRECTORY, SHARES};
use crate::workload::surge::References;

/// Says for one loop which file is next.
#[derive(Debug)]
pub(crate) enum Draw {
    SpecWeb96 {
        random: fastrand::Rng,
        directories: u32,
        zipf: Option<Zipf>,
        /// Which of a directory's files.
        places: Alias,
    },
    Surge(References),
}

impl Draw {
    /// The files of loop `lane`.
    pub(crate) fn new(mix: &Mix, lane: u32) -> Self {
        let random = fastrand::Rng::with_seed(mix.seed.wrapping_add(u64::from(lane) << 32));
        match &mix.files {
            FileSet::SpecWeb96 { directories, .. } => {
                let weights: Vec<u32> = (0..FILES_A_DIRECTORY).map(|file| SHARES[(file % CLASSES) as usize]).collect();
                Self::SpecWeb96 {
                    random,
                    directories: *directories,
                    zipf: mix.directories_zipf.map(|exponent| Zipf::new(*directories, exponent)),
                    places: Alias::new(&weights),
                }
            }
            FileSet::Surge(surge) => Self::Surge(References::new(surge.files, random)),
        }
    }

    // Not inlined, so that other kinds of load do not become slower.
    #[inline(never)]
    pub(crate) fn next(&mut self) -> u32 {
        match self {
            Self::SpecWeb96 { random, directories, zipf, places } => {
                let directory = match zipf {
                    None => random.u32(..*directories),
                    Some(zipf) => zipf.draw(random) - 1,
                };
                directory * FILES_A_DIRECTORY + places.place(random.u64(..))
            }
            Self::Surge(references) => references.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mix: &Mix, lane: u32, count: usize) -> Vec<u32> {
        let mut draw = Draw::new(mix, lane);
        std::iter::repeat_with(|| draw.next()).take(count).collect()
    }

    fn mix(directories: u32, seed: u64) -> Mix {
        Mix { files: FileSet::SpecWeb96 { directories, seed: 1 }, seed, directories_zipf: None, crowd: None }
    }

    #[test]
    fn classes_sizes_and_directories_have_their_shares() {
        for (seed, zipf) in [(1, None), (2, None), (3, Some(1.0))] {
            let mix = Mix { directories_zipf: zipf, ..mix(10, seed) };
            let (files, draws) = (mix.files.len(), 1_000_000);
            let mut seen = vec![0u32; files as usize];
            for file in drawn(&mix, 0, draws) {
                seen[file as usize] += 1;
            }
            let of_directory = |at: u32| zipf.map_or(1.0, |exponent: f64| f64::from(at + 1).powf(-exponent));
            let whole: f64 = (0..10).map(of_directory).sum();
            let chi_square: f64 = (0..files)
                .map(|file| {
                    let share = f64::from(SHARES[(file % CLASSES) as usize]) / 900.0;
                    let expected = draws as f64 * share * of_directory(file / FILES_A_DIRECTORY) / whole;
                    (f64::from(seen[file as usize]) - expected).powi(2) / expected
                })
                .sum();
            // The critical value of chi-square at 0.01 for 359 degrees of freedom.
            assert!(chi_square < 424.7, "seed {seed}: {chi_square}");
        }
    }

    #[test]
    fn the_mean_size_is_that_of_the_benchmark() {
        let mix = mix(100, 5);
        let draws = 1_000_000;
        let mean = drawn(&mix, 0, draws).iter().map(|file| mix.files.size(*file) as f64).sum::<f64>() / draws as f64;
        assert!((14.0 * 1024.0..15.0 * 1024.0).contains(&mean), "{mean}");
    }

    #[test]
    fn a_seed_repeats_its_requests() {
        // As they were when this was written: another order of draws would make old runs unrepeatable.
        let paths: Vec<String> = drawn(&mix(100, 7), 0, 4).iter().map(|file| mix(100, 7).files.path(*file)).collect();
        assert_eq!(paths, ["dir00043/class1_1", "dir00040/class0_4", "dir00097/class1_1", "dir00001/class0_1"]);
        assert_ne!(drawn(&mix(100, 7), 0, 100), drawn(&mix(100, 8), 0, 100));
        assert_ne!(drawn(&mix(100, 7), 0, 100), drawn(&mix(100, 7), 1, 100));
    }
}
