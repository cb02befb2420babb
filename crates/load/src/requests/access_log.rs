//! A server's access log as what to ask, and when, in each of the formats that have paths.

use crate::{ListedRequest, Request, Url};
use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use weir_access_log::{Entry, LeftOut, Source, SourceError};

/// The most requests of a log: their times and places take 24 bytes each while it is read.
pub const ENTRIES_MAX: usize = 100_000_000;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;
/// In place of the nanosecond of a log that has whole seconds.
const WHOLE: u32 = u32::MAX;

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum AccessLogError {
    /// It cannot be opened, or is no log.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It holds numbers in place of paths.
    #[error("it holds the records of the World Cup of 1998, which have numbers in place of paths")]
    Records,
    /// It has more than [`ENTRIES_MAX`] requests.
    #[error("it has more than {ENTRIES_MAX} requests; take a part of it")]
    TooManyRequests,
}

/// What a log asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessLog {
    /// The different requests, in the order of their first lines: method and target.
    pub requests: Vec<(String, String)>,
    /// When they came, in nanoseconds since the first, in ascending order.
    ///
    /// Where a log has whole seconds, what came within one is spread over it evenly.
    pub times_ns: Vec<u64>,
    /// Which of `requests` it was, for each time.
    pub order: Vec<u32>,
    /// Lines that are no requests of such a log, by reason.
    pub left_out: LeftOut,
    /// Requests whose parts of seconds were zero like most of the log's, so that they stand for whole seconds.
    pub apparent_parts: u64,
    /// Bytes 0 in front of lines, which were passed over.
    pub zeros: u64,
    /// The longest time without a request, seconds: those around it, since 1970.
    pub longest_gap: Option<(i64, i64)>,
    /// Requests whose method means a body, which a log does not have.
    pub without_body: u64,
}

impl AccessLog {
    /// Reads a log, also one that gzip has compressed; empty lines are passed over, and lines that cannot be read are counted.
    ///
    /// # Errors
    /// [`AccessLogError`].
    pub fn read(log: impl Read) -> Result<Self, AccessLogError> {
        let mut out = Self::default();
        let mut places: HashMap<(String, String), u32> = HashMap::new();
        let mut entries: Vec<(i64, u32, u32)> = Vec::new();
        let Source::Lines(mut requests) = Source::open(log)? else { return Err(AccessLogError::Records) };
        while let Some((number, entry)) = requests.next_request()? {
            let Entry { second, nanosecond, method, target, .. } = match entry {
                Ok(entry) => entry,
                Err(reason) => {
                    out.left_out.push("", number, reason);
                    continue;
                }
            };
            if entries.len() == ENTRIES_MAX {
                return Err(AccessLogError::TooManyRequests);
            }
            out.without_body += u64::from(matches!(&*method, "POST" | "PUT" | "PATCH"));
            let next = out.requests.len() as u32;
            let place = *places.entry((method.into_owned(), target.into_owned())).or_insert_with_key(|request| {
                out.requests.push(request.clone());
                next
            });
            entries.push((second, nanosecond.unwrap_or(WHOLE), place));
        }
        let parts = requests.parts();
        for (_, nanosecond, _) in entries.iter_mut().filter(|entry| entry.1 != WHOLE && parts.is_whole(entry.1)) {
            *nanosecond = WHOLE;
            out.apparent_parts += 1;
        }
        out.zeros = requests.zeros();
        // A line is written when its response is over but has the time of its request, so the order is not exact.
        entries.sort_by_key(|(second, ..)| *second);
        let gaps = entries.windows(2).map(|two| (two[0].0, two[1].0));
        out.longest_gap = gaps.max_by_key(|(from, to)| to - from);
        spread(&mut entries);
        // The same order but for what came within a second.
        entries.sort_by_key(|(second, nanosecond, _)| (*second, *nanosecond));
        out.order = entries.iter().map(|(.., place)| *place).collect();
        out.times_ns = since_first(&entries);
        Ok(out)
    }

    /// Its requests for the host of `base`, each begun as `like`.
    #[must_use]
    pub fn requests(&self, base: &Url, like: &Request) -> Vec<ListedRequest> {
        let listed = |(method, target): &(String, String)| ListedRequest {
            url: base.with_target(target),
            request: Request { method: method.clone(), ..like.clone() },
            weight: 1,
        };
        self.requests.iter().map(listed).collect()
    }

    /// Its times at another speed: 2 is twice as fast.
    #[must_use]
    pub fn times_at(&self, speed: f64) -> Arc<[u64]> {
        self.times_ns.iter().map(|time_ns| (*time_ns as f64 / speed) as u64).collect()
    }
}

/// Gives those without a part of a second one, so that all of a second are spread over it evenly.
fn spread(entries: &mut [(i64, u32, u32)]) {
    for same in entries.chunk_by_mut(|one, other| one.0 == other.0) {
        let count = same.len() as u64;
        for (place, (_, nanosecond, _)) in same.iter_mut().enumerate().filter(|(_, entry)| entry.1 == WHOLE) {
            // Less than a second.
            *nanosecond = (place as u64 * SECOND_NS / count) as u32;
        }
    }
}

/// Nanoseconds since the first one.
fn since_first(entries: &[(i64, u32, u32)]) -> Vec<u64> {
    let (first, begin_ns) = entries.first().map_or((0, 0), |(second, nanosecond, _)| (*second, u64::from(*nanosecond)));
    let since = |(second, nanosecond, _): &(i64, u32, u32)| {
        // A log of more years than a u64 has nanoseconds (584) still ascends.
        let second_ns = second.abs_diff(first).saturating_mul(SECOND_NS);
        second_ns.saturating_add(u64::from(*nanosecond)).saturating_sub(begin_ns)
    };
    entries.iter().map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_access_log::Reason;

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
        assert_eq!((log.left_out.count(), log.without_body), (3, 1));
        assert_eq!(log.left_out.first().iter().map(|(_, line, _)| *line).collect::<Vec<_>>(), [5, 6, 7]);
        assert_eq!(*log.times_at(2.0), [0, 250_000_000, 1_000_000_000, 1_250_000_000]);
        let base = Url::parse("http://other:81/x").expect("a URL");
        let requests = log.requests(&base, &Request::default());
        assert_eq!(
            (requests[2].url.to_string(), requests[1].request.method.as_str()),
            ("http://other:81/b".to_owned(), "POST")
        );
    }

    #[test]
    fn long_lines_are_counted_and_objects_of_json_understood() {
        let long = format!("{}\n{LOG}", "x".repeat(3 * weir_access_log::LINE_BYTES_MAX));
        let log = AccessLog::read(long.as_bytes()).expect("it can be read");
        assert_eq!((log.order.len(), log.left_out.count()), (4, 4));
        assert_eq!((log.left_out.first()[0].1, log.left_out.first()[0].2), (1, Reason::TooLong));
        let json = r#"{"ts":971211336.5,"method":"GET","uri":"/a"}"#;
        let log = AccessLog::read(json.as_bytes()).expect("it can be read");
        assert_eq!((log.requests.len(), log.left_out.count()), (1, 0));
    }

    #[test]
    fn milliseconds_that_are_all_zero_are_whole_seconds() {
        let line = "{\"time\":\"2026-11-23T00:00:01.000Z\",\"method\":\"GET\",\"uri\":\"/\"}\n";
        let log = AccessLog::read([&[0; 70], line.repeat(4).as_bytes()].concat().as_slice()).expect("it can be read");
        assert_eq!(log.times_ns, [0, 250_000_000, 500_000_000, 750_000_000]);
        assert_eq!((log.apparent_parts, log.zeros), (4, 70));
    }

    #[test]
    fn a_gap_is_known_and_records_have_no_paths() {
        let line = |year: u32| format!("::1 - - [10/Oct/{year}:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5\n");
        let log = AccessLog::read([line(2026), line(1970)].concat().as_bytes()).expect("it can be read");
        assert_eq!(log.longest_gap, Some((24_414_936, 1_791_640_536)));
        let record = [0x35, 0x4a, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0x10, 0, 0, 0x42, 1, 0x20];
        assert!(matches!(AccessLog::read(&record[..]), Err(AccessLogError::Records)));
        assert!(AccessLog::read(&b"\xfd7zXZ\0\0"[..]).is_err_and(|error| error.to_string().contains("xzcat FILE")));
    }

    #[test]
    fn parts_of_seconds_are_kept_where_a_log_has_them() {
        let line = |time: &str, path: &str| {
            format!("{{\"time\":\"2026-11-23T00:00:{time}Z\",\"method\":\"GET\",\"uri\":\"/{path}\"}}\n")
        };
        let text = [line("01.250", "a"), line("01.900", "c"), line("01.3", "b"), line("02.000001", "d")].concat();
        let log = AccessLog::read(text.as_bytes()).expect("it can be read");
        assert_eq!(log.times_ns, [0, 50_000_000, 650_000_000, 750_001_000]);
        assert_eq!(log.order.iter().map(|place| &*log.requests[*place as usize].1).collect::<String>(), "/a/b/c/d");
        // Beside those that have none.
        let mixed = [line("01.9", "a"), line("01", "b"), line("03", "c")].concat();
        let log = AccessLog::read(mixed.as_bytes()).expect("it can be read");
        assert_eq!(log.times_ns, [0, 400_000_000, 1_500_000_000]);
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
            let Ok(log) = AccessLog::read(&input[..]) else { return Ok(()) };
            prop_assert!(log.times_ns.is_sorted() && log.times_ns.len() == log.order.len());
            prop_assert!(log.order.iter().all(|place| (*place as usize) < log.requests.len()));
            let ends = input.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
            prop_assert!(log.order.len() as u64 + log.left_out.count() <= ends as u64 + 1);
        }

        #[test]
        fn every_second_is_spread_evenly(seconds in prop::collection::vec(0i64..20, 1..200)) {
            let mut entries: Vec<_> = seconds.iter().map(|second| (*second, WHOLE, 0)).collect();
            entries.sort_unstable();
            spread(&mut entries);
            let times = since_first(&entries);
            prop_assert!(times.is_sorted());
            for (time, (second, ..)) in times.iter().zip(&entries) {
                prop_assert_eq!((time / SECOND_NS) as i64, second - entries[0].0);
            }
        }
    }
}
