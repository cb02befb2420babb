//! The crowd: the arrivals that each policy is given, alike.

use std::fmt::Write;

/// Requests a second in the calm.
pub(crate) const CALM_PER_S: f64 = 80.0;
/// How many times as many come at the top.
pub(crate) const TIMES: f64 = 10.0;
/// When the rate begins to rise, seconds, and how long it rises, stays and falls.
pub(crate) const ONSET_S: f64 = 60.0;
pub(crate) const RISE_S: f64 = 60.0;
const TOP_S: f64 = 60.0;
const FALL_S: f64 = 30.0;
/// When the last request comes, seconds.
pub(crate) const END_S: f64 = 300.0;
/// The files of the site: 64, of these sizes in turn, asked for by Zipf's law with exponent 1.
const FILES: usize = 64;
pub(crate) const FILE_BYTES: [u32; 4] = [2 << 10, 4 << 10, 8 << 10, 16 << 10];

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    /// When it comes, nanoseconds from the begin.
    pub(crate) at_ns: u64,
    /// Which file it asks for, from 0.
    pub(crate) file: u32,
    /// What a director's table makes of its addresses and ports.
    pub(crate) hash: u64,
}

impl Arrival {
    pub(crate) fn bytes(&self) -> u32 {
        file_bytes(self.file as usize)
    }
}

fn file_bytes(file: usize) -> u32 {
    FILE_BYTES[file % FILE_BYTES.len()]
}

/// The rate at a time, requests a second.
pub(crate) fn rate_per_s(at_s: f64) -> f64 {
    let top_s = ONSET_S + RISE_S;
    let fall_s = top_s + TOP_S;
    let share = if at_s < top_s { (at_s - ONSET_S) / RISE_S } else { 1.0 - (at_s - fall_s) / FALL_S };
    CALM_PER_S * (1.0 + (TIMES - 1.0) * share.clamp(0.0, 1.0))
}

/// The arrivals of a seed: a Poisson process whose rate is that of [`rate_per_s`], by thinning (Lewis and Shedler 1979).
pub(crate) fn arrivals(seed: u64) -> Vec<Arrival> {
    let mut random = fastrand::Rng::with_seed(seed);
    let weights: Vec<f64> = weights().collect();
    let whole: f64 = weights.iter().sum();
    let (most_per_s, mut at_s, mut all) = (CALM_PER_S * TIMES, 0.0, Vec::new());
    loop {
        at_s += -(1.0 - random.f64()).ln() / most_per_s;
        if at_s >= END_S {
            return all;
        }
        if random.f64() * most_per_s >= rate_per_s(at_s) {
            continue;
        }
        let mut left = random.f64() * whole;
        let file = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let file = file.unwrap_or(FILES - 1) as u32;
        all.push(Arrival { at_ns: (at_s * 1e9) as u64, file, hash: random.u64(..) });
    }
}

/// The mean of something of a file's bytes over the requests.
pub(crate) fn mean_of_files(figure: impl Fn(u32) -> f64) -> f64 {
    let whole: f64 = weights().sum();
    weights().enumerate().map(|(file, weight)| weight / whole * figure(file_bytes(file))).sum()
}

/// By Zipf's law.
fn weights() -> impl Iterator<Item = f64> {
    (1..=FILES).map(|rank| 1.0 / rank as f64)
}

/// The path of a file.
pub(crate) fn path(file: usize) -> String {
    format!("/f{file}.bin")
}

/// The files of the site, with their sizes.
pub(crate) fn files() -> impl Iterator<Item = (String, u32)> {
    (0..FILES).map(|file| (path(file), file_bytes(file)))
}

/// The arrivals as a log, as `weir load --replay` takes it.
pub(crate) fn log(arrivals: &[Arrival]) -> String {
    let mut log = String::new();
    for arrival in arrivals {
        let (at_s, bytes) = (arrival.at_ns as f64 / 1e9, arrival.bytes());
        let (minute, second) = ((at_s / 60.0).floor(), at_s % 60.0);
        let _ = writeln!(
            log,
            r#"{{"time":"2003-03-12T12:{minute:02}:{second:012.9}Z","method":"GET","target":"{}","status":200,"bytes":{bytes}}}"#,
            path(arrival.file as usize)
        );
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_to_ten_times_and_falls_again() {
        let at = |at_s: f64| rate_per_s(at_s) / CALM_PER_S;
        assert_eq!(
            [at(0.0), at(60.0), at(90.0), at(120.0), at(180.0), at(210.0), at(299.0)],
            [1.0, 1.0, 5.5, 10.0, 10.0, 1.0, 1.0]
        );
    }

    #[test]
    fn arrivals_are_those_of_the_seed_and_of_the_rate() {
        let (all, other) = (arrivals(1), arrivals(2));
        assert!(all == arrivals(1) && all != other && all.is_sorted_by_key(|arrival| arrival.at_ns));
        let during = |from_s: f64, to_s: f64| {
            let within = all.iter().filter(|arrival| (from_s..to_s).contains(&(arrival.at_ns as f64 / 1e9)));
            within.count() as f64 / (to_s - from_s) / CALM_PER_S
        };
        // Five standard deviations of a Poisson process.
        assert!((during(0.0, 60.0) - 1.0).abs() < 0.07 && (during(120.0, 180.0) - 10.0).abs() < 0.22);
        assert_eq!(log(&all).lines().count(), all.len());
    }
}
