//! Times of results, for people and for names of files.

/// Seconds since 1970 as `2026-11-22 00:50:00` in UTC.
#[must_use]
pub(crate) fn utc(at_s: u64) -> String {
    // The year has four digits; what lies beyond is no time of a result.
    let at_s = at_s.min(253_402_300_799);
    // Days from 1 March of year 0 on, so that the leap day is the last of its year, in eras of 400 years.
    let days = at_s / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (at_s / 3600 % 24, at_s / 60 % 60, at_s % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
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
