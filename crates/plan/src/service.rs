//! How long a node takes to serve a request, when it has no other.

use crate::Kind;

/// A time for each request and each byte of its response, with times of their own for kinds of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Of each request, nanoseconds.
    pub fixed_ns: f64,
    /// Of each byte of its response, nanoseconds.
    pub per_byte_ns: f64,
    /// What each request for an object of a kind takes in place of `fixed_ns`, nanoseconds, by the kind's place in
    /// [`Kind::ALL`].
    pub of_kind_ns: [Option<f64>; Kind::ALL.len()],
    /// The coefficient of variation of the times around what these figures say; 0 = none, 1 = as an exponential
    /// distribution has. They are drawn lognormally.
    pub variation: f64,
}

impl Service {
    /// So much for each request and each byte, nanoseconds, without variation.
    #[must_use]
    pub fn new(fixed_ns: f64, per_byte_ns: f64) -> Self {
        Self { fixed_ns, per_byte_ns, of_kind_ns: [None; Kind::ALL.len()], variation: 0.0 }
    }

    /// The mean time of a request for so many bytes, nanoseconds.
    #[must_use]
    pub fn mean_ns(&self, kind: Kind, bytes: u32) -> f64 {
        self.of_kind_ns[kind as usize].unwrap_or(self.fixed_ns) + self.per_byte_ns * f64::from(bytes)
    }

    /// A factor for one request, with the mean 1 and the variation.
    pub(crate) fn factor(&self, random: &mut fastrand::Rng) -> f64 {
        if self.variation <= 0.0 {
            return 1.0;
        }
        let of_logarithm = (1.0 + self.variation * self.variation).ln();
        // Box and Muller 1958; 1 - u lies in (0, 1], so the logarithm is finite.
        let normal = (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos();
        (of_logarithm.sqrt() * normal - of_logarithm / 2.0).exp()
    }
}

/// A run that tells how long requests of some size take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Requests.
    pub requests: u64,
    /// Their mean time, nanoseconds.
    pub mean_ns: f64,
    /// Bytes of a response on average.
    pub bytes: f64,
}

/// Why runs do not tell a service time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// No request was answered in any of them.
    #[error("no request was answered in the runs")]
    Nothing,
    /// Longer responses took less time in them.
    #[error("in the runs longer responses took less time, so they do not tell what a byte takes")]
    Falling,
}

impl Service {
    /// What runs with responses of different lengths say: least squares, weighted by requests. Runs of one length, or a
    /// single one, say only what a request takes.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub fn measured(runs: &[Measured]) -> Result<Self, ServiceError> {
        let weight: f64 = runs.iter().map(|run| run.requests as f64).sum();
        if weight <= 0.0 {
            return Err(ServiceError::Nothing);
        }
        let mean =
            |of: fn(&Measured) -> f64| runs.iter().map(|run| run.requests as f64 * of(run)).sum::<f64>() / weight;
        let (bytes, time_ns) = (mean(|run| run.bytes), mean(|run| run.mean_ns));
        let (mut spread, mut joint) = (0.0, 0.0);
        for run in runs {
            spread += run.requests as f64 * (run.bytes - bytes).powi(2);
            joint += run.requests as f64 * (run.bytes - bytes) * (run.mean_ns - time_ns);
        }
        // Heads differ by some bytes from run to run: that is no difference in length.
        if spread / weight < (0.05 * bytes + 16.0).powi(2) {
            return Ok(Self::new(time_ns, 0.0));
        }
        if joint < 0.0 {
            return Err(ServiceError::Falling);
        }
        let per_byte_ns = joint / spread;
        Ok(Self::new((time_ns - per_byte_ns * bytes).max(0.0), per_byte_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_two_lengths_tell_both_figures() {
        let run = |bytes: f64, mean_ns: f64| Measured { requests: 1000, mean_ns, bytes };
        let service = Service::measured(&[run(1000.0, 110_000.0), run(101_000.0, 1_110_000.0)]).expect("a line");
        assert!((service.fixed_ns - 100_000.0).abs() < 1.0 && (service.per_byte_ns - 10.0).abs() < 1e-6, "{service:?}");
        assert_eq!(Service::measured(&[run(1000.0, 5.0), run(1010.0, 7.0)]), Ok(Service::new(6.0, 0.0)));
        assert_eq!(Service::measured(&[run(1.0, 9.0), run(90_000.0, 7.0)]), Err(ServiceError::Falling));
        assert_eq!(Service::measured(&[]), Err(ServiceError::Nothing));
        let mut by_kind = Service::new(10.0, 1.0);
        by_kind.of_kind_ns[Kind::Image as usize] = Some(3.0);
        assert_eq!((by_kind.mean_ns(Kind::Image, 4), by_kind.mean_ns(Kind::Html, 4)), (7.0, 14.0));
    }

    #[test]
    fn factors_have_their_mean_and_variation() {
        let service = Service { variation: 1.0, ..Service::new(1.0, 0.0) };
        let mut random = fastrand::Rng::with_seed(1);
        let all: Vec<f64> = (0..1_000_000).map(|_| service.factor(&mut random)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert!((mean - 1.0).abs() < 0.005 && (variance.sqrt() - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
