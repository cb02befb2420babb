//! http_load's report.

use super::watch::{Counts, Span};
use crate::printf::general;
use std::fmt::Write;

/// The lines that http_load prints in the end.
pub(super) fn report(counts: &Counts, elapsed_s: f64, checksum: bool) -> String {
    let mut text = String::new();
    let (fetches, bytes) = (counts.fetches as f64, counts.bytes as f64);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} fetches, {} max parallel, {} bytes, in {} seconds",
        counts.fetches,
        counts.parallel_max,
        general(bytes),
        general(elapsed_s)
    );
    if counts.fetches > 0 {
        let _ = writeln!(text, "{} mean bytes/connection", general(bytes / fetches));
    }
    if elapsed_s > 0.01 {
        let _ =
            writeln!(text, "{} fetches/sec, {} bytes/sec", general(fetches / elapsed_s), general(bytes / elapsed_s));
    }
    span(&mut text, "connect", &counts.connect);
    span(&mut text, "first-response", &counts.first_response);
    if counts.timeouts > 0 {
        let _ = writeln!(text, "{} timeouts", counts.timeouts);
    }
    if counts.bad > 0 {
        let _ = writeln!(text, "{} bad {}", counts.bad, if checksum { "checksums" } else { "byte counts" });
    }
    text.push_str("HTTP response codes:\n");
    for (status, count) in counts.status.iter().enumerate().filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "  code {status:03} -- {count}");
    }
    text
}

/// Milliseconds from whole microseconds, as the original's clock has them.
fn span(text: &mut String, what: &str, span: &Span) {
    if span.count == 0 {
        return;
    }
    let mean_ms = span.sum_ns as f64 / span.count as f64 / 1e6;
    let ms = |ns: u64| (ns / 1000) as f64 / 1000.0;
    let _ = writeln!(
        text,
        "msecs/{what}: {} mean, {} max, {} min",
        general(mean_ms),
        general(ms(span.max_ns)),
        general(ms(span.min_ns))
    );
}
