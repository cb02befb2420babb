//! Days of the Gregorian calendar.

/// Days from 1970-01-01 to a date; months and days are counted from 1 (after Hinnant, "chrono-compatible low-level
/// date algorithms").
#[must_use]
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin with March, so that the leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::days_since_1970;

    #[test]
    fn known_days() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1969, 12, 31), -1),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2026, 11, 21), 20_778),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }
}
