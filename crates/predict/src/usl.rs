//! The universal scalability law (Gunther, "Guerrilla Capacity Planning", 2007), fitted to the slices of a trace.

use crate::trace::Trace;

/// Slices of a trace, at most.
const SLICES: usize = 50;
/// Requests of a slice on average, at least.
const OF_A_SLICE: usize = 20;

/// Throughput at so many requests at once: `n * alone / (1 + contention * (n - 1) + coherence * n * (n - 1))`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Usl {
    /// Requests a second with one at a time.
    pub alone_per_s: f64,
    /// The share that is served one after the other, 0 to 1.
    pub contention: f64,
    /// What each request costs all others, at least 0.
    pub coherence: f64,
    /// Requests at once with the highest throughput; infinite without coherence.
    pub best_at_once: f64,
    /// That throughput, requests a second.
    pub most_per_s: f64,
}

/// Why no such law can be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum UslError {
    /// There are too few loads that differ.
    #[error(
        "the run has one load only ({least:.2} to {most:.2} requests at once): a law of how it scales needs several"
    )]
    OneLoad {
        /// The fewest requests at once.
        least: f64,
        /// The most.
        most: f64,
    },
    /// No time passed, or nothing was asked.
    #[error("the run has too few requests for a law of how it scales; record it for longer")]
    TooFew,
    /// No curve of this law goes by the points.
    #[error("the slices of the run fit no curve of the universal scalability law")]
    NoCurve,
}

impl Usl {
    /// Fitted to pairs of requests at once and throughput (requests a second).
    ///
    /// # Errors
    /// The pairs are none, lie too close to each other, or fit no such curve.
    pub fn fit(pairs: &[(f64, f64)]) -> Result<Self, UslError> {
        let pairs: Vec<(f64, f64)> =
            pairs.iter().copied().filter(|(at_once, rate)| *at_once > 0.0 && *rate > 0.0).collect();
        let least = pairs.iter().map(|(at_once, _)| *at_once).fold(f64::INFINITY, f64::min);
        let most = pairs.iter().map(|(at_once, _)| *at_once).fold(0.0, f64::max);
        if pairs.len() < 6 {
            return Err(UslError::TooFew);
        }
        if most < 2.0 * least {
            return Err(UslError::OneLoad { least, most });
        }
        // at_once / rate is linear in (n - 1) and n * (n - 1).
        let rows = pairs.iter().map(|(n, rate)| ([1.0, n - 1.0, n * (n - 1.0)], n / rate));
        let (mut square, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for (row, value) in rows {
            for (at, one) in row.iter().enumerate() {
                row.iter().enumerate().for_each(|(other_at, other)| square[at][other_at] += one * other);
                right[at] += one * value;
            }
        }
        let whole = solve(square, right).filter(|[alone, _, coherence]| *alone > 0.0 && *coherence >= 0.0);
        // A law without coherence is that of Amdahl.
        let [alone, slope, bend] = whole
            .or_else(|| {
                square[2] = [0.0, 0.0, 1.0];
                right[2] = 0.0;
                (square[0][2], square[1][2]) = (0.0, 0.0);
                solve(square, right).filter(|[alone, _, _]| *alone > 0.0)
            })
            .ok_or(UslError::NoCurve)?;
        let (contention, coherence) = ((slope / alone).clamp(0.0, 1.0), (bend / alone).max(0.0));
        let best_at_once =
            if coherence > 0.0 { ((1.0 - contention) / coherence).sqrt().max(1.0) } else { f64::INFINITY };
        let mut usl = Self { alone_per_s: 1.0 / alone, contention, coherence, best_at_once, most_per_s: 0.0 };
        usl.most_per_s = match (best_at_once.is_finite(), contention > 0.0) {
            (true, _) => usl.at(best_at_once),
            (false, true) => usl.alone_per_s / contention,
            (false, false) => f64::INFINITY,
        };
        Ok(usl)
    }

    /// Requests a second with so many at once.
    #[must_use]
    pub fn at(&self, at_once: f64) -> f64 {
        let Self { alone_per_s, contention, coherence, .. } = *self;
        at_once * alone_per_s / (1.0 + contention * (at_once - 1.0) + coherence * at_once * (at_once - 1.0))
    }

    /// Of a trace's slices.
    pub(crate) fn of(trace: &Trace) -> Result<Self, UslError> {
        let slices = (trace.requests.len() / OF_A_SLICE).min(SLICES);
        let first_ns = trace.requests.first().map_or(0, |request| request.at_ns);
        let slice_ns = trace.seconds() * 1e9 / slices.max(1) as f64;
        if slices == 0 || slice_ns <= 0.0 {
            return Self::fit(&[]);
        }
        let (mut counts, mut sums) = (vec![0.0; slices], vec![0.0; slices]);
        for request in &trace.requests {
            let begin = request.at_ns.saturating_sub(first_ns) as f64;
            let end = begin + request.response_ns;
            let done = (end / slice_ns) as usize;
            counts.get_mut(done).into_iter().for_each(|count: &mut f64| *count += 1.0);
            for at in (begin / slice_ns) as usize..=done.min(slices - 1) {
                let (from, to) = (at as f64 * slice_ns, (at + 1) as f64 * slice_ns);
                sums[at.min(slices - 1)] += (end.min(to) - begin.max(from)).max(0.0);
            }
        }
        let pairs: Vec<(f64, f64)> =
            sums.iter().zip(&counts).map(|(sum, count)| (sum / slice_ns, count * 1e9 / slice_ns)).collect();
        Self::fit(&pairs)
    }
}

/// Three linear equations.
fn solve(mut square: [[f64; 3]; 3], mut right: [f64; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|one, other| square[*one][column].abs().total_cmp(&square[*other][column].abs()))?;
        if square[pivot][column].abs() < 1e-300 {
            return None;
        }
        square.swap(column, pivot);
        right.swap(column, pivot);
        for row in 0..3 {
            if row != column {
                let factor = square[row][column] / square[column][column];
                let of_pivot = square[column];
                square[row].iter_mut().zip(of_pivot).for_each(|(value, pivot)| *value -= factor * pivot);
                right[row] -= factor * right[column];
            }
        }
    }
    let solved = [0, 1, 2].map(|at| right[at] / square[at][at]);
    solved.iter().all(|value| value.is_finite()).then_some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_found_again() {
        let (alone, contention, coherence) = (100.0, 0.05, 0.002);
        let of = |n: f64| n * alone / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0));
        let pairs: Vec<(f64, f64)> = (1..=32).map(|n| (f64::from(n), of(f64::from(n)))).collect();
        let usl = Usl::fit(&pairs).expect("a law");
        assert!((usl.contention - contention).abs() < 1e-6 && (usl.coherence - coherence).abs() < 1e-6, "{usl:?}");
        assert!((usl.best_at_once - (0.95f64 / 0.002).sqrt()).abs() < 1e-3);
        let amdahl: Vec<(f64, f64)> =
            (1..=32).map(|n| (f64::from(n), 100.0 * f64::from(n) / (1.0 + 0.1 * f64::from(n - 1)))).collect();
        let usl = Usl::fit(&amdahl).expect("a law");
        assert!((usl.contention - 0.1).abs() < 1e-3, "{usl:?}");
        assert!(Usl::fit(&pairs[..3]).is_err() && Usl::fit(&[(4.0, 100.0); 20]).is_err());
    }
}
