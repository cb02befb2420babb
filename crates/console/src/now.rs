//! What a load says that it does now, as the file in its run's directory has it.
//!
//! Other programs may have written the file: each text and number has a bound, and what is not of the form is refused.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_trace::Process;

/// The file's name in the directory of a run.
pub const NOW_FILE: &str = "now.ndjson";
/// What the first line names as its form.
pub const NOW_SCHEMA: &str = "weir-load-now/1";
/// Intervals that the file holds at most: the latest ones.
pub const NOW_POINTS_MAX: usize = 512;
/// Bytes of its first line.
pub(crate) const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the whole file.
pub(crate) const FILE_BYTES_MAX: u64 = 2 << 20;
/// Characters of the target, and of the words for the options.
const TEXT_CHARS_MAX: usize = 4000;
/// Kinds of errors that there may be.
const ERROR_KINDS_MAX: usize = 64;

/// The first line: how far the load is, and all that it counted so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// [`NOW_SCHEMA`].
    pub(crate) schema: String,
    /// The version of the program that loads.
    pub(crate) version: String,
    /// The process that loads.
    pub(crate) process: Process,
    /// The URL, without its query.
    pub(crate) target: String,
    /// The kind of load in words.
    pub(crate) manner: String,
    /// When it began, milliseconds since 1970.
    pub(crate) begin_unix_ms: u64,
    /// When this was written, milliseconds since 1970.
    pub(crate) told_unix_ms: u64,
    /// What it does, or how it ended.
    pub(crate) state: Told,
    /// Since its begin, seconds.
    pub(crate) elapsed_s: f64,
    /// How long it is to last, seconds.
    pub(crate) planned_s: Option<f64>,
    /// How many requests it is to make.
    pub(crate) planned_requests: Option<u64>,
    /// The share of it that is done, 0 to 1.
    pub(crate) share: f64,
    /// Seconds that are left, if it goes on so.
    pub(crate) left_s: Option<f64>,
    /// The length of an interval, seconds.
    pub(crate) interval_s: f64,
    /// Intervals before those of the file.
    pub(crate) points_left_out: u64,
    /// All that was counted so far.
    pub(crate) whole: Point,
}

/// What a load says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// It loads.
    Running,
    /// The user asked it to end, and it waits for what is under way.
    Ending,
    /// It ended as it was planned.
    Ended,
    /// The user ended it.
    Interrupted,
    /// It could not be made.
    Failed,
}

impl Told {
    /// Whether it says that it goes on.
    #[must_use]
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::Running | Self::Ending)
    }
}

/// What was counted in an interval: the fields of `weir load --ndjson`, and some that only a running load tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Its begin, seconds from that of the load.
    pub(crate) start_s: f64,
    /// Its length, seconds.
    pub(crate) length_s: f64,
    /// Whole responses.
    pub(crate) requests: u64,
    /// The same each second.
    pub(crate) rate_per_s: f64,
    /// Responses that are expected.
    pub(crate) successes: u64,
    /// The share of successes, 0 to 1; none where there was no request.
    pub(crate) success_rate: Option<f64>,
    /// Responses with another status, or that failed a check.
    pub(crate) unexpected: u64,
    /// Failed requests by kind.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Failed requests of all kinds.
    pub(crate) failed: u64,
    /// The same each second.
    pub(crate) failed_per_s: f64,
    /// Requests whose users clicked stop.
    pub(crate) stopped: u64,
    /// Arrivals that found the generator's queue full.
    pub(crate) dropped: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// The same each second.
    pub(crate) bytes_per_s: f64,
    /// Connections that were open at its end.
    pub(crate) connections: u64,
    /// Arrivals that were taken up over 1 ms after their time.
    pub(crate) late: u64,
    /// Arrivals that waited for a connection.
    pub(crate) waited: u64,
    /// Share of the time that the generator's busiest loop ran, 0 to 1.
    pub(crate) generator_cpu_share: f64,
    /// Share of the time that it could have run, and waited for a CPU, 0 to 1.
    pub(crate) generator_runnable_share: f64,
    /// Response times of successes, nanoseconds.
    pub(crate) latency_ns: Option<Times>,
}

/// Response times, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// The shortest.
    pub(crate) min: f64,
    /// The mean.
    pub(crate) mean: f64,
    /// The median.
    pub(crate) p50: f64,
    /// Of 10 responses 1 takes longer.
    pub(crate) p90: f64,
    /// Of 100 responses 1 takes longer.
    pub(crate) p99: f64,
    /// The longest.
    pub(crate) max: f64,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Now {
    /// Its first line.
    pub(crate) head: Head,
    /// The intervals, the latest last.
    pub(crate) points: Vec<Point>,
}

/// Why a file is none of a load.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NowError {
    /// A line is no JSON, or lacks a field.
    #[error("line {line} is not as `weir load --run` writes it: {source}; remove the file, or look at the run itself")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// The file names another form.
    #[error(
        "it has the form {0:?}, and this version of weir reads {NOW_SCHEMA}; use the weir console of the load's version"
    )]
    Schema(String),
    /// There is more than a load writes.
    #[error("it holds {0} than `weir load --run` writes; remove the file")]
    TooMuch(&'static str),
    /// The system refuses, or the file has no whole first line.
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads the first line of a file.
///
/// # Errors
/// [`NowError`].
pub(crate) fn parse_head(line: &[u8]) -> Result<Head, NowError> {
    let mut head: Head = serde_json::from_slice(line).map_err(|source| NowError::Line { line: 1, source })?;
    if head.schema != NOW_SCHEMA {
        return Err(NowError::Schema(head.schema.chars().take(100).collect()));
    }
    // A list of many URLs may have a long name: it is cut rather than refused.
    for text in [&mut head.target, &mut head.manner, &mut head.version] {
        *text = text.chars().take(TEXT_CHARS_MAX).collect();
    }
    head.share = head.share.clamp(0.0, 1.0);
    bounded(&head.whole)?;
    Ok(head)
}

/// Reads a file.
///
/// # Errors
/// [`NowError`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Now, NowError> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let head = parse_head(lines.next().unwrap_or_default())?;
    let mut points: Vec<Point> = Vec::new();
    for (index, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
        if points.len() >= NOW_POINTS_MAX {
            return Err(NowError::TooMuch("more intervals"));
        }
        let point = serde_json::from_slice(line).map_err(|source| NowError::Line { line: index + 2, source })?;
        bounded(&point)?;
        points.push(point);
    }
    Ok(Now { head, points })
}

fn bounded(point: &Point) -> Result<(), NowError> {
    let is_bounded = point.errors.len() <= ERROR_KINDS_MAX && point.errors.keys().all(|kind| kind.len() <= 100);
    if is_bounded { Ok(()) } else { Err(NowError::TooMuch("more kinds of errors")) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn point(start_s: f64, requests: u64) -> Point {
        Point {
            start_s,
            length_s: 1.0,
            requests,
            rate_per_s: requests as f64,
            successes: requests,
            success_rate: Some(1.0),
            unexpected: 0,
            errors: BTreeMap::from([("timeout".to_owned(), 2)]),
            failed: 2,
            failed_per_s: 2.0,
            stopped: 0,
            dropped: 0,
            bytes: 100 * requests,
            bytes_per_s: 100.0 * requests as f64,
            connections: 4,
            late: 1,
            waited: 0,
            generator_cpu_share: 0.25,
            generator_runnable_share: 0.0,
            latency_ns: Some(Times { min: 1.0, mean: 2.0, p50: 2.0, p90: 3.0, p99: 4.0, max: 5.0 }),
        }
    }

    pub(crate) fn head(state: Told) -> Head {
        Head {
            schema: NOW_SCHEMA.to_owned(),
            version: "0.1.0".to_owned(),
            process: Process::this(),
            target: "http://h/".to_owned(),
            manner: "1 connection, closed loop".to_owned(),
            begin_unix_ms: 1,
            told_unix_ms: 2,
            state,
            elapsed_s: 1.5,
            planned_s: Some(3.0),
            planned_requests: None,
            share: 0.5,
            left_s: Some(1.5),
            interval_s: 1.0,
            points_left_out: 0,
            whole: point(0.0, 9),
        }
    }

    pub(crate) fn file(head: &Head, points: &[Point]) -> String {
        let mut text = format!("{}\n", serde_json::to_string(head).expect("JSON"));
        for point in points {
            text.push_str(&format!("{}\n", serde_json::to_string(point).expect("JSON")));
        }
        text
    }

    #[test]
    fn what_no_load_writes_is_refused_in_words() {
        let points: Vec<Point> = (0..=NOW_POINTS_MAX).map(|second| point(second as f64, 1)).collect();
        let good = head(Told::Running);
        assert!(matches!(parse(file(&good, &points).as_bytes()), Err(NowError::TooMuch(_))));
        let later = Head { schema: "weir-load-now/2".to_owned(), ..good.clone() };
        let error = parse(file(&later, &[]).as_bytes()).expect_err("another form").to_string();
        assert!(error.contains("weir-load-now/2"), "{error}");
        let errors = (0..=ERROR_KINDS_MAX).map(|kind| (kind.to_string(), 1)).collect();
        let many = Point { errors, ..point(0.0, 1) };
        assert!(matches!(parse(file(&good, &[many]).as_bytes()), Err(NowError::TooMuch(_))));
        assert!(matches!(parse(b""), Err(NowError::Line { line: 1, .. })));
        let cut = file(&good, &points[..2]);
        assert!(matches!(parse(&cut.as_bytes()[..cut.len() - 9]), Err(NowError::Line { line: 3, .. })));
        let long = Head { target: "x".repeat(5 * TEXT_CHARS_MAX), ..good };
        assert_eq!(parse(file(&long, &[]).as_bytes()).expect("cut").head.target.len(), TEXT_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(counts in proptest::collection::vec(0_u64..1 << 40, 0..20), target in "\\PC{0,80}") {
            let head = Head { target, ..head(Told::Ending) };
            let points: Vec<Point> = counts.iter().enumerate().map(|(at, count)| point(at as f64, *count)).collect();
            let read = parse(file(&head, &points).as_bytes()).expect("a file");
            prop_assert_eq!(read, Now { head, points });
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _read_or_refused = parse(&bytes);
        }
    }
}
