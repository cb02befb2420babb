//! The files of SPECweb96: four classes of nine sizes in each directory.
//!
//! Source: "The Workload for the SPECweb96 Benchmark" (spec.org/osg/web96/workload.html): classes, their shares and their
//! sizes. It says that the sizes of a class are not asked for equally often, but in the text that could be had it ends
//! before it says how often: here they are.

/// How many directories may be told apart by five digits.
pub const DIRECTORIES_MAX: u32 = 100_000;
/// Files of a directory.
pub const FILES_A_DIRECTORY: u32 = CLASSES * SIZES;
/// Of 100 requests so many are for each class: below 1 KB, 10 KB, 100 KB, 1 MB.
pub const SHARES: [u32; CLASSES as usize] = [35, 50, 14, 1];

pub(crate) const CLASSES: u32 = 4;
pub(crate) const SIZES: u32 = 9;
/// The sizes of the smallest class, in tenths of a kilobyte: the page has 102, 204 and 922; between them, cut to bytes.
const SMALLEST: [u64; SIZES as usize] = [102, 204, 307, 409, 512, 614, 716, 819, 922];
/// The directory whose number is replaced.
const DIGITS: usize = 5;

/// How many directories the benchmark has for a rate of requests a second: 10 * sqrt(rate / 5), at least one.
///
/// The rule is the benchmark's as it is commonly told; the text of SPEC that says so could not be had.
#[must_use]
pub fn directories_for(rate_per_s: f64) -> u32 {
    let wanted = (10.0 * (rate_per_s / 5.0).sqrt()).round();
    // Beyond the bound there is one more, so that it is refused and not silently less.
    wanted.clamp(1.0, f64::from(DIRECTORIES_MAX) + 1.0) as u32
}

/// The class of a file and which of its sizes it has, both from 0.
fn class_and_size(file: u32) -> (u32, u32) {
    (file % CLASSES, file / CLASSES % SIZES)
}

pub(crate) fn size(file: u32) -> u64 {
    let (class, size) = class_and_size(file);
    if class == 0 { SMALLEST[size as usize] } else { u64::from(size + 1) * 1024 * 10u64.pow(class - 1) }
}

pub(crate) fn path(file: u32) -> String {
    let (class, size) = class_and_size(file);
    format!("dir{:05}/class{class}_{size}", file / FILES_A_DIRECTORY)
}

/// Makes the path of the first file of a class that of another one; `path` is as long as both.
pub(crate) fn patch(file: u32, path: &mut [u8]) {
    let mut directory = file / FILES_A_DIRECTORY;
    for digit in path[3..3 + DIGITS].iter_mut().rev() {
        *digit = b'0' + (directory % 10) as u8;
        directory /= 10;
    }
    if let Some(last) = path.last_mut() {
        *last = b'0' + (file / CLASSES % SIZES) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_36_files_and_about_5_mb() {
        let all: Vec<u64> = (0..FILES_A_DIRECTORY).map(size).collect();
        assert_eq!(all.len(), 36);
        assert!((4_900_000..5_200_000).contains(&all.iter().sum::<u64>()), "{}", all.iter().sum::<u64>());
        for class in 0..4 {
            let sizes: Vec<u64> = (0..SIZES).map(|at| size(at * CLASSES + class)).collect();
            let ends = [(102, 922), (1024, 9216), (10_240, 92_160), (102_400, 921_600)][class as usize];
            assert!(sizes.is_sorted() && (sizes[0], sizes[8]) == ends, "{sizes:?}");
        }
    }

    #[test]
    fn directories_grow_with_the_root_of_the_rate() {
        let of = [0.0, 5.0, 20.0, 500.0, 50_000.0, 1e12].map(directories_for);
        assert_eq!(of, [1, 10, 20, 100, 1000, DIRECTORIES_MAX + 1]);
    }
}
