//! Which files a server is asked for most, as its caches count it anyway.

use std::collections::HashMap;

/// Paths that are told at once.
pub(crate) const ASKED_MAX: usize = 400;
/// Shorter times say nothing of a rate.
const OVER_MS_MIN: u64 = 1_000;
const MS_PER_S: f64 = 1e3;

/// How often a file was asked for; see [`crate::Control::asked`].
#[derive(Debug, Clone, PartialEq)]
pub struct AskedPath {
    /// From the root of its site; files of several sites at one path count together.
    pub path: Vec<u8>,
    /// Requests in a second, since it was told last.
    pub requests_per_s: f64,
}

/// The rate of so many requests in a time.
pub(crate) fn rate(requests: u32, over_ms: u64) -> f64 {
    f64::from(requests) * MS_PER_S / over_ms.max(OVER_MS_MIN) as f64
}

/// Adds up what loops tell; the most asked first, and no more than [`ASKED_MAX`].
pub(crate) fn merged(told: impl Iterator<Item = AskedPath>) -> Vec<AskedPath> {
    let mut rates: HashMap<Vec<u8>, f64> = HashMap::new();
    told.for_each(|asked| *rates.entry(asked.path).or_default() += asked.requests_per_s);
    let mut all: Vec<AskedPath> =
        rates.into_iter().map(|(path, requests_per_s)| AskedPath { path, requests_per_s }).collect();
    all.sort_by(|one, other| {
        other.requests_per_s.total_cmp(&one.requests_per_s).then_with(|| one.path.cmp(&other.path))
    });
    all.truncate(ASKED_MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_added_up() {
        let asked = |path: &str, requests_per_s| AskedPath { path: path.as_bytes().to_vec(), requests_per_s };
        let told = [asked("/a", 1.0), asked("/b", 2.0), asked("/a", 1.5)];
        assert_eq!(merged(told.into_iter()), [asked("/a", 2.5), asked("/b", 2.0)]);
        let many = (0..1_000).map(|number| asked(&number.to_string(), 1.0));
        assert_eq!(merged(many).len(), ASKED_MAX);
        assert_eq!((rate(5, 10), rate(5, 2_500)), (5.0, 2.0));
    }
}
