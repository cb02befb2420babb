//! The highest rate of arrivals that a server holds an objective at, from trials at several rates.
//!
//! The share of requests that miss the objective never falls with the rate, so that the shares of the rates are made
//! to rise by isotonic regression (pool adjacent violators; Barlow et al., 1972), and the rate is where they cross what
//! the objective allows, interpolated between the two rates around it.
//! The interval is a bootstrap over trials, not over requests: requests of one trial wait behind each other and tell
//! less than their number.

/// Resamples for an interval.
const RESAMPLES: usize = 1000;
/// What an interval leaves out at each end.
const TAIL: f64 = 0.025;

/// Shares within this factor of what is allowed are near it.
const NEAR: f64 = 8.0;

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_964;

/// What one trial at one rate found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Arrivals a second.
    pub rate_per_s: f64,
    /// Arrivals whose fate counts, failed and dropped ones included.
    pub requests: u64,
    /// Those that missed the objective.
    pub bad: u64,
}

impl Trial {
    /// The share that missed the objective; without any request all of it.
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        if self.requests == 0 { 1.0 } else { self.bad as f64 / self.requests as f64 }
    }

    /// Whether this trial by itself holds an objective that allows this share.
    #[must_use]
    pub fn holds(&self, allowed: f64) -> bool {
        // A share given as a decimal is not exact in binary: a billionth is forgiven.
        self.bad_share() <= allowed + 1e-9
    }
}

/// What trials say of the highest rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Highest {
    /// It lies here, and with 95 % confidence between `low_per_s` and `high_per_s`.
    Found {
        /// Arrivals a second.
        rate_per_s: f64,
        /// The lower end of the interval.
        low_per_s: f64,
        /// Its upper end.
        high_per_s: f64,
    },
    /// The objective was held at all rates, this the highest of them.
    Above(f64),
    /// The objective was missed at all rates, this the lowest of them.
    Below(f64),
    /// There were no trials.
    Unknown,
}

/// The highest rate that holds an objective which allows this share of bad requests; `seed` is where the resampling's
/// random numbers begin.
#[must_use]
pub fn highest(trials: &[Trial], allowed: f64, seed: u64) -> Highest {
    let mut groups = grouped(trials);
    let (Some(lowest), Some(fastest)) = (groups.first(), groups.last()) else { return Highest::Unknown };
    let (lowest, fastest) = (lowest[0].rate_per_s, fastest[0].rate_per_s);
    let rate_per_s = match crossing(&groups, allowed) {
        Crossing::At(rate) => rate,
        Crossing::Above => return Highest::Above(fastest),
        Crossing::Below => return Highest::Below(lowest),
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let original = groups.clone();
    let mut found: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for (group, original) in groups.iter_mut().zip(&original) {
                for trial in group.iter_mut() {
                    *trial = original[random.usize(..original.len())];
                }
            }
            match crossing(&groups, allowed) {
                Crossing::At(rate) => rate,
                Crossing::Above => fastest,
                Crossing::Below => lowest,
            }
        })
        .collect();
    found.sort_by(f64::total_cmp);
    // Of n trials a bootstrap sees only (n - 1) / n of the variance, and what it sees is itself uncertain: Student's
    // factor for the trials at a rate, over that of the normal distribution.
    let few = original.iter().map(Vec::len).max().unwrap_or(1).max(2) as f64;
    let widen = (few / (few - 1.0)).sqrt() * student(few - 1.0) / NORMAL;
    let at = |share: f64| found[((RESAMPLES - 1) as f64 * share).round() as usize];
    Highest::Found {
        rate_per_s,
        low_per_s: rate_per_s - (rate_per_s - at(TAIL)).max(0.0) * widen,
        high_per_s: rate_per_s + (at(1.0 - TAIL) - rate_per_s).max(0.0) * widen,
    }
}

/// The 97.5 % quantile of Student's distribution, to 1 % from 4 degrees of freedom on (the expansion of Abramowitz and
/// Stegun, 26.7.5, to its third term).
fn student(degrees: f64) -> f64 {
    let z = NORMAL;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

/// Where a curve bends: of points with rising x that which lies farthest below the line from the first to the last, both
/// axes stretched to the same length (the knee of Satopaa et al., "Finding a Kneedle in a Haystack", 2011). `None` with
/// fewer than three points, or where no point lies clearly below.
#[must_use]
pub fn knee(points: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let (width, height) = (last.0 - first.0, last.1 - first.1);
    if points.len() < 3 || width <= 0.0 || height <= 0.0 {
        return None;
    }
    let below = |point: &(f64, f64)| (point.0 - first.0) / width - (point.1 - first.1) / height;
    let deepest = points.iter().max_by(|one, two| below(one).total_cmp(&below(two)))?;
    (below(deepest) > 0.1).then_some(deepest.0)
}

/// Trials of one rate together, the rates upwards.
fn grouped(trials: &[Trial]) -> Vec<Vec<Trial>> {
    let mut sorted = trials.to_vec();
    sorted.sort_by(|one, two| one.rate_per_s.total_cmp(&two.rate_per_s));
    sorted.chunk_by(|one, two| one.rate_per_s == two.rate_per_s).map(<[Trial]>::to_vec).collect()
}

enum Crossing {
    At(f64),
    Above,
    Below,
}

/// Where the shares, made to rise, cross what is allowed.
fn crossing(groups: &[Vec<Trial>], allowed: f64) -> Crossing {
    // (rate, share, weight): half a bad request more, so that a share of nothing has a logarithm.
    let shares: Vec<(f64, f64, f64)> = groups
        .iter()
        .map(|group| {
            let requests = group.iter().map(|trial| trial.requests).sum::<u64>() as f64;
            let bad = group.iter().map(|trial| trial.bad).sum::<u64>() as f64;
            let share = if requests == 0.0 { 1.0 } else { (bad + 0.5) / (requests + 1.0) };
            (group[0].rate_per_s, share, requests.max(1.0))
        })
        .collect();
    let risen = risen(&shares);
    let Some(over) = risen.iter().position(|share| *share > allowed) else { return Crossing::Above };
    if over == 0 {
        return Crossing::Below;
    }
    if let Some(rate) = line(&shares, allowed) {
        return Crossing::At(rate);
    }
    let (below, above) = (risen[over - 1].ln(), risen[over].ln());
    let share = (allowed.ln() - below) / (above - below).max(f64::MIN_POSITIVE);
    let (from, to) = (shares[over - 1].0, shares[over].0);
    Crossing::At(from + (to - from) * share.clamp(0.0, 1.0))
}

/// Where the straight line through the logarithms of the shares near what is allowed crosses it.
///
/// The share of a queue's long waits falls exponentially with the distance to its capacity, so that near one rate its
/// logarithm is a straight line. `None` where fewer than three rates are near, or where the line leads out of them.
fn line(shares: &[(f64, f64, f64)], allowed: f64) -> Option<f64> {
    let near: Vec<_> =
        shares.iter().filter(|(_, share, _)| (allowed / NEAR..=allowed * NEAR).contains(share)).collect();
    if near.len() < 3 {
        return None;
    }
    // The variance of a count's logarithm is about one over the count.
    let weighted =
        |of: &dyn Fn(&(f64, f64, f64)) -> f64| -> f64 { near.iter().map(|near| near.1 * near.2 * of(near)).sum() };
    let whole = weighted(&|_| 1.0);
    let (rate, log) = (weighted(&|near| near.0) / whole, weighted(&|near| near.1.ln()) / whole);
    let slope = weighted(&|near| (near.0 - rate) * (near.1.ln() - log)) / weighted(&|near| (near.0 - rate).powi(2));
    let at = rate + (allowed.ln() - log) / slope;
    let (from, to) = (near.first()?.0, near.last()?.0);
    (slope > 0.0 && (from..=to).contains(&at)).then_some(at)
}

/// The rising shares that are nearest to the given ones.
fn risen(shares: &[(f64, f64, f64)]) -> Vec<f64> {
    // Blocks of (share, weight, members).
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(shares.len());
    for (_, share, weight) in shares {
        let mut block = (*share, *weight, 1);
        while let Some(last) = blocks.last().filter(|last| last.0 >= block.0) {
            let weight = last.1 + block.1;
            block = ((last.0 * last.1 + block.0 * block.1) / weight, weight, last.2 + block.2);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(share, _, members)| std::iter::repeat_n(share, members)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trial(rate_per_s: f64, bad: u64) -> Trial {
        Trial { rate_per_s, requests: 1000, bad }
    }

    #[test]
    fn the_rate_is_where_the_shares_cross() {
        let mut trials = Vec::new();
        for _ in 0..4 {
            trials.extend([trial(100.0, 1), trial(200.0, 4), trial(300.0, 16), trial(400.0, 64)]);
        }
        // Four times as many for each 100/s more: 1 % is log4(10/4) = 0.66 of the way from 200 to 300.
        let Highest::Found { rate_per_s, low_per_s, high_per_s } = highest(&trials, 0.01, 1) else { panic!("found") };
        assert!((rate_per_s - 266.0).abs() < 2.0, "{rate_per_s}");
        assert_eq!((low_per_s, high_per_s), (rate_per_s, rate_per_s), "equal trials leave no doubt");
        assert_eq!(highest(&trials, 0.5, 1), Highest::Above(400.0));
        assert_eq!(highest(&trials, 0.0001, 1), Highest::Below(100.0));
        assert_eq!(highest(&[], 0.1, 1), Highest::Unknown);
    }

    #[test]
    fn doubt_widens_the_interval() {
        let at = |bad: [u64; 4]| bad.map(|bad| trial(200.0, bad));
        let of = |middle: [Trial; 4]| {
            let mut trials = vec![trial(100.0, 0); 4];
            trials.extend(middle);
            trials.extend(vec![trial(300.0, 500); 4]);
            match highest(&trials, 0.01, 7) {
                Highest::Found { low_per_s, high_per_s, .. } => high_per_s - low_per_s,
                other => panic!("{other:?}"),
            }
        };
        assert!(of(at([9, 10, 11, 12])) < of(at([0, 2, 12, 40])));
    }

    #[test]
    fn students_factors_are_those_of_the_tables() {
        for (degrees, factor) in [(4.0, 2.776), (8.0, 2.306), (30.0, 2.042)] {
            let off: f64 = student(degrees) / factor - 1.0;
            assert!(off.abs() < 0.01, "{degrees}: {}", student(degrees));
        }
    }

    #[test]
    fn a_knee_is_where_the_curve_bends() {
        // 1 / (1 - x): by its slope of 1 of the stretched axes the knee lies at 0.7 up to 0.9.
        let points: Vec<_> = (0..=90).map(|x| f64::from(x) / 100.0).map(|x| (x, 1.0 / (1.0 - x))).collect();
        let knee = knee(&points).expect("it bends");
        assert!((0.62..0.75).contains(&knee), "{knee}");
        assert_eq!(super::knee(&[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(super::knee(&[(0.0, 0.0), (1.0, 1.0)]), None);
    }

    proptest! {
        #[test]
        fn shares_rise_and_keep_their_mean(
            given in proptest::collection::vec((0.0..1.0f64, 1.0..1000.0f64), 1..20)
        ) {
            let shares: Vec<_> = given.iter().enumerate().map(|(at, (share, weight))| (at as f64, *share, *weight)).collect();
            let risen = risen(&shares);
            prop_assert!(risen.is_sorted());
            let mean = |values: &mut dyn Iterator<Item = f64>| -> f64 {
                values.zip(&given).map(|(share, (_, weight))| share * weight).sum()
            };
            let (before, after) = (mean(&mut given.iter().map(|(share, _)| *share)), mean(&mut risen.iter().copied()));
            prop_assert!((before - after).abs() < 1e-6 * before.max(1.0));
        }

        #[test]
        fn the_answer_lies_among_the_rates_and_in_its_interval(
            trials in proptest::collection::vec((1..8u32, 0..100u64), 1..40), allowed in 0.001..0.2f64
        ) {
            let trials: Vec<_> = trials.into_iter().map(|(rate, bad)| trial(f64::from(rate) * 100.0, bad)).collect();
            if let Highest::Found { rate_per_s, low_per_s, high_per_s } = highest(&trials, allowed, 3) {
                prop_assert!(low_per_s <= rate_per_s && rate_per_s <= high_per_s);
                prop_assert!((100.0..=700.0).contains(&rate_per_s));
            }
        }
    }
}
