//! When something is due. Times are seconds since 1970, which the caller reads from its clock.

use crate::x509::Validity;

/// The wait after the first failure; it doubles with each further one.
const BACKOFF_S: i64 = 60;
/// The longest wait after failures.
const BACKOFF_S_MAX: i64 = 86_400;
/// Failures that are counted; more change nothing.
pub(crate) const FAILURES_MAX: u32 = 64;

/// How long to wait after so many failures in a row: a minute, doubled up to a day, and up to a tenth more by `chance`
/// (from 0 to 1), so that many names do not come back at once.
pub(crate) fn backoff_s(failures: u32, chance: f64) -> i64 {
    let doubled = BACKOFF_S.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(BACKOFF_S_MAX);
    if failures == 0 { 0 } else { doubled + part(doubled / 10, chance) }
}

/// When to renew a certificate of which the authority does not say: when a third of its lifetime is left, or up to a
/// tenth of that earlier by `chance`.
pub(crate) fn renew_at_unix_s(validity: Validity, chance: f64) -> i64 {
    let third = (validity.not_after_unix_s - validity.not_before_unix_s) / 3;
    validity.not_after_unix_s - third - part(third / 10, chance)
}

/// A time in the window that the authority suggests (RFC 9773 section 4.2).
pub(crate) fn within_unix_s((start, end): (i64, i64), chance: f64) -> i64 {
    start + part(end - start, chance)
}

fn part(of: i64, chance: f64) -> i64 {
    // Times of certificates have fewer digits than a double.
    (of as f64 * chance.clamp(0.0, 1.0)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_from_a_minute_to_a_day() {
        let waits: Vec<i64> = (0..5).map(|failures| backoff_s(failures, 0.0)).collect();
        assert_eq!(waits, [0, 60, 120, 240, 480]);
        assert_eq!((backoff_s(12, 0.0), backoff_s(u32::MAX, 0.0)), (86_400, 86_400));
        assert_eq!(backoff_s(1, 1.0), 66);
    }

    #[test]
    fn a_third_of_the_lifetime_is_left() {
        let days = |days: i64| days * 86_400;
        let validity = Validity { not_before_unix_s: 0, not_after_unix_s: days(90) };
        assert_eq!(renew_at_unix_s(validity, 0.0), days(60));
        assert_eq!(renew_at_unix_s(validity, 1.0), days(57));
        assert_eq!((within_unix_s((10, 20), 0.0), within_unix_s((10, 20), 1.0)), (10, 20));
    }

    proptest! {
        #[test]
        fn it_is_always_renewed_before_its_end(begin in 0_i64..1 << 40, lifetime in 10_i64..1 << 40, chance in 0.0..1.0) {
            let validity = Validity { not_before_unix_s: begin, not_after_unix_s: begin + lifetime };
            let at = renew_at_unix_s(validity, chance);
            prop_assert!(begin < at && at < validity.not_after_unix_s);
        }

        #[test]
        fn more_failures_never_wait_less(failures in 0_u32..100) {
            prop_assert!(backoff_s(failures, 0.0) <= backoff_s(failures + 1, 0.0));
        }
    }
}
