//! What a node says of itself each second, as a text: numbers in decimal, with one space between two.

use std::collections::BTreeMap;

/// The version of a text without a strain, which members of earlier versions say as well.
const VERSION: &str = "1";
/// The version of one with it.
const WITH_STRAIN: &str = "2";
/// Bytes of a text, at most.
const TEXT_BYTES_MAX: usize = 160;
/// Bytes of the text of all versions of sites.
const SITES_BYTES_MAX: usize = 4 << 10;
/// Larger numbers are no readings: they are shown and added as floating-point numbers.
const NUMBER_MAX: u64 = 1 << 53;
const TENTHS: f64 = 10.0;
const THOUSANDTHS: f64 = 1_000.0;
const US_PER_S: f64 = 1e6;
const MIB: u64 = 1 << 20;

/// A text that is none of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} that a member gossips cannot be read; run the same version of weir on all members")]
pub struct GossipTextError {
    /// Which text.
    pub what: &'static str,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// It grows with each reading of a node.
    pub number: u64,
    /// Requests answered, in a second.
    pub requests_per_s: f64,
    /// Open connections.
    pub open: u64,
    /// Sessions with a response under way.
    pub sending: u64,
    /// Bytes handed to sockets, in a second.
    pub sent_bytes_per_s: u64,
    /// The part of its CPUs that the server uses, 0 to 1.
    pub cpu_share: f64,
    /// Whether it wants no new connections.
    pub is_draining: bool,
    /// What its requests wait for, and how full its memory is; none of a node that has just begun, or that runs an earlier
    /// version.
    pub strain: Option<Strain>,
}

/// What the requests of a node wait for, how many fail, and how full its memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Strain {
    /// Requests that wait, on average over the last second.
    pub queue: f64,
    /// Seconds that a request waits, in the mean.
    pub wait_s: f64,
    /// Bytes of the machine's memory in use, in whole MiB.
    pub mem_bytes: u64,
    /// The part of its memory that is in use, 0 to 1.
    pub mem_share: f64,
    /// Requests that fail, in a second.
    pub errors_per_s: f64,
    /// The part of its requests that fail, 0 to 1.
    pub error_share: f64,
}

/// A whole number of so many parts of a unit.
fn whole(value: f64, parts: f64) -> u64 {
    (value.max(0.0) * parts).round().min(NUMBER_MAX as f64) as u64
}

impl Strain {
    fn numbers(&self) -> [u64; 6] {
        [
            whole(self.queue, TENTHS),
            whole(self.wait_s, US_PER_S),
            self.mem_bytes / MIB,
            whole(self.mem_share.min(1.0), THOUSANDTHS),
            whole(self.errors_per_s, TENTHS),
            whole(self.error_share.min(1.0), THOUSANDTHS),
        ]
    }

    fn of([queue, wait, mem, mem_share, errors, error_share]: [u64; 6]) -> Option<Self> {
        (mem <= NUMBER_MAX / MIB && mem_share <= 1_000 && error_share <= 1_000).then(|| Self {
            queue: queue as f64 / TENTHS,
            wait_s: wait as f64 / US_PER_S,
            mem_bytes: mem * MIB,
            mem_share: mem_share as f64 / THOUSANDTHS,
            errors_per_s: errors as f64 / TENTHS,
            error_share: error_share as f64 / THOUSANDTHS,
        })
    }
}

impl Reading {
    /// The text, in which rates and queues have one decimal place, shares three and times six.
    pub fn to_text(&self) -> String {
        let numbers = [
            self.number,
            whole(self.requests_per_s, TENTHS),
            self.open,
            self.sending,
            self.sent_bytes_per_s,
            whole(self.cpu_share.min(1.0), THOUSANDTHS),
            u64::from(self.is_draining),
        ];
        let version = if self.strain.is_some() { WITH_STRAIN } else { VERSION };
        let strain = self.strain.iter().flat_map(Strain::numbers);
        let words = numbers.into_iter().chain(strain).map(|number| format!(" {}", number.min(NUMBER_MAX)));
        words.fold(version.to_owned(), |text, word| text + &word)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`GossipTextError`], if it is none, or has a number that is out of its range.
    pub fn parse(text: &str) -> Result<Self, GossipTextError> {
        Self::read(text).ok_or(GossipTextError { what: "reading" })
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let mut words = text.split(' ');
        let has_strain = match words.next()? {
            VERSION => false,
            WITH_STRAIN => true,
            _ => return None,
        };
        let mut next = || number(words.next()?);
        let [of, requests, open, sending, sent, cpu, drains] =
            [next()?, next()?, next()?, next()?, next()?, next()?, next()?];
        let strain =
            if has_strain { Some(Strain::of([next()?, next()?, next()?, next()?, next()?, next()?])?) } else { None };
        let is_over = words.next().is_none();
        (is_over && cpu <= 1_000 && drains <= 1).then_some(Self {
            number: of,
            requests_per_s: requests as f64 / TENTHS,
            open,
            sending,
            sent_bytes_per_s: sent,
            cpu_share: cpu as f64 / THOUSANDTHS,
            is_draining: drains == 1,
            strain,
        })
    }
}

/// A number in the one form that it is written in.
pub(super) fn number(word: &str) -> Option<u64> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word.len() == 1 || !word.starts_with('0'));
    word.parse().ok().filter(|number| is_plain && *number <= NUMBER_MAX)
}

/// The versions of published sites that a node has, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sites(pub BTreeMap<String, u64>);

impl Sites {
    /// The text; sites that do not fit into it are left out.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (site, version) in &self.0 {
            let word = format!("{site}={} ", (*version).min(NUMBER_MAX));
            if is_name(site) && text.len() + word.len() <= SITES_BYTES_MAX {
                text.push_str(&word);
            }
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`GossipTextError`], if it is none.
    pub fn parse(text: &str) -> Result<Self, GossipTextError> {
        let read = || {
            let words = text.split(' ').filter(|_| !text.is_empty());
            let site = |word: &str| {
                let (site, version) = word.split_once('=')?;
                Some((Some(site).filter(|site| is_name(site))?.to_owned(), number(version)?))
            };
            words.map(site).collect::<Option<BTreeMap<_, _>>>()
        };
        let sites = (text.len() <= SITES_BYTES_MAX).then(read).flatten();
        sites.map(Self).ok_or(GossipTextError { what: "list of sites" })
    }
}

fn is_name(site: &str) -> bool {
    !site.is_empty() && site.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reading_has_one_text() {
        let reading = Reading {
            number: 7,
            requests_per_s: 1234.5,
            open: 17,
            sending: 3,
            sent_bytes_per_s: 25_000_000,
            cpu_share: 0.421,
            is_draining: true,
            strain: None,
        };
        assert_eq!(reading.to_text(), "1 7 12345 17 3 25000000 421 1");
        assert_eq!(Reading::parse(&reading.to_text()), Ok(reading));
        let strain = Strain {
            queue: 2.5,
            wait_s: 0.000_350,
            mem_bytes: 3_051 * MIB,
            mem_share: 0.381,
            errors_per_s: 0.2,
            error_share: 0.013,
        };
        let reading = Reading { strain: Some(strain), ..reading };
        assert_eq!(reading.to_text(), "2 7 12345 17 3 25000000 421 1 25 350 3051 381 2 13");
        assert_eq!(Reading::parse(&reading.to_text()), Ok(reading));
        for wrong in [
            "2 7 1 1 1 1 1 1",
            "2 7 1 1 1 1 1 1 1 1 1 1001 1 1",
            "2 7 1 1 1 1 1 1 1 1 1 1 1 1001",
            "2 7 1 1 1 1 1 1 1 1 1 1 1 1 1",
            "2 7 1 1 1 1 1 1 1 1 9007199254740992 1 1 1",
        ] {
            assert!(Reading::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "3 7 1 1 1 1 1 1", "1 7 1 1 1 1 1001 1", "1 7 1 1 1 1 1 2", "1 7 1 1 1 1 1 1 1"] {
            assert!(Reading::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1 07 1 1 1 1 1 1", "1 +7 1 1 1 1 1 1", "1 7  1 1 1 1 1", "1 9007199254740993 1 1 1 1 1 1"] {
            assert!(Reading::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_number_is_none_in_a_text() {
        let odd = Reading { requests_per_s: f64::NAN, cpu_share: f64::INFINITY, ..Reading::default() };
        assert_eq!(Reading::parse(&odd.to_text()), Ok(Reading { cpu_share: 1.0, ..Reading::default() }));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            number in 0..NUMBER_MAX, requests in 0..1_u64 << 50, open: u32, sending: u32, sent in 0..NUMBER_MAX,
            cpu in 0..=1_000_u64, is_draining: bool,
            strain in proptest::option::of((
                0..1_u64 << 50, 0..1_u64 << 50, 0..1_u64 << 33, 0..=1_000_u64, 0..1_u64 << 50, 0..=1_000_u64,
            )),
        ) {
            let strain = strain.map(|(queue, wait, mem, mem_share, errors, share)| {
                Strain::of([queue, wait, mem, mem_share, errors, share]).expect("they are in their ranges")
            });
            let reading = Reading {
                number, requests_per_s: requests as f64 / TENTHS, open: open.into(), sending: sending.into(),
                sent_bytes_per_s: sent, cpu_share: cpu as f64 / THOUSANDTHS, is_draining, strain,
            };
            prop_assert_eq!(Reading::parse(&reading.to_text()), Ok(reading));
        }

        #[test]
        fn sites_are_read_again(sites in proptest::collection::btree_map("[!-<>-~]{1,40}", 0..NUMBER_MAX, 0..30)) {
            let sites = Sites(sites);
            prop_assert_eq!(Sites::parse(&sites.to_text()), Ok(sites));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "([12]( [0-9]{1,4}){7,13}|.{0,80})") {
            if let Ok(reading) = Reading::parse(&text) {
                prop_assert_eq!(reading.to_text(), text.clone());
            }
            if let Ok(sites) = Sites::parse(&text) {
                prop_assert_eq!(Sites::parse(&sites.to_text()), Ok(sites));
            }
        }
    }
}
