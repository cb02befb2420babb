//! A rate that changes with time: stretches in which it is constant or changes evenly.

use std::time::Duration;

/// The highest rate, a second.
pub(crate) const RATE_MAX: f64 = 1e8;
/// The most stretches.
const STRETCHES_MAX: usize = 100_000;

/// A part of the time in which the rate changes evenly, or not at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// Arrivals a second at its beginning.
    pub from_per_s: f64,
    /// Arrivals a second at its end.
    pub to_per_s: f64,
    /// How long it takes.
    pub duration: Duration,
}

/// Stretches one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    stretches: Vec<Placed>,
    arrivals: f64,
    duration: Duration,
}

/// A stretch and what lies before it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Placed {
    stretch: Stretch,
    begin_s: f64,
    /// Arrivals before it, and until its end.
    before: f64,
    until: f64,
}

/// Why there is no such profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A piece of the text is no stretch.
    #[error("{given:?}: write RATE/TIME or RATE..RATE/TIME, such as 100/10s,100..1000/1m")]
    Form {
        /// The piece.
        given: String,
    },
    /// A rate out of range.
    #[error("{given}: a rate lies between 0 and 100000000 a second")]
    Rate {
        /// The rate.
        given: String,
    },
    /// A stretch that takes no time, or too much.
    #[error("{given:?}: a stretch takes more than nothing and at most a year")]
    Time {
        /// The piece.
        given: String,
    },
    /// No arrivals at all, or more pieces than anybody needs.
    #[error("the rates are all 0, or there are none, or more than 100000 of them")]
    Empty,
}

impl Profile {
    /// A profile of these stretches.
    ///
    /// # Errors
    /// [`ProfileError`], where rates or times are out of range.
    pub fn new(stretches: &[Stretch]) -> Result<Self, ProfileError> {
        let mut profile =
            Self { stretches: Vec::with_capacity(stretches.len()), arrivals: 0.0, duration: Duration::ZERO };
        for stretch in stretches {
            for rate in [stretch.from_per_s, stretch.to_per_s] {
                if !(0.0..=RATE_MAX).contains(&rate) {
                    return Err(ProfileError::Rate { given: rate.to_string() });
                }
            }
            if stretch.duration.is_zero() || stretch.duration > Duration::from_secs(366 * 86_400) {
                return Err(ProfileError::Time { given: format!("{:?}", stretch.duration) });
            }
            let before = profile.arrivals;
            profile.arrivals += f64::midpoint(stretch.from_per_s, stretch.to_per_s) * stretch.duration.as_secs_f64();
            let begin_s = profile.duration.as_secs_f64();
            profile.stretches.push(Placed { stretch: *stretch, begin_s, before, until: profile.arrivals });
            profile.duration += stretch.duration;
        }
        let fits = profile.arrivals > 0.0 && profile.stretches.len() <= STRETCHES_MAX;
        if fits { Ok(profile) } else { Err(ProfileError::Empty) }
    }

    /// Reads `RATE/TIME` and `RATE..RATE/TIME`, separated by commas; `time` reads a time.
    ///
    /// # Errors
    /// [`ProfileError`], with the piece that is wrong.
    pub fn parse(text: &str, time: impl Fn(&str) -> Option<Duration>) -> Result<Self, ProfileError> {
        let mut stretches = Vec::new();
        for piece in text.split(',').map(str::trim) {
            let wrong = || ProfileError::Form { given: piece.to_owned() };
            let (rates, length) = piece.split_once('/').ok_or_else(wrong)?;
            let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
            let rate = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
            stretches.push(Stretch {
                from_per_s: rate(from)?,
                to_per_s: rate(to)?,
                duration: time(length.trim()).ok_or_else(wrong)?,
            });
        }
        Self::new(&stretches)
    }

    /// All arrivals: the integral of the rate.
    #[must_use]
    pub fn arrivals(&self) -> f64 {
        self.arrivals
    }

    /// All of its time.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Its stretches.
    pub fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.stretches.iter().map(|placed| &placed.stretch)
    }

    /// The integral of the rate from the beginning to a time, in seconds.
    #[must_use]
    pub fn arrivals_until(&self, time_s: f64) -> f64 {
        let at = self.stretches.partition_point(|placed| placed.begin_s <= time_s).saturating_sub(1);
        let Placed { stretch, begin_s, before, .. } = self.stretches[at];
        let within = (time_s - begin_s).clamp(0.0, stretch.duration.as_secs_f64());
        before + within * (stretch.from_per_s + stretch.slope() * within / 2.0)
    }

    /// The rate at a time, in seconds from the beginning; before and after, that of the nearest time within.
    #[must_use]
    pub fn rate_at(&self, time_s: f64) -> f64 {
        let at = self.stretches.partition_point(|placed| placed.begin_s <= time_s).saturating_sub(1);
        let Placed { stretch, begin_s, .. } = self.stretches[at];
        stretch.from_per_s + stretch.slope() * (time_s - begin_s).clamp(0.0, stretch.duration.as_secs_f64())
    }

    /// When the integral of the rate exceeds `arrivals`, in seconds from the beginning; `None` if it never does.
    #[must_use]
    pub fn time_s_of(&self, arrivals: f64) -> Option<f64> {
        let at = self.stretches.partition_point(|placed| placed.until <= arrivals);
        let Placed { stretch, begin_s, before, .. } = *self.stretches.get(at)?;
        let wanted = arrivals - before;
        // The root of from*t + slope/2*t^2 = wanted in the form that does not subtract what is nearly equal.
        let discriminant = stretch.from_per_s * stretch.from_per_s + 2.0 * stretch.slope() * wanted;
        let divisor = stretch.from_per_s + discriminant.max(0.0).sqrt();
        let within = if divisor > 0.0 { 2.0 * wanted / divisor } else { 0.0 };
        Some(begin_s + within.min(stretch.duration.as_secs_f64()))
    }
}

impl Stretch {
    /// How the rate changes, a second and second.
    fn slope(&self) -> f64 {
        (self.to_per_s - self.from_per_s) / self.duration.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(text: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
    }

    #[test]
    fn steps_and_ramps_are_read() {
        let profile = Profile::parse("100/10s, 0/5s,100..300/10s", seconds).expect("a profile");
        assert_eq!((profile.arrivals(), profile.duration()), (3000.0, Duration::from_secs(25)));
        // The first arrival after the pause comes right when it ends.
        assert_eq!(
            [0.0, 999.0, 1000.0, 3000.0].map(|n| profile.time_s_of(n)),
            [Some(0.0), Some(9.99), Some(15.0), None]
        );
        // In half of its time the ramp has 100*5 + 20/2*5^2 arrivals.
        assert!((profile.time_s_of(1750.0).expect("within") - 20.0).abs() < 1e-9);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, told) in [
            ("", "\"\": write RATE/TIME"),
            ("100", "\"100\": write RATE/TIME"),
            ("1/1s,2/x", "\"2/x\": write"),
            ("-1/1s", "-1: a rate lies between 0"),
            ("nan/1s", "NaN: a rate"),
            ("1/0s", "a stretch takes more than nothing"),
            ("0/1s", "the rates are all 0"),
        ] {
            let error = Profile::parse(text, seconds).expect_err(text).to_string();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn the_integral_is_inverted(
            given in prop::collection::vec((0.0..1e5f64, 0.0..1e5f64, 1u64..100_000), 1..6),
            share in 0.0..1.0f64,
        ) {
            let stretches: Vec<_> = given
                .iter()
                .map(|(from, to, ms)| Stretch { from_per_s: *from, to_per_s: *to, duration: Duration::from_millis(*ms) })
                .collect();
            let profile = Profile::new(&stretches).expect("in range");
            let wanted = profile.arrivals() * share;
            let time_s = profile.time_s_of(wanted).expect("before its end");
            prop_assert!((profile.arrivals_until(time_s) - wanted).abs() <= 1e-9 * profile.arrivals().max(1.0));
            prop_assert!(time_s <= profile.duration().as_secs_f64());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9./,s ea]{0,30}") {
            if let Ok(profile) = Profile::parse(&text, seconds) {
                prop_assert!(profile.arrivals() > 0.0 && profile.time_s_of(0.0).is_some());
            }
        }
    }
}
