//! Times of results, for people and for names of files.
use chrono::DateTime;

/// Seconds since 1970 as `2026-11-22 00:50:00` in UTC.
#[must_use]
pub(crate) fn utc(at_s: u64) -> String {
    // The year has four digits; what lies beyond is no time of a result.
    let at_s = at_s.min(253_402_300_799);
    let time = i64::try_from(at_s).ok().and_then(|at_s| DateTime::from_timestamp(at_s, 0)).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn days_are_those_of_the_calendar() {
        // By `date -u -d @...`.
        for (at_s, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_868_799, "2000-02-29 23:59:59"),
            (1_793_494_200, "2026-11-01 00:50:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (u64::MAX, "9999-12-31 23:59:59"),
        ] {
            assert_eq!(utc(at_s), text);
        }
    }
}
