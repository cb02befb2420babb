//! A university's web site and a day of its access log, from a seed.
//!
//! Popularity follows Zipf's law, with an exponent near that at which, as the paper found, 63 % of the requests go to 12 % of the
//! files. Sizes are those of SURGE (Barford and Crovella 1998), kinds as often as on universities' servers (Arlitt and
//! Williamson 1996: HTML and images are more than 90 % of the requests), and the rate follows the hour.

use std::fmt::Write;

/// Files of the site.
pub(crate) const FILES: usize = 10_000;
/// The exponent of popularity: (12 %)^(1 - exponent) is 63 %; with as few files as the site has, 58 % go to 12 % of them.
pub(crate) const EXPONENT: f64 = 0.78;
const SEED: u64 = 2003;
const DAY_S: u32 = 86_400;
/// Sizes: mean and deviation of the logarithm in the body, where the tail begins, and its exponent; bytes. The longest
/// file has so many, since a tail without end would make the figures those of one file.
const BODY: (f64, f64) = (9.357, 1.318);
const TAIL: (f64, f64) = (133_000.0, 1.1);
const LONGEST: f64 = 10e6;
/// Of 100 files so many have this ending.
const ENDINGS: [(u32, &str); 7] =
    [(38, "html"), (48, "gif"), (4, "txt"), (4, "ps"), (3, "pdf"), (2, "zip"), (1, "mpg")];

/// A day of the site, in Common Log Format.
pub(crate) fn day(requests: u32) -> String {
    let mut random = fastrand::Rng::with_seed(SEED);
    let files = files(&mut random);
    let popular = Weighted::new((1..=FILES).map(|rank| (rank as f64).powf(-EXPONENT)));
    // A sine over the day, the busiest hours four times as busy as the quietest.
    let busy = |second: u32| 1.0 - 0.6 * (std::f64::consts::TAU * (f64::from(second) / f64::from(DAY_S) - 0.08)).cos();
    let seconds = Weighted::new((0..DAY_S).map(busy));
    let mut times: Vec<u32> = (0..requests).map(|_| seconds.draw(&mut random) as u32).collect();
    times.sort_unstable();
    let mut log = String::with_capacity(90 * requests as usize);
    for second in times {
        let (name, bytes) = &files[popular.draw(&mut random)];
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let _ = writeln!(
            log,
            "host - - [12/Mar/2003:{hour:02}:{minute:02}:{second:02} +0000] \"GET {name} HTTP/1.0\" 200 {bytes}"
        );
    }
    log
}

/// Half a minute for a real node: Poisson, for files `/s/BYTES` of 1 to 80 kB. The times have nanoseconds, so that the
/// sender and the simulation have the same arrivals.
pub(crate) fn short_log(rate_per_s: f64) -> String {
    let mut random = fastrand::Rng::with_seed(SEED);
    let (mut at_s, mut log) = (0.0, String::new());
    loop {
        at_s += -(1.0 - random.f64()).ln() / rate_per_s;
        if at_s >= 30.0 {
            return log;
        }
        let bytes = short_bytes(&mut random);
        let _ = writeln!(
            log,
            r#"{{"time":"2003-03-12T12:00:{at_s:012.9}Z","method":"GET","target":"/s/{bytes}","status":200,"bytes":{bytes}}}"#
        );
    }
}

/// The mean size of those files, of very many.
pub(crate) fn short_bytes_mean() -> f64 {
    const MANY: u32 = 1_000_000;
    let mut random = fastrand::Rng::with_seed(SEED);
    (0..MANY).map(|_| f64::from(short_bytes(&mut random))).sum::<f64>() / f64::from(MANY)
}

fn short_bytes(random: &mut fastrand::Rng) -> u32 {
    (normal(random) * BODY.1 + BODY.0).exp().clamp(1000.0, 80_000.0) as u32 / 1000 * 1000
}

/// Names and sizes of the files, the most asked one first.
fn files(random: &mut fastrand::Rng) -> Vec<(String, u64)> {
    let file = |number: usize| {
        let mut left = random.u32(..100);
        let ending = ENDINGS.iter().find(|(share, _)| {
            let is_it = left < *share;
            left = left.saturating_sub(*share);
            is_it
        });
        let body = (normal(random) * BODY.1 + BODY.0).exp();
        let size = if body < TAIL.0 { body } else { TAIL.0 * (1.0 - random.f64()).powf(-1.0 / TAIL.1) };
        (
            format!("/d{}/f{number}.{}", number % 100, ending.map_or("html", |ending| ending.1)),
            size.min(LONGEST) as u64 + 1,
        )
    };
    (0..FILES).map(file).collect()
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Numbers from 0 on in proportion to weights.
struct Weighted {
    sums: Vec<f64>,
}

impl Weighted {
    fn new(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        Self {
            sums: weights
                .map(|weight| {
                    sum += weight;
                    sum
                })
                .collect(),
        }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let wanted = random.f64() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|sum| *sum <= wanted).min(self.sums.len() - 1)
    }
}
