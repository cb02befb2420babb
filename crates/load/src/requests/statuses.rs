//! Which statuses of responses count as success.

use std::str::FromStr;

/// Status codes have three digits.
pub(crate) const STATUS_CODES: usize = 1000;
/// The first status code that there is (RFC 9110 15).
const FIRST: u16 = 100;

/// The statuses that are expected: a response with one of them is a success. By itself all of 2xx and 3xx.
#[derive(Clone, PartialEq, Eq)]
pub struct Statuses(Box<[bool; STATUS_CODES]>);

/// Why a text names no statuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusesError {
    /// A part is neither a status, nor a range, nor a class.
    #[error("\"{0}\" is no status: write 200, 200-399 or 2xx, several with commas")]
    Part(String),
    /// A range's end lies before its begin.
    #[error("\"{0}\": the lower status comes first")]
    Order(String),
    /// A part is no name of a status of gRPC.
    #[error("\"{0}\" is no status of gRPC: write its name, such as OK or NOT_FOUND, several with commas")]
    Grpc(String),
}

impl Default for Statuses {
    fn default() -> Self {
        let mut expected = Self::none();
        expected.0[200..400].fill(true);
        expected
    }
}

impl Statuses {
    /// Of a WebSocket: the one by which a server agrees to it (RFC 9110 15.2.2).
    pub(crate) fn switched() -> Self {
        let mut expected = Self::none();
        expected.0[101] = true;
        expected
    }

    fn none() -> Self {
        Self(Box::new([false; STATUS_CODES]))
    }

    /// These alone, each below [`STATUS_CODES`].
    pub(crate) fn of_codes(codes: &[u16]) -> Self {
        let mut expected = Self::none();
        codes.iter().for_each(|code| expected.0[usize::from(*code)] = true);
        expected
    }

    /// Whether a response with this status is a success.
    #[must_use]
    #[inline]
    pub fn contains(&self, status: u16) -> bool {
        self.0.get(usize::from(status)).is_some_and(|expected| *expected)
    }
}

impl FromStr for Statuses {
    type Err = StatusesError;

    /// Reads `200-399,404` or `2xx,304`.
    fn from_str(text: &str) -> Result<Self, StatusesError> {
        let mut expected = Self::none();
        for part in text.split(',').map(str::trim) {
            let wrong = || StatusesError::Part(part.to_owned());
            let (from, to) = match (part.split_once('-'), part.strip_suffix("xx")) {
                (Some((from, to)), _) => (code(from).ok_or_else(wrong)?, code(to).ok_or_else(wrong)?),
                (None, Some(class)) => {
                    let first = code(&format!("{class}00")).ok_or_else(wrong)?;
                    (first, first + 99)
                }
                (None, None) => code(part).map(|code| (code, code)).ok_or_else(wrong)?,
            };
            if from > to {
                return Err(StatusesError::Order(part.to_owned()));
            }
            expected.0[usize::from(from)..=usize::from(to)].fill(true);
        }
        Ok(expected)
    }
}

/// A status of three digits.
fn code(text: &str) -> Option<u16> {
    let text = text.trim();
    let is_number = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|code| is_number && *code >= FIRST)
}

impl std::fmt::Display for Statuses {
    /// Ranges with commas, as they are read.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mut at, mut comma) = (0, "");
        while let Some(from) = (at..STATUS_CODES).find(|code| self.0[*code]) {
            let end = (from..STATUS_CODES).find(|code| !self.0[*code]).unwrap_or(STATUS_CODES);
            match end - from {
                1 => write!(formatter, "{comma}{from}")?,
                _ => write!(formatter, "{comma}{from}-{}", end - 1)?,
            }
            (at, comma) = (end, ",");
        }
        Ok(())
    }
}

impl std::fmt::Debug for Statuses {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Statuses({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Statuses {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn classes_of_success_and_redirection_are_expected_unless_said_otherwise() {
        // RFC 9110 15.3 and 15.4: 2xx is successful, 3xx is redirection; 304 answers a conditional request as wanted.
        let expected = Statuses::default();
        for (status, wanted) in [(200, true), (206, true), (304, true), (399, true), (199, false), (400, false)] {
            assert_eq!(expected.contains(status), wanted, "{status}");
        }
        assert!(!expected.contains(503) && !expected.contains(0) && !expected.contains(u16::MAX));
        assert_eq!(expected.to_string(), "200-399");
        assert_eq!(read("200-399"), expected);
    }

    #[test]
    fn statuses_are_read_as_they_are_written() {
        let expected = read("200-299, 404,5xx");
        assert_eq!(expected.to_string(), "200-299,404,500-599");
        assert!(expected.contains(404) && expected.contains(599) && !expected.contains(301));
        assert_eq!(read("999").to_string(), "999");
        for (text, words) in [
            ("", "write 200"),
            ("200,", "write 200"),
            ("ok", "ok"),
            ("20", "20"),
            ("099", "099"),
            ("2000", "2000"),
            ("+20", "+20"),
            ("xx", "xx"),
            ("22xx", "22xx"),
            ("200-", "200-"),
            ("399-200", "lower status comes first"),
        ] {
            let told = text.parse::<Statuses>().expect_err(text).to_string();
            assert!(told.contains(words), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(codes in proptest::collection::vec(100..1000usize, 1..20), text: String) {
            let mut expected = Statuses::none();
            codes.into_iter().for_each(|code| expected.0[code] = true);
            prop_assert_eq!(&read(&expected.to_string()), &expected);
            let _ = text.parse::<Statuses>();
        }
    }
}
