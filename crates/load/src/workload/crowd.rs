//! A flash crowd (Jung, Krishnamurthy and Rabinovich 2002, "Flash Crowds and Denial of Service Attacks"): many more clients
//! come, each of which asks no faster than others did before, most from networks that were seen before, and most of them
//! for the same few files. A denial of service differs in all three.

use crate::schedule::profile::{Profile, ProfileError, Stretch};
use std::sync::Arc;
use std::time::Duration;

/// The most requests of a client, and files of a crowd.
const REQUESTS_MAX: u32 = 10_000;
const HOT_FILES_MAX: u32 = 10_000;

/// A flash crowd, as clients that come and go.
#[derive(Debug, Clone, PartialEq)]
pub struct Crowd {
    /// How many clients come a second, over time; the schedule of the run is the same.
    pub profile: Arc<Profile>,
    /// How many come a second before and after the crowd.
    pub base_per_s: f64,
    /// Requests of a client.
    pub requests: u32,
    /// The mean of the exponentially distributed pauses between them.
    pub pause: Duration,
    /// How many files most of the crowd asks for.
    pub hot_files: u32,
}

/// Why a text is no flash crowd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CrowdError {
    /// The text has another form.
    #[error(
        "{given:?}: write BASE*FACTOR/CALM,RISE,HOLD,DECAY, such as 20*10/30s,10s,60s,120s: 20 clients a second for 30 s, within 10 s ten times as many, for 60 s, and within 120 s as before, again for 30 s"
    )]
    Form {
        /// What was given.
        given: String,
    },
    /// The factor makes no crowd.
    #[error("{given}: the peak has more than the base: a factor above 1, at most 100000")]
    Factor {
        /// What was given.
        given: String,
    },
    /// Rates or times are out of range.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl Crowd {
    /// Reads `BASE*FACTOR/CALM,RISE,HOLD,DECAY`; `time` reads a time. Clients are as by default: 5 requests each, pauses
    /// of 1 s, 10 files.
    ///
    /// # Errors
    /// [`CrowdError`], with the form that is wanted.
    pub fn parse(text: &str, time: impl Fn(&str) -> Option<Duration>) -> Result<Self, CrowdError> {
        let form = || CrowdError::Form { given: text.to_owned() };
        let (rates, times) = text.split_once('/').ok_or_else(form)?;
        let (base, factor) = rates.split_once('*').ok_or_else(form)?;
        let base_per_s: f64 = base.trim().parse().map_err(|_| form())?;
        let times: Vec<Duration> =
            times.split(',').map(|text| time(text.trim())).collect::<Option<_>>().ok_or_else(form)?;
        let [calm, rise, hold, decay] = times[..] else { return Err(form()) };
        let peak = match factor.trim().parse::<f64>().map_err(|_| form())? {
            wanted if wanted > 1.0 && wanted <= 1e5 => base_per_s * wanted,
            _ => return Err(CrowdError::Factor { given: factor.trim().to_owned() }),
        };
        let stretch = |from_per_s, to_per_s, duration| Stretch { from_per_s, to_per_s, duration };
        let profile = Profile::new(&[
            stretch(base_per_s, base_per_s, calm),
            stretch(base_per_s, peak, rise),
            stretch(peak, peak, hold),
            stretch(peak, base_per_s, decay),
            stretch(base_per_s, base_per_s, calm),
        ])?;
        if peak <= base_per_s {
            // Rounded, a factor just above 1 is none.
            return Err(CrowdError::Factor { given: factor.trim().to_owned() });
        }
        let profile = Arc::new(profile);
        Ok(Self { profile, base_per_s, requests: 5, pause: Duration::from_secs(1), hot_files: 10 })
    }

    /// The most clients that come a second.
    #[must_use]
    pub fn peak_per_s(&self) -> f64 {
        self.profile.stretches().map(|stretch| stretch.from_per_s.max(stretch.to_per_s)).fold(0.0, f64::max)
    }

    /// How many clients are there at a time at the peak, if the server answers at once.
    #[must_use]
    pub fn clients_at_peak(&self) -> f64 {
        self.peak_per_s() * self.pause.as_secs_f64() * f64::from(self.requests.saturating_sub(1))
    }

    /// What is wrong with it, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match self {
            _ if !(1..=REQUESTS_MAX).contains(&self.requests) => {
                Some("a client of a flash crowd makes between 1 and 10000 requests")
            }
            _ if !(1..=HOT_FILES_MAX).contains(&self.hot_files) => {
                Some("most of a flash crowd asks for between 1 and 10000 files")
            }
            _ => None,
        }
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
    fn a_crowd_has_its_shape() {
        let crowd = Crowd::parse("20*10/30s, 10s,60s,120s", seconds).expect("a crowd");
        assert_eq!((crowd.base_per_s, crowd.peak_per_s()), (20.0, 200.0));
        let rates = [0.0, 29.9, 35.0, 50.0, 99.9, 160.0, 221.0, 249.0].map(|time_s| crowd.profile.rate_at(time_s));
        for (rate, wanted) in rates.iter().zip([20.0, 20.0, 110.0, 200.0, 200.0, 110.0, 20.0, 20.0]) {
            assert!((rate - wanted).abs() < 1e-6, "{rates:?}");
        }
        assert_eq!(crowd.profile.duration(), Duration::from_secs(250));
        assert!((crowd.clients_at_peak() - 800.0).abs() < 1e-9);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, told) in [
            ("", "write BASE*FACTOR"),
            ("20/1s,1s,1s,1s", "write BASE*FACTOR"),
            ("20*2/1s,1s,1s", "write BASE*FACTOR"),
            ("x*2/1s,1s,1s,1s", "write BASE*FACTOR"),
            ("20*1/1s,1s,1s,1s", "1: the peak has more than the base"),
            ("20*nan/1s,1s,1s,1s", "nan: the peak has more than the base"),
            ("-2*3/1s,1s,1s,1s", "-2: a rate lies between"),
            ("2*3/1s,0s,1s,1s", "a stretch takes more than nothing"),
        ] {
            let error = Crowd::parse(text, seconds).expect_err(text).to_string();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9.*/,s ea]{0,40}") {
            if let Ok(crowd) = Crowd::parse(&text, seconds) {
                prop_assert!(crowd.peak_per_s() > crowd.base_per_s && crowd.profile.arrivals() > 0.0);
            }
        }

        #[test]
        fn what_is_well_formed_is_read(base in 0.1..1000.0f64, factor in 1.1..100.0f64, times in prop::array::uniform4(1u32..10_000)) {
            let [calm, rise, hold, decay] = times;
            let crowd = Crowd::parse(&format!("{base}*{factor}/{calm}s,{rise}s,{hold}s,{decay}s"), seconds);
            let crowd = crowd.expect("well formed");
            prop_assert!((crowd.peak_per_s() - base * factor).abs() < 1e-6 * base * factor);
        }
    }
}
