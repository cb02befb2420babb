//! Days of the calendar.

/// The day of a time, nanoseconds since 1970, as `YYYY-MM-DD` in UTC (the Gregorian calendar, by Howard Hinnant's
/// algorithm `civil_from_days`).
pub(crate) fn of_unix_ns(unix_ns: u64) -> String {
    const DAY_NS: u64 = 86_400_000_000_000;
    // Days since 0000-03-01, so that a leap day ends a year.
    let days = (unix_ns / DAY_NS) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::of_unix_ns;

    #[test]
    fn days_are_those_of_the_calendar() {
        // `date -u -d @SECONDS +%F` of coreutils.
        for (seconds, day) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_795_910_400, "2026-11-29"),
        ] {
            assert_eq!(of_unix_ns(seconds * 1_000_000_000), day);
        }
    }
}
