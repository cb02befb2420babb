//! A server's access log as what to ask, and when: Common and Combined Log Format.

use crate::calendar::days_since_1970;
use crate::{Ask, Request, Url};
use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most requests of a log: their times and places take 24 bytes each while it is read.
pub const ENTRIES_MAX: usize = 100_000_000;
/// How many of the lines that cannot be read are told of.
pub const TOLD_MAX: usize = 5;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// What a log asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessLog {
    /// The different requests, in the order of their first lines: method and target.
    pub requests: Vec<(String, String)>,
    /// When they came, in nanoseconds since the first, in ascending order.
    ///
    /// A log has whole seconds: what came within one is spread over it evenly.
    pub times_ns: Vec<u64>,
    /// Which of `requests` it was, for each time.
    pub order: Vec<u32>,
    /// Lines that are no requests of such a log.
    pub malformed: u64,
    /// The first of them: line, from 1, and what is wrong with it.
    pub told: Vec<(u64, &'static str)>,
    /// Requests whose method means a body, which a log does not have.
    pub without_body: u64,
}

impl AccessLog {
    /// Reads a log; empty lines are passed over, and lines that cannot be read are counted.
    ///
    /// # Errors
    /// Where it cannot be read at all, or has more than [`ENTRIES_MAX`] requests.
    pub fn read(mut log: impl BufRead) -> io::Result<Self> {
        let mut out = Self::default();
        let mut places: HashMap<(String, String), u32> = HashMap::new();
        let mut entries: Vec<(i64, u32)> = Vec::new();
        let (mut line, mut number) = (Vec::new(), 0);
        while next_line(&mut log, &mut line)? {
            number += 1;
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            let parsed = if line.len() > LINE_BYTES_MAX { Err("it is too long") } else { parse_line(text) };
            let (second, method, target) = match parsed {
                Ok(entry) => entry,
                Err(problem) => {
                    out.malformed += 1;
                    if out.told.len() < TOLD_MAX {
                        out.told.push((number, problem));
                    }
                    continue;
                }
            };
            if entries.len() == ENTRIES_MAX {
                return Err(io::Error::other("it has more than 100000000 requests; take a part of it"));
            }
            out.without_body += u64::from(matches!(method.as_str(), "POST" | "PUT" | "PATCH"));
            let next = out.requests.len() as u32;
            let place = *places.entry((method, target)).or_insert_with_key(|request| {
                out.requests.push(request.clone());
                next
            });
            entries.push((second, place));
        }
        // A line is written when its response is over but has the time of its request, so the order is not exact.
        entries.sort_by_key(|(second, _)| *second);
        out.order = entries.iter().map(|(_, place)| *place).collect();
        out.times_ns = spread(&entries);
        Ok(out)
    }

    /// Its requests for the host of `base`, each begun as `like`.
    #[must_use]
    pub fn asks(&self, base: &Url, like: &Request) -> Vec<Ask> {
        let ask = |(method, target): &(String, String)| Ask {
            url: base.with_target(target),
            request: Request { method: method.clone(), ..like.clone() },
            weight: 1,
        };
        self.requests.iter().map(ask).collect()
    }

    /// Its times at another speed: 2 is twice as fast.
    #[must_use]
    pub fn times_at(&self, speed: f64) -> Arc<[u64]> {
        self.times_ns.iter().map(|time_ns| (*time_ns as f64 / speed) as u64).collect()
    }
}

/// Takes the next line, its end included; of a line that is too long, so much that this is seen.
fn next_line(log: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    log.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line)?;
    if line.len() > LINE_BYTES_MAX && !line.ends_with(b"\n") {
        log.skip_until(b'\n')?;
    }
    Ok(!line.is_empty())
}

/// Nanoseconds since the first second, those within one second spread evenly.
fn spread(entries: &[(i64, u32)]) -> Vec<u64> {
    let first = entries.first().map_or(0, |(second, _)| *second);
    entries
        .chunk_by(|one, other| one.0 == other.0)
        .flat_map(|same| {
            // A log of more years than a u64 has nanoseconds (584) still ascends.
            let begin_ns = same[0].0.abs_diff(first).saturating_mul(SECOND_NS);
            (0..same.len() as u64).map(move |place| begin_ns.saturating_add(place * SECOND_NS / same.len() as u64))
        })
        .collect()
}

/// The second since 1970, the method and the target of a line.
fn parse_line(line: &[u8]) -> Result<(i64, String, String), &'static str> {
    const FORM: &str = "it is not HOST IDENT USER [TIME] \"METHOD PATH PROTOCOL\" STATUS BYTES";
    let line = std::str::from_utf8(line).map_err(|_| "it is no text")?;
    let (_, rest) = line.split_once(" [").ok_or(FORM)?;
    let (time, rest) = rest.split_once(']').ok_or(FORM)?;
    let second = log_time(time).ok_or("its time is not like 10/Oct/2000:13:55:36 -0700")?;
    let request = rest.strip_prefix(" \"").ok_or(FORM)?;
    let end = closing_quote(request).ok_or(FORM)?;
    let mut words = request[..end].split(' ');
    let (Some(method), Some(target), protocol, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err("it holds no request, as of a connection that was closed without one");
    };
    if protocol.is_some_and(|protocol| !protocol.starts_with("HTTP/")) {
        return Err("its request has no HTTP version");
    }
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) || method == "CONNECT" {
        return Err("its method cannot be asked");
    }
    // A proxy's log has whole URLs; the path is what is asked of the server that is loaded.
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |slash| &rest[slash..]),
        _ => target,
    };
    if !target.starts_with('/') {
        return Err("its path does not begin with /");
    }
    Ok((second, method.to_owned(), target.replace("\\\"", "%22")))
}

/// Where a quoted text ends whose own quotes have a backslash in front.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// `10/Oct/2000:13:55:36 -0700` in seconds since 1970.
fn log_time(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (local, zone) = text.split_once(' ').unwrap_or((text, "+0000"));
    let (date, clock) = local.split_once(':')?;
    let number = |text: &str, digits: usize| {
        (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i64>().ok())?
    };
    let mut parts = date.split('/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let (day, year) = (number(day, 2)?, number(year, 4)?);
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(zone.get(1..3)?, 2)?, number(zone.get(3..)?, 2)?);
    let local = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(local - sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: &str = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326
::1 - - [10/Oct/2000:13:55:38 -0700] "POST /form?x=\"y\" HTTP/1.1" 200 1 "http://a/" "Agent \"1\""
::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.1" 304 -

::1 - - [10/Oct/2000:13:55:39 -0700] "-" 408 -
nonsense
::1 - - [10/Oct/2000 13:55] "GET / HTTP/1.1" 200 1
::1 - - [10/Oct/2000:20:55:38 +0000] "GET http://h/b HTTP/1.1" 200 5
"#;

    #[test]
    fn a_log_is_times_and_requests() {
        let log = AccessLog::read(LOG.as_bytes()).expect("it can be read");
        let requests: Vec<_> = log.requests.iter().map(|(method, target)| format!("{method} {target}")).collect();
        assert_eq!(requests, ["GET /a.gif", "POST /form?x=%22y%22", "GET /b"]);
        assert_eq!(log.order, [0, 0, 1, 2]);
        assert_eq!(log.times_ns, [0, 500_000_000, 2_000_000_000, 2_500_000_000]);
        assert_eq!((log.malformed, log.without_body), (3, 1));
        assert_eq!(log.told.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [5, 6, 7]);
        assert_eq!(*log.times_at(2.0), [0, 250_000_000, 1_000_000_000, 1_250_000_000]);
        let base = Url::parse("http://other:81/x").expect("a URL");
        let asks = log.asks(&base, &Request::default());
        assert_eq!(
            (asks[2].url.to_string(), asks[1].request.method.as_str()),
            ("http://other:81/b".to_owned(), "POST")
        );
    }

    #[test]
    fn zones_and_long_lines() {
        assert_eq!(log_time("10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
        assert_eq!(log_time("10/Oct/2000:13:55:36"), Some(971_186_136));
        assert_eq!(log_time("10/Okt/2000:13:55:36 +0000"), None);
        let long = format!("{}\n{LOG}", "x".repeat(3 * LINE_BYTES_MAX));
        let log = AccessLog::read(long.as_bytes()).expect("it can be read");
        assert_eq!((log.order.len(), log.malformed, log.told[0]), (4, 4, (1, "it is too long")));
    }

    #[test]
    fn a_log_of_centuries_ascends() {
        let line = |year: u32| format!("::1 - - [10/Oct/{year}:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n");
        let text = [line(1001), line(9999), line(9999), line(9998)].concat();
        let log = AccessLog::read(text.as_bytes()).expect("it can be read");
        assert!(log.times_ns.is_sorted() && log.times_ns.len() == 4, "{:?}", log.times_ns);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..600) {
            let input = [&LOG.as_bytes()[..cut.min(LOG.len())], &bytes].concat();
            let log = AccessLog::read(&input[..]).expect("memory can be read");
            prop_assert!(log.times_ns.is_sorted() && log.times_ns.len() == log.order.len());
            prop_assert!(log.order.iter().all(|place| (*place as usize) < log.requests.len()));
            prop_assert!(log.told.len() <= TOLD_MAX && log.malformed >= log.told.len() as u64);
        }

        #[test]
        fn every_second_is_spread_evenly(seconds in prop::collection::vec(0i64..20, 1..200)) {
            let mut entries: Vec<_> = seconds.iter().map(|second| (*second, 0)).collect();
            entries.sort_unstable();
            let times = spread(&entries);
            prop_assert!(times.is_sorted());
            for (time, (second, _)) in times.iter().zip(&entries) {
                prop_assert_eq!((time / SECOND_NS) as i64, second - entries[0].0);
            }
        }
    }
}
