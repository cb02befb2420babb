//! A loop's clock: read once a turn, rendered as text once a second.

use std::time::{Duration, SystemTime};

/// The month names of access logs.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How each response says what serves it.
const SERVER: &str = "Server: weir\r\n";

/// The current time and its renderings.
#[derive(Debug)]
pub(crate) struct Clock {
    ticked: Duration,
    /// Monotonic milliseconds, for deadlines.
    pub(crate) now_ms: u64,
    /// Seconds since 1970.
    pub(crate) unix_s: u64,
    /// `Server` and `Date` as fields of a head, line ends included.
    pub(crate) server_and_date: Vec<u8>,
    /// A status line of 200 followed by `server_and_date`: how nearly every response begins.
    pub(crate) ok_and_date: Vec<u8>,
    /// The time as an access log writes it, brackets included.
    pub(crate) log_time: Vec<u8>,
    /// The same as RFC 3339 has it, in quotes.
    pub(crate) rfc3339: Vec<u8>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let mut clock = Self {
            ticked: Duration::ZERO,
            now_ms: 0,
            unix_s: 0,
            server_and_date: Vec::new(),
            ok_and_date: Vec::new(),
            log_time: Vec::new(),
            rfc3339: Vec::new(),
        };
        clock.tick();
        clock
    }

    /// Reads the clocks; the coarse ones, because 4 ms are precise enough for timeouts and a date. Both of them move on
    /// together, so that the second needs a look only when the first has moved.
    pub(crate) fn tick(&mut self) {
        let now = read(libc::CLOCK_MONOTONIC_COARSE);
        if now == self.ticked {
            return;
        }
        self.ticked = now;
        self.now_ms = millis(now);
        let unix_s = read(libc::CLOCK_REALTIME_COARSE).as_secs();
        if unix_s != self.unix_s {
            self.unix_s = unix_s;
            self.render();
        }
    }

    /// The field Server.
    pub(crate) fn server(&self) -> &[u8] {
        &self.server_and_date[..SERVER.len()]
    }

    /// The field Date.
    pub(crate) fn date(&self) -> &[u8] {
        &self.server_and_date[SERVER.len()..]
    }

    fn render(&mut self) {
        let date = http_date(self.unix_s);
        self.server_and_date = format!("{SERVER}Date: {date}\r\n").into_bytes();
        self.ok_and_date = [b"HTTP/1.1 200 OK\r\n".as_slice(), &self.server_and_date].concat();
        self.log_time = log_time(self.unix_s).into_bytes();
        let (year, month, day, hour, minute, second) = civil(self.unix_s);
        let time = format!("\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\"");
        self.rfc3339 = time.into_bytes();
    }
}

/// The milliseconds of [`Clock::now_ms`], for code without a clock at hand.
pub(crate) fn now_ms() -> u64 {
    millis(read(libc::CLOCK_MONOTONIC_COARSE))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The date in the form of RFC 9110 section 5.6.7.
pub(crate) fn http_date(unix_s: u64) -> String {
    // The formatter ends at the year 9999, and so does the form.
    let within = unix_s.min(253_402_300_799);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(within))
}

/// Year, month (1-12), day, hour, minute, second in UTC.
pub(crate) fn civil(unix_s: u64) -> (u64, u64, u64, u64, u64, u64) {
    // Counts days from 1 March of year 0, so that the leap day is the last of its year.
    let day_number = unix_s / 86400 + 719_468;
    let era = day_number / 146_097;
    let day_of_era = day_number % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day, unix_s / 3600 % 24, unix_s / 60 % 60, unix_s % 60)
}

fn log_time(unix_s: u64) -> String {
    let (year, month, day, hour, minute, second) = civil(unix_s);
    let month = usize::try_from(month - 1).ok().and_then(|i| MONTHS.get(i)).copied().unwrap_or("Jan");
    format!("[{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000]")
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure, which lives over it; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_time_agrees_with_an_independent_date_formatter() {
        // 2000-02-29 and the ends of leap and common years are where such code goes wrong.
        for unix_s in [0, 951_782_400, 951_868_799, 1_735_689_599, 1_735_689_600, 4_107_542_399, 1_795_172_695] {
            let date = http_date(unix_s);
            let parts: Vec<&str> = date.split([' ', ',']).filter(|part| !part.is_empty()).collect();
            let expected = format!("[{}/{}/{}:{} +0000]", parts[1], parts[2], parts[3], parts[4]);
            assert_eq!(log_time(unix_s), expected);
        }
    }
}
