//! The times between connections or sessions, as `--period` and `--rate` give them.

use std::sync::Arc;

/// The most arrivals whose times are worked out beforehand.
const ARRIVALS_MAX: u64 = 10_000_000;
/// The most steps of a period that changes.
const STEPS_MAX: usize = 100;

/// The times between connections or sessions, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Period {
    /// One after the other.
    Sequential,
    /// So many a second.
    Fixed(f64),
    /// Any time between the two as often as any other.
    Uniform(f64, f64),
    /// Exponentially distributed with this mean.
    Exponential(f64),
    /// A time between arrivals, and how long it holds; then the next, and after the last the first again.
    Stepped(Vec<(f64, f64)>),
}

/// More arrivals than have times of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("--period: at most {ARRIVALS_MAX} connections or sessions have uneven periods")]
pub(super) struct TooManyArrivals;

impl Period {
    /// A value of `--period`.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let kind = value.chars().next().filter(char::is_ascii_alphabetic);
        let rest = kind.map_or(value, |_| &value[1..]);
        let numbers: Option<Vec<f64>> = rest
            .split(',')
            .map(|text| text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0))
            .collect();
        let numbers = numbers?;
        let period = match (kind.map_or('d', |kind| kind.to_ascii_lowercase()), numbers.as_slice()) {
            ('d', [period]) if *period > 0.0 => Self::Fixed(1.0 / period),
            ('e', [mean]) if *mean > 0.0 => Self::Exponential(*mean),
            ('u', [least, most]) if least + most > 0.0 && least <= most => Self::Uniform(*least, *most),
            ('v', steps) if steps.len() % 2 == 0 && steps.len() <= 2 * STEPS_MAX => {
                let steps: Vec<_> = steps.chunks_exact(2).map(|step| (step[0], step[1])).collect();
                match steps.iter().any(|(between, _)| *between > 0.0) {
                    true => Self::Stepped(steps),
                    false => Self::Sequential,
                }
            }
            ('d' | 'e', [_]) => Self::Sequential,
            ('u', [least, most]) if *least == 0.0 && *most == 0.0 => Self::Sequential,
            _ => return None,
        };
        Some(period)
    }

    /// The value of `--rate`.
    pub(super) fn of_rate(rate: f64) -> Self {
        if rate > 0.0 { Self::Fixed(rate) } else { Self::Sequential }
    }

    /// The option as the original repeats it, if it does.
    pub(super) fn repeated(&self) -> Option<String> {
        use crate::printf::general;
        Some(match self {
            Self::Sequential => return None,
            Self::Fixed(rate) => format!("--rate={}", general(*rate)),
            Self::Uniform(least, most) => format!("--period=u{},{}", general(*least), general(*most)),
            Self::Exponential(mean) => format!("--period=e{}", general(*mean)),
            Self::Stepped(steps) => {
                let steps: Vec<_> =
                    steps.iter().map(|(one, two)| format!("{},{}", general(*one), general(*two))).collect();
                format!("--period=v{}", steps.join(","))
            }
        })
    }

    /// When so many arrivals come, in nanoseconds from the begin; the same for the same client, as in the original.
    pub(super) fn times_ns(&self, count: u64, client: u32) -> Result<Arc<[u64]>, TooManyArrivals> {
        if count > ARRIVALS_MAX {
            return Err(TooManyArrivals);
        }
        let mut random = Random48::of_client(client);
        let (mut step, mut in_step) = (0, 0.0);
        let mut at_s = 0.0;
        let mut next = || match self {
            Self::Sequential => 0.0,
            Self::Fixed(rate) => 1.0 / rate,
            Self::Uniform(least, most) => least + (most - least) * random.next(),
            Self::Exponential(mean) => -mean * (1.0 - random.next()).ln(),
            Self::Stepped(steps) => {
                let (between, duration) = steps[step];
                in_step += between;
                if in_step >= duration {
                    (step, in_step) = ((step + 1) % steps.len(), 0.0);
                }
                between
            }
        };
        let times = (0..count).map(|_| {
            let now_s = at_s;
            at_s += next();
            (now_s * 1e9) as u64
        });
        Ok(times.collect())
    }
}

/// The generator of C's `erand48` (POSIX): 48 bits, congruential.
#[derive(Debug, Clone, Copy)]
pub(super) struct Random48(u64);

impl Random48 {
    /// Where the original begins for a client.
    pub(super) fn of_client(client: u32) -> Self {
        let low = u64::from(0x1234 ^ client as u16);
        let middle = u64::from(0x5678 ^ (client << 8) as u16);
        let high = u64::from(0x9abc ^ !client as u16);
        Self(high << 32 | middle << 16 | low)
    }

    /// The next number, at least 0 and below 1.
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        self.0 as f64 / (1u64 << 48) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_forms_are_read_and_repeated() {
        for (given, period, told) in [
            ("0.2", Period::Fixed(5.0), Some("--rate=5")),
            ("d0.5", Period::Fixed(2.0), Some("--rate=2")),
            ("D0.5", Period::Fixed(2.0), Some("--rate=2")),
            ("e0.1", Period::Exponential(0.1), Some("--period=e0.1")),
            ("u1,3", Period::Uniform(1.0, 3.0), Some("--period=u1,3")),
            ("v0.1,1,0.2,2", Period::Stepped(vec![(0.1, 1.0), (0.2, 2.0)]), Some("--period=v0.1,1,0.2,2")),
            ("0", Period::Sequential, None),
            ("u0,0", Period::Sequential, None),
        ] {
            assert_eq!(Period::parse(given).as_ref(), Some(&period), "{given}");
            assert_eq!(period.repeated().as_deref(), told);
        }
        for wrong in ["", "x1", "u1", "u3,1", "e1,2", "v1", "v1,2,3", "-1", "dinf", "é"] {
            assert_eq!(Period::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn steps_hold_as_long_as_they_are_to() {
        let steps = Period::Stepped(vec![(0.1, 0.3), (1.0, 1.0)]);
        let times = steps.times_ns(6, 0).expect("few");
        let ms: Vec<u64> = times.iter().map(|ns| (ns + 500_000) / 1_000_000).collect();
        // 0.1 + 0.1 + 0.1 is a little more than 0.3.
        assert_eq!(ms, [0, 100, 200, 300, 1300, 1400]);
        assert!(steps.times_ns(ARRIVALS_MAX + 1, 0).is_err());
    }

    #[test]
    fn random_numbers_are_those_of_the_c_library() {
        unsafe extern "C" {
            fn erand48(state: *mut u16) -> f64;
        }
        for client in [0u32, 1, 7, 300] {
            let mut state = [0x1234 ^ client as u16, 0x5678 ^ (client << 8) as u16, 0x9abc ^ !client as u16];
            let mut own = Random48::of_client(client);
            for _ in 0..1000 {
                // SAFETY: the state has the three numbers that the function reads and writes.
                let wanted = unsafe { erand48(state.as_mut_ptr()) };
                assert!((own.next() - wanted).abs() < 1e-15);
            }
        }
    }

    proptest! {
        #[test]
        fn times_ascend(text in "[deuv]?[0-9.]{1,3}(,[0-9.]{1,3}){0,3}", client in 0u32..9) {
            if let Some(period) = Period::parse(&text) {
                prop_assert!(period.times_ns(50, client).expect("few").is_sorted());
            }
        }
    }
}
